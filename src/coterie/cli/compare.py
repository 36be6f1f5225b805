"""`coterie compare`: what each algorithm costs, measured beside theory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.catalogue import algorithms
from coterie.cli.options import choose, parameter_options, sizes
from coterie.cli.output import number, output_option, print_json, print_table
from coterie.cli.progress import ProgressLine
from coterie.compare import Comparison, Measure, compare

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command("compare")
@click.argument("names", metavar="[ALGORITHM]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Compare all algorithms (the default).")
@click.option("-N", "processes", default="3,7,13", show_default=True, help="Numbers of processes.")
@parameter_options
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    is_flag=False,
    flag_value=Path("compare.svg"),
    help="Draw a chart into this SVG file [compare.svg].",
)
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
    """Measure messages per entry, client delay and synchronisation delay beside their formulas.

    Exits with 1 if something measured is not what theory says.
    """
    chosen = list(names) if names and not everything else list(algorithms())
    comparisons = []
    line = ProgressLine()
    for comparison in _compare(chosen, sizes(processes), variant, seed, given):
        comparisons.append(comparison)
        line.show(f"{comparison.algorithm}, N = {comparison.processes}")
    line.close()
    if output == "json":
        print_json([row for comparison in comparisons for row in _loads(comparison)])
    else:
        print_comparisons(comparisons)
    if plot:
        from coterie.diagram.comparison import comparison_chart  # noqa: PLC0415 - only to draw

        plot.write_text(comparison_chart(comparisons), encoding="utf-8")
        click.echo(f"chart written to {plot}", err=True)
    return 0 if all(comparison.agrees for comparison in comparisons) else 1


def _compare(
    names: list[str],
    counts: list[int],
    variant: str | None,
    seed: int,
    given: dict[str, str | None],
) -> Iterator[Comparison]:
    choices = [choose(name, size, variant, given) for name in names for size in counts]
    for choice in choices:
        yield compare(choice.algorithm, choice.setup, seed)


def print_comparisons(comparisons: list[Comparison]) -> None:
    """Print one row per algorithm and number of processes."""
    header = ["algorithm", "N", "idle", "theory", "saturated", "theory", "client", "theory"]
    header += ["sync", "theory", "agrees"]
    print_table(header, [_row(comparison) for comparison in comparisons])
    click.echo(
        "\nidle, saturated: messages per entry, one requester at a time and everyone always;"
        "\nclient, sync: longest delay seen, in message times, of entering a free section and of"
        "\nhanding over."
    )


def _row(comparison: Comparison) -> list[Any]:
    row: list[Any] = [_name(comparison), comparison.processes]
    for measure in (
        comparison.idle,
        comparison.saturated,
        comparison.client_delay,
        comparison.synchronisation_delay,
    ):
        row += [number(measure.measured), _theory(measure)] if measure else ["-", "-"]
    return [*row, comparison.agrees]


def _name(comparison: Comparison) -> str:
    default = algorithms()[comparison.algorithm].variants[0].name
    suffix = "" if comparison.variant == default else f" ({comparison.variant})"
    return comparison.algorithm + suffix


def _theory(measure: Measure) -> str:
    if not isinstance(measure.theory, list):
        value = number(measure.theory)
        return value if measure.formula == value else f"{measure.formula} = {value}"
    low, high = (number(end) if end is not None else "∞" for end in measure.theory)
    return f"{measure.formula} = {low}…{high}"


def _loads(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Give one object per load; the delays are those of the algorithm under either."""
    delays = {
        "client_delay": comparison.client_delay,
        "synchronisation_delay": comparison.synchronisation_delay,
    }
    for load, messages in (("idle", comparison.idle), ("saturated", comparison.saturated)):
        measures = {"messages_per_entry": messages, **delays}
        if load == "idle":
            measures["messages_per_entry_again"] = comparison.again
        yield {
            "algorithm": comparison.algorithm,
            "variant": comparison.variant,
            "processes": comparison.processes,
            "load": load,
            **{name: measure and measure.measured for name, measure in measures.items()},
            "ranges": {
                name: measure and [measure.low, measure.high] for name, measure in measures.items()
            },
            "theory": {name: measure and measure.theory for name, measure in measures.items()},
            "formulas": {name: measure and measure.formula for name, measure in measures.items()},
            "agrees": all(measure is None or measure.agrees for measure in measures.values()),
        }
