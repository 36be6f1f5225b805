"""The options of `coterie lock` and `coterie elect`, each once, without Click.

The shortcut reads a command line by this table, and the full command makes its Click options of it.
The classes are plain ones: named tuples and data classes take longer to make than to be used here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.errors import AcquireTimeout, UsageError
from coterie.locks.duration import duration
from coterie.locks.names import PERMITS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Number:
    """A whole number in a range, both ends included."""

    def __init__(self, least: int, most: int) -> None:
        """Set the range."""
        self.least = least
        self.most = most

    def __call__(self, text: str) -> int:
        """Return the number that is written in digits alone; raise `UsageError` for any other text."""
        # Python converts no more than some thousands of digits.
        if text.isdecimal() and len(text) <= len(str(self.most)):
            number = int(text)
            if self.least <= number <= self.most:
                return number
        raise UsageError(f"expected a number from {self.least} to {self.most}, got {text!r}")


class OneOf:
    """One of several words."""

    def __init__(self, *words: str) -> None:
        """Allow these."""
        self.words = words

    def __call__(self, text: str) -> str:
        """Return the word; raise `UsageError` for any other."""
        if text not in self.words:
            raise UsageError(f"expected one of {', '.join(self.words)}, got {text!r}")
        return text


class Option:
    """One option: how it is written, what it means, and how its value is read."""

    def __init__(
        self,
        names: tuple[str, ...],
        key: str,
        text: str,
        kind: Callable[[str], Any] | None = None,
        metavar: str | None = None,
        *,
        default: str | None = None,
        repeatable: bool = False,
    ) -> None:
        """Describe it.

        Args:
            names: How it is written.
            key: By which its value is found.
            text: Its help.
            kind: Reads the value, such as a `Number`; None: it is a flag and has no value.
            metavar: What stands for the value in the help.
            default: The value if it is left out, as it would be written.
            repeatable: May be given several times, and has a list of values.
        """
        self.names = names
        self.key = key
        self.text = text
        self.kind = kind
        self.metavar = metavar
        self.default = default
        self.repeatable = repeatable


NOTE_OPTION = Option(
    ("--note",),
    "note",
    "Show others this text as long as the lock is held, such as an address.",
    str,
    "TEXT",
)

LOCK_OPTIONS = (
    Option(("-n", "--nonblock"), "nonblock", "Try once and do not wait."),
    Option(("-w", "--wait"), "wait", "Wait at most this long, such as 5s or 2m.", duration, "DUR"),
    Option(
        ("-E", "--conflict-exit-code"),
        "conflict",
        "Exit status when the lock is not obtained.",
        Number(0, 255),
        default=str(AcquireTimeout.exit_status),
    ),
    Option(("-s", "--shared"), "shared", "Share the lock with other holders that use -s."),
    Option(
        ("-k", "--permits"),
        "permits",
        "Allow K holders at the same time.",
        Number(1, PERMITS_MAX),
        "K",
    ),
    Option(("--also",), "also", "Hold this lock, too; repeatable.", str, "NAME", repeatable=True),
    NOTE_OPTION,
    Option(
        ("--read",),
        "read",
        "Write the value of the lock into FILE before COMMAND runs; without COMMAND - is standard output.",
        str,
        "FILE",
    ),
    Option(
        ("--write",),
        "write",
        "Make FILE the value of the lock when COMMAND has ended with status 0; without COMMAND - is standard input.",
        str,
        "FILE",
    ),
)

JOB_OPTIONS = (
    Option(
        ("--url",),
        "url",
        "Where the lock is; default: COTERIE_URL, then coterie.toml, then file:.",
        str,
        "URL",
    ),
    Option(
        ("--node",),
        "node",
        "Take part as this node of a cluster that runs a classic algorithm.",
        str,
        "NAME",
    ),
    Option(("-c",), "shell", "Run STR with `sh -c`.", str, "STR"),
    Option(
        ("--lease",),
        "lease",
        "Length of the lease, if shorter than that of the cluster or server.",
        duration,
        "DUR",
    ),
    Option(
        ("--on-lost",),
        "on_lost",
        "What to do with the command's process group when the lock is lost.",
        OneOf("term", "kill", "ignore"),
        default="term",
    ),
    Option(
        ("--kill-after",),
        "kill_after",
        "Time between TERM and KILL; both are sent before the lease ends.",
        duration,
        "DUR",
        default="5s",
    ),
)
