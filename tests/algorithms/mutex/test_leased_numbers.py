"""Numbered configurations (section 19 of the protocol), rule by rule, at a voter and a participant."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.configuration import (
    Configuration,
    Member,
    Part,
    Rule,
    founding,
)
from coterie.algorithms.mutex.quorum.leased.frames import (
    Accept,
    Accepted,
    Ack,
    Answer,
    Attempt,
    Beat,
    Behind,
    Close,
    Closed,
    Condition,
    Data,
    Grant,
    NewConfiguration,
    Prepare,
    Probe,
    Promise,
    Proposal,
    Query,
    Refused,
    Release,
    Reply,
    Request,
    SessionName,
    Stale,
)
from coterie.algorithms.mutex.quorum.leased.participant import (
    Learnt,
    Moved,
    Participant,
    participant,
)
from coterie.algorithms.mutex.quorum.leased.saved import Saved, read_saved
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.succession import follows
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.errors import ConfigError
from coterie.process import Outbox

ONE = Settings(1, lease=10.0, rate_error=0.0, margin=1.0, heartbeat=2.0, hedge=1.0)
LONG = msgspec.structs.replace(ONE, lease=60.0)
ZERO = founding(ONE)
OPENING = SessionName("p", 1)
OPEN = SessionName("p", 1, "v/1")
ASK = Request("a", 1, 1, 1)
FIRST = Attempt(1, "c")
LATER = Attempt(2, "d")


def part(seats: tuple[int, ...], settings: Settings = ONE, coterie: str = "majority") -> Part:
    fitted = msgspec.structs.replace(settings, voters=len(seats), coterie=coterie)
    return Part(seats, fitted)


def after(present: Configuration, *parts: Part, floor: int = 0) -> Configuration:
    """Make the next number, by these parts."""
    rule = Rule(present.number + 1, parts)
    return Configuration(rule, floor=floor, open=(*present.open, present.rule))


def closed(configuration: Configuration, floor: int = 0) -> Configuration:
    """Note that all numbers before are finished."""
    return msgspec.structs.replace(configuration, open=(), floor=floor)


NEXT = after(ZERO, part((1,)))
PAIR = after(ZERO, part((1, 2)))


def step(now: float, handler: Any, *arguments: Any, saved: bytes = b"") -> Outbox[Any]:
    out: Outbox[Any] = Outbox(99, now)
    out.saved = saved
    handler(*arguments, out)
    return out


def at(now: float, handler: Any, *arguments: Any) -> list[Any]:
    """Take a step at that time of the part's own clock, and return what it sent and told."""
    out = step(now, handler, *arguments)
    return [message for _, message in out.sends] + out.events


def voter(configuration: Configuration | None = ZERO, **more: Any) -> Voter:
    made = Voter(configuration, **more)
    at(0, made.start, "v")
    return made


def owner(configuration: Configuration = ZERO) -> Voter:
    """Make a voter whose vote for lock a participant p has, by number 0."""
    made = voter()
    at(0, made.receive, 7, Data(OPENING, 1, 0, 1, 0, (ASK,)))
    at(0, made.receive, 5, NewConfiguration(configuration))
    return made


# A voter: which frames it serves (19.3)


@pytest.mark.parametrize(
    "frame",
    [
        Data(OPEN, 2, 1, 1, 1, (Release("a", 1, 1),), 0, 1),
        Beat(OPEN, 1, 1, 1, 0, 1),
        Probe(OPEN, 0, 1),
    ],
)
def test_19_3_a_frame_of_a_closed_number_is_answered_stale_and_does_nothing(frame: Any) -> None:
    made = owner(NEXT)
    at(0, made.receive, 5, Close(0))
    before = msgspec.msgpack.encode(made)
    assert at(1, made.receive, 7, frame) == [Stale(NEXT)]
    assert msgspec.msgpack.encode(made) == before, "neither renewed nor released"


