"""How distributed a control is: the five properties that the survey of 1987 asks for, measured.

Equal data: the encoded state of each process, over moments of a run in which all always want in. One
rule: the kinds of messages that each process has to handle; a coordinator handles others than its
clients. Equal load: what each sends and receives in that run. Equal cost: the messages of an entry of
each process, one at a time. No failure stops all: each process crashes, at rest and inside, and all
others ask for entry afterwards.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.lab.simulate.faults import Crash
from coterie.lab.simulate.monitors import ViolationError
from coterie.lab.simulate.network import Network, Uniform
from coterie.lab.simulate.simulation import Simulation
from coterie.lab.simulate.workload import Closed, OneAtATime, Workload
from coterie.process import ProcessId, encode
from coterie.trace import Called, Delivered, Header, Sent, Told, Trace

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from coterie.catalogue import Algorithm, Setup
    from coterie.lab.simulate.metrics import Result
    from coterie.lab.simulate.workload import World
    from coterie.process import Process

ENTRIES = 10  # of each process, in the run in which all always want in
MOMENTS = 20  # of that run, at which states are weighed
AROUND_UNIT = Uniform(0.5, 1.5)
EQUAL = 1.2  # the most over the least of what counts as equal, since those latencies are random
AT_REST = 10.5  # when a process crashes at rest
STAY = 5.0  # of the one that is inside alone, unless it crashes a time unit after it has entered
OTHERS_ASK = 100.0  # long after that
TIME_MAX = 10_000.0  # of a run in which some may try forever


class Spread(msgspec.Struct, frozen=True):
    """The least and the most of what is counted for each process."""

    least: float
    most: float

    @property
    def is_equal(self) -> bool:
        """Whether the most is hardly above the least."""
        return self.most <= EQUAL * self.least


class Distribution(msgspec.Struct, frozen=True):
    """The five properties of one algorithm."""

    algorithm: str
    variant: str
    processes: int
    data: Spread  # bytes of state, on average over a run
    rules: int  # how many parts there are to play
    load: Spread  # messages sent and received in a run
    cost: Spread  # messages of an entry
    fatal_at_rest: tuple[ProcessId, ...]  # those whose crash lets no other in any more
    fatal_inside: tuple[ProcessId, ...]  # likewise, if they crash inside

    def kept(self) -> tuple[bool, ...]:
        """Return which of the five properties it has, in the order of the survey."""
        return (
            self.data.is_equal,
            self.rules == 1,
            self.load.is_equal,
            self.cost.is_equal,
            not self.fatal_at_rest and not self.fatal_inside,
        )


def distribution(algorithm: Algorithm, setup: Setup) -> Distribution:
    """Measure how evenly a mutex is distributed over its processes."""
    runs = _Runs(algorithm, setup)
    heard, costs = runs.one_at_a_time()
    return Distribution(
        algorithm=algorithm.name,
        variant=setup.variant,
        processes=setup.size,
        data=runs.data(),
        rules=len({frozenset(heard[process]) for process in runs.everyone}),
        load=runs.load(),
        cost=_spread([costs[process] for process in runs.everyone]),
        fatal_at_rest=tuple(filter(runs.is_fatal_at_rest, runs.everyone)),
        fatal_inside=tuple(filter(runs.is_fatal_inside, runs.everyone)),
    )


def _spread(values: Collection[float]) -> Spread:
    return Spread(min(values), max(values))


@dataclass(frozen=True)
class _OthersLater(Workload):
    """One may enter first; long after that each of the others asks once."""

    first: ProcessId | None
    others: Sequence[ProcessId]
    hold: float = field(default=STAY, kw_only=True)

    def start(self, world: World) -> None:
        if self.first is not None:
            world.ask(self.first)
        world.after(OTHERS_ASK, partial(self._ask, world))

    def _ask(self, world: World) -> None:
        for process in self.others:
            world.ask(process)


class _Runs:
    """The runs of an algorithm, each with fresh processes."""

    def __init__(self, algorithm: Algorithm, setup: Setup) -> None:
        self._algorithm, self._setup = algorithm, setup
        self._header = Header(algorithm=algorithm.name, size=setup.size)
        self.everyone = range(1, setup.size + 1)

    def _build(self) -> Sequence[Process[Any]]:
        return self._algorithm.build(self._setup)

    def data(self) -> Spread:
        """Weigh the state of each process: one seed leads through the same moments again."""
        end = self._whole(self._saturated(self._build())).time
        weights: Counter[ProcessId] = Counter()
        for moment in range(1, MOMENTS + 1):
            simulation = self._saturated(self._build(), until=end * moment / MOMENTS)
            simulation.run()
            weights.update({me: len(encode(simulation.process(me))) for me in self.everyone})
        return _spread([weight / MOMENTS for weight in weights.values()])

    def load(self) -> Spread:
        """Count what each sends and receives where all always want in."""
        counted = Counter(dict.fromkeys(self.everyone, 0))
        saturated = self._whole(self._saturated(self._build(), header=self._header))
        for record in _trace(saturated).records:
            if isinstance(record, Sent):
                counted[record.sender] += 1
            elif isinstance(record, Delivered):
                counted[record.receiver] += 1
        return _spread(counted.values())

    def _saturated(
        self,
        processes: Sequence[Process[Any]],
        *,
        until: float | None = None,
        header: Header | None = None,
    ) -> Simulation:
        workload, network = Closed(ENTRIES), Network(AROUND_UNIT)
        return Simulation(processes, workload=workload, network=network, until=until, header=header)

    def one_at_a_time(self) -> tuple[dict[ProcessId, set[str]], Counter[ProcessId]]:
        """Return the kinds of messages sent to each, and what the second entry of each costs."""
        workload = OneAtATime(2 * self._setup.size)
        result = self._whole(Simulation(self._build(), workload=workload, header=self._header))
        heard: defaultdict[ProcessId, set[str]] = defaultdict(set)
        costs: Counter[ProcessId] = Counter()
        asked: list[ProcessId] = []
        for record in _trace(result).records:
            if isinstance(record, Called) and record.call == "acquire":
                asked.append(record.process)
            elif isinstance(record, Sent):
                heard[record.receiver].add(record.label.partition("(")[0])
                if len(asked) > self._setup.size:
                    costs[asked[-1]] += 1
        return heard, costs

    def is_fatal_at_rest(self, process: ProcessId) -> bool:
        """Return whether no other gets in after a crash of a process that wants nothing."""
        return not self._served(process, None, AT_REST)

    def is_fatal_inside(self, process: ProcessId) -> bool:
        """Return whether no other gets in after a crash of the process that is inside."""
        undisturbed = Simulation(
            self._build(),
            workload=_OthersLater(process, ()),
            header=self._header,
            max_time=TIME_MAX,
        )
        records = _trace(self._whole(undisturbed)).records
        entered = next(each.time for each in records if isinstance(each, Told))
        return not self._served(process, process, entered + 1)

    def _whole(self, simulation: Simulation) -> Result:
        """Run without a fault; raise `ViolationError` if it does not come to its end."""
        result = simulation.run()
        for violation in result.violations:
            why = f"{self._algorithm.name}, N = {self._setup.size}, does not work"
            raise ViolationError(violation.name, f"{why}: {violation.text}")
        return result

    def _served(self, crashing: ProcessId, first: ProcessId | None, moment: float) -> int:
        """Return how many of the others enter."""
        others = [process for process in self.everyone if process != crashing]
        simulation = Simulation(
            self._build(),
            workload=_OthersLater(first, others),
            faults=[Crash(crashing, moment)],
            max_time=TIME_MAX,
        )
        simulation.run()
        return sum(simulation.entries(process) > 0 for process in others)


def _trace(result: Result) -> Trace:
    assert result.trace is not None
    return result.trace
