"""A voter that hears of the end of a program (section 20 of the protocol), rule by rule."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.frames import (
    Ack,
    Answer,
    Beat,
    Data,
    Grant,
    Obituary,
    Probe,
    Reply,
    Request,
    SessionName,
    UpBody,
)
from coterie.algorithms.mutex.quorum.leased.participant import participant
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import BURIED_MAX, VOTER, Voter
from coterie.process import Outbox

SETTINGS = Settings(1, lease=10.0, rate_error=0.0, margin=0.0, interval=10, reserve=100)
PLACE = "kernel 1 0 "
LIFE = f"{PLACE}5:7"


class Desk:
    """A voter, fed frames; it collects what it sends."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.voter = Voter(founding(settings))
        self.now = 0.0
        self.step(self.voter.start, "v")

    def step(self, handler: Any, *arguments: Any) -> list[Any]:
        out: Outbox[Any] = Outbox(99, self.now)
        handler(*arguments, out)
        return [frame for _, frame in out.sends]

    def take(self, frame: Any) -> list[Any]:
        return self.step(self.voter.receive, 7, frame)

    def ask(self, name: str, life: str = LIFE, *, seq: int = 1, number: int = 1) -> list[Any]:
        """Let a participant ask for the lock in the first frame of its session."""
        request: UpBody = Request("a", seq, 5, 5)
        return self.take(
            Data(SessionName(name, number), seq, 0, 0, self.now, (request,), life=life)
        )

    def owners(self) -> list[str]:
        ballot = self.voter.ballots.get("a")
        return [] if ballot is None else [owner.claim.participant for owner in ballot.owners]


def held_by_p(settings: Settings = SETTINGS, life: str = LIFE) -> Desk:
    desk = Desk(settings)
    desk.ask("p", life)
    desk.ask("q", "kernel 1 0 6:7")
    assert desk.owners() == ["p"]
    return desk


def test_the_vote_of_the_dead_is_given_on_at_once_above_all_that_it_may_have_used() -> None:
    desk = held_by_p()
    (low,) = [owner.high for owner in desk.voter.ballots["a"].owners]
    (reply,) = desk.take(Obituary("p", LIFE))
    assert isinstance(reply, Reply)
    assert reply.session.participant == "q"
    (grant,) = reply.bodies
    assert isinstance(grant, Grant)
    assert grant.low > low


@pytest.mark.parametrize("life", ["", PLACE, f"{PLACE}5:8", f"{PLACE}5:7,6:7", "other 1 0 5:7"])
def test_the_end_of_something_else_is_not_that_of_the_program(life: str) -> None:
    desk = held_by_p()
    assert desk.take(Obituary("p", life)) == []
    assert desk.owners() == ["p"]
    assert desk.take(Beat(SessionName("p", 1), 0, 0, 1.0)), "it is heard as before"


@pytest.mark.parametrize("life", ["", PLACE])
def test_a_program_whose_processes_are_not_known_has_no_end_but_silence(life: str) -> None:
    desk = held_by_p(life=life)
    assert desk.take(Obituary("p", life)) == []
    assert desk.owners() == ["p"]
    desk.now = 10.0
    desk.step(desk.voter.ring, VOTER)
    assert desk.owners() == []


def test_the_first_whole_life_counts_in_whatever_order_frames_come() -> None:
    desk = held_by_p(life=PLACE)
    beat = Beat(SessionName("p", 1), 0, 0, 1.0)
    for life in (LIFE, PLACE, "", f"{PLACE}5:8"):
        desk.take(msgspec.structs.replace(beat, life=life))
        assert desk.voter.sessions["p"].life == LIFE


def test_what_the_dead_have_sent_before_is_refused_when_it_comes_after() -> None:
    desk = held_by_p()
    desk.take(Obituary("p", LIFE))
    assert desk.ask("p", seq=2) == []
    assert desk.ask("p", number=2) == [], "also where it would open another session"
    assert desk.take(Beat(SessionName("p", 1), 0, 0, 1.0)) == []
    (answer,) = desk.take(Probe(SessionName("p", 1, "v/1")))
    assert answer == Answer(SessionName("p", 1, "v/1"), alive=False)
    assert desk.owners() == ["q"]
    assert list(desk.voter.sessions) == ["q"]


