"""What travels between any nodes and programs: the handshake, messages between peers, their receipts.

`Connection.send` in `connection.py` encodes these frames.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

# A change of any frame, or of what it means, is another number. Earlier versions are spoken as well, so that
# nodes and programs can be renewed one after the other: the form of frames is agreed on for each
# connection, with new fields at the end, and what is new in meaning is used only if the configuration
# of the cluster says so.
PROTOCOL = 8  # with the values of locks
FIRST_NUMBERED = 7  # with numbered configurations, and orders of operators
OLDEST_PROTOCOL = 6

# An admin asks questions; an operator changes the cluster, and ends holds of others.
Role: TypeAlias = Literal["participant", "peer", "admin", "operator"]
# Why a caller leaves that has seen which node answers.
Departure: TypeAlias = Literal[
    "other-node", "other-disk", "other-installation", "other-secret", "elsewhere"
]
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=512)]  # decoders refuse longer ones


class Service(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Base of the frames that are no part of the lock protocol."""


# Handshake


class Hello(Service, frozen=True):
    """Which program calls, and what it takes for granted."""

    protocol: int  # the oldest that it speaks
    cluster: str  # empty: any
    configuration: str  # its digest; empty: unknown
    role: Role
    identity: str  # of a participant or peer: the digest of a key that it alone has
    label: str  # for people: host:pid; of a peer its name
    challenge: bytes
    incarnation: int = 0  # of a peer: how many starts its disk has seen before this one
    newest: int = 0  # the newest protocol that it speaks; less than `protocol`: that one
    number: int = 0  # of the configuration
    cluster_identity: str = ""  # of its configuration; empty: unknown

    @property
    def highest(self) -> int:
        """The newest protocol that the caller speaks."""
        return max(self.protocol, self.newest)


class Welcome(Service, frozen=True):
    """Which node answers, and the proof that it knows the secret."""

    node: str
    cluster: str
    configuration: str
    clock: int  # Lamport's, so that a first request begins above all that is used; of a peer: its
    # incarnation, as in `Hello`
    wall: float | None  # the time of day, if numbers rest on it: the node has no disk
    start: str  # another one for each start of the node
    challenge: bytes
    proof: bytes
    protocol: int = OLDEST_PROTOCOL  # that is spoken over this connection
    number: int = 0  # of the configuration
    disk: str = ""  # the identity of its disk; empty: it has none, or none that matters
    cluster_identity: str = ""  # of its configuration; empty: it is that of the file


class Proof(Service, frozen=True):
    """The caller's proof, and the key to its identity."""

    proof: bytes
    key: bytes

    def __repr__(self) -> str:
        """Write neither: the key opens the identity."""
        return "Proof(…)"


class Refusal(Service, frozen=True):
    """The connection is refused; the reason is for people.

    From a caller, in the place of its proof, it is one of the words of `Departure`: who has proven
    nothing does not write sentences into our log.
    """

    reason: str


# A question to any node


class GetMembership(Service, frozen=True):
    """Ask for the configuration of the cluster."""


class MembershipReply(Service, frozen=True):
    """The configuration, which is the same everywhere in the cluster."""

    shared: bytes


# Between the nodes of a classic algorithm, and between the sites of a store


class ClassicMessage(Service, frozen=True, tag="Letter"):  # its name in protocol 6 and 7
    """A message of the algorithm that runs for one lock; without content: there is such a lock."""

    seq: int
    lock: Name
    content: bytes


class Receipt(Service, frozen=True):
    """All letters up to this one have come."""

    seq: int


decode_letter = msgspec.msgpack.Decoder(ClassicMessage).decode
decode_receipt = msgspec.msgpack.Decoder(Receipt | Refusal).decode
decode_hello = msgspec.msgpack.Decoder(Hello).decode
decode_proof = msgspec.msgpack.Decoder(Proof | Refusal).decode
decode_welcome = msgspec.msgpack.Decoder(Welcome | Refusal).decode