def test_19_3_a_number_that_is_open_is_served_until_it_is_closed() -> None:
    made = owner(NEXT)
    assert at(1, made.receive, 7, Beat(OPEN, 1, 1, 1, 0, 1)) == [Ack(OPEN, 1, 1, 1, False, 0)]
    assert made.sessions["p"].expires == 12


def test_19_3_a_number_that_is_neither_present_nor_open_is_stale() -> None:
    assert at(1, owner(closed(NEXT)).receive, 7, Beat(OPEN, 1, 1, 1)) == [Stale(closed(NEXT))]


@pytest.mark.parametrize(
    "frame", [Data(OPENING, 1, 0, 1, 0, (ASK,), 1, 1), Beat(OPENING, 0, 1, 0, 1, 1)]
)
def test_19_3_a_frame_of_a_higher_number_is_answered_behind_and_does_nothing(frame: Any) -> None:
    made = voter()
    assert at(0, made.receive, 7, frame) == [Behind(0)]
    assert made.sessions == {}
    assert at(0, voter(None).receive, 7, frame) == [Behind(-1)]


def test_19_3_a_participant_that_knows_less_gets_the_configuration_along() -> None:
    made = owner(NEXT)
    ack, courtesy = at(1, made.receive, 7, Beat(OPEN, 1, 1, 1))
    assert courtesy == NewConfiguration(NEXT)
    assert isinstance(ack, Ack)


def test_19_3_answers_state_the_highest_number_of_the_session() -> None:
    made = owner(NEXT)
    assert at(1, made.receive, 7, Beat(OPEN, 1, 1, 1, 1, 1))[0].number == 1
    [late] = at(2, made.receive, 7, Beat(OPEN, 1, 1, 0.5, 0, 1))
    assert (late.number, late.echo) == (1, 1)


def test_19_9_a_session_expires_by_the_lease_of_the_number_of_its_frame() -> None:
    longer = after(ZERO, part((1,), LONG))
    made = owner(longer)
    at(1, made.receive, 7, Beat(OPEN, 1, 1, 1, 0, 1))
    assert made.sessions["p"].expires == 12, "by number 0"
    at(2, made.receive, 7, Beat(OPEN, 1, 1, 2, 1, 1))
    assert made.sessions["p"].expires == 63
    at(3, made.receive, 7, Beat(OPEN, 1, 1, 1.5, 0, 1))
    assert made.sessions["p"].expires == 63, "a late frame shortens nothing"


# What a voter adopts: section 19.5


def test_19_5_a_newer_configuration_is_saved_and_older_ones_are_ignored() -> None:
    made = voter()
    out = step(1, made.receive, 5, NewConfiguration(NEXT))
    assert out.to_save is not None
    assert read_saved(out.to_save).configuration == NEXT
    out = step(1, made.receive, 5, NewConfiguration(ZERO))
    assert made.configuration == NEXT
    assert out.to_save is None


def test_19_5_what_was_promised_belongs_to_the_number_before() -> None:
    made = voter()
    at(1, made.receive, 5, Prepare(0, LATER))
    at(1, made.receive, 5, NewConfiguration(NEXT))
    [promise] = at(1, made.receive, 5, Prepare(1, FIRST))
    assert promise == Promise(1, FIRST, None, NEXT)


def test_19_5_a_note_is_merged_and_only_closes_and_raises() -> None:
    made = owner(after(NEXT, part((1,))))
    present = made.configuration
    assert present is not None
    for number, floor in ((0, 7), (1, 3)):
        at(1, made.receive, 5, NewConfiguration(present.without(number, floor)))
    merged = made.configuration
    assert merged is not None
    assert (merged.open, merged.floor) == ((), 7)
    at(1, made.receive, 5, NewConfiguration(present))
    assert made.configuration == merged


