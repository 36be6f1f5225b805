"""What travels beside the frames of the lock: the handshake, and questions about who holds what."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from coterie.deadlock.service.lock_waits import LockOwner
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

PROTOCOL = 4  # a change of any frame, or of what it means, is another number

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


class WhatCluster(Service, frozen=True):
    """What is the configuration?"""


class Configuration(Service, frozen=True):
    """The configuration that all have to share."""

    shared: bytes


class HowFar(Service, frozen=True):
    """Up to which number may tokens have been used?"""


class SoFar(Service, frozen=True):
    """No token above it was ever supported by this node."""

    node: str
    bound: int


class Whose(Service, frozen=True):
    """Whose are these locks? Everybody concerned is asked, and each answer comes by itself.

    In a search for deadlocks only the owners are concerned, not those who wait: so a lock that a
    thousand wait for costs no more than another. In the way of a request to share one is also the
    first before it who wants the lock alone.
    """

    question: int
    locks: tuple[str, ...]
    search: bool


class LockReport(msgspec.Struct, frozen=True):
    """A lock, as a node sees it."""

    lock: str  # or what a request to share it waits for
    owners: tuple[str, ...]  # identities: one, or several that share
    queue: tuple[str, ...]  # the next first


class Concerned(Service, frozen=True):
    """Who has the votes, who waits for them, and that they are asked."""

    question: int
    locks: tuple[LockReport, ...]
    labels: dict[str, str]  # of those identities that are known


class HowAreYou(Service, frozen=True):
    """The node asks a participant on behalf of somebody else."""

    route: int  # to whom the answer goes
    question: int
    locks: tuple[str, ...]
    search: bool


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """How a participant stands to a lock."""

    lock: str  # or what a request to share it waits for
    state: Literal["held", "waiting", "kept", "nothing"]  # kept: unused, given up when asked for
    token: int  # of the hold; 0 without
    since: float  # when the first holder or waiter asked, in seconds since 1970
    modes: tuple[bool, ...] = ()  # for each task that waits whether it is to share
    holders: tuple[LockOwner, ...] = ()  # the tasks that hold, and what they wait for
    waiting: tuple[LockOwner, ...] = ()  # the tasks that wait; in a search who may be ahead
    shared: bool = False  # the mode of the hold, or of the first who waits


class Standings(Service, frozen=True):
    """How a participant stands to the locks that it was asked about."""

    route: int
    question: int
    identity: str
    locks: tuple[Standing, ...]


class HowIsIt(Service, frozen=True):
    """How is this node, and which locks does it know?"""

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


class NodeReport(Service, frozen=True):
    """The answer to how a node is."""

    figures: Figures


ToVoter: TypeAlias = (
    Data | Beat | Probe | Term | Bye | Whose | Standings | WhatCluster | HowFar | HowIsIt
)
FromVoter: TypeAlias = (
    Reply
    | Ack
    | Answer
    | Nack
    | Concerned
    | HowAreYou
    | Standings
    | Configuration
    | SoFar
    | NodeReport
)

decode_to_voter = msgspec.msgpack.Decoder(ToVoter).decode
decode_from_voter = msgspec.msgpack.Decoder(FromVoter).decode
decode_letter = msgspec.msgpack.Decoder(Letter).decode
decode_receipt = msgspec.msgpack.Decoder(Receipt).decode
decode_hello = msgspec.msgpack.Decoder(Hello).decode
decode_proof = msgspec.msgpack.Decoder(Proof).decode
decode_welcome = msgspec.msgpack.Decoder(Welcome | Refusal).decode
