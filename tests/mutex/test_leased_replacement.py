"""Scripted changes of the voters of the leased lock: what holds, waits and returns meanwhile."""

from __future__ import annotations

from tests.mutex.leased_bench import Bench


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


def test_a_program_with_a_lease_of_its_own_counts_no_longer_than_it_has_told() -> None:
    """Its voters know 5 s of it, the lease of all when the session began; later all have 60 s."""
    bench = Bench([1], lease=5.0, heartbeat=1.0, hedge=1.0)
    bench.program(11, lease=8.0)
    bench.program(12)
    bench.acquire(11)
    bench.run(1)
    bench.begin(bench.goal(1, bench.part([1], lease=60.0, heartbeat=1.0)))
    bench.run_until("Settled")
    bench.run(5)
    assert bench.holder() == 11
    bench.acquire(12)
    bench.run(1)
    bench.cut.add((11, 1))
    bench.run(30)  # the bench raises if both have the lock at one time
    assert bench.holder() == 12


def test_a_blank_disk_does_not_take_the_place_of_the_one_that_was_lost() -> None:
    """Its node begins by the file, which is number 0, and hears of a number with another disk."""
    bench = Bench([1, 2, 3], lease=10.0)
    file = bench.kit.configuration.founding(bench.founding.settings)
    bench.disks.pop(3, None)
    bench.start(3, bench.kit.voter.Voter(file, identity="blank"))
    bench.program(11)
    bench.acquire(11)
    bench.run(30)
    assert bench.parts[3].configuration is None, "it is a spare"
    assert bench.parts[3].ballots == {}
    assert bench.holder() == 11
