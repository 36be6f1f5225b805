"""`coterie detect`: the detectors of deadlocks, on one graph and in random systems."""

from __future__ import annotations

from typing import BinaryIO

import click

from coterie.algorithms.deadlock.graph_file import parse_graph
from coterie.cli.common.output import naming, number, output_option, print_json, print_table
from coterie.errors import UsageError
from coterie.lab.detect.systems import DETECTORS
from coterie.lab.detect.trials import (
    OF_RANDOM_SYSTEMS,
    Costs,
    Found,
    detect,
    detection_costs,
)


@click.command("detect")
@click.argument("file", type=click.File("rb"), required=False)
@click.option(
    "-N", "size", type=int, default=10, show_default=True, help="Processes of a random system."
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many random systems.",
)
@click.option(
    "--period",
    "periods",
    type=click.FloatRange(min=0, min_open=True),
    multiple=True,
    help="Also search every so often, in place of once when a wait begins; repeatable.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Of the times that messages take, with FILE.",
)
@output_option
def command(
    *,
    file: BinaryIO | None,
    size: int,
    seeds: int,
    periods: tuple[float, ...],
    seed: int,
    output: str,
) -> int:
    """Run each detector of deadlocks on the wait-for graph of FILE, or in random systems.

    FILE is a graph as `coterie deadlock` reads it. All its waits begin at once, and messages take
    random times. Exits with 1 if a detector leaves a process waiting that is deadlocked. Without
    FILE processes wait and go on at random, and what the detectors cost is counted.
    """
    if file is None:
        return _compare(size, seeds, periods, output)
    if periods:
        raise UsageError("--period is for random systems: leave out FILE")
    with naming(getattr(file, "name", "standard input"), "detect"):
        try:
            graph = parse_graph(file.read().decode("utf-8"))
        except UnicodeDecodeError:
            raise UsageError("not UTF-8") from None
    found = [detect(graph, detector, seed) for detector in DETECTORS]
    if output == "json":
        print_json(found)
    else:
        _print(found)
    return 1 if any(each.left for each in found) else 0


def _print(found: list[Found]) -> None:
    rows = [
        [each.detector, "-", "-", each.refused]
        if each.refused
        else [
            each.detector,
            ", ".join(each.victims) or "none",
            ", ".join(each.left) or "none",
            f"{each.messages:,}",
        ]
        for each in found
    ]
    print_table(["detector", "victims", "left waiting", "messages"], rows)
    click.echo(
        "\nvictims: whose waits were broken off; left waiting: forever, since no process found the"
        "\ndeadlock; messages: those of the detection."
    )


def _compare(size: int, seeds: int, periods: tuple[float, ...], output: str) -> int:
    costs = [detection_costs(detector, size, seeds) for detector in OF_RANDOM_SYSTEMS]
    costs += [detection_costs("diffusing", size, seeds, period) for period in periods]
    if output == "json":
        print_json(costs)
    else:
        _print_costs(costs, size, seeds)
    return 0


def _print_costs(costs: list[Costs], size: int, seeds: int) -> None:
    header = ["detector", "search", "waits", "messages", "busiest", "victims", "waited"]
    rows = [
        [
            each.detector,
            "at each wait" if each.period is None else f"every {each.period:g}",
            each.waits,
            number(each.messages_per_wait),
            f"{each.busiest:.0%}",
            each.victims,
            "-" if each.victims_waited is None else number(each.victims_waited),
        ]
        for each in costs
    ]
    print_table(header, rows)
    click.echo(
        f"\n{seeds} random systems of {size}. messages: of the detection, per wait; busiest: share of"
        " all messages\nthat one process sends or receives; waited: time that victims had waited, where"
        " a message takes 1."
    )
