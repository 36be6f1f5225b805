"""A voter of the leased lock (sections 6, 7 and 9 of the protocol), rule by rule."""

from __future__ import annotations

from typing import Any

import msgspec

from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.frames import (
    Beat,
    Bye,
    Data,
    Grant,
    Inquire,
    Raise,
    Raised,
    Release,
    Reply,
    Request,
    SessionName,
    UpBody,
    Yield,
)
from coterie.algorithms.mutex.quorum.leased.saved import Saved, read_saved
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.process import Outbox

SETTINGS = Settings(1, lease=10.0, rate_error=0.0, margin=0.0, interval=10, reserve=100)


class Box:
    """A voter with its disk, fed lock messages; answers are (participant, lock message)."""

    def __init__(self, settings: Settings = SETTINGS, disk: bytes = b"", now: float = 0) -> None:
        self.disk = disk
        self.voter = Voter(founding(settings))
        self.now = now
        self.seqs: dict[str, int] = {}
        self.saves: list[Saved] = []
        self.step(self.voter.start, "v")

    def step(self, handler: Any, *arguments: Any) -> list[tuple[str, Any]]:
        out: Outbox[Any] = Outbox(99, self.now)
        out.saved = self.disk
        handler(*arguments, out)
        if out.to_save is not None:
            self.disk = out.to_save
            self.saves.append(read_saved(out.to_save))
        return [
            (frame.session.participant, body)
            for _, frame in out.sends
            if isinstance(frame, Reply)
            for body in frame.bodies
        ]

    def take(self, name: str, *bodies: UpBody, clock: int = 0) -> list[tuple[str, Any]]:
        seq = self.seqs[name] = self.seqs.get(name, 0) + 1
        frame = Data(SessionName(name, 1), seq, 99, clock, self.now, bodies)
        return self.step(self.voter.receive, 7, frame)

    def ring(self, now: float) -> list[tuple[str, Any]]:
        self.now = now
        return self.step(self.voter.ring, VOTER)


def ask(number: int = 1, age: int = 5, stamp: int | None = None, hold: int = 0) -> Request:
    return Request("a", number, age, age if stamp is None else stamp, hold)


def grant(low: int, high: int, *, more: bool = False, number: int = 1) -> Grant:
    return Grant("a", number, low, high, more)


def test_a_free_vote_is_given_with_tokens_from_the_stamp_on() -> None:
    assert Box().take("p", ask(age=5)) == [("p", grant(5, 14))]


def test_a_younger_request_waits_and_the_owner_hears_of_it_once() -> None:
    box = Box()
    box.take("p", ask(age=5))
    assert box.take("q", ask(age=6)) == [("p", Inquire("a", 1, 1))]
    assert box.take("r", ask(age=7)) == []


def test_an_older_request_makes_the_voter_ask_for_the_vote_back() -> None:
    box = Box()
    box.take("p", ask(age=5))
    box.take("q", ask(age=6))
    assert box.take("r", ask(age=4)) == [("p", Inquire("a", 1, 2))]
    assert box.take("s", ask(age=3)) == []


def test_equal_ages_are_ordered_by_the_names() -> None:
    box = Box()
    box.take("p", ask(age=5))
    assert box.take("o", ask(age=5)) == [("p", Inquire("a", 1, 2))]


def test_a_yielded_vote_goes_to_the_oldest_and_who_yielded_keeps_its_place() -> None:
    box = Box()
    box.take("p", ask(age=5))
    box.take("q", ask(age=4))
    assert box.take("p", Yield("a", 1, 0)) == [("q", grant(4, 13, more=True))]
    assert box.take("q", Release("a", 1, 4)) == [("p", grant(5, 14))]


def test_a_vote_given_back_unused_does_not_raise_the_floor() -> None:
    box = Box()
    box.take("p", ask(age=5))
    assert box.take("p", Release("a", 1, 0), ask(2, age=3)) == [("p", grant(3, 12, number=2))]


