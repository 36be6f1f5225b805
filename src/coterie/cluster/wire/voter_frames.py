"""What travels between a voter and programs: the frames of the lock, and questions about locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
from msgspec import Meta

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
from coterie.algorithms.mutex.quorum.leased.frames import (
    Ask,
    Data,
    Downward,
    LifeName,
    Look,
    NewConfiguration,
    Session,
    Tell,
)
from coterie.cluster.wire.frames import GetMembership, MembershipReply, Service
from coterie.errors import ProtocolError, UsageError
from coterie.locks.leases.frames import Asked, AskOwner, LockReport, OwnerReport, Owners
from coterie.locks.names import check_name

if TYPE_CHECKING:
    from collections.abc import Container

Text: TypeAlias = Annotated[str, Meta(max_length=10_000)]
LIVES_MAX = 1000  # that one question names
Lives: TypeAlias = Annotated[tuple[LifeName, ...], Meta(max_length=LIVES_MAX)]

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


class GetStatus(Service, frozen=True):
    """Ask how the node is, and with `locks` which locks it knows."""

    locks: bool


class Reach(Service, frozen=True):
    """Ask the node to call another one, which is to become a voter."""

    name: Text
    address: Text


class Reached(Service, frozen=True):
    """What came of it: the identity of the other's disk, or why it could not be asked."""

    identity: Text
    trouble: Text


class BreakHold(Service, frozen=True):
    """End the hold of a lock that these participants have; they are told to stop.

    The order comes to each node at another time. When the last one has it, the next in line may hold
    the lock: it is another participant, or has a token above this one, and is left alone.
    """

    lock: Text
    participants: tuple[Text, ...]
    token: int


class HoldBroken(Service, frozen=True):
    """These programs were told, as far as this node has given them its vote."""

    labels: tuple[str, ...]
    too_old: tuple[str, ...]  # programs whose version of coterie cannot be told


class Impose(Service, frozen=True):
    """Go on by this configuration, which was not decided: a quorum was lost for good."""

    configuration: Configuration


class EndAbstention(Service, frozen=True):
    """Give votes at once: an operator vouches that no program runs that has used a lock."""


class AbstentionEnded(Service, frozen=True):
    """What came of it: these programs are connected, or it is of no use; nothing of both if it is done."""

    programs: tuple[Text, ...]
    trouble: Text


class GetAbstention(Service, frozen=True):
    """Ask why the node gives no votes."""


class Abstention(Service, frozen=True):
    """For how long the node gives no votes, and why; 0 and no reason normally."""

    seconds: Annotated[float, Meta(ge=0)]  # infinite, if only an answer of other nodes ends it
    reason: Text


class AskDeath(Service, frozen=True):
    """Ask which of these programs have ended, as far as the other end can see: it is near them."""

    lives: Lives


class Deaths(Service, frozen=True):
    """These have ended, as this process has seen itself; none: there is nothing more to say."""

    lives: Lives


class SessionReport(msgspec.Struct, frozen=True):
    """A participant, as a node sees it."""

    identity: str
    label: str
    connected: bool
    silent_seconds: float
    locks: int


class DeathReport(msgspec.Struct, frozen=True):
    """A program whose end was seen, and whose locks were given on for that."""

    label: str
    witness: str  # the node or program that has seen it
    seconds_ago: float


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
    messages: dict[str, int] = {}  # received and sent since the start, by kind
    deaths: tuple[DeathReport, ...] = ()  # the latest ones


class NodeStatus(Service, frozen=True):
    """How the node is."""

    figures: Figures


ToVoter: TypeAlias = (
    Session
    | NewConfiguration
    | Look
    | Ask
    | Impose
    | Reach
    | BreakHold
    | EndAbstention
    | FindOwners
    | OwnerReport
    | GetMembership
    | GetTokenBound
    | GetStatus
    | GetAbstention
    | AskDeath
    | Deaths
)
FromVoter: TypeAlias = (
    Downward
    | Tell
    | Reached
    | HoldBroken
    | AbstentionEnded
    | Owners
    | AskOwner
    | OwnerReport
    | MembershipReply
    | TokenBound
    | NodeStatus
    | Abstention
    | AskDeath
    | Deaths
)


def check_locks(frame: Data, known: Container[str]) -> None:
    """Raise `ProtocolError` if a frame names a lock that no program of ours can have asked for.

    Names go into tables and logs. Those that are `known` were checked when they came first.
    """
    for body in frame.bodies:
        if body.lock in known:
            continue
        try:
            legal = check_name(body.lock)
        except UsageError as error:
            raise ProtocolError(str(error)) from None
        if legal != body.lock:
            raise ProtocolError(f"lock name {body.lock!r}: its Unicode is not in normal form C")


decode_to_voter = msgspec.msgpack.Decoder(ToVoter).decode
decode_from_voter = msgspec.msgpack.Decoder(FromVoter).decode
