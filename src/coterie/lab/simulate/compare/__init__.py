"""Measured costs beside those of theory, for any algorithm of the catalogue.

A message to oneself is free, and messages per entry are those of a run divided by its entries.
`coterie.lab.simulate.compare.sample` describes the runs. Over several seeds the messages per entry are a mean with
its confidence interval, and the delays the longest seen, since theory bounds them.

Under other conditions than the formulas assume, all costs are means with intervals; the formulas stand
beside them, and nothing is said about agreement.

Of an election the messages count, those sent to a dead process included: the highest process has
crashed, and one of the others notices, or all of them do.
"""

from __future__ import annotations

import html
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.catalogue import Cost, ElectionCosts
from coterie.errors import ConfigError
from coterie.lab.scenario.world import Manual
from coterie.lab.simulate.compare.sample import (
    AS_ASSUMED,
    costs_of,
    draw_sample,
    draws_requesters,
    no_costs,
    run_workload,
    take_sample,
)
from coterie.lab.simulate.interval import Interval, interval_of
from coterie.lab.simulate.monitors import ViolationError
from coterie.process import ElectionUser
from coterie.trace import Header, Sent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.catalogue import Algorithm, Costs, Setup
    from coterie.lab.simulate.compare.sample import Conditions, Sample
    from coterie.lab.simulate.metrics import Result, Summary
    from coterie.process import ProcessId

NOTICERS_MAX = 20  # processes that are tried as the one to notice a crash
SEEDS_OF_A_MEAN = 20  # at least: one run cannot say how far it is from the mean of theory
# A mean of theory may lie outside of one interval in twenty, and of a hundred measurements five would
# "disagree". So agreement is judged by a wider interval than the one that is shown.
JUDGED = 0.999


class Measure(msgspec.Struct, frozen=True):
    """A cost as measured, as theory gives it, and whether the two agree."""

    measured: float
    low: float
    high: float
    theory: float | list[float | None]  # a number, or a range with None for no end
    formula: str
    agrees: bool
    judged: bool = True  # False: theory does not speak of these conditions
    half_width: float | None = None  # of the confidence interval of a mean over several seeds

    def to_dict(self) -> dict[str, Any]:
        """Return flat numbers and text, with the ends of theory apart."""
        ends = self.theory if isinstance(self.theory, list) else [self.theory, self.theory]
        return {
            "measured": self.measured,
            "half_width": self.half_width,
            "least": self.low,
            "most": self.high,
            "theory_low": ends[0],
            "theory_high": ends[1],
            "formula": self.formula,
            "agrees": self.agrees if self.judged else None,
        }


class BesideTheory(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of one algorithm with so many processes, beside the formulas."""

    algorithm: str
    variant: str
    processes: int

    @property
    @abstractmethod
    def costs(self) -> dict[str, Measure | None]:
        """All measures by name."""

    @property
    def extent(self) -> dict[str, Any]:
        """How many seeds were measured, and under which workload if one was chosen."""
        return {"seeds": 1, "workload": None}

    @property
    def judged(self) -> bool:
        """Whether theory speaks of the conditions that something was measured under."""
        return any(cost.judged for cost in self.costs.values() if cost)

    @property
    def agrees(self) -> bool:
        """Whether everything measured and judged is what theory says."""
        return all(cost.agrees for cost in self.costs.values() if cost and cost.judged)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one flat row per cost, as a data frame takes them."""
        about = {
            "algorithm": self.algorithm,
            "variant": self.variant,
            "processes": self.processes,
            **self.extent,
        }
        return [
            {**about, "cost": name, **cost.to_dict()}
            for name, cost in self.costs.items()
            if cost is not None
        ]


class Comparison(BesideTheory, frozen=True, kw_only=True):
    """All costs of one mutex with so many processes."""

    seeds: int
    idle: Measure  # messages per entry, one requester at a time, each another than the last
    again: Measure  # messages per entry when the same process enters again
    saturated: Measure  # messages per entry, everyone always wants in
    client_delay: Measure  # the longest seen; a mean under other conditions than theory assumes
    synchronisation_delay: Measure | None  # likewise; None without a second requester
    messages_by_kind: dict[str, int]  # of the saturated run of the first seed
    waiting_mean: float  # in the saturated run

    @property
    def extent(self) -> dict[str, Any]:
        """How many seeds were measured."""
        return {"seeds": self.seeds, "workload": None}

    @property
    def costs(self) -> dict[str, Measure | None]:
        """All measures by name."""
        return {
            "messages_idle": self.idle,
            "messages_again": self.again,
            "messages_saturated": self.saturated,
            "client_delay": self.client_delay,
            "synchronisation_delay": self.synchronisation_delay,
        }

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


class LoadComparison(BesideTheory, frozen=True, kw_only=True):
    """What one mutex costs under a workload, in means over seeds, beside the formulas."""

    seeds: int
    workload: str
    messages: Measure  # per entry
    client_delay: Measure | None  # None if no request was made while the section was free
    synchronisation_delay: Measure | None  # None if no request was waiting when a process left
    waiting: Interval | None  # request to entry
    waiting_p99: Interval | None
    jain: Interval | None  # fairness: 1 if all entered equally often
    load_max: Interval | None  # messages sent and received by the busiest process

    @property
    def extent(self) -> dict[str, Any]:
        """How many seeds were measured, and under which workload."""
        return {"seeds": self.seeds, "workload": self.workload}

    @property
    def costs(self) -> dict[str, Measure | None]:
        """All measures by name."""
        return {
            "messages": self.messages,
            "client_delay": self.client_delay,
            "synchronisation_delay": self.synchronisation_delay,
        }

    def _repr_html_(self) -> str:
        """List the costs beside theory where a notebook shows it."""
        return _table(
            f"{self.algorithm} ({self.variant}), {self.processes} processes, {self.workload}",
            {
                "messages per entry": self.messages,
                "client delay": self.client_delay,
                "synchronisation delay": self.synchronisation_delay,
            },
        )


class ElectionComparison(BesideTheory, frozen=True, kw_only=True):
    """The messages of one election algorithm with so many processes, the highest having crashed."""

    best: Measure  # when one process notices: the fewest, over all that may
    worst: Measure  # ... the most
    together: Measure  # when all processes notice at once

    @property
    def costs(self) -> dict[str, Measure | None]:
        """All measures by name."""
        return {
            "messages_best": self.best,
            "messages_worst": self.worst,
            "messages_together": self.together,
        }

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
        f"<tr><td>{name}</td><td>{_shown(found)}</td><td>{html.escape(found.formula)}</td>"
        f"<td>{('yes' if found.agrees else 'no') if found.judged else '-'}</td></tr>"
        for name, found in measures.items()
        if found is not None
    ]
    head = "<tr><th>cost</th><th>measured</th><th>theory</th><th>agrees</th></tr>"
    caption = f"<caption>{html.escape(title)}</caption>"
    return f"<table>{caption}<thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _shown(measure: Measure) -> str:
    spread = "" if measure.half_width is None else f" ± {measure.half_width:.2g}"
    return f"{measure.measured:g}{spread}"