def test_a_used_token_is_never_handed_out_again() -> None:
    box = Box()
    box.take("p", ask(age=5))
    assert box.take("p", Release("a", 1, 9), ask(2, age=3)) == [("p", grant(10, 19, number=2))]


def test_the_vote_is_given_after_all_messages_of_a_frame() -> None:
    box = Box()
    box.take("p", ask(age=5))
    box.take("q", ask(age=9))
    assert box.take("p", Release("a", 1, 5), ask(2, age=8)) == [
        ("p", Grant("a", 2, 8, 17, True)),
    ]


def test_only_the_owner_gives_the_vote_back_and_only_for_its_present_request() -> None:
    box = Box()
    box.take("p", ask(2, age=5))
    box.take("q", ask(age=6))
    for stranger in (Release("a", 1, 5), Yield("a", 1, 5), Raise("a", 1, 50)):
        assert box.take("p", stranger) == []
    assert box.take("q", Yield("a", 1, 9)) == []
    assert box.voter.ballots["a"].owned_by("p", 2)


def test_a_withdrawn_request_leaves_the_queue() -> None:
    box = Box()
    box.take("p", ask(age=5))
    box.take("q", ask(age=6))
    box.take("q", Release("a", 1, 0))
    assert box.take("p", Release("a", 1, 5)) == []
    assert box.voter.ballots == {}


def test_an_interval_moves_up_on_demand() -> None:
    box = Box()
    box.take("p", ask(age=5))
    assert box.take("p", Raise("a", 1, 40)) == [("p", Raised("a", 1, 40, 49))]
    assert read_saved(box.disk).bound >= 49


def test_a_dropped_owner_may_have_used_its_whole_interval() -> None:
    box = Box()
    box.take("p", ask(age=5))
    box.take("q", ask(age=6))
    box.now = 5
    box.step(box.voter.receive, 7, Beat(SessionName("q", 1), 99, 0, 5))
    assert box.ring(10) == [("q", grant(15, 24))]


DELAYING = msgspec.structs.replace(SETTINGS, lock_delay=7.0)


def expired() -> Box:
    """Make a voter with a lock delay whose owner p has expired at 10 while q waits."""
    box = Box(DELAYING)
    box.take("p", ask(age=5))
    box.take("q", ask(age=6))
    box.now = 9
    box.step(box.voter.receive, 7, Beat(SessionName("q", 1), 99, 0, 9))
    assert box.ring(10) == []
    return box


def test_13_a_vote_that_came_back_by_expiry_rests_for_the_lock_delay() -> None:
    box = expired()
    assert box.ring(16.9) == []
    assert box.voter.armed == 17
    assert box.ring(17) == [("q", grant(15, 24))]
    assert box.voter.delayed == {}


def test_13_a_vote_that_was_given_back_does_not_rest() -> None:
    box = Box(DELAYING)
    box.take("p", ask(age=5))
    box.take("q", ask(age=6))
    assert box.take("p", Release("a", 1, 5)) == [("q", grant(6, 15))]
    box.step(box.voter.receive, 7, Bye(SessionName("q", 1, "v/2")))
    assert box.take("r", ask(age=7)) == [("r", grant(16, 25))], "a goodbye is no expiry"


def test_13_repair_of_a_hold_does_not_wait_for_the_lock_delay() -> None:
    box = expired()
    assert box.take("r", ask(age=8, stamp=20, hold=2)) == [("r", grant(20, 20, more=True))]


def test_13_a_restarted_voter_abstains_for_the_lock_delay_too() -> None:
    """Whose vote it had forgotten may have died with it."""
    assert Box(DELAYING, disk=b"114", now=100).voter.abstains_until == 117


def test_a_dropped_session_leaves_all_queues() -> None:
    box = Box()
    box.take("p", ask(age=5))
    box.take("q", ask(age=6))
    box.step(box.voter.receive, 7, Bye(SessionName("q", 1, "v/2")))
    assert box.take("p", Release("a", 1, 5)) == []


