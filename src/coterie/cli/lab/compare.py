"""`coterie compare`: what each algorithm costs, measured and by formula."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from coterie.catalogue import Costs, algorithms, find, mutexes, source_of
from coterie.cli.common.output import number, print_json, print_table, rows_option, write_file
from coterie.cli.common.progress import ProgressLine
from coterie.cli.lab.options import (
    AlgorithmCommand,
    Choice,
    choose,
    complete_algorithm,
    plot_option,
    sizes,
    variant_option,
)
from coterie.cli.lab.run_options import INTERRUPTED, LATENCY_HELP, MULTICAST_HELP, WORKLOAD_HELP
from coterie.cli.lab.workers import workers
from coterie.errors import UsageError
from coterie.lab.simulate import read_latency, to_csv
from coterie.lab.simulate.compare import Comparison, ElectionComparison, LoadComparison, Measure
from coterie.lab.simulate.compare.sample import Conditions
from coterie.lab.simulate.compare.sweep import Contender, compare_all
from coterie.lab.simulate.network import check_size
from coterie.process import Election, Mutex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from coterie.lab.simulate import Interval
    from coterie.lab.simulate.compare.sweep import AnyComparison


@click.command("compare", cls=AlgorithmCommand)
@click.argument("names", metavar="[ALGORITHM]...", nargs=-1, shell_complete=complete_algorithm)
@click.option("--all", "everything", is_flag=True, help="Compare all algorithms (the default).")
@click.option("-N", "processes", default="3,7,13", show_default=True, help="Numbers of processes.")
@variant_option
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Measure this many seeds, and show means with 95 % intervals.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes to use."
)
@click.option(
    "--workload",
    metavar="KIND",
    help=f"Measure the costs under one load. {WORKLOAD_HELP}  [default: what the formulas assume]",
)
@click.option(
    "--entries",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Entries per process, with --workload.",
)
@click.option(
    "--rate",
    type=float,
    default=0.1,
    show_default=True,
    help="Requests per time unit, with --workload poisson or hot-spot.",
)
@click.option(
    "--hold",
    help="Time inside per entry, written like --latency.  [default: what the formulas assume]",
)
@click.option("--latency", help=f"{LATENCY_HELP}  [default: what the formulas assume]")
@click.option("--multicast", is_flag=True, help=MULTICAST_HELP)
@plot_option("compare.svg")
@rows_option
def command(
    *,
    names: tuple[str, ...],
    everything: bool,
    processes: str,
    variant: str | None,
    seed: int,
    seeds: int,
    jobs: int,
    workload: str | None,
    entries: int,
    rate: float,
    hold: str | None,
    latency: str | None,
    multicast: bool,
    plot: Path | None,
    output: str,
    **given: str | None,
) -> int:
    """Measure messages per entry and delays, or messages per election, beside their formulas.

    Exits with 1 if a measurement disagrees with its formula. With --workload, --hold or --latency the
    conditions are not those of the formulas, which are shown beside the measurements all the same.
    """
    conditions = Conditions(
        workload=workload,
        entries=entries,
        rate=rate,
        hold=None if hold is None else read_latency(hold),
        latency=None if latency is None else read_latency(latency),
        multicast=multicast,
    )
    known = algorithms() if workload is None and not multicast else mutexes()
    chosen = [(n, size) for n in (not everything and names) or known for size in sizes(processes)]
    choices = [choose(name, size, variant, given) for name, size in chosen]
    _check(choices, conditions, plot)
    contenders = [
        Contender(name, size, variant, choice.header.parameters, conditions, source=source_of(name))
        for (name, size), choice in zip(chosen, choices, strict=True)
    ]
    found, whole = _compare(contenders, seed, seeds, jobs)
    _show(found, output)
    if plot and whole:
        _draw(found, plot)
    if not whole:
        click.echo(f"interrupted: {len(found)} of {len(contenders)} comparisons are done", err=True)
        return INTERRUPTED
    return 0 if all(comparison.agrees for comparison in found) else 1


def _draw(found: Sequence[AnyComparison], plot: Path) -> None:
    from coterie.lab.charts.comparison import comparison_chart  # noqa: PLC0415 - only to draw

    write_file(plot, comparison_chart([each for each in found if isinstance(each, Comparison)]))
    click.echo(f"wrote {plot}", err=True)


def _check(choices: Sequence[Choice], conditions: Conditions, plot: Path | None) -> None:
    """Refuse what cannot be measured or drawn, before any work is done."""
    for choice in choices:
        if not issubclass(choice.algorithm.process, Mutex | Election):
            name = choice.algorithm.name
            raise UsageError(
                f"{name} is neither a mutex nor an election, and what an entry or an election costs is compared"
                " here; coterie simulate counts the messages of a run"
            )
    elections = [choice for choice in choices if not isinstance(choice.algorithm.costs, Costs)]
    if plot and len(elections) == len(choices):
        raise UsageError(
            "--plot shows costs per entry, and elections have none: name a mutual exclusion algorithm"
        )
    if plot and conditions.workload:
        raise UsageError("--plot shows the costs of theory's loads: leave out --workload")
    if conditions.workload and elections:
        name = elections[0].algorithm.name
        raise UsageError(f"--workload is for mutual exclusion, and {name} elects: leave it out")
    if conditions.multicast and elections:
        name = elections[0].algorithm.name
        raise UsageError(f"--multicast is for mutual exclusion, and {name} elects: leave it out")
    for choice in choices:
        if conditions.latency is not None:
            check_size(conditions.latency, choice.setup.size)


def _compare(
    contenders: Sequence[Contender], seed: int, seeds: int, jobs: int
) -> tuple[list[AnyComparison], bool]:
    """Compare, and return what was found and whether that is all of it."""
    found: list[AnyComparison] = []
    line = ProgressLine()

    def show(contender: Contender, done: int, total: int) -> None:
        line.show(f"{contender.algorithm}, N = {contender.size}: {done:,} of {total:,} runs")

    try:
        with contextlib.ExitStack() as stack:
            stack.callback(line.close)
            executor = stack.enter_context(workers(jobs)) if jobs > 1 else None
            # One by one: what is found stays when an interrupt comes.
            for comparison in compare_all(
                contenders, seed, seeds=seeds, executor=executor, progress=show
            ):
                found.append(comparison)  # noqa: PERF402 - see above
    except KeyboardInterrupt:
        return found, False
    return found, True


def _show(found: Sequence[AnyComparison], output: str) -> None:
    mutual = [each for each in found if isinstance(each, Comparison)]
    loaded = [each for each in found if isinstance(each, LoadComparison)]
    elections = [each for each in found if isinstance(each, ElectionComparison)]
    if output == "json":
        rows = [row for comparison in mutual for row in _loads(comparison)]
        rows += [_load_facts(comparison) for comparison in loaded]
        print_json(rows + [_election_facts(comparison) for comparison in elections])
    elif output == "csv":
        click.echo(to_csv([row for each in found for row in each.to_dicts()]), nl=False)
    elif loaded:
        _print_loads(loaded)
    else:
        print_comparisons(mutual, elections)


def print_comparisons(
    mutexes: Sequence[Comparison], elections: Sequence[ElectionComparison] = ()
) -> None:
    """Print one row per algorithm and number of processes, mutexes and elections apart."""
    if mutexes:
        _print_mutexes(mutexes)
    if mutexes and elections:
        click.echo()
    if elections:
        _print_elections(elections)


def _print_mutexes(comparisons: Sequence[Comparison]) -> None:
    header = ["algorithm", "N", "idle", "theory", "again", "theory", "saturated", "theory"]
    header += ["client", "theory", "sync", "theory", "agrees"]
    rows = [
        _row(
            comparison,
            comparison.idle,
            comparison.again,
            comparison.saturated,
            comparison.client_delay,
            comparison.synchronisation_delay,
        )
        for comparison in comparisons
    ]
    print_table(header, rows)
    delays = "longest delay seen" if comparisons[0].judged else "mean delay"
    click.echo(
        "\nidle, again, saturated: messages per entry with one requester at a time, each another than"
        "\nthe last; with the same one again; and with all of them always; client, sync:"
        f" {delays},\nin message times, to enter a free section and to hand it over."
    )
    _explain_intervals(comparisons)


def _print_loads(comparisons: Sequence[LoadComparison]) -> None:
    header = ["algorithm", "N", "messages", "theory", "client", "theory", "sync", "theory"]
    header += ["waiting", "p99", "Jain", "busiest", "agrees"]
    rows = []
    for comparison in comparisons:
        *row, agrees = _row(
            comparison,
            comparison.messages,
            comparison.client_delay,
            comparison.synchronisation_delay,
        )
        others = comparison.waiting, comparison.waiting_p99, comparison.jain, comparison.load_max
        rows.append([*row, *(_mean(interval) for interval in others), agrees])
    print_table(header, rows)
    click.echo(
        f"\n{comparisons[0].workload}: messages per entry; client, sync: mean delay to enter a free"
        " section, and to hand\nit over; waiting: from request to entry, and of 99 in 100; Jain:"
        " fairness, 1 if all entered equally\noften; busiest: messages of the busiest process."
    )
    _explain_intervals(comparisons)


def _explain_intervals(comparisons: Sequence[Comparison | LoadComparison]) -> None:
    shown = [cost for comparison in comparisons for cost in comparison.costs.values() if cost]
    judged = all(comparison.judged for comparison in comparisons)
    if any(cost.half_width is not None for cost in shown):
        by = "; a mean of theory is judged by 99.9 %" if judged else ""
        click.echo(f"±: 95 % interval of a mean over seeds, by Student's t{by}.")
    if not judged:
        click.echo("The formulas assume other conditions (see --help): nothing is judged by them.")


def _print_elections(comparisons: Sequence[ElectionComparison]) -> None:
    header = ["algorithm", "N", "best", "theory", "worst", "theory", "together", "theory", "agrees"]
    rows = [
        _row(comparison, comparison.best, comparison.worst, comparison.together)
        for comparison in comparisons
    ]
    print_table(header, rows)
    click.echo(
        "\nbest, worst: messages of an election when the highest process has crashed and one other"
        "\nnotices; together: when all notice at once. Messages to the crashed process count."
    )


def _row(comparison: AnyComparison, *measures: Measure | None) -> list[Any]:
    row: list[Any] = [_name(comparison), comparison.processes]
    for measure in measures:
        row += [_measured(measure), _theory(measure)] if measure else ["-", "-"]
    stated = any(measure is not None and measure.formula for measure in measures)
    return [*row, comparison.agrees if stated and comparison.judged else "-"]


def _measured(measure: Measure) -> str:
    return _with_interval(measure.measured, measure.half_width)


def _mean(interval: Interval | None) -> str:
    return "-" if interval is None else _with_interval(interval.mean, interval.half_width)


def _with_interval(mean: float, half_width: float | None) -> str:
    if half_width is None:
        return number(mean)
    spread = number(half_width) if half_width >= 0.01 or not half_width else f"{half_width:.1g}"
    return f"{number(mean)} ± {spread}"


def _name(comparison: AnyComparison) -> str:
    default = find(comparison.algorithm).variants[0].name
    suffix = "" if comparison.variant == default else f" ({comparison.variant})"
    return comparison.algorithm + suffix


def _theory(measure: Measure) -> str:
    if not measure.formula:  # an algorithm of a user's own, which states none
        return "-"
    if not isinstance(measure.theory, list):
        value = number(measure.theory)
        return value if measure.formula == value else f"{measure.formula} = {value}"
    low, high = (number(end) if end is not None else "∞" for end in measure.theory)
    return f"{measure.formula} = {low}…{high}"


def _loads(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Yield one object per load; the delays do not depend on the load."""
    delays = {
        "client_delay": comparison.client_delay,
        "synchronisation_delay": comparison.synchronisation_delay,
    }
    for load, messages in (("idle", comparison.idle), ("saturated", comparison.saturated)):
        measures = {"messages_per_entry": messages, **delays}
        if load == "idle":
            measures["messages_per_entry_again"] = comparison.again
        yield {
            **_facts(comparison, measures),
            "load": load,
            **{name: measure and measure.measured for name, measure in measures.items()},
        }


