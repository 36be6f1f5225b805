"""`coterie history`: whether a history of transactions is serializable, and if not, why."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from coterie.cli.common import one_thread  # noqa: F401 - before numpy, which a long history needs
from coterie.cli.common.output import print_json, print_table
from coterie.transactions.serializability import check_lines

if TYPE_CHECKING:
    from coterie.transactions.serializability import Anomaly, Report


@click.command("history")
@click.argument("file", type=click.File("rb"))
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "svg"]),
    default="table",
    show_default=True,
    help="How to print the result; svg draws the cycles or the serial order.",
)
def command(file: BinaryIO, output: str) -> int:
    """Check whether the history of FILE (- for stdin) is serializable, and if not, print why.

    A history is JSON lines in the order of events:

    \b
      {"transaction": "T1", "op": "read", "key": "x", "value": null}
      {"transaction": "T1", "op": "write", "key": "x", "value": 1, "version": 10}
      {"transaction": "T1", "op": "commit"}

    The op is begin, read, write, commit or abort. A read of a key that was never written sees null.
    The version is the place of a write in the order of the versions of its key; without versions,
    the values written to a key must differ. Exits with 0 if the history is serializable, 1 if not,
    3 if that could not be decided.
    """  # noqa: D301 - Click needs the character itself
    gc.disable()  # there is no garbage among so many objects, and looking for it takes long
    try:
        report = check_lines(file.read())
    finally:
        gc.enable()
    match output:
        case "json":
            print_json(msgspec.to_builtins(report))
        case "svg":
            from coterie.diagram.dependencies import (  # noqa: PLC0415 - only when drawing
                draw_serialization,
            )

            click.echo(draw_serialization(report), nl=False)
        case _:
            _print(report)
    return {True: 0, False: 1, None: 3}[report.serializable]


VERDICTS = {
    True: "serializable",
    False: "not serializable",
    None: "undecided: too many possible orders",
}


def _print(report: Report) -> None:
    plural = "" if report.transactions == 1 else "s"
    click.echo(f"{VERDICTS[report.serializable]}: {report.transactions} transaction{plural}")
    for names, fate in (
        (report.presumed_committed, "counted as committed, since others have read from them"),
        (report.left_out, "left out"),
    ):
        if names:
            click.echo(f"of unknown outcome and {fate}: {', '.join(map(str, names))}")
    if report.order:
        click.echo(f"equivalent serial order: {', '.join(map(str, report.order))}")
    for anomaly in report.anomalies:
        _print_anomaly(anomaly)
    if report.versions == "inferred" and any(len(a.dependencies) > 1 for a in report.anomalies):
        click.echo("\nno versions are given; every order of them has a cycle such as these")


def _print_anomaly(anomaly: Anomaly) -> None:
    click.echo(f"\n{anomaly.name} ({anomaly.meaning}): {', '.join(map(str, anomaly.cycle))}")
    rows = [
        [f"  {edge.source} -> {edge.target}", edge.kind, edge.key, edge.text]
        for edge in anomaly.dependencies
    ]
    print_table(["  edge", "kind", "key", "because"], rows)
