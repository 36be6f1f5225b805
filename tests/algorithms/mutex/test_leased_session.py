"""The sessions of the leased lock (section 4 of the protocol), rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.frames import (
    Ack,
    Answer,
    Beat,
    Bye,
    Data,
    Grant,
    Inquire,
    Nack,
    Probe,
    Release,
    Reply,
    Request,
    SessionName,
    Term,
)
from coterie.algorithms.mutex.quorum.leased.participant import (
    PARTICIPANT,
    Acquired,
    Participant,
    participant,
)
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.process import Outbox

ONE = Settings(1, lease=10.0, rate_error=0.0, margin=1.0, heartbeat=2.0, hedge=1.0)
OPENING = SessionName("p", 1)
OPEN = SessionName("p", 1, "v/1")
NEXT = SessionName("p", 2)
ASK = Request("a", 1, 1, 1)


def at(now: float, handler: Any, *arguments: Any) -> list[Any]:
    """Take a step at that time of the part's own clock, and give what it sent and told."""
    out: Outbox[Any] = Outbox(99, now)
    handler(*arguments, out)
    return [message for _, message in out.sends] + out.events


def client() -> Participant:
    """Make a participant that has asked its only voter for lock a at time 0."""
    part = participant(founding(ONE), 1)
    at(0, part.start, "p")
    assert at(0, part.acquire, "a") == [Data(OPENING, 1, 0, 1, 0, (ASK,))]
    return part


def holder() -> Participant:
    part = client()
    assert at(1, part.receive, 1, granted()) == [Acquired("a", 1)]
    return part


def granted(echo: float = 0, seq: int = 1, session: SessionName = OPEN) -> Reply:
    return Reply(session, seq, 1, 1, echo, False, (Grant("a", 1, 1, 1 << 20, False),))


def voter() -> Voter:
    part = Voter(founding(ONE))
    at(0, part.start, "v")
    return part


def opened() -> Voter:
    part = voter()
    assert at(0, part.receive, 7, Data(OPENING, 1, 0, 1, 50, (ASK,))) == [REPLY]
    return part


REPLY = Reply(OPEN, 1, 1, 1, 50, False, (Grant("a", 1, 1, 1 << 20, False),))


# The participant's end


def test_the_first_data_opens_the_session_without_a_round_trip_and_the_answer_names_it() -> None:
    part = client()
    at(1, part.receive, 1, granted())
    assert part.sessions.uplink(1).nonce == "v/1"


def test_the_lease_runs_from_the_sending_of_the_frame_that_was_answered() -> None:
    part = holder()
    assert part.remaining("a", 1) == 9
    at(4, part.receive, 1, Ack(OPEN, 1, 1, 3, False))
    assert part.remaining("a", 4) == 9
    at(5, part.receive, 1, Ack(OPEN, 1, 1, 2, False))
    assert part.remaining("a", 5) == 8


@pytest.mark.parametrize(
    "other", [SessionName("p", 2, "v/1"), SessionName("p", 1, "v/2"), SessionName("q", 1, "v/1")]
)
def test_frames_of_another_session_are_ignored(other: SessionName) -> None:
    part = holder()
    at(4, part.receive, 1, Ack(other, 1, 1, 4, False))
    at(4, part.receive, 1, Nack(other))
    assert part.remaining("a", 4) == 6


def test_a_reply_is_delivered_once_and_in_its_turn() -> None:
    part = client()
    assert at(1, part.receive, 1, granted(seq=2)) == []
    assert at(1, part.receive, 1, granted()) == [Acquired("a", 1)]
    at(2, part.release, "a")
    inquiry = Reply(OPEN, 2, 1, 1, 0, False, (Inquire("a", 1, 1),))
    assert at(3, part.receive, 1, inquiry)[0].bodies == (Release("a", 1, 1),)
    assert at(4, part.receive, 1, granted()) == []


