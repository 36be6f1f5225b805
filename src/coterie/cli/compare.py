"""`coterie compare`: what each algorithm costs, measured and by formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from coterie.catalogue import Costs, algorithm, algorithms
from coterie.cli.common.options import (
    AlgorithmCommand,
    Choice,
    choose,
    plot_option,
    sizes,
    variant_option,
)
from coterie.cli.common.output import number, output_option, print_json, print_table, write_file
from coterie.cli.common.progress import ProgressLine
from coterie.errors import UsageError
from coterie.simulate.compare import (
    Comparison,
    ElectionComparison,
    Measure,
    compare,
    compare_election,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


@click.command("compare", cls=AlgorithmCommand)
@click.argument("names", metavar="[ALGORITHM]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Compare all algorithms (the default).")
@click.option("-N", "processes", default="3,7,13", show_default=True, help="Numbers of processes.")
@variant_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all randomness.")
@plot_option("compare.svg")
@output_option
def command(
    *,
    names: tuple[str, ...],
    everything: bool,
    processes: str,
    variant: str | None,
    seed: int,
    plot: Path | None,
    output: str,
    **given: str | None,
) -> int:
    """Measure messages per entry and delays, or messages per election, beside their formulas.

    Exits with 1 if a measurement disagrees with its formula.
    """
    chosen = list(names) if names and not everything else list(algorithms())
    choices = [choose(name, size, variant, given) for name in chosen for size in sizes(processes)]
    if plot and not any(isinstance(choice.algorithm.costs, Costs) for choice in choices):
        raise UsageError(
            "--plot shows costs per entry, and elections have none: name a mutual exclusion algorithm"
        )
    mutexes: list[Comparison] = []
    elections: list[ElectionComparison] = []
    for comparison in _compare(choices, seed):
        if isinstance(comparison, Comparison):
            mutexes.append(comparison)
        else:
            elections.append(comparison)
    if output == "json":
        rows = [row for comparison in mutexes for row in _loads(comparison)]
        print_json(rows + [_election_facts(comparison) for comparison in elections])
    else:
        print_comparisons(mutexes, elections)
    if plot:
        from coterie.diagram.charts.comparison import comparison_chart  # noqa: PLC0415 - only to draw

        write_file(plot, comparison_chart(mutexes))
        click.echo(f"wrote {plot}", err=True)
    agree = [comparison.agrees for comparison in mutexes]
    agree += [comparison.agrees for comparison in elections]
    return 0 if all(agree) else 1


def _compare(choices: list[Choice], seed: int) -> Iterator[Comparison | ElectionComparison]:
    line = ProgressLine()
    for choice in choices:
        entry, setup = choice.algorithm, choice.setup
        line.show(f"{entry.name}, N = {setup.size}")
        if isinstance(entry.costs, Costs):
            yield compare(entry, setup, seed)
        else:
            yield compare_election(entry, setup)
    line.close()


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
    header = ["algorithm", "N", "idle", "theory", "saturated", "theory", "client", "theory"]
    header += ["sync", "theory", "agrees"]
    rows = [
        _row(
            comparison,
            comparison.idle,
            comparison.saturated,
            comparison.client_delay,
            comparison.synchronisation_delay,
        )
        for comparison in comparisons
    ]
    print_table(header, rows)
    click.echo(
        "\nidle, saturated: messages per entry with one requester at a time, and with all of them always;"
        "\nclient, sync: longest delay seen, in message times, to enter a free section and to hand it"
        "\nover."
    )


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


def _row(comparison: Comparison | ElectionComparison, *measures: Measure | None) -> list[Any]:
    row: list[Any] = [_name(comparison), comparison.processes]
    for measure in measures:
        row += [number(measure.measured), _theory(measure)] if measure else ["-", "-"]
    stated = any(measure is not None and measure.formula for measure in measures)
    return [*row, comparison.agrees if stated else "-"]


def _name(comparison: Comparison | ElectionComparison) -> str:
    default = algorithm(comparison.algorithm).variants[0].name
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


def _facts(
    comparison: Comparison | ElectionComparison, measures: Mapping[str, Measure | None]
) -> dict[str, Any]:
    return {
        "algorithm": comparison.algorithm,
        "variant": comparison.variant,
        "processes": comparison.processes,
        "ranges": {
            name: measure and [measure.low, measure.high] for name, measure in measures.items()
        },
        "theory": {name: measure and measure.theory for name, measure in measures.items()},
        "formulas": {name: measure and measure.formula for name, measure in measures.items()},
        "agrees": all(measure is None or measure.agrees for measure in measures.values()),
    }