def test_19_5_another_decision_of_the_same_number_is_not_believed() -> None:
    made = owner(NEXT)
    other = closed(after(ZERO, part((1,), LONG)), 9)
    assert step(1, made.receive, 5, NewConfiguration(other)).to_save is None
    assert made.configuration == NEXT


def test_19_5_a_spare_becomes_a_voter_and_serves_what_is_open() -> None:
    made = voter(None)
    at(0, made.receive, 5, NewConfiguration(PAIR))
    [reply] = at(1, made.receive, 7, Data(OPENING, 1, 0, 1, 1, (ASK,), 0, 1))
    assert isinstance(reply.bodies[0], Grant)


def test_19_5_a_disk_that_is_not_meant_stays_a_spare() -> None:
    named = msgspec.structs.replace(PAIR, members=(Member(1, "a", "x"), Member(2, "b", "y")))
    made = voter(None, identity="another")
    assert step(0, made.receive, 5, NewConfiguration(named)).to_save is None
    assert made.number == -1
    meant = voter(None, identity="y")
    at(0, meant.receive, 5, NewConfiguration(named))
    assert meant.number == 1


def test_19_11_a_disk_that_is_not_meant_stays_a_spare_and_abstains_from_nothing() -> None:
    forced = msgspec.structs.replace(PAIR, members=(Member(1, "a", "x"), Member(2, "b", "y")))
    made = voter(None, identity="another")
    assert step(0, made.impose, forced).timers == []
    assert at(0, made.receive, 5, Query()) == [Condition(None, 0, False, "another")]
    meant = voter(None, identity="y")
    at(0, meant.impose, forced)
    assert meant.abstains()


# How a number ends: section 19.6


def test_19_6_only_numbers_before_its_own_can_be_closed() -> None:
    made = owner(NEXT)
    assert at(1, made.receive, 5, Close(1)) == []
    assert at(1, made.receive, 5, Close(0)) == [Closed(0, False, made.bound)]


def test_19_6_finished_when_no_session_is_left_that_counts_by_it() -> None:
    made = owner(NEXT)
    at(1, made.receive, 5, Close(0))
    at(2, made.receive, 7, Beat(OPEN, 1, 1, 2, 1, 1))
    assert at(3, made.receive, 5, Close(0)) == [Closed(0, True, made.bound)]
    expired = owner(NEXT)
    at(11, expired.ring, VOTER)
    assert at(11, expired.receive, 5, Close(0)) == [Closed(0, True, expired.bound)]


def test_19_6_not_finished_while_it_abstains() -> None:
    made = Voter(ZERO)
    step(0, made.start, "v", saved=Saved(9, NEXT, abstention=11.0).encode())
    assert made.abstains()
    assert at(1, made.receive, 5, Close(0)) == [Closed(0, False, 9)]
    at(11, made.ring, VOTER)
    assert at(11, made.receive, 5, Close(0)) == [Closed(0, True, 9)]


def test_19_6_not_finished_while_a_lock_delay_runs() -> None:
    delayed = founding(msgspec.structs.replace(ONE, lock_delay=5.0))
    following = after(delayed, part((1,), delayed.settings))
    made = voter(delayed)
    at(0, made.receive, 7, Data(OPENING, 1, 0, 1, 0, (ASK,)))
    at(0, made.receive, 5, NewConfiguration(following))
    at(11, made.ring, VOTER)
    assert made.sessions == {}
    assert at(12, made.receive, 5, Close(0)) == [Closed(0, False, made.bound)]
    at(16, made.ring, VOTER)
    assert at(16, made.receive, 5, Close(0)) == [Closed(0, True, made.bound)]


def test_19_6_a_lock_delay_of_a_later_number_keeps_no_earlier_one_from_being_finished() -> None:
    delayed = founding(msgspec.structs.replace(ONE, lock_delay=5.0))
    following = after(delayed, part((1,), delayed.settings))
    made = voter(delayed)
    at(0, made.receive, 7, Data(OPENING, 1, 0, 1, 0, (ASK,)))
    at(0, made.receive, 5, NewConfiguration(following))
    at(1, made.receive, 7, Beat(OPEN, 1, 1, 1, 1, 1))
    at(12, made.ring, VOTER)
    assert made.sessions == {}
    assert list(made.delayed) == ["a"]
    assert at(12, made.receive, 5, Close(0)) == [Closed(0, True, made.bound)]


