"""What travels beside the frames of the lock: the handshake, and questions about who holds what."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from coterie.deadlock.service.lock_waits import LockOwner, Wanted
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

PROTOCOL = 5  # a change of any frame, or of what it means, is another number

Role: TypeAlias = Literal["participant", "peer", "admin"]


class Service(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Base of the frames that are no part of the lock protocol."""


# Handshake


class Hello(Service, frozen=True):
    """Who calls, and what it takes for granted."""

    protocol: int
    cluster: str  # empty: whichever it is
    configuration: str  # its digest; empty: unknown
    role: Role
    identity: str  # of a participant or peer: the digest of a key that it alone has
    label: str  # for people: host:pid; of a peer its name
    challenge: bytes
    incarnation: int = 0  # of a peer: how many starts its disk has seen before this one


class Welcome(Service, frozen=True):
    """Who answers, and the proof that it knows the secret."""

    node: str
    cluster: str
    configuration: str
    clock: int  # Lamport's, so that a first request begins above all that is used
    wall: float | None  # the time of day, if numbers rest on it: the node has no disk
    start: str  # another one for each start of the node
    challenge: bytes
    proof: bytes


class Proof(Service, frozen=True):
    """The caller's proof, and the key to its identity."""

    proof: bytes
    key: bytes


class Refusal(Service, frozen=True):
    """The connection is not to be; the reason is for people."""

    reason: str


# Between the nodes of a classic algorithm


class Letter(Service, frozen=True):
    """A message of the algorithm that runs for one lock; without content: there is such a lock."""

    seq: int
    lock: str
    content: bytes


class Receipt(Service, frozen=True):
    """All letters up to this one have come."""

    seq: int


# Questions to a voting node


class GetMembership(Service, frozen=True):
    """Ask for the configuration of the cluster."""


class MembershipReply(Service, frozen=True):
    """The configuration, which is the same everywhere in the cluster."""

    shared: bytes


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
    locks: tuple[Wanted, ...]
    search: bool


class LockReport(msgspec.Struct, frozen=True):
    """A lock, as a node sees it."""

    wanted: Wanted
    owners: tuple[str, ...]  # identities: one, or several that share
    queue: tuple[str, ...]  # the next first


class Owners(Service, frozen=True):
    """Which participants have the votes and which wait for them; they are being asked."""

    question: int
    locks: tuple[LockReport, ...]
    labels: dict[str, str]  # of the identities that the node knows


class AskOwner(Service, frozen=True):
    """The node passes a question on to a participant."""

    route: int  # where the answer goes
    question: int
    locks: tuple[Wanted, ...]
    search: bool


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """How a participant stands to a lock."""

    wanted: Wanted
    state: Literal["held", "waiting", "kept", "nothing"]  # kept: unused, given up when asked for
    token: int  # of the hold; 0 without
    since: float  # when the first holder or waiter asked, in seconds since 1970
    modes: tuple[bool, ...] = ()  # for each task that waits whether it is to share
    holders: tuple[LockOwner, ...] = ()  # the tasks that hold, and what they wait for
    waiting: tuple[LockOwner, ...] = ()  # the tasks that wait; in a search those that may be ahead
    shared: bool = False  # the mode of the hold, or of the first claim that waits


class OwnerReport(Service, frozen=True):
    """How a participant stands to the locks that it was asked about."""

    route: int
    question: int
    identity: str
    locks: tuple[Standing, ...]


class GetStatus(Service, frozen=True):
    """Ask how the node is, and with `locks` which locks it knows."""

    locks: bool


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
    abstains_seconds: float  # it gives no votes for so long; 0 normally
    connections: int
    sessions: tuple[SessionReport, ...]
    owned: int
    waiting: int
    locks: tuple[LockReport, ...]


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
)

decode_to_voter = msgspec.msgpack.Decoder(ToVoter).decode
decode_from_voter = msgspec.msgpack.Decoder(FromVoter).decode
decode_letter = msgspec.msgpack.Decoder(Letter).decode
decode_receipt = msgspec.msgpack.Decoder(Receipt | Refusal).decode
decode_hello = msgspec.msgpack.Decoder(Hello).decode
decode_proof = msgspec.msgpack.Decoder(Proof).decode
decode_welcome = msgspec.msgpack.Decoder(Welcome | Refusal).decode
