"""Lamport's physical clocks in the simulator, against his bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.clocks.synchronisation import (
    PhysicalClock,
    Reading,
    synchronisation_bound,
    synchronised_clocks,
)
from coterie.errors import UsageError
from coterie.lab.simulate import Drift, Network, Simulation, Uniform, Workload, World
from coterie.process import Outbox, encode
from tests.harness import Mutant, broken

if TYPE_CHECKING:
    from collections.abc import Sequence

GUIDE = Path(__file__).parent.parent.parent / "docs" / "clocks.md"
DRIFT = 1e-3  # κ
PERIOD = 10.0  # τ
LEAST_DELAY = 0.02  # μ
UNCERTAINTY = 0.01  # ξ

GRAPHS = {
    "line of 5": ({1: [2], 2: [1, 3], 3: [2, 4], 4: [3, 5], 5: [4]}, 4),
    "ring of 6": ({one: [(one - 2) % 6 + 1, one % 6 + 1] for one in range(1, 7)}, 3),
    "complete graph of 5": (
        {one: [other for other in range(1, 6) if other != one] for one in range(1, 6)},
        1,
    ),
}
RATES = (1 + DRIFT, 1, 1 - DRIFT, 1 - DRIFT, 1 - DRIFT, 1)  # the fast one is at the end of the line
OFFSETS = (0.0, 0.3, 0.1, 0.5, 0.2, 0.4)  # nothing is known of the clocks at the start


@dataclass(frozen=True)
class Watch(Workload):
    """Reads all clocks at short intervals, once they have had time to come together."""

    clocks: Sequence[PhysicalClock] = ()
    after: float = 0.0
    interval: float = 0.1
    until: float = 0.0
    errors: list[float] = field(default_factory=list)
    readings: list[list[float]] = field(default_factory=list)

    def start(self, world: World) -> None:
        self._look(world, 0.0)

    def _look(self, world: World, now: float) -> None:
        shown = [
            clock.read(rate * now + offset)
            for clock, rate, offset in zip(self.clocks, RATES, OFFSETS, strict=False)
        ]
        self.readings.append(shown)
        if now >= self.after:
            self.errors.append(max(shown) - min(shown))
        if now < self.until:
            world.after(self.interval, partial(self._look, world, now + self.interval))


def watch(clocks: Sequence[PhysicalClock], diameter: int, seed: int = 0) -> Watch:
    """Run the clocks for a while and give what was seen."""
    seen = Watch(clocks=clocks, after=(diameter + 1) * PERIOD, until=400.0)
    result = Simulation(
        clocks,
        workload=seen,
        network=Network(latency=Uniform(LEAST_DELAY, LEAST_DELAY + UNCERTAINTY)),
        faults=[
            Drift(clock.me, rate, offset)
            for clock, rate, offset in zip(clocks, RATES, OFFSETS, strict=False)
        ],
        seed=seed,
        until=400.0,
    ).run()
    assert result.violations == []
    return seen


def bound(diameter: int) -> float:
    return synchronisation_bound(
        diameter=diameter, drift=DRIFT, period=PERIOD, uncertainty=UNCERTAINTY
    )


def largest_error(name: str, seed: int) -> float:
    graph, diameter = GRAPHS[name]
    clocks = synchronised_clocks(graph, period=PERIOD, least_delay=LEAST_DELAY)
    return max(watch(clocks, diameter, seed).errors)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_error_stays_within_the_bound(name: str, seed: int) -> None:
    """The bound is of first order, hence a margin of 1 %; it is not idle either."""
    _, diameter = GRAPHS[name]
    assert bound(diameter) / 3 < largest_error(name, seed) < 1.01 * bound(diameter)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_guide_shows_the_errors_measured_here(name: str) -> None:
    _, diameter = GRAPHS[name]
    error = max(largest_error(name, seed) for seed in (0, 1, 2))
    row = f"| {name} | {diameter} | {error:.4f} | {bound(diameter):g} |"
    assert row in GUIDE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", GRAPHS)
def test_without_synchronisation_the_error_exceeds_the_bound(name: str) -> None:
    graph, diameter = GRAPHS[name]
    mutant = Mutant("message.time + self.least_delay - out.now", "self.ahead")
    module = broken("coterie.clocks.synchronisation", mutant)
    clocks = module.synchronised_clocks(graph, period=PERIOD, least_delay=LEAST_DELAY)
    assert max(watch(clocks, diameter).errors) > 2 * bound(diameter)


class Bare(PhysicalClock):
    """A clock that notes by how much receiving is later than sending, and does nothing about it."""

    margins: list[float] = []

    def receive(self, sender: int, message: Reading, out: Outbox[Reading]) -> None:
        self.margins.append(self.read(out.now) - message.time)


class Witness(Bare):
    """A clock that catches up, and notes the same afterwards."""

    def receive(self, sender: int, message: Reading, out: Outbox[Reading]) -> None:
        PhysicalClock.receive(self, sender, message, out)
        super().receive(sender, message, out)


def margins(kind: type[Bare], name: str) -> list[float]:
    graph, diameter = GRAPHS[name]
    clocks = [kind(me, tuple(peers), PERIOD, LEAST_DELAY) for me, peers in graph.items()]
    watch(clocks, diameter)
    return [margin for clock in clocks for margin in clock.margins]


@pytest.mark.parametrize("name", GRAPHS)
def test_events_ordered_by_a_message_are_never_misordered(name: str) -> None:
    """Receiving shows a later time than sending, by the least delay, from the first message on."""
    found = margins(Witness, name)
    assert len(found) > 100
    assert min(found) >= LEAST_DELAY - 1e-9


@pytest.mark.parametrize("name", GRAPHS)
def test_bare_hardware_clocks_do_misorder_messages(name: str) -> None:
    assert min(margins(Bare, name)) < 0


def never_back(seen: Watch) -> bool:
    return all(
        later > earlier
        for before, after in zip(seen.readings, seen.readings[1:], strict=False)
        for earlier, later in zip(before, after, strict=True)
    )


def test_no_clock_is_ever_set_back() -> None:
    graph, diameter = GRAPHS["line of 5"]
    clocks = synchronised_clocks(graph, period=PERIOD, least_delay=LEAST_DELAY)
    assert never_back(watch(clocks, diameter))


def test_a_clock_that_follows_every_message_is_set_back() -> None:
    """The mutant that the test above is for."""
    graph, diameter = GRAPHS["line of 5"]
    mutant = Mutant(
        "max(self.ahead, message.time + self.least_delay - out.now)",
        "message.time + self.least_delay - out.now",
    )
    module = broken("coterie.clocks.synchronisation", mutant)
    clocks = module.synchronised_clocks(graph, period=PERIOD, least_delay=LEAST_DELAY)
    assert not never_back(watch(clocks, diameter))


def test_a_clock_behind_the_sender_is_moved_past_it_and_one_ahead_stays() -> None:
    clock = PhysicalClock(1, (2,), PERIOD, least_delay=2.0)
    clock.receive(2, Reading(100.0), Outbox(1, now=90.0))
    assert clock.read(90.0) == 102.0
    clock.receive(2, Reading(50.0), Outbox(1, now=91.0))
    assert clock.read(91.0) == 103.0


def test_a_clock_tells_its_time_at_the_start_and_after_every_period() -> None:
    clock = PhysicalClock(1, (2, 3), PERIOD, LEAST_DELAY, ahead=1.0)
    out: Outbox[Reading] = Outbox(1, now=5.0)
    clock.start(out)
    assert out.sends == [(2, Reading(6.0)), (3, Reading(6.0))]
    assert out.timers == [("period", PERIOD)]
    again: Outbox[Reading] = Outbox(1, now=15.0)
    clock.ring("period", again)
    assert again.sends == [(2, Reading(16.0)), (3, Reading(16.0))]
    assert again.timers == [("period", PERIOD)]


def test_a_clock_is_a_value() -> None:
    one, other = (PhysicalClock(1, (2,), PERIOD, LEAST_DELAY) for _ in range(2))
    assert encode(one) == encode(other)


def test_the_worked_example_of_the_survey() -> None:
    """Diameter 3, a millionth of drift, a message a minute, 10 ms of uncertainty."""
    found = synchronisation_bound(diameter=3, drift=1e-6, period=60, uncertainty=0.01)
    assert found == pytest.approx(0.03036)


def test_a_bound_of_negative_quantities_makes_no_sense() -> None:
    with pytest.raises(UsageError, match="0 or more"):
        synchronisation_bound(diameter=3, drift=-1, period=60, uncertainty=0.01)


@pytest.mark.parametrize(("period", "least_delay"), [(0, 1), (-1, 1), (1, -1)])
def test_a_clock_needs_a_period(period: float, least_delay: float) -> None:
    with pytest.raises(UsageError, match="the period must be above 0"):
        synchronised_clocks({1: []}, period=period, least_delay=least_delay)