def test_19_6_a_lock_that_two_shared_rests_for_the_earlier_of_their_numbers() -> None:
    delayed = founding(msgspec.structs.replace(ONE, lock_delay=5.0))
    following = after(delayed, part((1,), delayed.settings))
    made = voter(delayed)
    shared = Request("a", 1, 1, 1, shared=True)
    at(0, made.receive, 7, Data(OPENING, 1, 0, 1, 0, (shared,)))
    at(0, made.receive, 5, NewConfiguration(following))
    at(1, made.receive, 8, Data(SessionName("q", 1), 1, 0, 1, 1, (shared,), 1, 1))
    at(11, made.ring, VOTER)
    at(12, made.ring, VOTER)
    assert made.sessions == {}
    at(16, made.ring, VOTER)
    assert at(16, made.receive, 5, Close(0)) == [Closed(0, False, made.bound)]
    at(17, made.ring, VOTER)
    assert at(17, made.receive, 5, Close(0)) == [Closed(0, True, made.bound)]


def test_19_6_a_restarted_voter_serves_its_own_number_alone() -> None:
    made = Voter(ZERO)
    step(0, made.start, "v", saved=Saved(9, NEXT).encode())
    assert at(20, made.receive, 7, Beat(OPENING, 0, 1, 1, 0, 1)) == [Stale(NEXT)]


def test_19_6_the_bound_that_is_reported_covers_what_was_handed_out() -> None:
    made = owner(NEXT)
    [tenure] = made.ballots["a"].owners
    [report] = at(1, made.receive, 5, Close(0))
    assert report.bound >= tenure.high


# The decision (19.8)


def test_19_8_a_promise_is_saved_and_keeps_earlier_attempts_out() -> None:
    made = voter()
    out = step(0, made.receive, 5, Prepare(0, LATER))
    assert out.sends == [(5, Promise(0, LATER, None, ZERO))]
    assert out.to_save is not None
    assert read_saved(out.to_save).promised == LATER
    assert at(0, made.receive, 5, Prepare(0, FIRST)) == [Refused(0, LATER)]
    assert at(0, made.receive, 5, Accept(FIRST, NEXT)) == [Refused(1, LATER)]


def test_19_8_what_was_accepted_is_saved_and_told_to_later_attempts() -> None:
    made = voter()
    out = step(0, made.receive, 5, Accept(FIRST, NEXT))
    assert out.sends == [(5, Accepted(1, FIRST))]
    assert out.to_save is not None
    assert read_saved(out.to_save).accepted == Proposal(FIRST, NEXT)
    again = Voter(ZERO)
    step(0, again.start, "w", saved=out.to_save)
    assert at(0, again.receive, 5, Prepare(0, LATER)) == [
        Promise(0, LATER, Proposal(FIRST, NEXT), ZERO)
    ]


def test_19_8_who_is_asked_again_answers_without_another_save() -> None:
    made = voter()
    for frame in (Prepare(0, FIRST), Accept(FIRST, NEXT), Prepare(0, LATER), Accept(LATER, NEXT)):
        first = step(0, made.receive, 5, frame)
        assert first.to_save is not None
        again = step(0, made.receive, 5, frame)
        assert again.sends == first.sends
        assert again.to_save is None
    refused = step(0, made.receive, 5, Prepare(0, FIRST))
    assert refused.sends == [(5, Refused(0, LATER))]
    assert refused.to_save is None


