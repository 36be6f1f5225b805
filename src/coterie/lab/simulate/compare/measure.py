"""Measure an algorithm of the catalogue, and put its costs beside those of theory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.catalogue import Cost, ElectionCosts
from coterie.lab.scenario.world import Manual
from coterie.lab.simulate.compare.comparison import Comparison, ElectionComparison, LoadComparison
from coterie.lab.simulate.compare.sample import (
    AS_ASSUMED,
    costs_of,
    draw_sample,
    draws_requesters,
    no_costs,
    run_workload,
    take_sample,
)
from coterie.lab.simulate.compare.theory import (
    judge_count,
    judge_delays,
    judge_messages,
    mean_delay,
)
from coterie.lab.simulate.interval import interval_of
from coterie.lab.simulate.monitors import ViolationError
from coterie.process import ElectionUser
from coterie.trace import Header, Sent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.catalogue import Algorithm, Costs, Setup
    from coterie.lab.simulate.compare.sample import Conditions, Sample
    from coterie.lab.simulate.metrics import Result
    from coterie.process import ProcessId

NOTICERS_MAX = 20  # processes that are tried as the one to notice a crash
SEEDS_OF_A_MEAN = 20  # at least: one run cannot say how far it is from the mean of theory


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
    costs = costs_of(algorithm, multicast=conditions.multicast)
    judged = conditions.assumed
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
        idle=judge_messages(
            [sample.idle_messages for sample in samples],
            idle.mean if idle.mean and drawn else idle,
            judged=judged,
            drawn=drawn,
        ),
        again=judge_messages(
            [result.messages_per_entry_again for result in again],
            costs.again(setup),
            judged=judged,
        ),
        saturated=judge_messages(
            [result.messages_per_entry for result in saturated],
            costs.saturated(setup),
            judged=judged,
        ),
        client_delay=judge_delays(
            [sample.idle.client_delay for sample in samples],
            costs.client_delay(setup),
            judged=judged,
        ),
        synchronisation_delay=judge_delays(
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
    costs = costs_of(algorithm, multicast=conditions.multicast)
    workload = conditions.workload or "closed"
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
        messages=judge_messages(
            [result.messages_per_entry for result in results],
            _cost_of(workload, costs, setup),
            judged=conditions.assumed and workload == "one-at-a-time",
        ),
        client_delay=mean_delay(clients, costs.client_delay(setup)) if clients else None,
        synchronisation_delay=mean_delay(handovers, costs.synchronisation_delay(setup))
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
        best=judge_count(min(alone), costs.best(setup)),
        worst=judge_count(max(alone), costs.worst(setup)),
        together=judge_count(election_messages(algorithm, setup, live), costs.together(setup)),
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
