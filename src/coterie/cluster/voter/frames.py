"""What travels between a voter and programs: the frames of the lock, and questions about locks."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from coterie.cluster.wire.frames import GetMembership, MembershipReply, Service
from coterie.deadlock.service.lock_waits import LockOwner, Name, Time, Wanted
from coterie.mutex.quorum.leased.frames import (
    Ack,
    Answer,
    Beat,
    Bye,
    Data,
    Nack,
    Probe,
    Reply,
    Term,
)

LOCKS_ASKED_MAX = 1000  # in one question; more locks are asked about in several

Asked: TypeAlias = Annotated[tuple[Wanted, ...], Meta(max_length=LOCKS_ASKED_MAX)]
Text: TypeAlias = Annotated[str, Meta(max_length=10_000)]

# Questions to a voting node


class GetTokenBound(Service, frozen=True):
    """Ask up to which number tokens may have been used."""


class TokenBound(Service, frozen=True):
    """No token above it was ever supported by this node."""

    node: str
    bound: int


class FindOwners(Service, frozen=True):
    """Ask which participants have these locks or wait for them; the node asks each of them in turn.

    In a search for deadlocks only owners are asked and not those that wait, so a lock with a
    thousand waiters costs no more than another. A request to share is also blocked by the first
    request before it that wants the lock alone, so the participant of that one is asked as well.
    """

    question: int
    locks: Asked
    search: bool


class LockReport(msgspec.Struct, frozen=True):
    """A lock, as a node sees it."""

    wanted: Wanted
    owners: tuple[str, ...]  # identities: one, or several that share
    queue: tuple[str, ...]  # the next first


class Owners(Service, frozen=True):
    """Which participants have the votes and which wait for them; they are being asked."""

    question: int
    locks: Annotated[tuple[LockReport, ...], Meta(max_length=LOCKS_ASKED_MAX)]
    labels: dict[str, str]  # of the identities that the node knows


class AskOwner(Service, frozen=True):
    """The node passes a question on to a participant."""

    route: int  # where the answer goes
    question: int
    locks: Asked
    search: bool


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """How a participant stands to a lock."""

    wanted: Wanted
    state: Literal["held", "waiting", "kept", "nothing"]  # kept: unused, given up when asked for
    token: int  # of the hold; 0 without
    since: Time  # when the first holder or waiter asked, in seconds since 1970
    modes: tuple[bool, ...] = ()  # for each task that waits whether it is to share
    holders: tuple[LockOwner, ...] = ()  # the tasks that hold, and what they wait for
    waiting: tuple[LockOwner, ...] = ()  # the tasks that wait; in a search those that may be ahead
    shared: bool = False  # the mode of the hold, or of the first claim that waits


class OwnerReport(Service, frozen=True):
    """How a participant stands to the locks that it was asked about."""

    route: int
    question: int
    identity: Name
    locks: Annotated[tuple[Standing, ...], Meta(max_length=LOCKS_ASKED_MAX)]


class GetStatus(Service, frozen=True):
    """Ask how the node is, and with `locks` which locks it knows."""

    locks: bool


class GetAbstention(Service, frozen=True):
    """Ask why the node gives no votes."""


class Abstention(Service, frozen=True):
    """For how long the node gives no votes, and why; 0 and no reason normally."""

    seconds: Annotated[float, Meta(ge=0)]  # infinite, if only an answer of other nodes ends it
    reason: Text


class SessionReport(msgspec.Struct, frozen=True):
    """A participant, as a node sees it."""

    identity: str
    label: str
    connected: bool
    silent_seconds: float
    locks: int


class Figures(msgspec.Struct, frozen=True):
    """How a node is."""

    version: str
    up_seconds: float
    abstains_seconds: float  # how long it gives no votes; 0 normally
    connections: int
    sessions: tuple[SessionReport, ...]
    owned: int
    waiting: int
    locks: tuple[LockReport, ...]
    abstains_because: str = ""
    locks_left_out: int = 0  # that the list would have if it were not cut


class NodeStatus(Service, frozen=True):
    """How the node is."""

    figures: Figures


ToVoter: TypeAlias = (
    Data
    | Beat
    | Probe
    | Term
    | Bye
    | FindOwners
    | OwnerReport
    | GetMembership
    | GetTokenBound
    | GetStatus
    | GetAbstention
)
FromVoter: TypeAlias = (
    Reply
    | Ack
    | Answer
    | Nack
    | Owners
    | AskOwner
    | OwnerReport
    | MembershipReply
    | TokenBound
    | NodeStatus
    | Abstention
)

decode_to_voter = msgspec.msgpack.Decoder(ToVoter).decode
decode_from_voter = msgspec.msgpack.Decoder(FromVoter).decode
