"""Centralised and hierarchical detection: their rules, and random systems."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of
from coterie.algorithms.deadlock.detectors.central import Change, Coordinator, Reporting
from coterie.algorithms.deadlock.detectors.hierarchical import Controller, undecided_waits
from coterie.algorithms.deadlock.detectors.trial import Accuse, Settled
from coterie.algorithms.deadlock.detectors.waits import Wait
from coterie.errors import ProtocolError
from coterie.process import Outbox, Process
from tests.algorithms.deadlock.systems import MODELS, build, left_waiting, random_scripts, run


def feed(process: Process[Any], sender: int, message: Any) -> list[tuple[int, Any]]:
    out: Outbox[Any] = Outbox(process.me)
    process.receive(sender, message, out)
    return out.sends


def wait(me: int, condition: Condition[int], number: int = 1) -> Wait:
    return Wait(number, condition, born=me)


def test_a_wait_is_reported_when_it_begins_and_when_it_ends() -> None:
    reporting = Reporting(1, coordinator=9)
    out: Outbox[Any] = Outbox(1)
    begun = reporting.begin(all_of(2), out)
    reporting.end(out)
    assert out.sends == [(9, Change(1, 1, begun)), (9, Change(1, 2, None))]


def test_the_change_that_closes_a_cycle_brings_the_accusation() -> None:
    coordinator = Coordinator(9)
    assert feed(coordinator, 1, Change(1, 1, wait(1, all_of(2)))) == []
    ((to, accusation),) = feed(coordinator, 2, Change(2, 1, wait(2, all_of(1))))
    assert to == 2
    assert isinstance(accusation, Accuse)


def test_a_change_that_was_overtaken_is_ignored() -> None:
    coordinator = Coordinator(9)
    feed(coordinator, 1, Change(1, 2, None))
    feed(coordinator, 1, Change(1, 1, wait(1, all_of(2))))
    assert feed(coordinator, 2, Change(2, 1, wait(2, all_of(1)))) == []


def test_a_victim_is_accused_once_until_its_trial_is_over() -> None:
    coordinator = Coordinator(9)
    feed(coordinator, 1, Change(1, 1, wait(1, all_of(2))))
    feed(coordinator, 2, Change(2, 1, wait(2, all_of(1))))
    assert feed(coordinator, 3, Change(3, 1, wait(3, all_of(1)))) == []
    assert [to for to, _ in feed(coordinator, 2, Settled(1, over=False))] == [2]


def test_a_wait_that_its_victim_says_is_over_counts_no_more() -> None:
    coordinator = Coordinator(9)
    feed(coordinator, 1, Change(1, 1, wait(1, all_of(2))))
    feed(coordinator, 2, Change(2, 1, wait(2, all_of(1))))
    assert feed(coordinator, 2, Settled(1, over=True)) == []
    assert feed(coordinator, 3, Change(3, 1, wait(3, all_of(1)))) == []


def test_nobody_puts_a_coordinator_on_trial() -> None:
    with pytest.raises(ProtocolError):
        feed(Coordinator(9), 1, Accuse(1, ()))


def test_a_controller_passes_on_only_what_hangs_on_others() -> None:
    below = frozenset({1, 2, 3})
    assert undecided_waits({1: wait(1, all_of(2))}, below) == {}
    assert undecided_waits({1: wait(1, any_of(2, 7))}, below) == {}
    assert list(undecided_waits({1: wait(1, all_of(2, 7))}, below)) == [1]
    deadlocked = {1: wait(1, all_of(2)), 2: wait(2, all_of(1, 7))}
    assert undecided_waits(deadlocked, below) == {}
    chain = {1: wait(1, all_of(2)), 2: wait(2, all_of(7)), 3: wait(3, any_of(1, 2))}
    assert list(undecided_waits(chain, below)) == [1, 2, 3]


def test_a_deadlock_below_one_controller_stays_there() -> None:
    controller = Controller(8, below=frozenset({1, 2}), parent=9)
    assert feed(controller, 1, Change(1, 1, wait(1, all_of(2)))) == []
    sends = feed(controller, 2, Change(2, 1, wait(2, all_of(1))))
    assert [to for to, _ in sends] == [2]


def test_a_deadlock_across_two_controllers_is_found_by_their_parent() -> None:
    root = Controller(9, below=frozenset({1, 2}))
    left = Controller(7, below=frozenset({1}), parent=9)
    right = Controller(8, below=frozenset({2}), parent=9)
    ((to, first),) = feed(left, 1, Change(1, 1, wait(1, all_of(2))))
    assert to == 9
    ((_, second),) = feed(right, 2, Change(2, 1, wait(2, all_of(1))))
    assert feed(root, 7, first) == []
    assert [to for to, _ in feed(root, 8, second)] == [2]


def test_the_parent_hears_when_something_is_decided_after_all() -> None:
    left = Controller(7, below=frozenset({1}), parent=9)
    feed(left, 1, Change(1, 1, wait(1, all_of(2))))
    assert feed(left, 1, Change(1, 2, None)) == [(9, Change(1, 2, None))]


@pytest.mark.slow
@pytest.mark.parametrize("detector", ["central", "hierarchical"])
@pytest.mark.parametrize("part", range(4))
def test_random_systems_end_with_nobody_waiting_and_no_false_victim(
    detector: str, part: int
) -> None:
    victims = 0
    for seed in range(part * 100, (part + 1) * 100):
        random = Random(seed)
        size = random.choice((2, 3, 4, 5, 8, 12, 20, 50))
        processes = build(detector, random_scripts(MODELS[seed % len(MODELS)], size, random))
        result, referee = run(processes, seed)
        assert not result.violations, f"seed {seed}: {result.violations}"
        assert not left_waiting(processes), f"seed {seed}: an undetected deadlock"
        victims += len(referee.victims)
    assert victims > 50, "too peaceful to prove anything"