def compare(
    algorithm: Algorithm,
    setup: Setup,
    seed: int = 0,
    *,
    seeds: int = 1,
    conditions: Conditions = AS_ASSUMED,
) -> Comparison:
    """Measure a mutex over this many seeds, from `seed` on.

    Where theory has a mean over random requesters, these are measured over at least twenty.
    """
    samples = [
        take_sample(algorithm, setup, conditions, each) for each in range(seed, seed + seeds)
    ]
    samples += [
        draw_sample(algorithm, setup, conditions, seed + each)
        for each in range(seeds, seeds_needed(algorithm, setup, seeds))
    ]
    return sum_up(algorithm, setup, conditions, samples)


def compare_load(
    algorithm: Algorithm, setup: Setup, conditions: Conditions, seed: int = 0, *, seeds: int = 1
) -> LoadComparison:
    """Measure a mutex under the workload of the conditions over this many seeds, from `seed` on."""
    results = [
        run_workload(algorithm, setup, conditions, each) for each in range(seed, seed + seeds)
    ]
    return sum_up_load(algorithm, setup, conditions, results)


def seeds_needed(algorithm: Algorithm, setup: Setup, seeds: int) -> int:
    """Return how many seeds to measure: more than asked for where theory has a mean."""
    return max(seeds, SEEDS_OF_A_MEAN) if draws_requesters(algorithm, setup) else seeds


def sum_up(
    algorithm: Algorithm, setup: Setup, conditions: Conditions, samples: Sequence[Sample]
) -> Comparison:
    """Put what the seeds of a mutex have measured beside theory."""
    costs, judged = costs_of(algorithm), conditions.assumed
    idle, drawn = costs.idle(setup), draws_requesters(algorithm, setup)
    handovers = [sample.handover for sample in samples if sample.handover is not None]
    again = [sample.again for sample in samples if sample.again is not None]
    saturated = [sample.saturated for sample in samples if sample.saturated is not None]
    waits = [result.waiting.mean for result in saturated if result.waiting]
    return Comparison(
        algorithm=algorithm.name,
        variant=setup.variant,
        processes=setup.size,
        seeds=len(saturated),
        idle=_messages(
            [sample.idle_messages for sample in samples],
            idle.mean if idle.mean and drawn else idle,
            judged=judged,
            drawn=drawn,
        ),
        again=_messages(
            [result.messages_per_entry_again for result in again],
            costs.again(setup),
            judged=judged,
        ),
        saturated=_messages(
            [result.messages_per_entry for result in saturated],
            costs.saturated(setup),
            judged=judged,
        ),
        client_delay=_delays(
            [sample.idle.client_delay for sample in samples],
            costs.client_delay(setup),
            judged=judged,
        ),
        synchronisation_delay=_delays(
            [result.synchronisation_delay for result in handovers],
            costs.synchronisation_delay(setup),
            judged=judged,
        )
        if handovers
        else None,
        messages_by_kind=saturated[0].messages_by_kind,
        waiting_mean=sum(waits) / len(waits) if waits else 0.0,
    )


