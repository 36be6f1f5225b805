"""Measured costs beside those of theory, for any algorithm of the catalogue.

A message to oneself is free, and messages per entry are those of a run divided by its entries.
Delays are measured at a constant latency of one, so that they are in message delays. The saturated
run has latencies that vary around one, since requests that meet by chance are what costs some
algorithms more, and stays that are longer than any latency, so that everyone really waits.

Of an election the messages count, those sent to a dead process included: the highest process has
crashed, and one of the others notices, or all of them do.
"""

from __future__ import annotations

import html
from random import Random
from typing import TYPE_CHECKING

import msgspec

from coterie.catalogue import Costs, ElectionCosts
from coterie.process import ElectionUser
from coterie.scenario.world import Manual
from coterie.simulate import (
    Closed,
    Constant,
    HandOver,
    Latency,
    Network,
    OneAtATime,
    Simulation,
    Uniform,
)
from coterie.simulate.monitors import ViolationError
from coterie.trace import Header, Sent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.catalogue import Algorithm, Cost, Setup
    from coterie.process import ProcessId
    from coterie.simulate import Result, Summary, Workload

ENTRIES_MAX = 1000  # of one run, unless it takes more to let each process enter once
PAIRS_MAX = 200
NOTICERS_MAX = 20  # processes that are tried as the one to notice a crash
UNIT = Constant(1.0)


class Measure(msgspec.Struct, frozen=True):
    """A cost as measured, as theory gives it, and whether the two agree."""

    measured: float
    low: float
    high: float
    theory: float | list[float | None]  # a number, or a range with None for no end
    formula: str
    agrees: bool


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All costs of one mutex with so many processes."""

    algorithm: str
    variant: str
    processes: int
    idle: Measure  # messages per entry, one requester at a time, each another than the last
    again: Measure  # messages per entry when the same process enters again
    saturated: Measure  # messages per entry, everyone always wants in
    client_delay: Measure  # the longest seen
    synchronisation_delay: Measure | None  # the longest seen; None without a second requester
    messages_by_kind: dict[str, int]  # of the saturated run
    waiting_mean: float  # in the saturated run

    @property
    def agrees(self) -> bool:
        """Whether everything measured is what theory says."""
        measures = (self.idle, self.again, self.saturated, self.client_delay)
        handover = self.synchronisation_delay
        return all(measure.agrees for measure in measures) and (not handover or handover.agrees)

    def _repr_html_(self) -> str:
        """List the costs beside theory where a notebook shows it."""
        return _table(
            f"{self.algorithm} ({self.variant}), {self.processes} processes",
            {
                "messages per entry, one at a time": self.idle,
                "messages per entry, the same again": self.again,
                "messages per entry, saturated": self.saturated,
                "client delay": self.client_delay,
                "synchronisation delay": self.synchronisation_delay,
            },
        )


class ElectionComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of one election algorithm with so many processes, the highest having crashed."""

    algorithm: str
    variant: str
    processes: int
    best: Measure  # when one process notices: the fewest, over all that may
    worst: Measure  # ... the most
    together: Measure  # when all processes notice at once

    @property
    def agrees(self) -> bool:
        """Whether everything measured is what theory says."""
        return all(measure.agrees for measure in (self.best, self.worst, self.together))

    def _repr_html_(self) -> str:
        """List the messages beside theory where a notebook shows it."""
        return _table(
            f"{self.algorithm} ({self.variant}), {self.processes} processes",
            {
                "messages, at least": self.best,
                "messages, at most": self.worst,
                "messages, all notice": self.together,
            },
        )


