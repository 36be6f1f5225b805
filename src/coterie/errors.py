"""Every error that coterie raises.

    CoterieError
    ├── MisuseError         the caller's mistake: a call that this state does not allow
    │   ├── NotHeld         a release by a task or thread that does not hold the lock
    │   └── Undeclared      an access outside of what the transaction has declared
    ├── UsageError          the caller's mistake: an argument out of range, unknown or malformed
    ├── ConfigError         the caller's mistake: settings that do not fit together
    ├── ProtocolError       a peer's mistake: a message that no correct process sends
    ├── ReplayError         a trace that its processes do not follow when it is run again
    ├── AcquireTimeout      no mistake: a lock that was not obtained in time (also a TimeoutError)
    ├── NotDue              no mistake: a period of a job that is not to be run now
    ├── DeadlockDetected    no mistake: a wait that could never end; this request gives way
    ├── LockLost            a lock that was taken away while it was held
    ├── Conflict            a transaction that was aborted because of others; safe to run again
    ├── ChangeConflict      a change of a cluster that was meant for what another has changed
    ├── OutcomeUnknown      a transaction that may have committed or not
    └── Unavailable         no service: a directory that cannot be written, no node that answers
        ├── NoQuorum        too few nodes of a cluster can be reached to decide anything
        └── NotFormed       nodes that have not met yet, so that their voters cannot be changed

Two questions decide every error: whose fault is it, and may it have happened anyway?
``definite`` answers the second: True means that nothing has taken effect and nothing will.
Our own bugs are assertions, not errors of this tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie.clocks import Stamp


class CoterieError(Exception):
    """Base of all errors raised by coterie."""

    exit_status: ClassVar[int] = 70
    definite: ClassVar[bool] = False


class MisuseError(CoterieError):
    """A call in a state that does not allow it, such as a release without holding."""

    exit_status = 70
    definite = True


class UsageError(CoterieError):
    """An argument that is out of range, unknown or malformed."""

    exit_status = 64
    definite = True


class ConfigError(CoterieError):
    """A configuration whose parts contradict each other, such as quorums that do not meet."""

    exit_status = 78
    definite = True


class ProtocolError(CoterieError):
    """A message that no correct peer sends."""

    exit_status = 70


class ReplayError(CoterieError):
    """A trace that the processes it names do not follow: other code, or a trace that was changed."""

    exit_status = 1
    definite = True


class NotHeld(MisuseError):  # noqa: N818 - the name that users of locks know
    """A release by a task or thread that does not hold the lock."""


class Undeclared(MisuseError):  # noqa: N818 - says what is the matter, like its siblings
    """An access outside of what the transaction declared, or a declaration outside of its class."""


class AcquireTimeout(CoterieError, TimeoutError):  # noqa: N818 - the name that users of locks know
    """A lock that was not obtained in the time that the caller was ready to wait."""

    exit_status = 75
    definite = True

    def __init__(self, message: str, *, holders: tuple[str, ...] = ()) -> None:
        """Take a message that names the holders, which are there for programs as well."""
        super().__init__(message)
        self.holders = holders  # host:pid of each, as far as that could be asked


class NotDue(CoterieError):  # noqa: N818 - says what is the matter, like its siblings
    """A period of a job that is not to be run: it has run, is being run, has failed, or is over.

    ``reason`` is done, running, started (it was begun, and nothing is recorded of its end), failed, late (a later
    period was begun) or over (it began too long ago); ``period`` is the one that was asked for.
    """

    exit_status = 75
    definite = True

    def __init__(self, message: str, *, period: str = "", reason: str = "") -> None:
        """Take a message that says which program has run it; the rest is for programs."""
        super().__init__(message)
        self.period = period
        self.reason = reason


class DeadlockMember(NamedTuple):
    """A task or thread that waits in a deadlock."""

    owner: str  # host:pid, and the task where that is not enough
    waits_for: tuple[str, ...]  # locks, of which it needs one
    since: float  # when the wait began, in seconds since 1970 by its own clock
    holds: Mapping[str, int]  # the locks that other members wait for, with their tokens


class DeadlockDetected(CoterieError):  # noqa: N818 - the name that users of locks know
    """A wait that could never have ended, in which this request was chosen to give way.

    The other members go on as soon as this task or thread releases the locks that it holds; then
    it can try again.
    """

    exit_status = 75
    definite = True

    def __init__(
        self,
        message: str,
        *,
        lock: str = "",
        kind: str = "cycle",
        members: tuple[DeadlockMember, ...] = (),
    ) -> None:
        """Take a message that names all members; `kind` is cycle, knot or b-knot."""
        super().__init__(message)
        self.lock = lock
        self.kind = kind
        self.members = members


class LockLost(CoterieError):  # noqa: N818 - the name that users of locks know
    """A lock that was taken away while it was held; others may have been inside since."""

    exit_status = 79


class Conflict(CoterieError):  # noqa: N818 - the name that users of transactions know
    """A transaction that was aborted because of others; running it again is safe.

    ``keys`` and ``others`` name the keys and the transactions that were in the way, as far as they are
    known, ``rule`` the reason why not all could go on. ``above`` is a stamp that a further attempt
    has to exceed, if stamps decided.
    """

    exit_status = 75
    definite = True

    def __init__(
        self,
        message: str,
        *,
        rule: str = "",
        keys: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
        above: Stamp | None = None,
    ) -> None:
        """Take a message of one line; the rest is for programs."""
        super().__init__(message)
        self.rule = rule
        self.keys = keys
        self.others = others
        self.above = above


class ChangeConflict(CoterieError):  # noqa: N818 - says what is the matter, like its siblings
    """Another change of the cluster came first, and this one was meant for what was there before."""

    exit_status = 75
    definite = True


class OutcomeUnknown(CoterieError):  # noqa: N818 - says what is the matter, like its siblings
    """A transaction that may have committed or not: running it again may do its work twice."""

    exit_status = 70


class Unavailable(CoterieError):  # noqa: N818 - says what is the matter, like its siblings
    """A service that cannot be reached: a directory that cannot be written, no node that answers."""

    exit_status = 69


class NoQuorum(Unavailable):
    """Too few nodes of a cluster can be reached to decide who holds a lock."""


class NotFormed(Unavailable):
    """The nodes of the cluster have not all met yet, so that its voters cannot be changed."""
