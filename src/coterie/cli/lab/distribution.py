"""`coterie distribution`: how evenly each algorithm is distributed over its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from coterie.catalogue import Costs, mutexes
from coterie.cli.common.output import number, output_option, print_json, print_table
from coterie.cli.common.progress import ProgressLine
from coterie.cli.lab.options import AlgorithmCommand, choose, complete_algorithm, variant_option
from coterie.errors import UsageError
from coterie.lab.simulate.distribution import Distribution, distribution

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.cli.lab.options import Choice
    from coterie.lab.simulate.distribution import Spread
    from coterie.process import ProcessId


@click.command("distribution", cls=AlgorithmCommand)
@click.argument("names", metavar="[ALGORITHM]...", nargs=-1, shell_complete=complete_algorithm)
@click.option(
    "-N",
    "size",
    type=click.IntRange(min=2),
    default=7,
    show_default=True,
    help="Number of processes.",
)
@variant_option
@output_option
def command(
    *, names: tuple[str, ...], size: int, variant: str | None, output: str, **given: str | None
) -> None:
    """Measure the five properties of a distributed control that the survey of 1987 asks for.

    1 all processes keep as much data; 2 all follow one rule; 3 all bear the same load; 4 an entry costs
    each the same; 5 the crash of one does not stop all others. Without a name all algorithms of mutual
    exclusion are measured.
    """
    choices = [choose(name, size, variant, given) for name in names or mutexes()]
    for choice in choices:
        if not isinstance(choice.algorithm.costs, Costs):
            raise UsageError(
                f"{choice.algorithm.name} elects: name an algorithm of mutual exclusion"
            )
    found = list(_measure(choices))
    if output == "json":
        print_json([_facts(each) for each in found])
    else:
        _print(found, {choice.algorithm.name: choice.title for choice in choices})


def _measure(choices: Sequence[Choice]) -> Iterator[Distribution]:
    line = ProgressLine()
    for choice in choices:
        line.show(choice.title)
        yield distribution(choice.algorithm, choice.setup)
    line.close()


def _print(found: Sequence[Distribution], titles: dict[str, str]) -> None:
    header = ["algorithm", "1 data", "2 rules", "3 load", "4 cost", "5 at rest", "inside", "has"]
    rows = [
        [
            titles[each.algorithm].partition(", N")[0],
            _range(each.data),
            str(each.rules),
            _range(each.load),
            _range(each.cost),
            _fatal(each.fatal_at_rest, each.processes),
            _fatal(each.fatal_inside, each.processes),
            " ".join(str(place) if kept else "-" for place, kept in enumerate(each.kept(), 1)),
        ]
        for each in found
    ]
    print_table(header, rows)
    click.echo(
        "\n1: bytes of state, on average over a run in which all always want in; 2: how many parts there"
        "\nare, by the kinds of messages to handle; 3: messages that each sends and receives in that run;"
        "\n4: messages of an entry of each, one at a time; 5: how many processes let no other in any more"
        "\nif they crash at rest, or inside. Equal is what differs by less than a fifth."
    )


def _range(spread: Spread) -> str:
    least, most = number(spread.least), number(spread.most)
    return least if least == most else f"{least} to {most}"


def _fatal(fatal: tuple[ProcessId, ...], size: int) -> str:
    return f"{len(fatal)} of {size}"


def _facts(each: Distribution) -> dict[str, object]:
    return {**msgspec.to_builtins(each), "kept": each.kept()}
