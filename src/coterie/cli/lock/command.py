"""`coterie lock`: hold a lock while a command runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from coterie.cli.lock.job import hold, job_options, with_options
from coterie.cli.lock.options import LOCK_OPTIONS
from coterie.cli.lock.program import Job, read_program
from coterie.cli.lock.value_files import ValueFiles
from coterie.errors import AcquireTimeout, DeadlockDetected, UsageError
from coterie.locks.internals import engine_of
from coterie.locks.legible import one_line
from coterie.locks.value import values_of

if TYPE_CHECKING:
    from coterie.locks import Acquirable, Coordinator


@click.command(
    "lock",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("name")
@with_options(LOCK_OPTIONS)
@job_options
def command(*, conflict: int, **options: Any) -> int:
    """Hold the lock NAME while COMMAND runs, and exit with its status.

    Without COMMAND, print `NAME TOKEN` and hold the lock until a signal or the end of input; with --read or --write
    and no COMMAND, only read or write the value of the lock. COMMAND finds COTERIE_LOCK, COTERIE_TOKEN and COTERIE_WAITED in its environment. Exits with 75 if
    the lock was not obtained in time, 79 if it was lost, 130 if interrupted while waiting.
    """
    program = read_program(options["program"], options["shell"])
    job = Job(program, options["on_lost"], options["kill_after"])
    if options["nonblock"] and options["wait"] is not None:
        raise UsageError("-n and -w exclude each other: -n does not wait")
    if options["shared"] and options["permits"] is not None:
        raise UsageError("-s and -k exclude each other: -s allows any number of holders, -k only K")
    files = _files(options, has_command=bool(program))
    try:
        return hold(
            options["url"],
            lambda coordinator: _wanted(coordinator, options),
            job,
            node=options["node"],
            wait=options["wait"],
            files=files,
        )
    except (AcquireTimeout, DeadlockDetected) as error:
        click.echo(one_line(f"coterie: {error}"), err=True)
        return conflict


def _files(options: dict[str, Any], *, has_command: bool) -> ValueFiles | None:
    """Return the files of the value of the lock, if one was named."""
    keys = [key for key in ("note", "read", "write") if options[key] is not None]
    if keys and options["permits"] is not None:
        raise UsageError(
            f"--{keys[0]} and -k exclude each other: a permit has no note, and no value"
        )
    if "read" not in keys and "write" not in keys:
        return None
    if "write" in keys and options["shared"]:
        raise UsageError(
            "--write and -s exclude each other: only who has a lock alone writes its value"
        )
    return ValueFiles(options["name"], options["read"], options["write"], has_command=has_command)


def _wanted(coordinator: Coordinator, options: dict[str, Any]) -> Acquirable[Any]:
    name, lease = options["name"], options["lease"]
    if options["read"] is not None or options["write"] is not None:
        values_of(
            engine_of(coordinator), coordinator.url
        )  # or say before any wait that none are kept
    timeout = 0.0 if options["nonblock"] else options["wait"]
    if options["permits"] is not None:
        wanted: Acquirable[Any] = coordinator.semaphore(
            name, options["permits"], timeout=timeout, lease=lease
        )
    else:
        wanted = coordinator.lock(
            name,
            timeout=timeout,
            lease=lease,
            shared=options["shared"],
            note=options["note"] or "",
        )
    if options["also"]:
        return coordinator.lock_all(wanted, *options["also"], timeout=timeout, lease=lease)
    return wanted
