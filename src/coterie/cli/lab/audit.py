"""`coterie audit`: run transactions against a store and show the anomalies that it lets happen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from coterie import system
from coterie.cli.common.output import drawn_output_option, print_json, print_table, write_file
from coterie.cli.common.progress import ProgressLine
from coterie.cli.common.signals import Signals
from coterie.cli.lab.options import to_path
from coterie.errors import UsageError
from coterie.lab.audit.runner import AuditPlan, Runner
from coterie.lab.audit.target import make_target
from coterie.lab.audit.verdict import Verdict, judge
from coterie.lab.audit.workload import WORKLOADS
from coterie.lab.charts.lanes import draw_lanes, lanes_text
from coterie.locks.duration import duration

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.lab.audit.target import Target
    from coterie.transactions.history import HistoryEvent

PREFIX = "coterie_audit"


@click.command("audit")
@click.argument("url")
@click.option(
    "--isolation",
    metavar="LEVEL",
    help="Level at which transactions run. [default: the strongest of the store]",
)
@click.option(
    "--workload",
    default=",".join(WORKLOADS),
    show_default=True,
    help="Workloads, in turn.",
)
@click.option("--for", "length", default="5s", show_default=True, help="How long to run.")
@click.option(
    "--transactions", type=click.IntRange(min=1), help="Stop after this many transactions."
)
@click.option(
    "--clients",
    type=click.IntRange(min=4),
    default=8,
    show_default=True,
    help="Connections; a round of a workload takes four.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of what is run.")
@click.option(
    "--history",
    "history_file",
    type=click.Path(dir_okay=False),
    callback=to_path,
    help="Write what was recorded to a file, for coterie history.",
)
@drawn_output_option("the smallest anomaly")
def command(
    *,
    url: str,
    isolation: str | None,
    workload: str,
    length: str,
    transactions: int | None,
    clients: int,
    seed: int,
    history_file: Path | None,
    output: str,
) -> int:
    """Run transactions against the store at URL, and judge whether what they saw is serializable.

    \b
      postgresql://user@host/database   read-committed, repeatable-read, serializable
      sqlite:///file.db                 autocommit, serializable
      redis://host, valkey://host       plain, multi, watch
      etcd://host                       plain, txn, compare

    A table or keys whose names begin with coterie_audit and a random number are made, and removed in
    the end. Exits with 0 if there was no anomaly in what was run, 1 if there was one, 3 if that could
    not be decided, 69 if the store cannot be reached.
    """  # noqa: D301 - Click needs the character itself
    prefix = f"{PREFIX}_{system.secret(6).hex()}"
    plan = AuditPlan(
        level=isolation or "",
        workloads=_workloads(workload),
        clients=clients,
        seconds=duration(length),
        transactions=transactions,
        seed=seed,
    )
    try:
        verdict, events = asyncio.run(_audit(url, prefix, plan))
    except asyncio.CancelledError:
        return 130
    if history_file:
        encode = msgspec.json.Encoder().encode
        write_file(history_file, "".join(f"{encode(event).decode()}\n" for event in events))
    match output:
        case "json":
            print_json(verdict)
        case "svg" if verdict.smallest is not None:
            click.echo(draw_lanes(events, verdict.smallest), nl=False)
        case "svg":
            click.echo("nothing to draw: no anomaly was found", err=True)
        case _:
            _print(verdict, events)
    return {True: 0, False: 1, None: 3}[verdict.serializable]


async def _audit(url: str, prefix: str, plan: AuditPlan) -> tuple[Verdict, list[HistoryEvent]]:
    target = make_target(url, prefix)
    name = _level(target, plan.level)
    line = ProgressLine()
    runner = Runner(
        target,
        plan._replace(level=name),
        lambda count: line.show(f"{target}, {name}: {count:,} transactions"),
    )
    with Signals().handled():
        try:
            await runner.run()
        except (Exception, asyncio.CancelledError):
            line.close()
            raise
    line.show(f"{target}, {name}: judging")
    verdict = judge(str(target), name, target.levels[name], runner)
    line.close()
    return verdict, runner.recorder.events


def _level(target: Target, given: str) -> str:
    if not given:
        return list(target.levels)[-1]
    if given not in target.levels:
        choices = ", ".join(target.levels)
        raise UsageError(f"--isolation of {target} must be one of {choices}, got {given!r}")
    return given


def _workloads(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in WORKLOADS:
            raise UsageError(f"--workload must be of {', '.join(WORKLOADS)}, got {name!r}")
    return list(dict.fromkeys(names))


VERDICTS = {
    True: "no anomaly in what was run",
    False: "not serializable",
    None: "undecided",
}


def _print(verdict: Verdict, events: list[HistoryEvent]) -> None:
    click.echo(f"{verdict.store}, {verdict.isolation}: {VERDICTS[verdict.serializable]}")
    rows = [
        [
            tally.workload,
            tally.rounds,
            tally.committed,
            tally.refused,
            ", ".join(f"{count} {name}" for name, count in tally.anomalies.items()) or "none",
        ]
        for tally in verdict.workloads
    ]
    print_table(["workload", "rounds", "committed", "refused", "anomalies"], rows)
    if verdict.serializable:
        return
    for answer, word in ((True, "kept"), (False, "not kept"), (None, "undecided")):
        names = [name for name, kept in verdict.levels.items() if kept is answer]
        if names:
            click.echo(f"{word}: {', '.join(names)}")
    if verdict.promises and verdict.keeps_promise is not None:
        kept = "keeps" if verdict.keeps_promise else "BREAKS"
        click.echo(f"the store promises {verdict.promises} here, and {kept} it")
    if verdict.smallest is not None:
        anomaly = verdict.smallest
        click.echo(f"\nsmallest: {anomaly.name} ({anomaly.meaning}), by {verdict.found_by}\n")
        for text in lanes_text(events, anomaly.cycle):
            click.echo(f"  {text}")
        click.echo()
        for edge in anomaly.dependencies:
            between = f"{edge.source} before {edge.target}: " if len(anomaly.cycle) > 1 else ""
            click.echo(f"  {between}{edge.text}")