def test_what_a_later_frame_has_overtaken_is_sent_again() -> None:
    part = client()
    at(1, part.withdraw, "a")
    first, second = part.sessions.uplink(1).unacked
    again = at(2, part.receive, 1, Ack(OPEN, 0, 1, 1, False))
    assert [frame.seq for frame in again] == [first.seq]
    assert again[0].time == 2
    assert second.seq == 2


def test_a_heartbeat_goes_out_when_nothing_was_sent_for_a_period() -> None:
    part = holder()
    assert at(1.9, part.ring, PARTICIPANT) == []
    assert at(2, part.ring, PARTICIPANT) == [Beat(OPEN, 1, 1, 2)]


def test_a_heartbeat_comes_sooner_while_an_answer_is_missing() -> None:
    assert at(0.5, client().ring, PARTICIPANT) == [Beat(OPENING, 0, 1, 0.5)]


def test_a_lapsed_lease_makes_silent_only_probes_go_out_and_locks_wait() -> None:
    part = holder()
    assert Probe(OPEN) in at(10, part.ring, PARTICIPANT)
    assert at(10.5, part.release, "a") == []
    assert at(11.9, part.ring, PARTICIPANT) == []
    assert at(12, part.ring, PARTICIPANT) == [Probe(OPEN)]


@pytest.mark.parametrize(
    ("event", "argument"), [("receive", Answer(OPEN, True)), ("connected", None)]
)
def test_silence_ends_when_the_voter_is_there_again_and_what_waited_goes_out(
    event: str, argument: Any
) -> None:
    part = holder()
    at(10, part.ring, PARTICIPANT)
    at(10.5, part.release, "a")
    frames = at(11, getattr(part, event), 1, *([argument] if argument else []))
    assert frames == [Data(OPEN, 2, 1, 1, 11, (Release("a", 1, 1),)), Beat(OPEN, 1, 1, 11)]


def test_silence_before_the_first_answer_begins_a_lease_after_opening() -> None:
    part = client()
    assert Beat(OPENING, 0, 1, 9.9) in at(9.9, part.ring, PARTICIPANT)
    assert Probe(OPENING) in at(12, part.ring, PARTICIPANT)
    first, parked, _, resumed = at(13, part.receive, 1, Answer(OPENING, False))
    assert first.bodies == (ASK,)
    assert parked.bodies == (Release("a", 1, 0),)
    assert resumed.bodies == (Request("a", 2, 1, 2),)


@pytest.mark.parametrize("frame", [Nack(OPEN), Answer(OPEN, False)])
def test_a_session_that_the_voter_does_not_know_is_lost_and_the_next_has_a_larger_number(
    frame: Nack | Answer,
) -> None:
    part = client()
    at(1, part.receive, 1, Ack(OPEN, 1, 1, 0, False))
    assert at(2, part.receive, 1, frame) == [Data(NEXT, 1, 0, 1, 2, (ASK,))]


def test_a_session_that_nobody_needs_is_forgotten_when_its_lease_is_over() -> None:
    part = client()
    at(1, part.withdraw, "a")
    at(2, part.receive, 1, Ack(OPEN, 2, 1, 1, False))
    assert at(5, part.ring, PARTICIPANT) == []
    assert [frame.session for frame in at(12, part.acquire, "b")] == [NEXT]


def idle() -> Participant:
    """Make a participant that was answered for the last time what it sent at time 1."""
    part = client()
    at(1, part.withdraw, "a")
    at(2, part.receive, 1, Ack(OPEN, 2, 1, 1, False))
    return part


def test_a_session_that_was_idle_for_nearly_a_lease_is_renewed_with_the_request() -> None:
    """The voter has nothing to say to a request that waits, so a heartbeat asks at once."""
    part = idle()
    frame, beat = at(10.8, part.acquire, "b")
    assert (frame.session, frame.seq) == (OPEN, 3)
    assert beat == Beat(OPEN, 0, 2, 10.8)
    assert at(11, part.ring, PARTICIPANT) == [], "the lease is over, and nothing rests on it"
    assert part.sessions.reachable() == [1]
    assert at(11.7, part.receive, 1, Ack(OPEN, 3, 2, 10.8, False)) == []
    assert part.sessions.lease(1) == 20.8