def test_19_8_a_voter_of_another_number_says_where_it_stands() -> None:
    made = owner(NEXT)
    for frame in (Prepare(0, FIRST), Prepare(2, FIRST), Accept(FIRST, NEXT)):
        assert at(1, made.receive, 5, frame) == [Condition(NEXT, 1, False)]
    for frame in (Prepare(0, FIRST), Accept(FIRST, NEXT), Accept(FIRST, ZERO)):
        assert at(1, voter(None).receive, 5, frame) == [Condition(None, 0, False)]


THREE = closed(after(ZERO, part((1, 2, 3))))
SWAPPED = part((1, 2, 4))


@pytest.mark.parametrize(
    ("successor", "accepted"),
    [
        (after(THREE, part((1, 2, 3, 4))), True),
        (after(THREE, SWAPPED), False),  # {2, 3} and {1, 4} do not meet
        (after(THREE, part((1, 2, 3)), SWAPPED), True),
        (closed(after(THREE, part((1, 2, 3, 4)))), False),  # the present number is in use
        (after(after(THREE, part((1, 2, 3))), part((1, 2, 3))), False),  # a number is left out
    ],
)
def test_19_8_only_a_successor_that_meets_what_may_be_in_use_is_accepted(
    successor: Configuration, accepted: bool
) -> None:
    assert follows(successor, THREE) is accepted
    made = voter(THREE)
    [answer] = at(0, made.receive, 5, Accept(FIRST, successor))
    assert isinstance(answer, Accepted) is accepted


def test_19_8_a_successor_has_to_meet_every_number_that_it_leaves_open() -> None:
    joint = after(THREE, part((1, 2, 3)), SWAPPED)
    assert not follows(after(joint, SWAPPED), joint), "participants may count by 1, 2, 3"
    assert follows(after(joint, part((1, 2, 3))), joint), "the step is taken back"
    assert follows(after(closed(joint), SWAPPED), closed(joint))


def test_a_changer_is_told_where_a_voter_stands() -> None:
    made = owner(NEXT)
    assert at(1, made.receive, 5, Query()) == [Condition(NEXT, 1, False)]
    at(2, made.receive, 7, Beat(OPEN, 1, 1, 2, 1, 1))
    assert at(3, made.receive, 5, Query()) == [Condition(NEXT, 0, False)]


# What is on stable storage (19.2, 19.9)


def test_19_2_a_bare_number_is_the_bound_as_before_there_were_numbers() -> None:
    assert read_saved(b"123") == Saved(123)
    assert Saved(123).encode() == b"123"
    assert read_saved(b"") == Saved()


def test_19_2_what_cannot_be_read_is_refused() -> None:
    for value in (b"\x00nonsense", b"12 nonsense"):
        with pytest.raises(ConfigError, match="cannot be read"):
            read_saved(value)


def test_19_9_the_time_to_abstain_is_saved_before_there_is_a_number() -> None:
    """The lease in the file of the cluster may be shorter at the next start."""
    saved = Saved(123, abstention=22.4)
    assert read_saved(saved.encode()) == saved
    made = Voter(ZERO)
    step(5, made.start, "v", saved=saved.encode())
    assert made.abstains_until == 5 + 22.4


def test_19_2_everything_is_read_back() -> None:
    full = Saved(5, NEXT, LATER, Proposal(FIRST, after(NEXT, part((1,)))), 11.0)
    assert read_saved(full.encode()) == full


def test_19_9_abstention_is_by_the_longest_lease_that_may_count() -> None:
    longer = after(ZERO, part((1,), LONG))
    made = owner(longer)
    assert made.abstention == LONG.expiry
    restarted = Voter(ZERO)
    step(0, restarted.start, "w", saved=Saved(9, longer, abstention=made.abstention).encode())
    assert restarted.abstains_until == LONG.expiry


