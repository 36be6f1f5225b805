"""`coterie lock`: hold a lock while a command runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from coterie.cli.common.duration import duration
from coterie.cli.lock.job import hold, job_options
from coterie.cli.lock.program import Job, read_program
from coterie.errors import AcquireTimeout, DeadlockDetected, UsageError

if TYPE_CHECKING:
    from coterie.locks import Acquirable, Coordinator


@click.command(
    "lock",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("name")
@click.option("-n", "--nonblock", is_flag=True, help="Try once and do not wait.")
@click.option(
    "-w", "--wait", type=duration, metavar="DUR", help="Wait at most this long, such as 5s or 2m."
)
@click.option(
    "-E",
    "--conflict-exit-code",
    "conflict",
    type=click.IntRange(0, 255),
    default=AcquireTimeout.exit_status,
    show_default=True,
    help="Exit status when the lock is not obtained.",
)
@click.option("-s", "--shared", is_flag=True, help="Share the lock with other holders that use -s.")
@click.option(
    "-k",
    "--holders",
    type=click.IntRange(min=1),
    metavar="K",
    help="Allow K holders at the same time.",
)
@click.option("--also", multiple=True, metavar="NAME", help="Hold this lock, too; repeatable.")
@job_options
def command(*, conflict: int, **options: Any) -> int:
    """Hold the lock NAME while COMMAND runs, and exit with its status.

    Without COMMAND, print `NAME TOKEN` and hold the lock until a signal or the end of input.
    COMMAND finds COTERIE_LOCK, COTERIE_TOKEN and COTERIE_WAITED in its environment. Exits with 75 if
    the lock was not obtained in time, 79 if it was lost, 130 if interrupted while waiting.
    """
    program = read_program(options["program"], options["shell"])
    job = Job(program, options["on_lost"], options["kill_after"])
    if options["nonblock"] and options["wait"] is not None:
        raise UsageError("-n and -w exclude each other: -n does not wait")
    if options["shared"] and options["holders"] is not None:
        raise UsageError("-s and -k exclude each other: -s allows any number of holders, -k only K")
    try:
        return hold(
            options["url"],
            lambda coordinator: _wanted(coordinator, options),
            job,
            node=options["node"],
        )
    except (AcquireTimeout, DeadlockDetected) as error:
        click.echo(f"coterie: {error}", err=True)
        return conflict


def _wanted(coordinator: Coordinator, options: dict[str, Any]) -> Acquirable[Any]:
    name, ttl = options["name"], options["ttl"]
    timeout = 0.0 if options["nonblock"] else options["wait"]
    if options["holders"] is not None:
        wanted: Acquirable[Any] = coordinator.semaphore(
            name, options["holders"], timeout=timeout, ttl=ttl
        )
    else:
        wanted = coordinator.lock(name, timeout=timeout, ttl=ttl, shared=options["shared"])
    if options["also"]:
        return coordinator.lock_all(wanted, *options["also"], timeout=timeout, ttl=ttl)
    return wanted