def _load_facts(comparison: LoadComparison) -> dict[str, Any]:
    measures = {
        "messages_per_entry": comparison.messages,
        "client_delay": comparison.client_delay,
        "synchronisation_delay": comparison.synchronisation_delay,
    }
    return {
        **_facts(comparison, measures),
        "load": comparison.workload,
        **{name: measure and measure.measured for name, measure in measures.items()},
        "waiting": comparison.waiting,
        "waiting_p99": comparison.waiting_p99,
        "jain": comparison.jain,
        "load_max": comparison.load_max,
    }


def _election_facts(comparison: ElectionComparison) -> dict[str, Any]:
    measures = {
        "messages_best": comparison.best,
        "messages_worst": comparison.worst,
        "messages_together": comparison.together,
    }
    return {
        **_facts(comparison, measures),
        **{name: measure.measured for name, measure in measures.items()},
    }


def _facts(comparison: AnyComparison, measures: Mapping[str, Measure | None]) -> dict[str, Any]:
    judged = [found.agrees for found in measures.values() if found and found.judged]
    return {
        "algorithm": comparison.algorithm,
        "variant": comparison.variant,
        "processes": comparison.processes,
        "seeds": 1 if isinstance(comparison, ElectionComparison) else comparison.seeds,
        "ranges": {
            name: measure and [measure.low, measure.high] for name, measure in measures.items()
        },
        "half_widths": {name: measure and measure.half_width for name, measure in measures.items()},
        "theory": {name: measure and measure.theory for name, measure in measures.items()},
        "formulas": {name: measure and measure.formula for name, measure in measures.items()},
        "agrees": all(judged) if judged else None,
    }