def sum_up_load(
    algorithm: Algorithm, setup: Setup, conditions: Conditions, results: Sequence[Result]
) -> LoadComparison:
    """Put what the seeds of a mutex have measured under a workload beside theory."""
    costs, workload = costs_of(algorithm), conditions.workload or "closed"
    clients = [result.client_delay for result in results if result.client_delay]
    handovers = [result.synchronisation_delay for result in results if result.synchronisation_delay]
    waits = [result.waiting for result in results if result.waiting]
    shares = [result.fairness.jain for result in results if result.fairness.jain is not None]
    return LoadComparison(
        algorithm=algorithm.name,
        variant=setup.variant,
        processes=setup.size,
        seeds=len(results),
        workload=workload,
        messages=_messages(
            [result.messages_per_entry for result in results],
            _cost_of(workload, costs, setup),
            judged=conditions.assumed and workload == "one-at-a-time",
        ),
        client_delay=_mean_delay(clients, costs.client_delay(setup)) if clients else None,
        synchronisation_delay=_mean_delay(handovers, costs.synchronisation_delay(setup))
        if handovers
        else None,
        waiting=interval_of([wait.mean for wait in waits]),
        waiting_p99=interval_of([wait.p99 for wait in waits]),
        jain=interval_of(shares),
        load_max=interval_of([result.load.max for result in results]),
    )


def _cost_of(workload: str, costs: Costs, setup: Setup) -> Cost:
    """Return the formula for that workload: between the two loads, the range that they span."""
    idle, saturated = costs.idle(setup), costs.saturated(setup)
    if workload == "one-at-a-time":
        return idle
    if workload == "one-at-random":
        return idle.mean or idle
    if workload == "closed":
        return saturated
    ends = (idle, saturated, costs.again(setup))
    low, high = min(cost.low for cost in ends), max(cost.high for cost in ends)
    if saturated.formula.startswith(idle.formula):
        return Cost(low, high, saturated.formula)
    return Cost(low, high, f"{idle.formula} … {saturated.formula}")


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
        best=_exact(min(alone), costs.best(setup)),
        worst=_exact(max(alone), costs.worst(setup)),
        together=_exact(election_messages(algorithm, setup, live), costs.together(setup)),
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
            f"{no_costs(algorithm, setup)}: not all live processes follow {len(users)}, the highest",
        )
    return sum(isinstance(record, Sent) for record in world.records)


def _deliver_everything(world: Manual) -> None:
    while world.transit:
        letter = world.transit[0]
        if letter.receiver in world.crashed:
            world.drop(0.0, letter, "receiver down")
        else:
            world.deliver(0.0, letter)


def _exact(measured: int, cost: Cost) -> Measure:
    agrees = cost.allows(measured)
    return Measure(measured, measured, measured, cost.value(), cost.formula, agrees)


def _messages(
    per_entry: Sequence[float | None], cost: Cost, *, judged: bool, drawn: bool = False
) -> Measure:
    """Compare messages per entry with theory: those of each seed, or if `drawn`, their mean."""
    values = [value for value in per_entry if value is not None]
    found, wide = interval_of(values), interval_of(values, JUDGED)
    if found is None or wide is None:
        raise ConfigError("no process entered: there is no cost of an entry to compare")
    if drawn:
        agrees = cost.allows(min(max(cost.low, wide.low), wide.high))
    else:
        agrees = cost.allows(found.min) and cost.allows(found.max)
    return Measure(
        measured=found.mean,
        low=found.min,
        high=found.max,
        theory=cost.value(),
        formula=cost.formula,
        agrees=agrees,
        judged=judged,
        half_width=found.half_width,
    )


def _delays(summaries: Sequence[Summary | None], cost: Cost, *, judged: bool) -> Measure:
    """Compare the longest delay that was seen with theory, or under other conditions the mean."""
    seen = [summary for summary in summaries if summary is not None]
    assert seen, "the runs saw no such delay"
    if not judged:
        return _mean_delay(seen, cost)
    low, high = min(each.min for each in seen), max(each.max for each in seen)
    agrees = cost.allows(low) and cost.allows(high)
    return Measure(high, low, high, cost.value(), cost.formula, agrees)


def _mean_delay(seen: Sequence[Summary], cost: Cost) -> Measure:
    found = interval_of([each.mean for each in seen])
    assert found is not None
    low, high = min(each.min for each in seen), max(each.max for each in seen)
    return Measure(
        measured=found.mean,
        low=low,
        high=high,
        theory=cost.value(),
        formula=cost.formula,
        agrees=cost.allows(found.mean),
        judged=False,
        half_width=found.half_width,
    )
