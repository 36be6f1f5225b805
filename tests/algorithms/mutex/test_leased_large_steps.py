"""A step that concerns very many locks: its messages follow each other in frames that can be sent."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased import sessions
from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.frames import (
    BODIES_MAX,
    Data,
    Frame,
    Grant,
    Reply,
    Request,
    SessionName,
)
from coterie.algorithms.mutex.quorum.leased.participant import participant
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.cluster.wire.connection import FRAME_BYTES_MAX
from coterie.locks.names import BYTES_MAX
from coterie.process import Outbox

THREE = Settings(3, lease=10.0)
ME = 9
LOCKS = [f"lock{number:02}" for number in range(10)]
LARGE = (1 << 53) - 1
LONG = "n" * BYTES_MAX


class Exchange:
    """A participant and its voters; frames arrive at once, and in order."""

    def __init__(self) -> None:
        self.part = participant(founding(THREE), 1)
        self.voters = {number: Voter(founding(THREE), name=f"v{number}") for number in (1, 2, 3)}
        self.now = 0.0
        self.frames: list[Frame] = []
        self.under_way: deque[tuple[int, int, Any]] = deque()
        self.step(ME, self.part.start, "p")
        for lock in LOCKS:
            self.step(ME, self.part.acquire, lock)
            self.settle()

    def step(self, me: int, handler: Any, *arguments: Any) -> None:
        out: Outbox[Frame] = Outbox(me, self.now)
        handler(*arguments, out)
        self.under_way += [(me, to, frame) for to, frame in out.sends]

    def settle(self) -> None:
        while self.under_way:
            sender, to, frame = self.under_way.popleft()
            self.frames.append(frame)
            self.step(to, self.part.receive if to == ME else self.voters[to].receive, sender, frame)

    def owned(self, number: int) -> list[str]:
        return sorted(lock for lock, ballot in self.voters[number].ballots.items() if ballot.owners)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "BODIES_MAX", 4)


def test_what_a_restarted_voter_is_asked_in_one_step_is_split_into_frames() -> None:
    """Its session is gone, and with it the votes for all locks that are held."""
    made = Exchange()
    made.voters[1] = Voter(founding(THREE), name="v1 again")
    made.frames.clear()
    made.step(ME, made.part.connected, 1)
    made.settle()
    assert made.owned(1) == LOCKS
    assert [len(frame.bodies) for frame in made.frames if isinstance(frame, Data)] == [4, 4, 2]
    assert all(made.part.valid(lock, 0.0) for lock in LOCKS)


def test_what_a_voter_grants_in_one_step_is_split_into_frames() -> None:
    """It has abstained since its restart, and votes for all who wait when that is over."""
    made = Exchange()
    voter = made.voters[1] = Voter(founding(THREE), cautious=True)
    made.step(1, voter.start, "v1 again")
    made.step(ME, made.part.connected, 1)
    made.settle()
    assert made.owned(1) == []
    made.now = voter.abstains_until
    voter.sessions["p"].expires = made.now + 1  # heartbeats have come meanwhile
    made.step(1, voter.ring, VOTER)
    assert made.owned(1) == LOCKS
    assert [len(frame.bodies) for _, _, frame in made.under_way] == [4, 4, 2]


@pytest.mark.parametrize(
    "frame",
    [
        Data(
            SessionName("p" * 32, LARGE, "v" * 64),
            *(LARGE, LARGE, LARGE, 0.0),
            (Request(LONG, LARGE, LARGE, LARGE, 2),) * BODIES_MAX,
        ),
        Reply(
            SessionName("p" * 32, LARGE, "v" * 64),
            *(LARGE, LARGE, LARGE, 0.0, True),
            (Grant(LONG, LARGE, LARGE, LARGE, True),) * BODIES_MAX,
        ),
    ],
    ids=["up", "down"],
)
def test_the_largest_frame_is_one_that_connections_take(frame: Data | Reply) -> None:
    assert len(msgspec.msgpack.encode(frame)) < FRAME_BYTES_MAX
