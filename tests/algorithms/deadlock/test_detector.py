"""Victims, and the trial that comes before anyone is hurt: one test per rule."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.algorithms.deadlock.condition import Condition, all_of
from coterie.algorithms.deadlock.detectors.diffusing import Diffusing, Probe
from coterie.algorithms.deadlock.detectors.trial import (
    Accuse,
    Confirm,
    Confirmed,
    Deadlocked,
    Denied,
    Release,
    Settled,
)
from coterie.algorithms.deadlock.detectors.waits import (
    StuckProcess,
    Wait,
    WaitId,
    choose_victim,
    graph_of,
    members_of,
)
from coterie.algorithms.deadlock.victim import PICKS_MAX
from coterie.process import Outbox, encode


def waits(*rows: tuple[int, int, int]) -> dict[int, Wait]:
    return {me: Wait(1, all_of(9), born=born, picked=picked) for me, born, picked in rows}


def test_the_victim_is_the_youngest() -> None:
    assert choose_victim(waits((1, 5, 0), (2, 7, 0), (3, 6, 0)), [1, 2, 3]) == 2


def test_of_equally_young_ones_the_higher_id_is_picked() -> None:
    assert choose_victim(waits((1, 5, 0), (3, 5, 0), (2, 5, 0)), [3, 1, 2]) == 3


def test_the_order_in_which_members_are_known_does_not_matter() -> None:
    rows = [(1, 4, 0), (2, 9, 0), (3, 9, 0)]
    assert {choose_victim(waits(*rows), order) for order in ([1, 2, 3], [3, 2, 1], [2, 3, 1])} == {
        3
    }


def test_one_picked_too_often_is_spared_while_there_is_another() -> None:
    assert choose_victim(waits((1, 5, 0), (2, 7, PICKS_MAX)), [1, 2]) == 1
    assert choose_victim(waits((1, 5, PICKS_MAX), (2, 7, PICKS_MAX)), [1, 2]) == 2


def test_the_same_two_in_conflict_for_ever_take_turns_after_the_bound() -> None:
    picked = {1: 0, 2: 0}
    for _ in range(2 * PICKS_MAX):
        victim = choose_victim(waits((1, 5, picked[1]), (2, 7, picked[2])), [1, 2])
        assert victim is not None
        picked[victim] += 1
    assert picked == {1: PICKS_MAX, 2: PICKS_MAX}


def test_what_cannot_be_aborted_is_no_victim() -> None:
    assert choose_victim({1: Wait(1, all_of(2)), 2: Wait(1, all_of(1), born=0)}, [1, 2]) == 2
    assert choose_victim({1: Wait(1, all_of(1))}, [1]) is None


def test_what_was_granted_is_no_obstacle_though_the_waiter_does_not_know_yet() -> None:
    one, two = Wait(4, all_of(2)), Wait(7, all_of(1))
    assert graph_of({1: one, 2: two}).deadlocked() == (1, 2)
    granting = Wait(7, all_of(1), granted=(WaitId(1, 4),))
    assert graph_of({1: one, 2: granting}).deadlocked() == ()
    older = Wait(7, all_of(1), granted=(WaitId(1, 3),))
    assert graph_of({1: one, 2: older}).deadlocked() == (1, 2)


class Bench:
    """One detector, fed by hand; each step returns what it sent and told."""

    def __init__(self, me: int) -> None:
        self.detector = Diffusing(me)

    def begin(self, condition: Condition[int]) -> list[Any]:
        out: Outbox[Any] = Outbox(self.detector.me)
        self.detector.begin(condition, out, born=self.detector.me)
        return [*out.sends, *out.events]

    def end(self) -> list[Any]:
        out: Outbox[Any] = Outbox(self.detector.me)
        self.detector.end(out)
        return [*out.sends, *out.events]

    def receive(self, sender: int, message: Any) -> list[Any]:
        out: Outbox[Any] = Outbox(self.detector.me)
        self.detector.receive(sender, message, out)
        return [*out.sends, *out.events]


RING = {1: Wait(1, all_of(2)), 2: Wait(1, all_of(3)), 3: Wait(1, all_of(1), born=3)}
MEMBERS = members_of(RING, [1, 2, 3])


@pytest.fixture
def victim() -> Bench:
    bench = Bench(3)
    bench.begin(all_of(1))
    return bench


def test_the_accused_asks_every_other_member_about_its_wait(victim: Bench) -> None:
    assert victim.receive(2, Accuse(5, MEMBERS)) == [(1, Confirm(1)), (2, Confirm(1))]


def test_when_all_confirm_the_wait_ends_and_everyone_is_released(victim: Bench) -> None:
    victim.receive(2, Accuse(5, MEMBERS))
    assert victim.receive(1, Confirmed()) == []
    assert victim.receive(2, Confirmed()) == [
        (1, Release()),
        (2, Release()),
        (2, Settled(5, over=True)),
        Deadlocked(MEMBERS),
    ]
    assert victim.detector.wait is None


def test_one_denial_saves_the_accused_and_only_those_who_pledged_are_released(
    victim: Bench,
) -> None:
    victim.receive(2, Accuse(5, MEMBERS))
    assert victim.receive(1, Denied()) == []
    assert victim.receive(2, Confirmed()) == [(2, Release()), (2, Settled(5, over=False))]
    assert victim.detector.wait is not None


def test_an_accusation_of_a_wait_that_is_over_hurts_nobody(victim: Bench) -> None:
    victim.end()
    victim.begin(all_of(2))
    assert victim.receive(2, Accuse(5, MEMBERS)) == [(2, Settled(5, over=True))]


def test_a_victim_that_restarted_is_not_hurt_in_its_new_wait(victim: Bench) -> None:
    """The abort is for the wait, not for the process: a wait never recurs."""
    victim.receive(2, Accuse(5, MEMBERS))
    victim.receive(1, Confirmed())
    victim.end()
    victim.begin(all_of(1))
    assert victim.receive(2, Confirmed()) == [
        (1, Release()),
        (2, Release()),
        (2, Settled(5, over=True)),
    ]
    assert victim.detector.wait is not None


def test_two_accusations_of_the_same_wait_abort_it_once(victim: Bench) -> None:
    victim.receive(2, Accuse(5, MEMBERS))
    assert victim.receive(1, Accuse(8, MEMBERS)) == []
    victim.receive(1, Confirmed())
    sent = victim.receive(2, Confirmed())
    assert sent.count(Deadlocked(MEMBERS)) == 1
    assert (1, Settled(8, over=True)) in sent


def test_a_member_confirms_the_wait_it_is_in_and_denies_any_other() -> None:
    member = Bench(1)
    assert member.receive(3, Confirm(1)) == [(3, Denied())]
    member.begin(all_of(2))
    assert member.receive(3, Confirm(1)) == [(3, Confirmed())]
    assert member.receive(3, Confirm(2)) == [(3, Denied())]


def test_a_lock_that_changed_hands_while_the_probe_travelled_denies() -> None:
    lock = Bench(5)
    lock.begin(all_of(1))
    ((_, report), _) = lock.receive(2, Probe(2, 1))
    lock.begin(all_of(4))
    assert lock.receive(2, Confirm(report.wait.number)) == [(2, Denied())]


def test_a_pledge_postpones_ones_own_trial_until_released() -> None:
    member = Bench(2)
    member.begin(all_of(1))
    member.receive(3, Confirm(1))
    own = (StuckProcess(1, Wait(1, all_of(2))), StuckProcess(2, Wait(1, all_of(1), born=2)))
    assert member.receive(1, Accuse(1, own)) == []
    assert member.receive(3, Release()) == [(1, Confirm(1))]


def test_pledges_are_counted_because_a_question_can_overtake_a_release() -> None:
    member = Bench(2)
    member.begin(all_of(1))
    member.receive(3, Confirm(1))
    member.receive(3, Confirm(1))
    own = (StuckProcess(1, Wait(1, all_of(2))), StuckProcess(2, Wait(1, all_of(1), born=2)))
    member.receive(1, Accuse(1, own))
    assert member.receive(3, Release()) == []
    assert member.receive(3, Release()) == [(1, Confirm(1))]


def test_one_on_trial_answers_others_when_its_fate_is_known() -> None:
    member = Bench(2)
    member.begin(all_of(1))
    own = (StuckProcess(1, Wait(1, all_of(2))), StuckProcess(2, Wait(1, all_of(1), born=2)))
    member.receive(1, Accuse(1, own))
    assert member.receive(3, Confirm(1)) == []
    assert (3, Denied()) in member.receive(1, Confirmed())


def test_one_acquitted_answers_that_it_still_waits() -> None:
    member = Bench(2)
    member.begin(all_of(1))
    own = (StuckProcess(1, Wait(1, all_of(2))), StuckProcess(2, Wait(1, all_of(1), born=2)))
    member.receive(1, Accuse(1, own))
    member.receive(3, Confirm(1))
    assert (3, Confirmed()) in member.receive(1, Denied())


def test_one_whose_wait_ends_during_its_trial_lets_nobody_wait_for_its_answer() -> None:
    member = Bench(2)
    member.begin(all_of(1))
    own = (StuckProcess(1, Wait(1, all_of(2))), StuckProcess(2, Wait(1, all_of(1), born=2)))
    member.receive(1, Accuse(1, own))
    member.receive(3, Confirm(1))
    assert member.end() == [(3, Denied())]


def test_a_process_that_waits_for_itself_needs_no_witness() -> None:
    alone = Bench(1)
    alone.begin(all_of(1))
    members = (StuckProcess(1, Wait(1, all_of(1), born=1)),)
    out: Outbox[Any] = Outbox(1)
    alone.detector.receive(1, Accuse(1, members), out)
    assert out.events == [Deadlocked(members)]


def test_equal_detectors_have_equal_bytes_in_whatever_order_they_learned() -> None:
    first, second = Bench(1), Bench(1)
    for bench, order in ((first, (2, 3)), (second, (3, 2))):
        bench.begin(all_of(2, 3))
        for other in order:
            bench.receive(other, Confirm(1))
    assert encode(first.detector) == encode(second.detector)
