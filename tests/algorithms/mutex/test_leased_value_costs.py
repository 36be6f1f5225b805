"""What a value costs on a cluster, counted in frames and in records that have to be synced (docs/values.md)."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Member, Part, Rule
from coterie.algorithms.mutex.quorum.leased.participant import (
    Participant,
    ValueRead,
    ValueSeen,
    ValueWritten,
    participant,
)
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.stored import NOTHING, StoredValue
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.process import Event, Outbox

if TYPE_CHECKING:
    from collections.abc import Callable

VOTERS = (1, 2, 3)
MEMBERS = tuple(Member(seat, f"n{seat}", f"disk{seat}") for seat in VOTERS)
SMALL, LARGE = b"row 4711", b"." * 5000


class Cluster:
    """Three voters and programs without faults; time stands still, and frames arrive in the order of their sending."""

    def __init__(self) -> None:
        rule = Rule(1, (Part(VOTERS, Settings(3)),))
        self.configuration = Configuration(rule, MEMBERS, protocol=8, cluster_identity="it")
        self.parts: dict[int, Voter | Participant] = {}
        self.frames: Counter[str] = Counter()
        self.records = self.saves = 0
        self.events: list[Event] = []
        self._way: deque[tuple[int, int, Any]] = deque()
        for seat in VOTERS:
            voter = Voter(self.configuration)
            voter.identity = f"disk{seat}"
            self.join(seat, voter)

    def program(self, me: int) -> Participant:
        part = participant(self.configuration, home=1)
        self.join(me, part)
        return part

    def join(self, me: int, part: Voter | Participant) -> None:
        self.parts[me] = part
        self.call(me, part.start, f"{me}.1")

    def call(self, me: int, handler: Callable[..., None], *arguments: Any) -> list[Event]:
        """Take a step and all that follow from it; return what was told."""
        self.events = []
        self._step(me, handler, *arguments)
        while self._way:
            to, sender, frame = self._way.popleft()
            self._step(to, self.parts[to].receive, sender, frame)
        return self.events

    def _step(self, me: int, handler: Callable[..., None], *arguments: Any) -> None:
        out: Outbox[Any] = Outbox(me, 1.0)
        handler(*arguments, out)
        self.records += len(out.appended)
        self.saves += out.to_save is not None
        for to, frame in out.sends:
            self.frames[type(frame).__name__] += 1
            self._way.append((to, me, frame))
        self.events += out.events

    def counted(self, me: int, handler: Callable[..., None], *arguments: Any) -> tuple[Any, ...]:
        """Return frames by kind and records of a call, behind the events that it ends with."""
        self.frames.clear()
        self.records = self.saves = 0
        told = [type(event) for event in self.call(me, handler, *arguments)]
        assert self.saves == 0, "only a record is written, and no snapshot"
        return told, dict(self.frames), self.records


def test_a_write_is_a_round_trip_and_a_record_at_each_voter_and_reading_again_is_nothing() -> None:
    cluster = Cluster()
    program = cluster.program(11)
    cluster.call(11, program.acquire, "x")
    round_trip = {"Data": 3, "Reply": 3}
    assert cluster.counted(11, program.read, "x") == ([ValueRead], {}, 0), "all voters have none"
    for data in (SMALL, LARGE, None):
        write = cluster.counted(11, program.write, "x", StoredValue(data=data))
        frames = round_trip if data is not None else {"Data": 6, "Reply": 3}
        records = 3 if data is not None else 6  # what all know to be deleted is forgotten
        assert write == ([ValueWritten], frames, records)
        assert cluster.counted(11, program.read, "x") == ([ValueRead], {}, 0)


def test_a_kept_lock_is_read_again_without_a_message() -> None:
    cluster = Cluster()
    program = cluster.program(11)
    cluster.call(11, program.acquire, "x")
    cluster.call(11, program.write, "x", StoredValue(data=SMALL))
    for _ in range(3):
        assert cluster.counted(11, program.release, "x")[1:] == ({}, 0)
        assert cluster.counted(11, program.acquire, "x")[1:] == ({}, 0)
        assert cluster.counted(11, program.read, "x") == ([ValueRead], {}, 0)


def test_the_next_holder_reads_what_came_with_the_votes_and_asks_once_for_what_is_large() -> None:
    for data, frames in ((SMALL, {}), (LARGE, {"Data": 1, "Reply": 1})):
        cluster = Cluster()
        first, second = cluster.program(11), cluster.program(12)
        cluster.call(11, first.acquire, "x")
        cluster.call(11, first.write, "x", StoredValue(data=data))
        cluster.call(11, first.release, "x")
        cluster.call(12, second.acquire, "x")
        assert cluster.counted(12, second.read, "x") == ([ValueRead], frames, 0)


def test_a_look_is_a_round_trip_and_writes_nothing() -> None:
    cluster = Cluster()
    first, second = cluster.program(11), cluster.program(12)
    cluster.call(11, first.acquire, "x")
    cluster.call(11, first.write, "x", StoredValue(data=SMALL))
    look = cluster.counted(12, second.look, "x", 1, NOTHING)
    assert look == ([ValueSeen], {"Look": 3, "Seen": 3}, 0)


def test_a_lock_without_a_value_costs_what_it_did() -> None:
    cluster = Cluster()
    program = cluster.program(11)
    cluster.call(11, program.acquire, "first")
    _, frames, records = cluster.counted(11, program.acquire, "x")
    assert (frames, records) == ({"Data": 3, "Reply": 3}, 0)