def _table(title: str, measures: dict[str, Measure | None]) -> str:
    rows = [
        f"<tr><td>{name}</td><td>{found.measured:g}</td><td>{html.escape(found.formula)}</td>"
        f"<td>{'yes' if found.agrees else 'no'}</td></tr>"
        for name, found in measures.items()
        if found is not None
    ]
    head = "<tr><th>cost</th><th>measured</th><th>theory</th><th>agrees</th></tr>"
    caption = f"<caption>{html.escape(title)}</caption>"
    return f"<table>{caption}<thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def compare(algorithm: Algorithm, setup: Setup, seed: int = 0) -> Comparison:
    """Measure a mutex."""
    costs = algorithm.costs
    assert isinstance(costs, Costs), f"{algorithm.name} is no mutex"
    requesters = list(algorithm.requesters(setup))
    turns = len(requesters) * (2 if 2 * len(requesters) <= ENTRIES_MAX else 1)
    share = max(1, min(10, ENTRIES_MAX // len(requesters)))
    idle = _run(algorithm, setup, OneAtATime(turns, requesters), seed)
    twice = _run(algorithm, setup, OneAtATime(turns, requesters, repeat=2), seed)
    saturated = _run(algorithm, setup, Closed(share, requesters, hold=2.0), seed, Uniform(0.5, 1.5))
    return Comparison(
        algorithm=algorithm.name,
        variant=setup.variant,
        processes=setup.size,
        idle=_measure(idle.messages_per_entry, costs.idle(setup)),
        again=_measure(twice.messages_per_entry_again, costs.again(setup)),
        saturated=_measure(saturated.messages_per_entry, costs.saturated(setup)),
        client_delay=_longest(idle.client_delay, costs.client_delay(setup)),
        synchronisation_delay=_handover(algorithm, setup, requesters, seed, costs),
        messages_by_kind=saturated.messages_by_kind,
        waiting_mean=saturated.waiting.mean if saturated.waiting else 0.0,
    )


def _handover(
    algorithm: Algorithm, setup: Setup, requesters: Sequence[ProcessId], seed: int, costs: Costs
) -> Measure | None:
    if len(requesters) < 2:
        return None
    result = _run(algorithm, setup, HandOver(_pairs(requesters)), seed)
    return _longest(result.synchronisation_delay, costs.synchronisation_delay(setup))


def _pairs(requesters: Sequence[ProcessId]) -> list[tuple[ProcessId, ProcessId]]:
    """Choose leavers and waiters: all pairs if they are few, else a sample that never changes."""
    count = len(requesters)
    if count * (count - 1) <= PAIRS_MAX:
        return [(a, b) for a in requesters for b in requesters if a != b]
    random = Random(count)
    return [(a, b) for a, b in (random.sample(requesters, 2) for _ in range(PAIRS_MAX))]


def _run(
    algorithm: Algorithm,
    setup: Setup,
    workload: Workload,
    seed: int,
    latency: Latency = UNIT,
) -> Result:
    network = Network(latency)
    result = Simulation(algorithm.build(setup), workload=workload, network=network, seed=seed).run()
    for violation in result.violations:
        raise ViolationError(violation.name, f"{_title(algorithm, setup)}: {violation.text}")
    if result.unserved:
        raise ViolationError(
            "stuck",
            f"{_title(algorithm, setup)}: {result.unserved} requests were never served in"
            f" {result.events:,} events",
        )
    return result


def _title(algorithm: Algorithm, setup: Setup) -> str:
    return f"{algorithm.name}, N = {setup.size}, has no costs, since it does not work"


def compare_election(algorithm: Algorithm, setup: Setup) -> ElectionComparison:
    """Measure an election; it has nothing that a seed could decide."""
    costs = algorithm.costs
    assert isinstance(costs, ElectionCosts), f"{algorithm.name} is no election"
    live = range(1, setup.size)
    step = max(1, len(live) // NOTICERS_MAX)
    noticers = sorted({*live[::step], *live[-1:]})
    alone = [election_messages(algorithm, setup, [noticer]) for noticer in noticers] or [0]
    return ElectionComparison(
        algorithm=algorithm.name,
        variant=setup.variant,
        processes=setup.size,
        best=_measure(min(alone), costs.best(setup)),
        worst=_measure(max(alone), costs.worst(setup)),
        together=_measure(election_messages(algorithm, setup, live), costs.together(setup)),
    )


def election_messages(algorithm: Algorithm, setup: Setup, noticers: Iterable[ProcessId]) -> int:
    """Count the messages of an election that these processes begin.

    All messages arrive before the detector says anything more, and then only to those that take
    part: the others have not noticed that the leader is missing.
    """
    world = Manual(Header(algorithm=algorithm.name, size=setup.size, variant=setup.variant))
    for process in world.seats:
        world.start(0.0, process)
    world.crash(0.0, setup.size)
    due = list(noticers)
    while due:
        for process in due:
            world.down(0.0, process, setup.size)
        _deliver_everything(world)
        part = {record.sender for record in world.records if isinstance(record, Sent)}
        due = [process for process in sorted(part) if setup.size in world.watched[process]]
    users = [world.seats[process].user for process in range(1, setup.size)]
    if not all(isinstance(user, ElectionUser) and user.leader == len(users) for user in users):
        raise ViolationError(
            "agreement",
            f"{_title(algorithm, setup)}: not all live processes follow {len(users)}, the highest",
        )
    return sum(isinstance(record, Sent) for record in world.records)


def _deliver_everything(world: Manual) -> None:
    while world.transit:
        letter = world.transit[0]
        if letter.receiver in world.crashed:
            world.drop(0.0, letter, "receiver down")
        else:
            world.deliver(0.0, letter)


def _measure(measured: float | None, cost: Cost) -> Measure:
    assert measured is not None, "the run made no such entry"
    return _against(measured, measured, measured, cost)


def _longest(delays: Summary | None, cost: Cost) -> Measure:
    assert delays is not None, "the run saw no such delay"
    return _against(delays.max, delays.min, delays.max, cost)


def _against(measured: float, low: float, high: float, cost: Cost) -> Measure:
    agrees = cost.allows(low) and cost.allows(high)
    return Measure(measured, low, high, cost.value(), cost.formula, agrees)