@pytest.mark.parametrize(("now", "frames"), [(9.4, 1), (9.6, 2)])
def test_a_request_costs_a_heartbeat_only_if_the_lease_ends_before_the_next_one_is_answered(
    now: float, frames: int
) -> None:
    part = idle()
    assert len(at(now, part.acquire, "b")) == frames


def test_a_session_that_was_idle_and_gets_no_answer_is_silent_after_a_hedge() -> None:
    """It began to be used when it sent again; what it sends later does not prolong that."""
    part = idle()
    at(10.8, part.acquire, "b")
    at(11.3, part.ring, PARTICIPANT)
    at(11.7, part.acquire, "c")
    assert Probe(OPEN) not in at(11.7, part.ring, PARTICIPANT)
    assert part.sessions.reachable() == [1]
    at(11.8, part.ring, PARTICIPANT)
    assert part.sessions.reachable() == []


def test_requests_that_get_no_answer_do_not_put_a_heartbeat_off() -> None:
    """Another program holds the lock; this one asks again and again, and the voter has nothing to say."""
    part = client()
    at(0.1, part.receive, 1, Ack(OPEN, 1, 1, 0, False))
    at(0.2, part.withdraw, "a")
    assert at(0.5, part.acquire, "a") == [Data(OPEN, 3, 0, 2, 0.5, (Request("a", 2, 2, 2),))]
    assert at(0.7, part.ring, PARTICIPANT) == [Beat(OPEN, 0, 2, 0.7)]
    at(0.8, part.withdraw, "a")
    assert at(1.1, part.ring, PARTICIPANT) == [], "one is on its way"


def test_all_lock_messages_of_a_step_share_a_frame() -> None:
    part = client()
    at(0, part.acquire, "b")
    at(1, part.receive, 1, Ack(OPEN, 2, 1, 0, False))
    [frame] = at(2, part.receive, 1, Nack(OPEN))
    assert frame.bodies == (ASK, Request("b", 2, 2, 2))


def test_an_orderly_end_says_goodbye() -> None:
    part = holder()
    at(2, part.release, "a")
    release, bye = at(3, part.close)
    assert release.bodies == (Release("a", 1, 1),)
    assert bye == Bye(OPEN)


def test_a_frame_of_a_process_that_does_not_vote_any_more_means_nothing() -> None:
    part = client()
    assert at(1, part.receive, 2, Nack(OPEN)) == []
    assert part.sessions.uplink(1).is_open


# The voter's end


def test_a_frame_without_a_nonce_opens_a_session_and_is_answered() -> None:
    part = voter()
    assert at(0, part.receive, 7, Beat(OPENING, 0, 0, 50)) == [Ack(OPEN, 0, 0, 50, False)]


def test_a_larger_number_replaces_the_session_and_a_smaller_one_is_void() -> None:
    part = opened()
    [ack] = at(1, part.receive, 7, Beat(NEXT, 0, 0, 51))
    assert ack.session == SessionName("p", 2, "v/2")
    assert part.ballots == {}
    assert at(2, part.receive, 7, Beat(OPENING, 0, 0, 52)) == []


@pytest.mark.parametrize("frame", [Beat(OPEN, 0, 0, 9), Data(OPEN, 1, 0, 1, 9, (ASK,))])
def test_a_frame_of_an_unknown_session_is_refused_and_has_no_effect(frame: Beat | Data) -> None:
    part = voter()
    assert at(0, part.receive, 7, frame) == [Nack(OPEN)]
    assert part.sessions == {}


def test_data_is_delivered_once_and_in_its_turn_and_what_is_not_new_is_acknowledged() -> None:
    part = opened()
    release = Data(OPEN, 3, 1, 1, 52, (Release("a", 1, 1),))
    assert at(1, part.receive, 7, release) == [Ack(OPEN, 1, 1, 52, False)]
    assert "a" in part.ballots
    assert at(1, part.receive, 7, Data(OPENING, 1, 0, 1, 53, (ASK,)))[-1] == Ack(
        OPEN, 1, 1, 53, False
    )


