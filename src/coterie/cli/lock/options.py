"""The options of `coterie lock` and `coterie elect`, each once, without Click.

The shortcut reads a command line by this table, and the full command makes its Click options of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from coterie.cli.common.duration import duration
from coterie.errors import AcquireTimeout, UsageError
from coterie.locks.names import PERMITS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable


class Number(NamedTuple):
    """A whole number in a range, both ends included."""

    least: int
    most: int

    def __call__(self, text: str) -> int:
        """Return the number that is written in digits alone; raise `UsageError` for any other text."""
        digits = text.lstrip("0")
        # Python converts no more than some thousands of digits.
        if not text.isdecimal() or len(digits) > len(str(self.most)):
            raise UsageError(f"expected a number from {self.least} to {self.most}, got {text!r}")
        if not self.least <= int(text) <= self.most:
            raise UsageError(f"expected a number from {self.least} to {self.most}, got {text!r}")
        return int(text)


class OneOf(NamedTuple):
    """One of several words."""

    words: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Return the word; raise `UsageError` for any other."""
        if text not in self.words:
            raise UsageError(f"expected one of {', '.join(self.words)}, got {text!r}")
        return text


Kind: TypeAlias = "Number | OneOf | Callable[[str], Any] | None"


class Option(NamedTuple):
    """One option: how it is written, what it means, and how its value is read."""

    names: tuple[str, ...]
    key: str  # by which its value is found
    help: str
    kind: Kind = None  # reads the value; None: a flag, which has none
    metavar: str | None = None
    default: str | None = None  # as it would be written
    repeatable: bool = False


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
        OneOf(("term", "kill", "ignore")),
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
