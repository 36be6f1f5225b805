"""What nodes of a classic algorithm tell each other about nodes, and what one is asked about itself."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from coterie.cluster.wire.frames import GetMembership, MembershipReply, Service
from coterie.locks.engine import LockState
from coterie.trace import AnyRecord


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


class StartRecording(Service, frozen=True):
    """Ask for all that the processes do from now on; it ends with the connection."""


class RecordingBegun(Service, frozen=True):
    """It is recorded; or why not."""

    now: float  # by the clock of the records
    before: dict[int, int]  # the number of the last letter so far, by the peer that it went to
    refusal: str = ""


class GetRecords(Service, frozen=True):
    """Ask for records that have not been fetched, the oldest first."""


class Records(Service, frozen=True):
    """Some records, each with its lock; none: there are no more so far."""

    records: tuple[tuple[str, AnyRecord], ...]
    left_out: int  # that the node had no room for


class Able(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """I have met all nodes but those that I know to be lost."""


class Absent(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A node has been here, and is lost."""

    process: int


Note: TypeAlias = Able | Absent
Question: TypeAlias = GetMembership | GetClassicStatus | StartRecording | GetRecords
Answer: TypeAlias = MembershipReply | ClassicStatus | RecordingBegun | Records

decode_note = msgspec.msgpack.Decoder(Note).decode
decode_question = msgspec.msgpack.Decoder(Question).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
