"""The messages: those of Maekawa's algorithm, those of 1996, and those of the repair.

Is-allright, Allright and Down are the paper's. Hold and Unhold close its gap; Up and Welcome bring
back a process that had crashed. An incarnation is the number of a process's start.
"""

from __future__ import annotations

from typing import TypeAlias

from coterie.algorithms.mutex.quorum.maekawa import messages as maekawa
from coterie.clocks import LogicalTime
from coterie.process import Payload, ProcessId


class IsAllright(Payload, frozen=True):
    """I have waited long for you; are you there?"""


class Allright(Payload, frozen=True):
    """I am."""


class Down(Payload, frozen=True):
    """That process has crashed, in that incarnation."""

    process: ProcessId
    incarnation: int


class Hold(Payload, frozen=True):
    """I am inside by a quorum that is none any more; do not enter before I have left."""


class Unhold(Payload, frozen=True):
    """I have left."""


class Up(Payload, frozen=True):
    """That process is back with no memory, in that incarnation."""

    process: ProcessId
    incarnation: int


class Welcome(Payload, frozen=True):
    """I know that you are back in that incarnation; this is what else I know."""

    incarnation: int
    time: LogicalTime  # the highest we know
    versions: tuple[int, ...]  # of 1 to N: twice the incarnation, plus one while it is down


News: TypeAlias = Down | Up | Welcome
Talk: TypeAlias = maekawa.Message | IsAllright | Allright | Hold | Unhold  # between those that live
Message: TypeAlias = News | Talk
