"""Scripted changes of the voters of the leased lock: what holds, waits and returns meanwhile."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.algorithms.mutex.leased_bench import CHANGER, Bench


def test_a_frame_of_a_voter_that_was_forgotten_means_nothing() -> None:
    bench = Bench([1], lease=10.0)
    bench.program(11)
    bench.acquire(11)
    bench.run(1)
    bench.spare(4)
    bench.begin(bench.goal(1, bench.part([4], lease=10.0)))
    bench.run_until("Settled")
    bench.release(11)
    bench.run(60)
    bench.begin(bench.goal(3, bench.part([4], lease=20.0)))
    bench.run_until("Settled")  # voter 1 is forgotten with this move at the latest
    frames = bench.kit.frames
    late = frames.Nack(frames.SessionName("11.1", 1, "1.1/1"))
    bench.step(11, lambda out: bench.parts[11].receive(1, late, out))
    bench.acquire(11)
    bench.run(1)
    assert bench.holder() == 11


def test_a_program_hears_of_a_configuration_from_a_process_that_it_does_not_know() -> None:
    bench = Bench([1], lease=10.0)
    bench.program(11)
    bench.spare(4)
    bench.begin(bench.goal(1, bench.part([4], lease=10.0)))
    settled = bench.run_until("Settled").configuration
    bench.stop(1)
    news = bench.kit.frames.NewConfiguration(settled)
    bench.step(11, lambda out: bench.parts[11].receive(4, news, out))
    bench.acquire(11)
    bench.run(1)
    assert bench.holder() == 11


def test_a_blank_disk_does_not_take_the_place_of_the_one_that_was_lost() -> None:
    """Its node begins by the file, which is number 0, and hears of a number with another disk."""
    bench = Bench([1, 2, 3], lease=10.0)
    file = bench.kit.configuration.founding(bench.founding.settings)
    bench.disks.pop(3, None)
    bench.start(3, bench.kit.voter.Voter(file, identity="blank"))
    bench.program(11)
    bench.acquire(11)
    bench.run(30)
    assert bench.parts[3].configuration is None
    assert bench.parts[3].ballots == {}
    assert bench.holder() == 11


# What lives through a change

NEW = (4, 5, 6)


def crowd(*waiting: int) -> Bench:
    """Return a bench on which 11 holds the lock and others wait, in this order; 4, 5 and 6 are spare."""
    bench = Bench([1, 2, 3])
    for seat in NEW:
        bench.spare(seat)
    for me in (11, *waiting):
        bench.program(me)
        bench.acquire(me)
        bench.run(0.1)
    assert bench.holder() == 11
    return bench


def serve_all(bench: Bench, count: int) -> list[int]:
    """Let each holder leave after a second; return the order of the next so many."""
    order = []
    for _ in range(count):
        bench.release(bench.holder())
        bench.run(1)
        order.append(bench.holder())
    return order


def test_a_hold_and_three_that_wait_live_through_the_replacement_of_all_voters() -> None:
    bench = crowd(13, 12, 14)
    bench.begin(bench.goal(1, bench.part(NEW)))
    settled = bench.run_until("Settled").configuration
    bench.stop(1, 2, 3)
    bench.run(30)
    assert settled.seats == NEW
    assert bench.holder() == 11
    assert serve_all(bench, 3) == [13, 12, 14]
    assert not bench.events("Lost")


def test_each_voter_is_replaced_in_turn_and_the_order_is_kept() -> None:
    bench = crowd(13, 12)
    seats = [1, 2, 3]
    for place, seat in enumerate(NEW):
        gone, seats[place] = seats[place], seat
        bench.begin(bench.goal(bench.newest().number, bench.part(seats)), 1001 + place)
        bench.run_until("Settled")
        bench.stop(gone)
        bench.run(20)
    assert bench.holder() == 11
    assert serve_all(bench, 2) == [13, 12]
    assert not bench.events("Lost")


@pytest.mark.slow
def test_a_changer_that_stops_anywhere_is_followed_by_one_with_another_plan() -> None:
    """After each of its messages in turn: no hold is lost, and the second comes to its end."""
    budget, stopped = 0, True
    while stopped:
        bench = crowd(12)
        bench.begin(bench.goal(1, bench.part(NEW)), budget=budget)
        bench.run(8)
        stopped = 1001 in bench.down
        second = bench.goal(bench.newest().number, bench.part([1, 2, 4]))
        bench.begin(second, 1002)
        while not (bench.events("Settled", 1002) or bench.events("Conflicted", 1002)):
            bench.run(1)
            assert bench.now < 200
        bench.run(1)
        assert not bench.newest().is_joint
        assert bench.holder() == 11
        assert serve_all(bench, 1) == [12]
        assert not bench.events("Lost")
        budget += 1 if budget < 12 else 7
    assert budget > 30


def test_from_10_to_60_to_5_seconds_with_a_cut_and_a_restart() -> None:
    bench = crowd(12)
    for number, lease in ((1, 60.0), (2, 5.0)):
        part = bench.part([1, 2, 3], lease=lease, heartbeat=lease / 4, hedge=1.0)
        bench.begin(bench.goal(number, part), 1001 + number)
        bench.run_until("Settled")
        bench.stop(number)
        bench.run(1)
        bench.restart(number)
        bench.run(80)  # it abstains for the longest lease of before
        assert bench.holder() == 11
    bench.cut |= {(11, seat) for seat in (1, 2, 3)}
    bench.run(70)  # each step holds that two never have the lock
    assert bench.holder() == 12


def test_a_program_that_was_stopped_over_several_steps_finds_its_hold_lost() -> None:
    bench = crowd(12)
    bench.pause(11)
    for number, seats in ((1, [1, 2, 4]), (3, [2, 4, 5]), (5, [4, 5, 6])):
        bench.begin(bench.goal(number, bench.part(seats)), 1001 + number)
        bench.run_until("Settled")
    bench.stop(1, 2, 3)
    bench.run(5)
    assert bench.holder() == 12
    assert not bench.parts[11].valid("a", bench.now)
    bench.resume(11)
    bench.run(5)
    assert [event.lock for event in bench.events("Lost")] == ["a"]
    news = bench.kit.frames.NewConfiguration(bench.newest())
    bench.step(11, lambda out: bench.parts[11].receive(4, news, out))
    bench.release(11)
    bench.acquire(11)
    bench.run(1)
    assert serve_all(bench, 1) == [11]


def test_removed_voters_that_return_with_their_old_disks_serve_no_program() -> None:
    """A program that knows only the old number gets nothing of 1, 2 and 3, and hears of the new."""
    bench = crowd()
    bench.begin(bench.goal(1, bench.part(NEW)))
    bench.run_until("Settled")
    bench.stop(1, 2, 3)
    bench.run(30)
    for seat in (1, 2, 3):
        bench.restart(seat)
    bench.program(12, bench.founding)
    bench.acquire(12)
    bench.run(60)
    assert bench.holder() == 11
    assert bench.parts[12].configuration.seats == NEW
    assert serve_all(bench, 1) == [12]


def test_a_voter_that_was_removed_and_comes_back_under_another_seat_grants_locks() -> None:
    """It still has the sessions of programs that knew it under the seat of before."""
    bench = crowd()
    bench.begin(bench.goal(1, bench.part([1, 2])))
    bench.run_until("Settled")
    bench.parts[4] = bench.parts[3]
    assert "11.1" in bench.parts[4].sessions
    bench.begin(bench.goal(2, bench.part([1, 2, 4])), 1002)
    bench.run_until("Settled")
    bench.stop(1)
    bench.acquire(11, "b")
    bench.run(5)
    assert bench.holder("b") == bench.holder() == 11


def test_a_voter_of_the_file_that_was_removed_keeps_the_votes_that_it_gave() -> None:
    """It hears first of the number without it, and then of the one before; its votes still count."""
    bench = Bench([1, 2, 3])
    value, frames = bench.kit.configuration, bench.kit.frames
    file = value.founding(bench.founding.settings)
    for seat in (1, 2, 3):
        bench.start(seat, bench.kit.voter.Voter(file, identity=f"disk {seat}"))
    part = file.rule.parts[0]
    formed = value.Configuration(
        value.Rule(1, (part,)), bench.members(part.seats), open=(file.rule,)
    )
    without = value.Configuration(
        value.Rule(2, (bench.part([1, 2]),)), bench.members([1, 2]), open=(formed.rule,)
    )
    bench.program(11, file)
    bench.cut.add((11, 1))
    bench.acquire(11)
    bench.run(1)
    assert bench.holder() == 11
    accept = frames.Accept(frames.Attempt(1, "forming"), formed)
    for seat in (1, 2, 3):
        bench.step(seat, partial(bench.parts[seat].receive, 99, accept))
    news = {number: frames.NewConfiguration(each) for number, each in ((1, formed), (2, without))}
    for seat, number in ((1, 1), (2, 1), (3, 2), (3, 1)):
        bench.step(seat, partial(bench.parts[seat].receive, 99, news[number]))
    bench.program(12, formed)
    bench.cut.add((12, 2))
    bench.acquire(12)
    bench.run(3)  # each step holds that two never have the lock
    assert bench.holder() == 11


# A forced configuration


def forced(bench: Bench, seats: list[int], **settings: Any) -> Any:
    value = bench.kit.configuration
    number = bench.newest().number + value.FORCED_LEAP
    part = bench.part(seats, **settings)
    identity = bench.newest().cluster_identity
    return value.Configuration(
        value.Rule(number, (part,)),
        bench.members(seats),
        floor=1 << 40,
        cluster_identity=identity,
    )


def test_a_voter_that_hears_of_a_forced_configuration_before_the_order_abstains() -> None:
    """A hold rests on 4 to 7, which are given up; a program brings the number to 2 and 3."""
    bench = Bench(range(1, 8))
    bench.program(11)
    bench.program(12)
    bench.cut |= {(11, 1), (11, 2), (11, 3)}
    bench.acquire(11)
    bench.run(1)
    assert bench.holder() == 11
    bench.stop(4, 5, 6, 7)
    given = forced(bench, [1, 2, 3])
    bench.step(1, partial(bench.parts[1].impose, given))
    news = bench.kit.frames.NewConfiguration(given)
    bench.step(12, partial(bench.parts[12].receive, 1, news))
    bench.acquire(12)
    bench.run(3)  # each step holds that two never have the lock
    assert all(bench.parts[seat].abstains() for seat in (1, 2, 3))
    assert bench.holder() == 11
    bench.run(60)
    assert bench.holder() == 12


def test_a_forced_configuration_waits_for_the_longest_lease_that_is_not_known_to_be_over() -> None:
    """A program that was cut off holds by number 1, whose lease is long; its voters are given up.

    Number 1 is closed at voter 3, which has no session of it, and number 2 has a short lease.
    """
    bench = Bench([1, 2, 3], lease=60.0)
    bench.program(11)
    bench.program(12)
    bench.cut.add((11, 3))
    bench.acquire(11)
    bench.run(1)
    assert bench.holder() == 11
    bench.cut |= {(11, 1), (11, 2)}
    bench.begin(bench.goal(1, bench.part([1, 2, 3], lease=5.0)))
    bench.run(20)
    assert bench.parts[3].closed == 1
    bench.stop(1, 2, CHANGER)
    given = forced(bench, [3], lease=5.0)
    bench.step(3, partial(bench.parts[3].impose, given))
    bench.restart(3)
    news = bench.kit.frames.NewConfiguration(given)
    bench.step(12, partial(bench.parts[12].receive, 3, news))
    bench.acquire(12)
    bench.run(70)  # each step holds that two never have the lock
    assert bench.holder() == 12


def test_an_order_that_comes_after_the_forced_configuration_shortens_no_abstention() -> None:
    bench = Bench([1, 2, 3])
    bench.program(11)
    bench.acquire(11)
    bench.run(1)
    given = forced(bench, [1, 2])
    news = bench.kit.frames.NewConfiguration(given)
    bench.step(1, partial(bench.parts[1].receive, 11, news))
    before = bench.parts[1].abstains_until
    bench.run(1)
    bench.step(1, partial(bench.parts[1].impose, given))
    assert bench.parts[1].abstains_until >= before > bench.now


def test_neither_a_spare_nor_a_voter_that_follows_a_decision_abstains() -> None:
    bench = Bench([1, 2, 3])
    bench.begin(bench.goal(1, bench.part([1, 2])))
    bench.run_until("Settled")
    assert not any(bench.parts[seat].abstains() for seat in (1, 2, 3))
    bench.spare(4)
    bench.step(4, partial(bench.parts[4].adopt, forced(bench, [1, 2, 4])))
    assert bench.parts[4].number > 2
    assert not bench.parts[4].abstains()