def test_a_probe_is_answered_and_renews_nothing() -> None:
    part = opened()
    assert at(10, part.receive, 7, Probe(OPEN)) == [Answer(OPEN, True)]
    assert at(10, part.receive, 7, Probe(SessionName("p", 1, "v/9"))) == [
        Answer(SessionName("p", 1, "v/9"), False)
    ]
    at(11, part.ring, VOTER)
    assert part.sessions == {}


def test_a_session_expires_when_nothing_was_heard_for_the_lease_with_its_allowance() -> None:
    part = opened()
    at(5, part.receive, 7, Beat(OPEN, 1, 1, 55))
    at(15.9, part.ring, VOTER)
    assert "p" in part.sessions
    at(16, part.ring, VOTER)
    assert part.sessions == {}


def test_a_participant_with_a_shorter_lease_says_so_when_it_opens_a_session() -> None:
    part = participant(founding(ONE), 1, 5.0)
    at(0, part.start, "p")
    opening, term = at(0, part.acquire, "a")
    assert isinstance(opening, Data)
    assert term == Term(OPENING, 5.0)
    at(1, part.receive, 1, granted())
    assert part.remaining("a", 1) == 4, "it counts what it has told"


def test_a_session_with_a_shorter_lease_expires_sooner_with_its_allowance() -> None:
    part = opened()
    at(1, part.receive, 7, Term(OPENING, 5.0))
    expiry = ONE.expiry_of(5.0)
    assert 5 < expiry < ONE.expiry
    at(expiry - 0.01, part.ring, VOTER)
    assert "p" in part.sessions
    at(expiry, part.ring, VOTER)
    assert part.sessions == {}


@pytest.mark.parametrize("lease", [0.0, -1.0, ONE.lease + 1, float("nan")])
def test_a_lease_that_would_outlast_the_abstention_is_not_believed(lease: float) -> None:
    part = opened()
    at(1, part.receive, 7, Term(OPEN, lease))
    at(1, part.receive, 7, Term(SessionName("p", 2), 5.0))
    assert part.sessions["p"].lease is None


def test_the_allowance_covers_clocks_at_opposite_ends_of_their_bound() -> None:
    settings = Settings(1, lease=10.0, rate_error=0.1, margin=0.01)
    slow, fast = 1 - settings.rate_error, 1 + settings.rate_error
    assert settings.expiry / fast >= settings.lease / slow


def test_the_echo_is_the_latest_sending_time_of_this_session_only() -> None:
    part = opened()
    at(1, part.receive, 7, Beat(OPEN, 1, 1, 60))
    assert at(2, part.receive, 7, Beat(OPEN, 1, 1, 55))[0].echo == 60
    assert at(3, part.receive, 7, Beat(NEXT, 0, 1, 40))[0].echo == 40


def test_a_reply_that_is_not_acknowledged_for_long_is_sent_again() -> None:
    part = opened()
    assert at(0.5, part.receive, 7, Beat(OPEN, 0, 1, 51)) == [Ack(OPEN, 1, 1, 51, False)]
    resent, ack = at(1, part.receive, 7, Beat(OPEN, 0, 1, 52))
    assert (resent.seq, resent.bodies) == (1, REPLY.bodies)
    assert isinstance(ack, Ack)
    assert at(3, part.receive, 7, Beat(OPEN, 1, 1, 54)) == [Ack(OPEN, 1, 1, 54, False)]


def test_a_new_connection_makes_the_voter_send_again_what_is_not_acknowledged() -> None:
    assert [frame.seq for frame in at(0.1, opened().connected, "p")] == [1]


def test_a_goodbye_ends_the_session_at_once() -> None:
    part = opened()
    at(1, part.receive, 7, Bye(OPEN))
    assert part.sessions == {}
    assert part.ballots == {}
