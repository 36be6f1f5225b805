"""`coterie history`: whether a history of transactions is serializable, and if not, why."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from coterie.cli.common import one_thread  # noqa: F401 - before numpy, which a long history needs
from coterie.cli.common.output import (
    drawn_output_option,
    naming,
    print_json,
    print_table,
    write_file,
)
from coterie.cli.lab.options import to_path
from coterie.lab.serializability import check
from coterie.transactions.history import parse_history

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from coterie.lab.serializability import Anomaly, Report
    from coterie.transactions.history import History, Name


@click.command("history")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--real-time",
    is_flag=True,
    help="Demand that one that ended before another began stands before it (strict serializability).",
)
@click.option(
    "--sessions",
    is_flag=True,
    help="Demand the order within each session, and judge the guarantees for sessions.",
)
@click.option(
    "--order",
    "order_file",
    type=click.Path(dir_okay=False),
    callback=to_path,
    help="Write the whole serial order to a file, one transaction a line.",
)
@drawn_output_option("the cycles or the serial order")
def command(
    *, file: BinaryIO, real_time: bool, sessions: bool, order_file: Path | None, output: str
) -> int:
    """Check whether the history of FILE (- for stdin) is serializable, and if not, print why.

    A history is JSON lines in the order of events:

    \b
      {"transaction": "T1", "op": "read", "key": "x", "value": null}
      {"transaction": "T1", "op": "write", "key": "x", "value": 1, "version": 10}
      {"transaction": "T1", "op": "commit"}

    The op is begin, read, write, append, commit or abort. A read of a key that was never written sees
    null, one of a key that is appended to sees a list. The version is the place of a write in the order
    of the versions of its key; without versions, the values written to a key must differ. A field
    "session" names the session of a transaction. Exits with 0 if the history is serializable, 1 if not,
    3 if that could not be decided, or if nothing has committed.
    """  # noqa: D301 - Click needs the character itself
    gc.disable()  # there is no garbage among so many objects, and looking for it takes long
    try:
        with naming(getattr(file, "name", "standard input"), "history"):
            history = parse_history(file.read())
            report = check(history, real_time=real_time, sessions=sessions)
        levels = _levels(history, report, real_time=real_time, sessions=sessions)
    finally:
        gc.enable()
    if order_file and report.order:
        write_file(order_file, "".join(f"{name}\n" for name in report.order))
    match output:
        case "json":
            print_json({**msgspec.to_builtins(report), "levels": levels})
        case "svg":
            from coterie.lab.charts.dependencies import (  # noqa: PLC0415 - only when drawing
                draw_serialization,
            )

            click.echo(draw_serialization(report), nl=False)
        case _:
            _print(report, levels)
    if _is_vacuous(report):
        return 3
    return {True: 0, False: 1, None: 3}[report.serializable]


def _is_vacuous(report: Report) -> bool:
    """Return whether there is nothing to be judged: an empty log must not pass for a good one."""
    return bool(report.serializable) and not report.transactions


VERDICTS = {True: "serializable", False: "not serializable", None: "undecided"}
ANSWERS = {True: "kept", False: "not kept", None: "undecided"}
ORDER_SHOWN = 20  # transactions at each end of a serial order


def _levels(
    history: History, report: Report, *, real_time: bool, sessions: bool
) -> dict[str, bool | None]:
    """Judge the levels below, where the history is not serializable: else all of them hold."""
    from coterie.lab.isolation import (  # noqa: PLC0415 - most histories are serializable
        judge_levels,
    )

    if report.serializable or not real_time:
        return judge_levels(history, report=report, sessions=sessions)
    return {**judge_levels(history, sessions=sessions), "strict-serializable": report.serializable}


def _print(report: Report, levels: dict[str, bool | None]) -> None:
    plural = "" if report.transactions == 1 else "s"
    if _is_vacuous(report):
        click.echo("vacuous: no transaction is known to have committed, so nothing was shown")
    else:
        click.echo(f"{VERDICTS[report.serializable]}: {report.transactions} transaction{plural}")
    if report.undecided:
        click.echo(report.undecided)
    for names, fate in (
        (report.presumed_committed, "counted as committed, since others have read from them"),
        (report.left_out, "left out"),
    ):
        if names:
            click.echo(f"of unknown outcome and {fate}: {_listed(names)}")
    if report.order:
        click.echo(f"equivalent serial order: {_listed(report.order)}")
    if not report.serializable:
        _print_levels(levels)
    for anomaly in report.anomalies[:ANOMALIES_SHOWN]:
        _print_anomaly(anomaly)
    if len(report.anomalies) > ANOMALIES_SHOWN:
        click.echo(
            f"\nand {len(report.anomalies) - ANOMALIES_SHOWN:,} more; -o json has all of them"
        )
    if report.versions == "inferred" and any(len(a.dependencies) > 1 for a in report.anomalies):
        click.echo("\nno versions are given; every order of them has a cycle such as these")


ANOMALIES_SHOWN = 20


def _print_levels(levels: dict[str, bool | None]) -> None:
    answers = {
        word: [n for n, a in levels.items() if a is answer] for answer, word in ANSWERS.items()
    }
    click.echo("; ".join(f"{word}: {', '.join(names)}" for word, names in answers.items() if names))


def _listed(names: Sequence[Name]) -> str:
    """Name all of a few, and the first and last of many."""
    if len(names) <= 2 * ORDER_SHOWN + 1:
        return ", ".join(map(str, names))
    first, last = names[:ORDER_SHOWN], names[-ORDER_SHOWN:]
    left_out = f"... {len(names) - 2 * ORDER_SHOWN:,} more ..."
    return ", ".join([*map(str, first), left_out, *map(str, last)])


def _print_anomaly(anomaly: Anomaly) -> None:
    click.echo(f"\n{anomaly.name} ({anomaly.meaning}): {', '.join(map(str, anomaly.cycle))}")
    rows = [
        [f"  {edge.source} -> {edge.target}", edge.kind, edge.key, edge.text]
        for edge in anomaly.dependencies
    ]
    print_table(["  edge", "kind", "key", "because"], rows)