def test_an_idle_lock_is_forgotten_and_its_floor_is_kept_for_all() -> None:
    box = Box()
    box.take("p", ask(age=5))
    box.take("p", Release("a", 1, 9))
    assert box.voter.ballots == {}
    [(_, vote)] = box.take("p", Request("b", 2, 3, 3))
    assert vote.low == 10


def test_repair_precedes_waiting_requests_but_not_a_hold() -> None:
    box = Box()
    box.take("p", ask(age=5))
    box.take("q", ask(age=4))
    assert box.take("r", ask(age=9, stamp=20, hold=1)) == []
    assert box.take("p", Release("a", 1, 5)) == [("r", grant(20, 29, more=True))]


def test_repair_is_granted_above_the_floor_only() -> None:
    box = Box()
    box.take("p", ask(age=5))
    box.take("q", ask(age=9, stamp=7, hold=1))
    box.take("r", ask(age=10))
    assert box.take("p", Release("a", 1, 7)) == [("r", grant(10, 19))]
    assert box.voter.sessions["q"].locks == set()


def test_repair_with_proof_gets_its_own_token_and_no_other() -> None:
    box = Box()
    box.take("p", ask(age=30))
    box.take("p", Release("a", 1, 30))
    assert box.take("q", ask(age=9, stamp=7, hold=2)) == [("q", grant(7, 7))]


def test_a_request_of_the_owner_may_only_raise_its_hold() -> None:
    box = Box()
    box.take("p", ask(age=5))
    assert box.take("p", ask(age=5, stamp=5, hold=1)) == []
    assert box.take("q", ask(age=1)) == [("p", Inquire("a", 1, 1))]


def test_the_bound_is_saved_in_the_step_of_the_grant_and_seldom() -> None:
    box = Box()
    first, second = (Saved(bound, abstention=SETTINGS.expiry) for bound in (114, 219))
    box.take("p", ask(age=5))
    assert box.saves == [first]
    box.take("p", Release("a", 1, 5), ask(2, age=50))
    assert box.saves == [first]
    box.take("p", Release("a", 2, 50), ask(3, age=110))
    assert box.saves == [first, second]


def test_a_restarted_voter_abstains_and_knows_which_tokens_it_may_have_given() -> None:
    box = Box(disk=b"114", now=100)
    box.now = 105
    assert box.take("p", ask(age=5)) == []
    assert box.ring(109.9) == []
    assert box.ring(110) == [("p", grant(115, 124))]


def test_a_crash_while_abstaining_begins_a_new_abstention() -> None:
    assert Box(disk=b"114", now=105).voter.abstains_until == 115


def test_a_voter_that_has_saved_nothing_has_given_no_vote_and_need_not_abstain() -> None:
    assert not Box().voter.abstains()


def test_a_voter_whose_storage_was_replaced_abstains() -> None:
    voter = Voter(founding(SETTINGS), cautious=True)
    voter.start("v", Outbox(1, 3.0))
    assert voter.abstains_until == 13


def test_7_a_floor_learnt_while_abstaining_counts_for_requests_that_wait_already() -> None:
    box = Box(disk=b"1")
    box.now = 5
    assert box.take("p", ask(age=5)) == []
    box.voter.raise_floor(200)
    assert box.ring(10) == [("p", grant(201, 210))]
    assert box.voter.clock >= 200, "and first requests begin above it"


def test_stamps_follow_what_voters_have_seen() -> None:
    box = Box()
    box.take("p", ask(age=5), clock=40)
    assert box.voter.clock == 40


def test_one_broken_clock_cannot_use_up_the_numbers() -> None:
    box = Box()
    [(_, vote)] = box.take("p", ask(age=1 << 60), clock=1 << 60)
    assert vote.high < 1 << 42