def test_the_dead_stay_so_over_an_orderly_restart() -> None:
    desk = held_by_p()
    desk.take(Obituary("p", LIFE))
    desk.voter = msgspec.msgpack.decode(msgspec.msgpack.encode(desk.voter), type=Voter)
    assert desk.ask("p", number=2) == []
    assert desk.owners() == ["q"]


def test_another_start_of_the_program_is_served() -> None:
    desk = held_by_p()
    desk.take(Obituary("p", LIFE))
    assert desk.take(Obituary("p", LIFE)) == []
    assert desk.ask("p2", f"{PLACE}9:9") != []
    desk.take(Obituary("p", LIFE))
    assert set(desk.voter.sessions) == {"q", "p2"}


def test_a_lock_delay_is_kept() -> None:
    desk = held_by_p(msgspec.structs.replace(SETTINGS, lock_delay=3.0))
    desk.now = 1.0
    assert desk.take(Obituary("p", LIFE)) == []
    desk.now = 3.9
    desk.step(desk.voter.ring, VOTER)
    assert desk.owners() == []
    desk.now = 4.0
    desk.step(desk.voter.ring, VOTER)
    assert desk.owners() == ["q"]


def test_the_voter_wakes_when_the_delay_is_over() -> None:
    desk = held_by_p(msgspec.structs.replace(SETTINGS, lock_delay=3.0))
    out: Outbox[Any] = Outbox(99, 1.0)
    desk.voter.receive(0, Obituary("p", LIFE), out)
    assert out.timers == [(VOTER, 3.0)]


def test_an_abstention_is_not_shortened() -> None:
    desk = held_by_p()
    desk.voter.abstains_until = 20.0
    desk.take(Obituary("p", LIFE))
    assert desk.voter.abstains()
    assert desk.owners() == []


def test_who_is_not_known_is_not_dead() -> None:
    desk = Desk()
    desk.take(Obituary("p", LIFE))
    desk.ask("p")
    assert desk.owners() == ["p"]


def test_only_so_many_of_the_dead_are_remembered() -> None:
    desk = Desk()
    for number in range(BURIED_MAX + 3):
        desk.ask(f"p{number}")
        desk.take(Obituary(f"p{number}", LIFE))
    assert len(desk.voter.buried) == BURIED_MAX
    assert "p2" not in desk.voter.buried


def test_a_spare_knows_no_programs() -> None:
    desk = Desk()
    desk.voter.configuration = None
    assert desk.take(Obituary("p", LIFE)) == []


# The participant


def test_a_participant_says_its_life_when_it_opens_a_session_and_with_heartbeats() -> None:
    part = participant(founding(SETTINGS), 1)
    out: Outbox[Any] = Outbox(9, 0.0)
    part.start("p", out)
    part.live(LIFE, out)
    part.acquire("a", out)
    ((_, data),) = out.sends
    assert data.life == LIFE
    session = SessionName("p", 1, "v/1")
    part.receive(1, Ack(session, 1, 0, 0.0, False), Outbox(9, 0.1))
    out = Outbox(9, 1.0)
    part.acquire("b", out)
    ((_, data),) = out.sends
    assert data.life == "", "the voter knows it"


def test_a_life_that_becomes_known_later_is_said_at_once() -> None:
    part = participant(founding(SETTINGS), 1)
    out: Outbox[Any] = Outbox(9, 0.0)
    part.start("p", out)
    part.live(PLACE, out)
    part.acquire("a", out)
    part.receive(1, Ack(SessionName("p", 1, "v/1"), 1, 0, 0.0, False), out)
    out = Outbox(9, 1.0)
    part.live(LIFE, out)
    ((_, beat),) = out.sends
    assert isinstance(beat, Beat)
    assert beat.life == LIFE
    with pytest.raises(AssertionError):
        part.live(f"{PLACE}5:7,6:7", out)
