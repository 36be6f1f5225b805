"""What a node of a classic algorithm is asked, and answers, about itself."""

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


Question: TypeAlias = GetMembership | GetClassicStatus
Answer: TypeAlias = MembershipReply | ClassicStatus

decode_question = msgspec.msgpack.Decoder(Question).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