def test_19_9_abstention_becomes_shorter_only_when_no_longer_lease_is_left() -> None:
    made = voter(founding(LONG))
    shorter = after(founding(LONG), part((1,)))
    at(0, made.receive, 7, Data(OPENING, 1, 0, 1, 0, (ASK,)))
    at(0, made.receive, 5, NewConfiguration(shorter))
    at(1, made.receive, 5, Close(0))
    at(1, made.receive, 5, NewConfiguration(closed(shorter)))
    assert made.abstention == LONG.expiry, "p may count by the longer one"
    at(2, made.receive, 7, Beat(OPEN, 1, 1, 2, 1, 1))
    at(3, made.receive, 5, Prepare(1, FIRST))
    assert made.abstention == ONE.expiry


# A participant (19.4, 19.7)


def client(configuration: Configuration = ZERO) -> Participant:
    made = participant(configuration, 1)
    at(0, made.start, "p")
    at(0, made.acquire, "a")
    return made


def granted(voter: int, low: int = 1, number: int = 0, request: int = 1) -> Reply:
    session = SessionName("p", 1, f"v{voter}/1")
    grant = Grant("a", request, low, 1 << 20, False)
    return Reply(session, 1, 1, 1, 0, False, (grant,), number)


def holder(configuration: Configuration = ZERO) -> Participant:
    made = client(configuration)
    at(1, made.receive, 1, granted(1, number=configuration.number))
    assert made.valid("a", 1)
    return made


def test_19_4_a_renewal_of_another_number_renews_nothing() -> None:
    made = holder()
    session = SessionName("p", 1, "v1/1")
    at(4, made.receive, 1, Ack(session, 1, 1, 4, False, 1))
    assert made.remaining("a", 4) == 6
    at(4, made.receive, 1, Ack(session, 1, 1, 4, False, 0))
    assert made.remaining("a", 4) == 10


def test_19_4_a_hold_moves_when_it_is_valid_by_the_new_rule_as_well() -> None:
    made = holder()
    frame, learnt = at(2, made.receive, 1, NewConfiguration(PAIR))
    assert learnt == Learnt(PAIR)
    assert frame.bodies == (Request("a", 1, 1, 1, 2),), "the second voter is asked to support it"
    assert (frame.number, frame.known) == (0, 1)
    assert made.configuration == ZERO
    told = at(3, made.receive, 2, granted(2))
    assert Moved(PAIR) in told
    assert {(each.number, each.known) for each in told if isinstance(each, Beat)} == {(1, 1)}
    assert made.valid("a", 3)


def test_19_4_without_holds_it_moves_at_once_and_waits_on_at_its_place() -> None:
    made = client()
    out = step(2, made.receive, 1, NewConfiguration(PAIR))
    assert Moved(PAIR) in out.events
    asked = [(to, each.bodies) for to, each in out.sends if isinstance(each, Data)]
    assert (2, (ASK,)) in asked, "the same request, of the same age"


@pytest.mark.parametrize(
    ("parts", "number"),
    [((part((1, 2, 4)),), 2), ((part((1, 2, 3)), part((1, 2, 4))), 1)],
)
def test_19_4_sessions_with_new_voters_have_numbers_above_those_with_voters_that_go(
    parts: tuple[Part, ...], number: int
) -> None:
    """A new voter may be one of those that go, under another seat, and have its session still."""
    mine = founding(msgspec.structs.replace(ONE, voters=3))
    made = client(mine)
    out = step(2, made.receive, 1, NewConfiguration(after(mine, *parts)))
    asked = [each.session.number for to, each in out.sends if to == 4 and isinstance(each, Data)]
    assert asked == [number]


def test_19_4_votes_for_a_request_that_waits_do_not_count_by_the_old_rule_after_the_move() -> None:
    made = client()
    at(2, made.receive, 1, NewConfiguration(PAIR))
    at(3, made.receive, 1, granted(1, number=1))
    assert not made.valid("a", 3)
    at(3, made.receive, 2, granted(2, number=1))
    assert made.valid("a", 3)


