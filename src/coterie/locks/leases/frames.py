"""What programs say to each other about locks: which of them hold, keep or wait for them."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from coterie.locks.deadlocks.reports import LockOwner, Name, Time, Wanted

LOCKS_ASKED_MAX = 1000  # in one question; more locks are asked about in several

Note: TypeAlias = Annotated[str, Meta(max_length=255)]
Asked: TypeAlias = Annotated[tuple[Wanted, ...], Meta(max_length=LOCKS_ASKED_MAX)]


class LockFrame(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Base of the frames about locks; the tag says which one it is."""


class LockReport(msgspec.Struct, frozen=True):
    """A lock, as a node sees it."""

    wanted: Wanted
    owners: tuple[str, ...]  # identities: one, or several that share
    queue: tuple[str, ...]  # the next first


class Owners(LockFrame, frozen=True):
    """Which participants have the votes and which wait for them; they are being asked."""

    question: int
    locks: Annotated[tuple[LockReport, ...], Meta(max_length=LOCKS_ASKED_MAX)]
    labels: dict[str, str]  # of the identities that the node knows


class AskOwner(LockFrame, frozen=True):
    """The node passes a question on to a participant."""

    route: int  # where the answer goes
    question: int
    locks: Asked
    search: bool


class Grant(NamedTuple):
    """When a task got the lock that it holds, for people."""

    at: Time  # in seconds since 1970
    waited: Annotated[float, Meta(ge=0)]  # so many seconds before


class LockStanding(msgspec.Struct, frozen=True, array_like=True):
    """How a participant stands to a lock."""

    wanted: Wanted
    state: Literal["held", "waiting", "kept", "nothing"]  # kept: unused, given up when asked for
    token: int  # of the hold; 0 without
    since: Time  # when the first holder or waiter asked, in seconds since 1970
    modes: tuple[bool, ...] = ()  # for each task that waits whether it is to share
    holders: tuple[LockOwner, ...] = ()  # the tasks that hold, and what they wait for
    waiting: tuple[LockOwner, ...] = ()  # the tasks that wait; in a search those that may be ahead
    shared: bool = False  # the mode of the hold, or of the first claim that waits
    grants: tuple[Grant, ...] = ()  # of each of the holders; of earlier versions none
    notes: tuple[Note, ...] = ()  # of each of the holders; none if all are empty


class OwnerReport(LockFrame, frozen=True):
    """How a participant stands to the locks that it was asked about."""

    route: int
    question: int
    identity: Name
    locks: Annotated[tuple[LockStanding, ...], Meta(max_length=LOCKS_ASKED_MAX)]
