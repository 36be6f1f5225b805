"""Every error that coterie raises.

    CoterieError
    ├── MisuseError         the caller's mistake: a call that this state does not allow
    │   └── NotHeld         a release by somebody who does not hold the lock
    ├── UsageError          the caller's mistake: an argument that makes no sense
    ├── ConfigError         the caller's mistake: parts that are fine alone and do not fit together
    ├── ProtocolError       a peer's mistake: a message that no correct process sends
    ├── ReplayError         a trace that its processes do not follow when it is run again
    ├── AcquireTimeout      nobody's fault: a lock that was not to be had in time (also a TimeoutError)
    ├── LockLost            a lock that was taken away while it was held
    └── Unavailable         a coordinator that cannot do its work: no directory, no node
        └── NoQuorum        too few nodes of a cluster can be reached to decide anything

Two questions decide every error: whose fault is it, and may it have happened anyway?
``definite`` answers the second: True means that nothing has taken effect and nothing will.
Our own bugs are assertions, not errors of this tree.
"""

from __future__ import annotations

from typing import ClassVar


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


class AcquireTimeout(CoterieError, TimeoutError):  # noqa: N818 - the name that users of locks know
    """A lock that was not to be had in the time that the caller would wait."""

    exit_status = 75
    definite = True


class LockLost(CoterieError):  # noqa: N818 - the name that users of locks know
    """A lock that was taken away while it was held; others may have been inside since."""

    exit_status = 79


class Unavailable(CoterieError):  # noqa: N818 - says what is the matter, like its siblings
    """A coordinator that cannot do its work: a directory that cannot be written, no node there."""

    exit_status = 69


class NoQuorum(Unavailable):
    """Too few nodes of a cluster can be reached to decide who holds a lock."""