def test_19_4_a_move_cuts_what_a_longer_lease_has_left() -> None:
    made = holder(founding(LONG))
    assert made.remaining("a", 1) == 59
    at(2, made.receive, 1, NewConfiguration(after(founding(LONG), part((1,)))))
    assert made.remaining("a", 2) == 10


def test_19_4_a_voter_that_votes_no_more_gets_its_vote_back() -> None:
    pair = founding(msgspec.structs.replace(ONE, voters=2))
    made = client(pair)
    for number in (1, 2):
        at(1, made.receive, number, granted(number))
    out = step(2, made.receive, 1, NewConfiguration(after(pair, part((1,)))))
    assert made.valid("a", 2)
    released = [
        to for to, each in out.sends if getattr(each, "bodies", ()) == (Release("a", 1, 1),)
    ]
    assert released == [2]


def test_19_4_a_voter_that_is_behind_is_given_the_configuration_and_everything_again() -> None:
    made = client(NEXT)
    frames = at(1, made.receive, 1, Behind(0))
    assert frames[0] == NewConfiguration(NEXT)
    assert frames[1].bodies == (ASK,)
    assert isinstance(frames[2], Beat)
    assert at(1, made.receive, 1, Behind(0)) == [], "answers to what was under way are not answered"


def test_19_4_what_was_refused_before_the_move_is_sent_again_after_it() -> None:
    made = client(NEXT)
    assert [type(each) for each in at(1, made.receive, 1, Stale(NEXT))] == [Data, Beat]


def test_19_4_knowing_binds_to_nothing_and_numbers_are_never_left_downwards() -> None:
    made = holder(NEXT)
    at(2, made.receive, 1, NewConfiguration(ZERO))
    assert made.configuration == NEXT
    assert made.next is None
    at(2, made.receive, 1, Stale(after(NEXT, part((1, 2)))))
    assert made.configuration == NEXT
    assert made.valid("a", 2)


def test_19_7_entries_use_tokens_above_the_floor() -> None:
    made = client(closed(NEXT, floor=50))
    [acquired] = at(1, made.receive, 1, granted(1, number=1))
    assert acquired.token == 51
    at(2, made.release, "a")
    assert made.try_reacquire("a", 2) == 52


def test_19_7_votes_below_the_floor_are_raised() -> None:
    made = client(closed(NEXT, floor=1 << 21))
    [frame] = at(1, made.receive, 1, granted(1, number=1))
    assert frame.bodies[0].token == (1 << 21) + 1
    assert not made.valid("a", 1)


def test_19_7_a_kept_lock_is_not_taken_by_the_short_way_while_a_move_is_due() -> None:
    pair = founding(msgspec.structs.replace(ONE, voters=2))
    made = client(pair)
    for number in (1, 2):
        at(1, made.receive, number, granted(number))
    at(1, made.acquire, "b")
    b = Grant("b", 2, 1, 1 << 20, False)
    for number in (1, 2):
        session = SessionName("p", 1, f"v{number}/1")
        at(1, made.receive, number, Reply(session, 2, 2, 1, 1, False, (b,), 0))
    at(1, made.release, "a")
    at(2, made.receive, 1, NewConfiguration(after(pair, part((1, 2, 3), coterie="unanimous"))))
    assert made.configuration == pair, "b is held, and cannot move yet"
    assert made.try_reacquire("a", 2) == 0


def test_a_probe_of_the_present_number_is_answered() -> None:
    assert at(1, owner().receive, 7, Probe(OPEN)) == [Answer(OPEN, True)]


def test_a_new_voter_that_restarts_goes_on_from_the_floor_of_its_configuration() -> None:
    """It has handed out nothing yet, and others use tokens that its clock would reach in minutes."""
    made = Voter(None)
    floor = 1 << 49
    noted = msgspec.structs.replace(NEXT, floor=floor)
    step(0, made.start, "v", saved=Saved(0, noted).encode())
    assert made.clock == floor
    assert made.bound == 0
