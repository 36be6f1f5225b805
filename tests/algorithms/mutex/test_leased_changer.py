"""The changer alone, with voters played by hand: one rule a test (19.8 and 19.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.changer import (
    CHANGER,
    Changer,
    Conflicted,
    Goal,
    Phase,
    Settled,
    Stepped,
)
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Part, Rule
from coterie.algorithms.mutex.quorum.leased.frames import (
    Accept,
    Accepted,
    Attempt,
    Close,
    Closed,
    Condition,
    NewConfiguration,
    Prepare,
    Promise,
    Proposal,
    Query,
    Refused,
)
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.process import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterable

ME = 99
HEARTBEAT = 2.5
POLL = HEARTBEAT / 10
LATE = 1000.0


def part(*seats: int, **settings: Any) -> Part:
    return Part(seats, Settings(len(seats), heartbeat=HEARTBEAT, **settings))


OLD = part(1, 2, 3)
NEW = part(1, 2, 4)
ONE = Configuration(Rule(1, (OLD,)))
JOINT = Configuration(Rule(2, (OLD, NEW)), open=(ONE.rule,))
SETTLED_JOINT = Configuration(Rule(2, (OLD, NEW)))
LONGER = part(1, 2, 3, lease=20.0)


class Played:
    """A changer, and all that it has sent and told."""

    def __init__(self, configuration: Configuration, goal: Goal) -> None:
        self.changer = Changer("c", configuration, goal)
        self.now = 0.0
        self.sent: list[tuple[int, Any]] = []
        self.told: list[Any] = []
        self.timers: list[tuple[str, float | None]] = []
        self.step(self.changer.start)

    def step(self, handler: Any, *arguments: Any) -> None:
        out: Outbox[Any] = Outbox(ME, self.now)
        handler(*arguments, out)
        self.sent += out.sends
        self.told += out.events
        self.timers += out.timers

    def hear(self, voters: Iterable[int], frame: Any) -> None:
        for voter in voters:
            self.step(self.changer.receive, voter, frame)

    def stand(
        self,
        voters: Iterable[int],
        at: Configuration | None,
        *,
        lagging: int = 0,
        abstains: bool = False,
    ) -> None:
        """Let voters say where they stand."""
        self.hear(voters, Condition(at, lagging, abstains))

    def ring(self, now: float) -> None:
        self.now = now
        self.step(self.changer.ring, CHANGER)

    def promise(
        self, voters: Iterable[int], at: Configuration, accepted: Proposal | None = None
    ) -> None:
        attempt = self.attempt()
        self.hear(voters, Promise(at.number, attempt, accepted, at))

    def accept(self, voters: Iterable[int]) -> None:
        [proposal] = {frame.configuration for frame in self.frames(Accept)}
        self.hear(voters, Accepted(proposal.number, self.attempt()))

    def attempt(self) -> Attempt:
        """Return the attempt that is under way."""
        assert self.changer.attempt is not None
        return self.changer.attempt

    def frames(self, kind: type[Any]) -> list[Any]:
        return [frame for _, frame in self.sent if isinstance(frame, kind)]

    def receivers(self, kind: type[Any]) -> list[int]:
        return [to for to, frame in self.sent if isinstance(frame, kind)]


# Asking


def test_it_asks_the_voters_of_the_present_and_of_its_goal() -> None:
    played = Played(ONE, Goal(1, NEW))
    assert played.sent == [(seat, Query()) for seat in (1, 2, 3, 4)]
    ((timer, pause),) = played.timers
    assert timer == CHANGER
    assert pause == pytest.approx(POLL)


def test_it_asks_again_whenever_its_timer_rings() -> None:
    played = Played(ONE, Goal(1, NEW))
    played.ring(POLL)
    assert played.receivers(Query) == 2 * [1, 2, 3, 4]
    assert len(played.timers) == 2


def test_silent_voters_are_waited_for() -> None:
    """Neither a promise is asked for nor is it over, however long they are silent."""
    played = Played(ONE, Goal(1, NEW))
    played.stand([1], ONE)
    for time in (10.0, 100.0, LATE):
        played.ring(time)
    assert played.changer.phase is Phase.INSTALL
    assert played.changer.missing(LATE) == [1, 2, 3, 4]
    assert not played.frames(Prepare)
    assert not played.told


def test_an_answer_of_long_ago_says_nothing() -> None:
    played = Played(ONE, Goal(1, NEW))
    played.stand([1], ONE)
    played.now = 10 * POLL
    played.stand([2], ONE)
    assert not played.frames(Prepare)
    played.stand([1], ONE)
    assert played.receivers(Prepare) == [1, 2, 3]


def test_a_voter_that_is_behind_gets_the_newest_configuration() -> None:
    played = Played(JOINT, Goal(2))
    played.stand([1], ONE)
    played.stand([4], None)
    assert played.receivers(NewConfiguration) == [1, 4]
    assert {frame.configuration for frame in played.frames(NewConfiguration)} == {JOINT}


def test_a_voter_that_is_not_concerned_gets_no_configuration() -> None:
    played = Played(ONE, Goal(1, NEW))
    played.stand([4], None)
    assert not played.frames(NewConfiguration)


# Steps


def test_a_goal_that_meets_the_present_is_one_step() -> None:
    played = Played(ONE, Goal(1, LONGER))
    played.stand([1, 2], ONE)
    played.promise([1, 2], ONE)
    [proposal] = {frame.configuration for frame in played.frames(Accept)}
    assert proposal.rule == Rule(2, (LONGER,))
    assert proposal.open == (ONE.rule,)
    assert proposal.by == "c"


def test_a_goal_that_does_not_meet_it_begins_with_the_joint_one() -> None:
    played = Played(ONE, Goal(1, NEW))
    played.stand([1, 2], ONE)
    played.promise([2, 3], ONE)
    assert {frame.configuration.rule for frame in played.frames(Accept)} == {JOINT.rule}


def test_after_the_joint_one_comes_its_new_part() -> None:
    played = Played(SETTLED_JOINT, Goal(2))
    played.stand([1, 2], SETTLED_JOINT)
    played.promise([1, 2], SETTLED_JOINT)
    assert {frame.configuration.rule for frame in played.frames(Accept)} == {Rule(3, (NEW,))}


def test_the_old_part_decides_what_follows_a_joint_one() -> None:
    played = Played(SETTLED_JOINT, Goal(2))
    played.stand([1, 4], SETTLED_JOINT)
    assert not played.frames(Prepare)
    played.stand([3], SETTLED_JOINT)
    assert played.receivers(Prepare) == [1, 2, 3]


def test_number_0_is_followed_only_if_all_its_voters_promise() -> None:
    file = Configuration(Rule(0, (OLD,)))
    played = Played(file, Goal(0, OLD, protocol=1))
    played.stand([1, 2, 3], file)
    played.promise([1, 2], file)
    assert not played.frames(Accept)
    played.promise([3], file)
    assert played.receivers(Accept) == [1, 2, 3]


@pytest.mark.parametrize(("known", "then"), [("", "c"), ("the first changer", "the first changer")])
def test_the_changer_that_forms_a_cluster_names_it_and_no_later_one_does(
    known: str, then: str
) -> None:
    """19.14: the identity of a cluster is the name of a changer, which no other changer has."""
    present = msgspec.structs.replace(ONE, cluster_identity=known)
    played = Played(present, Goal(1, NEW))
    played.stand([1, 2, 3], present)
    played.promise([1, 2, 3], present)
    [proposal] = {frame.configuration for frame in played.frames(Accept)}
    assert proposal.cluster_identity == then


def test_a_goal_that_is_reached_already_needs_no_decision() -> None:
    played = Played(ONE, Goal(1, OLD))
    played.stand([1, 3], ONE)
    assert played.told == [Settled(ONE)]
    assert not played.frames(Prepare)


# Old numbers, and what others have begun


def test_a_goal_for_an_old_number_is_not_applied() -> None:
    later = Configuration(Rule(5, (OLD,)))
    played = Played(ONE, Goal(1, NEW))
    played.stand([1, 2], later)
    assert played.told == [Stepped(later), Conflicted(later)]
    assert not played.frames(Prepare)


def test_what_another_has_begun_is_finished_before_the_conflict_is_told() -> None:
    other = Configuration(Rule(2, (OLD, part(1, 2, 5))))
    played = Played(ONE, Goal(1, NEW))
    played.stand([1, 2], other)
    played.promise([1, 2], other)
    [proposal] = {frame.configuration for frame in played.frames(Accept)}
    assert proposal.rule == Rule(3, (part(1, 2, 5),))
    played.accept([1, 2])
    ended = msgspec.structs.replace(proposal, floor=7, open=())
    played.stand([1, 2, 5], ended)
    assert played.told[-1] == Conflicted(played.changer.configuration)
    assert played.changer.configuration.rule == proposal.rule


def test_another_change_that_comes_to_the_same_is_no_conflict() -> None:
    same = Configuration(Rule(4, (NEW,)))
    played = Played(ONE, Goal(1, NEW))
    played.stand([1, 2], same)
    assert played.told == [Stepped(same), Settled(same)]


def test_one_that_finishes_has_no_conflict() -> None:
    later = Configuration(Rule(5, (OLD,)))
    played = Played(ONE, Goal(1))
    played.stand([1, 2], later)
    assert played.told == [Stepped(later), Settled(later)]


def test_a_newer_number_ends_the_attempt_under_way() -> None:
    played = Played(ONE, Goal(1, NEW))
    played.stand([1, 2], ONE)
    early = played.attempt()
    later = Configuration(Rule(2, (LONGER,)), open=(ONE.rule,))
    played.stand([3], later)
    assert played.changer.attempt is None
    played.hear([1, 2], Promise(1, early, None, ONE))
    assert not played.frames(Accept)
    assert played.changer.configuration == later


def test_a_note_of_a_voter_is_taken_over() -> None:
    played = Played(JOINT, Goal(2))
    noted = JOINT.without(1, floor=50)
    played.stand([1], noted)
    assert played.changer.configuration == noted
    assert not played.told


def test_another_decision_of_the_same_number_is_not_believed() -> None:
    played = Played(JOINT, Goal(2))
    played.stand([1], Configuration(Rule(2, (LONGER,))))
    assert played.changer.configuration == JOINT


# Closing


def test_it_closes_once_a_quorum_of_the_new_voters_is_there() -> None:
    played = Played(JOINT, Goal(2))
    played.stand([1, 2], JOINT)
    assert played.frames(Close) == 3 * [Close(1)]
    assert sorted(played.receivers(Close)) == [1, 2, 3], "4 is no voter of number 1"


def test_it_does_not_close_while_new_voters_are_missing() -> None:
    apart = Configuration(Rule(2, (OLD, part(4, 5, 6))), open=(ONE.rule,))
    played = Played(apart, Goal(2))
    played.stand([1, 2, 4], apart)
    for _ in range(40):
        played.now += POLL
        played.stand([1, 2, 4], apart)
        played.ring(played.now)
    assert played.changer.phase is Phase.MOVE
    assert not played.frames(Close)


def test_voters_that_abstain_do_not_count_for_the_new_quorum() -> None:
    played = Played(JOINT, Goal(2))
    played.stand([1, 2], JOINT, abstains=True)
    assert not played.frames(Close)
    played.stand([1, 2], JOINT)
    assert played.frames(Close)


def test_it_is_patient_with_participants_for_two_heartbeats() -> None:
    played = Played(JOINT, Goal(2))
    played.stand([1, 2], JOINT, lagging=1)
    assert played.changer.phase is Phase.MOVE
    played.now = 2 * HEARTBEAT - 0.01
    played.stand([1, 2], JOINT, lagging=1)
    assert not played.frames(Close)
    played.now = 2 * HEARTBEAT
    played.stand([1], JOINT, lagging=1)
    assert played.frames(Close)


def test_its_patience_goes_by_the_longest_heartbeat() -> None:
    slow = Rule(1, (Part((1, 2, 3), Settings(3, heartbeat=15.0, lease=60.0)),))
    played = Played(Configuration(Rule(2, (OLD,)), open=(slow,)), Goal(2))
    played.now = 2 * HEARTBEAT + 1
    played.stand([1, 2], played.changer.configuration, lagging=1)
    assert not played.frames(Close)
    played.now = 30.0
    played.stand([1, 2], played.changer.configuration, lagging=1)
    assert played.frames(Close)


def test_it_asks_to_close_until_it_is_finished() -> None:
    played = Played(JOINT, Goal(2))
    played.stand([1, 2], JOINT)
    played.hear([1, 2, 3], Closed(1, False, 9))
    played.ring(POLL)
    assert len(played.frames(Close)) == 6
    assert played.changer.configuration == JOINT


def test_one_report_does_not_finish_a_majority() -> None:
    played = Played(JOINT, Goal(2))
    played.stand([1, 2], JOINT)
    played.hear([1, 1], Closed(1, True, 9))
    assert played.changer.configuration.open == JOINT.open
    played.hear([4], Closed(1, True, 9))  # not a voter of number 1
    assert played.changer.configuration.open == JOINT.open


def test_reports_in_every_quorum_finish_it_with_the_highest_bound() -> None:
    played = Played(JOINT, Goal(2))
    played.stand([1, 2], JOINT)
    played.hear([1], Closed(1, True, 9))
    played.hear([3], Closed(1, True, 30))
    noted = played.changer.configuration
    assert (noted.open, noted.floor) == ((), 30)
    told = [frame.configuration for frame in played.frames(NewConfiguration)]
    assert told == 4 * [noted]


# Taking back


def test_it_takes_back_without_closing_and_without_the_new_voters() -> None:
    apart = Configuration(Rule(2, (OLD, part(4, 5, 6))), open=(ONE.rule,))
    played = Played(apart, Goal(2, OLD, takes_back=True))
    played.stand([1, 2], apart)
    played.promise([1, 2], apart)
    [proposal] = {frame.configuration for frame in played.frames(Accept)}
    assert proposal.rule == Rule(3, (OLD,))
    assert proposal.open == (ONE.rule, apart.rule)
    assert not played.frames(Close)


def test_it_takes_back_only_the_number_that_was_seen() -> None:
    other = Configuration(Rule(4, (OLD, part(1, 2, 5))))
    played = Played(JOINT, Goal(2, OLD, takes_back=True))
    played.stand([1, 2], other)
    played.promise([1, 2], other)
    [proposal] = {frame.configuration for frame in played.frames(Accept)}
    assert proposal.rule.parts == (part(1, 2, 5),)


# The decision


def deciding(goal: Part = LONGER) -> Played:
    """Return a changer that has asked voters 1, 2 and 3 for their promises."""
    played = Played(ONE, Goal(1, goal))
    played.stand([1, 2], ONE)
    assert played.receivers(Prepare) == [1, 2, 3]
    return played


def test_one_promise_given_twice_is_no_quorum() -> None:
    played = deciding()
    played.promise([1, 1], ONE)
    assert not played.frames(Accept)


def test_promises_to_another_attempt_do_not_count() -> None:
    played = deciding()
    played.hear([1, 2, 3], Promise(1, Attempt(1, "another"), None, ONE))
    assert not played.frames(Accept)


def test_what_was_accepted_with_the_latest_attempt_is_proposed_in_place_of_the_goal() -> None:
    def accepted(round_: int, lease: float) -> Proposal:
        rule = Rule(2, (part(1, 2, 3, lease=lease),))
        return Proposal(Attempt(round_, "x"), Configuration(rule, open=(ONE.rule,)))

    played = deciding()
    played.promise([1], ONE, accepted(4, 30.0))
    played.promise([2], ONE, accepted(7, 40.0))
    assert {frame.configuration.settings.lease for frame in played.frames(Accept)} == {40.0}


def test_it_is_decided_when_a_quorum_has_accepted() -> None:
    played = deciding()
    played.promise([1, 2], ONE)
    played.accept([1, 1])
    assert not played.told
    played.accept([3])
    assert played.told == [Stepped(played.changer.configuration)]
    assert played.changer.configuration.rule == Rule(2, (LONGER,))


def test_an_unanswered_attempt_is_sent_again() -> None:
    played = deciding()
    played.ring(POLL)
    assert played.receivers(Prepare) == 2 * [1, 2, 3]
    played.promise([1, 2], ONE)
    played.ring(2 * POLL)
    assert played.receivers(Accept) == 2 * [1, 2, 3]


def test_refused_for_a_later_attempt_it_pauses_and_goes_beyond_that() -> None:
    played = deciding()
    played.hear([3], Refused(1, Attempt(6, "another")))
    played.stand([1, 2], ONE)
    assert len(played.frames(Prepare)) == 3  # none since
    played.now = 9 * POLL
    played.stand([1, 2], ONE)
    assert played.frames(Prepare)[-1] == Prepare(1, Attempt(7, "c"))


def test_a_refusal_of_an_earlier_attempt_changes_nothing() -> None:
    played = deciding()
    played.hear([3], Refused(1, Attempt(1, "b")))
    assert played.attempt() == Attempt(1, "c")


def test_a_refusal_of_another_number_changes_nothing() -> None:
    played = deciding()
    played.hear([3], Refused(7, Attempt(9, "another")))
    assert played.attempt() == Attempt(1, "c")


def test_changers_that_are_refused_pause_for_different_times() -> None:
    pauses = set()
    for name in ("a", "b", "c", "d", "e"):
        played = deciding()
        played.changer.name = name
        played.hear([3], Refused(1, Attempt(6, "another")))
        pauses.add(played.changer.pauses_until)
    assert len(pauses) > 2


# The end


def test_it_ends_once_and_is_silent_then() -> None:
    played = Played(ONE, Goal(1, OLD))
    played.stand([1, 2], ONE)
    sent = len(played.sent)
    played.stand([1, 2, 3], Configuration(Rule(8, (OLD,))))
    played.hear([1], Refused(1, Attempt(6, "another")))
    played.ring(LATE)
    assert played.told == [Settled(ONE)]
    assert len(played.sent) == sent


def test_it_watches_no_process() -> None:
    played = Played(ONE, Goal(1, OLD))
    with pytest.raises(AssertionError, match="watches no process"):
        played.step(played.changer.down, 1)
