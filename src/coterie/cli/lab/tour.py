"""`coterie tour`: the classic algorithms measured, verified and broken, in under a minute."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.catalogue import algorithms, mutexes
from coterie.cli.common.output import print_table, sentence, write_file
from coterie.cli.common.progress import ProgressLine
from coterie.cli.lab.compare import print_comparisons
from coterie.diagram import space_time
from coterie.lab.charts.comparison import comparison_chart
from coterie.lab.charts.report import Section, report
from coterie.lab.explore import check, needs_clock
from coterie.lab.scenario import from_trace
from coterie.lab.simulate.compare import compare
from coterie.trace import Header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie.catalogue import Algorithm, Flaw, Variant
    from coterie.lab.explore import Verdict

SIZES = (3, 7, 13, 31)
CHECKED_SIZE = 3


@click.command("tour")
@click.option(
    "--report",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default="coterie-tour.html",
    show_default=True,
    help="File for the page with the pictures.",
)
def command(path: Path) -> int:
    """Measure, verify and break the classic algorithms, and write a page with pictures of it."""
    sections = []
    for section in (_measured(), _verified(), *_broken()):
        click.echo(f"\n{click.style(section.title, bold=True)}\n{section.text}\n\n{section.output}")
        sections.append(section)
    write_file(path, report("Processes that share no memory", sections))
    click.echo(f"The same with pictures: {path}")
    click.echo("Try next: coterie check maekawa -N 4 --coterie grid")
    click.echo("          coterie simulate ricart-agrawala --fault 'crash 2 @ 5' --trace crash.svg")
    return 0


def _measured() -> Section:
    line = ProgressLine()
    comparisons = []
    for entry in mutexes().values():
        for size in SIZES:
            line.show(f"measuring {entry.name}, N = {size}")
            comparisons.append(compare(entry, entry.setup(size)))
    line.close()
    return Section(
        "1. Measured",
        "What an entry costs in messages and message delays, beside the formula from the literature.",
        _printed(lambda: print_comparisons(comparisons)),
        comparison_chart(comparisons),
    )


def _verified() -> Section:
    rows = []
    for entry in mutexes().values():
        processes = entry.build(entry.setup(CHECKED_SIZE))
        if needs_clock(processes):  # a search with a clock is long unless its bounds are chosen
            continue
        verdict = check(processes)
        rows.append(
            [entry.name, verdict.verdict, f"{verdict.states:,}", f"{verdict.transitions:,}"]
        )
    header = ["algorithm", "verdict", "states", "transitions"]
    return Section(
        "2. Verified",
        f"Every interleaving of {CHECKED_SIZE} processes that enter once each: never two inside,"
        " and every process that waits can still enter.",
        _printed(lambda: print_table(header, rows)),
    )


def _broken() -> Iterator[Section]:
    """Refute the variants that are in the catalogue because they look right but are not."""
    number = 3
    for entry in algorithms().values():
        for variant in entry.variants:
            if variant.flaw is None:
                continue
            verdict = refute(entry, variant, variant.flaw)
            assert verdict.counterexample is not None
            yield Section(
                f"{number}. Broken: {entry.name}, {variant.name}",
                f"{sentence(variant.summary)} {sentence(verdict.reason)} It takes {verdict.depth} steps.",
                from_trace(verdict.counterexample),
                space_time(verdict.counterexample),
            )
            number += 1


def refute(entry: Algorithm, variant: Variant, flaw: Flaw) -> Verdict:
    """Find the shortest counterexample to an unsound variant."""
    processes = entry.build(entry.setup(flaw.size, variant.name, flaw.parameters))
    header = Header(
        algorithm=entry.name,
        size=flaw.size,
        variant=variant.name,
        parameters=dict(flaw.parameters),
    )
    if needs_clock(processes):
        from coterie.lab.explore import check_timed  # noqa: PLC0415 - most algorithms need no clock

        return check_timed(processes, entries=flaw.entries, crashes=flaw.crashes, header=header)
    return check(processes, entries=flaw.entries, crashes=flaw.crashes, header=header)


def _printed(work: Callable[[], None]) -> str:
    stdout = io.StringIO()
    with redirect_stdout(stdout):
        work()
    return stdout.getvalue()
