"""`coterie compare-deadlocks`: deadlocks detected, avoided and prevented, on the same jobs."""

from __future__ import annotations

import click

from coterie.algorithms.deadlock.strategies import STRATEGIES
from coterie.cli.common.output import number, output_option, print_json, print_table
from coterie.lab.detect.strategies import JOBS, StrategyCosts, Workload, strategy_costs


@click.command("compare-deadlocks")
@click.option(
    "-N", "clients", type=click.IntRange(min=1), default=8, show_default=True, help="Clients."
)
@click.option(
    "--locks", type=click.IntRange(min=1), default=12, show_default=True, help="Locks in all."
)
@click.option(
    "--takes", type=click.IntRange(min=1), default=3, show_default=True, help="Locks of each job."
)
@click.option(
    "--claims",
    type=click.IntRange(min=1),
    help="Locks that each job says it may take.  [default: those that it takes]",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many times, each with other jobs.",
)
@click.option(
    "--period",
    "periods",
    type=click.FloatRange(min=0, min_open=True),
    multiple=True,
    help="Also detect every so often, in place of at each wait; repeatable.",
)
@output_option
def command(
    *,
    clients: int,
    locks: int,
    takes: int,
    claims: int | None,
    seeds: int,
    periods: tuple[float, ...],
    output: str,
) -> int:
    """Run the same jobs under each way to deal with deadlocks, and count what it costs.

    A job takes its locks one by one, in an order of its own, and works after each. One process
    gives out all locks. It does nothing about deadlocks; or detects them; or avoids them by the
    banker's algorithm; or prevents them, by one order of all locks or by the age of the jobs.
    """
    workload = Workload(clients, locks, takes, takes if claims is None else claims)
    costs = [strategy_costs(strategy, workload, seeds) for strategy in STRATEGIES]
    costs += [strategy_costs("detect", workload, seeds, period) for period in periods]
    if output == "json":
        print_json(costs)
    else:
        _print(costs, workload, seeds)
    return 0


def _print(costs: list[StrategyCosts], workload: Workload, seeds: int) -> None:
    rows = [
        [
            each.strategy if each.period is None else f"{each.strategy} every {each.period:g}",
            f"{each.done} of {each.jobs}",
            number(each.attempts_per_job),
            number(each.messages_per_job),
            number(each.time_per_job),
            each.held_back,
        ]
        for each in costs
    ]
    print_table(["deadlocks", "jobs done", "attempts", "messages", "time", "held back"], rows)
    click.echo(
        f"\n{seeds} times {workload.clients} clients with {JOBS} jobs each, which take"
        f" {workload.takes} of {workload.locks} locks,\nand claim {workload.claims}. attempts, messages,"
        " time: of a job that is done, where a message takes 1;\nheld back: requests for a lock that was"
        " free, and had to wait."
    )
