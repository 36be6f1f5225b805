"""The messages of a trial, by which a victim makes sure of a deadlock (see `detector`)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from coterie.algorithms.deadlock.detectors.waits import StuckProcess
from coterie.process import Event, Payload, ProcessId


class Accuse(Payload, frozen=True):
    """These waits are deadlocked, and you are the one to give way."""

    case: int  # the accuser's own number for it
    members: tuple[StuckProcess, ...]


class Confirm(Payload, frozen=True):
    """Are you still in this wait?"""

    number: int


class Confirmed(Payload, frozen=True):
    """I am, and I pledge not to be aborted before you release me."""


class Denied(Payload, frozen=True):
    """I am not."""


class Release(Payload, frozen=True):
    """My trial is over; you are free of your pledge."""


class Settled(Payload, frozen=True):
    """The trial you asked for is over; so is the wait that was accused, if it says so."""

    case: int
    over: bool


TrialMessage: TypeAlias = Accuse | Confirm | Confirmed | Denied | Release | Settled


class Deadlocked(Event, frozen=True):
    """The wait can never end, and this process is the one to give way: the wait is over.

    The members are those of the cycle or knot, this process included.
    """

    members: tuple[StuckProcess, ...]


class Trial(msgspec.Struct, array_like=True):
    """A trial that this process stands."""

    number: int  # of the wait it is accused of
    accuser: ProcessId
    accusation: Accuse
    awaiting: set[ProcessId]
    confirmed: list[ProcessId] = []
