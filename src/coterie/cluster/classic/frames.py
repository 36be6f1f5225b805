"""What nodes of a classic algorithm tell each other about nodes, and what one is asked about itself."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from coterie.cluster.wire.frames import GetMembership, MembershipReply, Service
from coterie.locks.engine import LockState


class GetClassicStatus(Service, frozen=True):
    """Ask how the node is."""


class ClassicFigures(msgspec.Struct, frozen=True):
    """How a node is: what it knows of the others, and what its own program does."""

    up_seconds: float
    ready: bool  # it has met all others, or need not
    away: tuple[str, ...]  # nodes that it finds lost
    leader: str | None  # the node that it follows, in an election
    known: int  # locks that any node has named
    locks: tuple[LockState, ...]  # those that its program holds or waits for


class ClassicStatus(Service, frozen=True):
    """How the node is."""

    figures: ClassicFigures


class Able(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """I have met all nodes but those that I know to be lost."""


class Absent(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A node has been here, and is lost."""

    process: int


Note: TypeAlias = Able | Absent
Question: TypeAlias = GetMembership | GetClassicStatus
Answer: TypeAlias = MembershipReply | ClassicStatus

decode_note = msgspec.msgpack.Decoder(Note).decode
decode_question = msgspec.msgpack.Decoder(Question).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
