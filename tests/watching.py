"""Stepping by hand a process that watches others, and mutants that only a crash brings to light."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from coterie.lab.explore import Settles, Together
from coterie.lab.simulate import Crash, Exponential, Network, Restart, Simulation, Uniform
from coterie.process import ElectionUser
from tests.harness import Hand, Mutant, build

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.simulate import Latency
    from coterie.process import Outbox, Process, Seat


class WatchingHand(Hand):
    """Begun already, unless told not to be; keeps whom the process watches."""

    def __init__(self, process: Process[Any], *, incarnation: int = 0) -> None:
        super().__init__(process)
        self.watched: set[int] = set()
        out = self._out()
        out.incarnation = incarnation
        self.seat.start(out)
        self.begun_with = self._carry_out(out)

    def call(self, name: str) -> list[Any]:
        out = self._out()
        self.seat.call(name, out)
        return self._carry_out(out)

    def receive(self, sender: int, message: Any) -> list[Any]:
        out = self._out()
        self.seat.receive(sender, message, out)
        return self._carry_out(out)

    def down(self, peer: int) -> list[Any]:
        self.watched.remove(peer)
        out = self._out()
        self.seat.down(peer, out)
        return self._carry_out(out)

    def _carry_out(self, out: Outbox[Any]) -> list[Any]:
        for peer, wanted in out.watches:
            (self.watched.add if wanted else self.watched.discard)(peer)
        return [*out.sends, *out.events]


@dataclass(frozen=True)
class CrashMutant(Mutant):
    """A broken line that an exploration with so many crashes must notice."""

    entries: int = 0
    crashes: int = 1
    requesters: tuple[int, ...] | None = None


def highest_leads(seats: Sequence[Seat | None]) -> bool:
    """Tell whether all live users follow the highest live process."""
    live = [seat for seat in seats if seat]
    return all(
        isinstance(seat.user, ElectionUser) and seat.user.leader == live[-1].process.me
        for seat in live
    )


def crashes_and_returns(random: Random, size: int) -> list[Crash | Restart]:
    """Draw crashes of all processes, each followed by a return, soon or late, but for some."""
    faults: list[Crash | Restart] = []
    for process in range(1, size + 1):
        time = 0.0
        for _ in range(random.randint(0, 3)):
            time += random.uniform(0, 30)
            faults.append(Crash(process, time))
            if random.random() < 0.2:
                break
            time += random.uniform(0.01, 2) if random.random() < 0.5 else random.uniform(0, 30)
            faults.append(Restart(process, time))
    return sorted(faults, key=lambda fault: fault.time)


LATENCIES: list[Latency] = [Exponential(1.0), Uniform(0.5, 1.5), Uniform(0.1, 5)]


def returns_are_tolerated(name: str) -> Callable[[int], None]:
    """Test that an election is right at rest whatever crashes and returns without memory."""

    @pytest.mark.parametrize("seed", range(300))
    def test(seed: int) -> None:
        random = Random(f"{name}/{seed}")
        size = random.randint(2, 6)
        faults = crashes_and_returns(random, size)
        network = Network(random.choice(LATENCIES), fifo=random.random() < 0.5)
        simulation = Simulation(build(name, size), faults=faults, network=network, seed=seed)
        assert not simulation.run().violations
        last = {fault.process: fault for fault in faults}
        live = [me for me in range(1, size + 1) if not isinstance(last.get(me), Crash)]
        leaders = [getattr(simulation.process(me), "leader", None) for me in live]
        assert leaders == [max(live)] * len(live) if live else True

    return test


HIGHEST_LEADS = Settles("the highest leads", (Together(highest_leads),), "some follow another")
