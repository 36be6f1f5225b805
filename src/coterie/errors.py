"""Every error that coterie raises.

    CoterieError
    ├── MisuseError         the caller's mistake: a call that this state does not allow
    ├── UsageError          the caller's mistake: an argument that makes no sense
    ├── ConfigError         the caller's mistake: parts that are fine alone and do not fit together
    ├── ProtocolError       a peer's mistake: a message that no correct process sends
    └── ReplayError         a trace that its processes do not follow when it is run again

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
