"""`coterie once`: run a command once per period, however many machines begin it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.common.output import print_json, print_table, say
from coterie.cli.lock.job import in_session, run_program, saying_why, with_options
from coterie.cli.lock.options import JOB_OPTIONS
from coterie.cli.lock.program import Job, read_program
from coterie.errors import AcquireTimeout, CoterieError, NotDue, UsageError
from coterie.locks import connect
from coterie.locks.duration import duration
from coterie.locks.internals import begin_run, held_of
from coterie.locks.legible import one_line
from coterie.locks.once import report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coterie.cli.lock.job import JobSession
    from coterie.locks import Coordinator, Once, Run
    from coterie.locks.once.record import RunRecord
    from coterie.locks.once.report import JobView

# Why nothing was run, where that is how it should be: cron mails each line that a command prints.
USUAL = ("done", "running", "failed")
RUN_OPTIONS = tuple(option for option in JOB_OPTIONS if option.key != "node")


@click.command("once")
@click.argument("name", required=False)
@click.option(
    "--every", metavar="DUR", type=duration, help="Length of a period, such as 1d, 6h or 1w."
)
@click.option("--at", metavar="TIME", help="Time of day at which a period begins, such as 02:00.")
@click.option(
    "--zone", metavar="ZONE", help="Time zone of --at, such as Europe/Berlin; default: UTC."
)
@click.option("--period", metavar="KEY", help="Name the period yourself, instead of --every.")
@click.option(
    "--attempts",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="How often a period may be run, if runs fail or are interrupted.",
)
@click.option(
    "--catch-up",
    metavar="K",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Run the latest K periods if some were missed, the oldest first.",
)
@click.option(
    "--only-within",
    metavar="DUR",
    type=duration,
    help="Start no run later than this after the beginning of the period.",
)
@click.option(
    "-w",
    "--wait",
    metavar="DUR",
    type=duration,
    help="Wait at most this long for a run in progress (default: until the next period) and for servers (default: not).",
)
@click.option("--list", "lists", is_flag=True, help="List all jobs, or the runs of NAME.")
@click.option("--again", is_flag=True, help="Allow one more run of the latest period of NAME.")
@click.option("--forget", is_flag=True, help="Forget all runs of NAME, as if it were a new job.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "prometheus"]),
    default="table",
    show_default=True,
    help="Format of --list; prometheus is for the textfile collector of node_exporter.",
)
@with_options(RUN_OPTIONS)
@click.argument("program", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED)
def command(*, name: str | None, lists: bool, again: bool, forget: bool, **options: Any) -> int:
    """Run COMMAND once per period, however many machines start it.

    Start it from cron on each machine, as `coterie once NAME --every 1d --at 02:00 --zone Europe/Berlin -- COMMAND`. The
    first machine records that it has begun the period, and runs COMMAND. The others see that, and exit with 0.

    By default a period is run at most once: a run that fails or is interrupted is not repeated. With --attempts N
    another machine repeats it until it ends with status 0, at most N times in all. Then COMMAND may run twice, and has
    to tolerate that.

    COMMAND finds COTERIE_PERIOD, COTERIE_ATTEMPT and COTERIE_TOKEN in its environment. Exits with the status of COMMAND,
    with 0 if nothing is due, 69 if no server answers, 75 if another program has the lock and runs nothing, 79 if the
    lock was lost, 130 if interrupted while waiting.
    """
    program = read_program(options["program"], options["shell"])
    if lists or again or forget:
        if program or lists + again + forget > 1:
            raise UsageError(
                "--list, --again and --forget run no command: use one of them, without a command"
            )
        if not lists:
            return _order(name, options, again=again)
        show_jobs(options["url"], name, options["output"])
        return 0
    if options["output"] != "table":
        raise UsageError("-o belongs to --list")
    if name is None or not program:
        raise UsageError("name the job and the command: coterie once NAME --every 1d -- COMMAND")
    job = Job(program, options["on_lost"], options["kill_after"])

    def prepare(coordinator: Coordinator) -> Callable[[JobSession], Awaitable[int]]:
        return partial(_run_due, _wanted(coordinator, name, options), job, options["catch_up"])

    return in_session(options["url"], prepare, job, wait=options["wait"])


def _wanted(coordinator: Coordinator, name: str, options: dict[str, Any]) -> Once:
    return coordinator.once(
        name,
        options["period"],
        every=options["every"],
        at=options["at"],
        zone=options["zone"],
        attempts=options["attempts"],
        catch_up=options["catch_up"],
        only_within=options["only_within"],
        timeout=options["wait"],
        lease=options["lease"],
    )


async def _run_due(wanted: Once, job: Job, catch_up: int, session: JobSession) -> int:
    """Run the command for each period that is due; return the first status that is not 0."""
    status = 0
    while True:
        try:
            with saying_why(session.coordinator, [wanted.name]):
                run = await session.outage.outlast(lambda left: begin_run(wanted, left))
        except NotDue as error:
            if error.reason not in USUAL or sys.stderr.isatty():
                click.echo(one_line(f"coterie: {error}"), err=True)
            return status
        status = await _run(session, run, job)
        if status or catch_up == 1:
            return status


async def _run(session: JobSession, run: Run, job: Job) -> int:
    """Run the command, and record how it ended."""
    facts = {"COTERIE_PERIOD": run.period, "COTERIE_ATTEMPT": str(run.attempt)}
    try:
        status = await run_program(session, held_of(run), job, facts)
    except BaseException:
        with contextlib.suppress(CoterieError):  # if the lock is lost, it cannot be recorded
            await run.fail("interrupted")
        raise
    if status:
        await run.fail(f"exit status {status}")
    else:
        await run.finish()
    return status


# For operators


def _order(name: str | None, options: dict[str, Any], *, again: bool) -> int:
    """Let the latest period run again, or forget all runs."""
    if name is None:
        raise UsageError("--again and --forget need the NAME of the job")
    wait = options["wait"] or 0.0

    async def order() -> str:
        async with connect(options["url"]) as coordinator:
            if not again:
                await report.forget(coordinator, name, wait)
                return "is forgotten: the next machine that comes runs it"
            record = await report.order_again(coordinator, name, wait)
            return f"{record.period} runs when the next machine comes"

    try:
        outcome = asyncio.run(order())
    except AcquireTimeout as error:
        raise AcquireTimeout(f"{error}. The job runs: wait for its end, or end it first") from None
    say(f"{name} {outcome}")
    return 0


def show_jobs(url: str | None, name: str | None, output: str) -> int:
    """Print all jobs, or the runs of one; return 1 if one of them is not as it should be, else 0."""
    views = asyncio.run(report.look(connect(url), name))
    if output == "json":
        print_json(views)
    elif output == "prometheus":
        click.echo(report.figures(views), nl=False)
    elif name is None:
        print_table(
            ["job", "period", "state", "by", "began", "took", "next"],
            [_row(each) for each in views],
        )
    else:
        runs = [_run_row(each, view) for view in views for each in view.record.runs]
        print_table(["period", "attempt", "state", "by", "began", "took", "status"], runs)
    for view in views:
        if view.doubtful:
            say(
                f"{view.name}: a later run may not be recorded, for its servers were lost", err=True
            )
    return int(any(view.is_bad for view in views))


def _row(view: JobView) -> list[str]:
    last = view.record.last
    begin = view.next_begin
    if begin is None:
        following = "-"
    else:
        following = report.local(view.record, begin) + (" (overdue)" if view.is_overdue else "")
    return [
        view.name,
        view.record.period,
        view.condition,
        last.by,
        report.local(view.record, last.began),
        _took(last),
        following,
    ]


def _run_row(run: RunRecord, view: JobView) -> list[str]:
    state = view.condition if run is view.record.last else run.state
    attempt = str(run.attempt or "-")
    began = report.local(view.record, run.began)
    return [run.period, attempt, state, run.by, began, _took(run), run.status]


def _took(run: RunRecord) -> str:
    return "-" if run.ended is None else f"{max(0.0, run.ended - run.began):.1f} s"
