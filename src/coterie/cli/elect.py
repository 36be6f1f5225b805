"""`coterie elect`: run a command on the leader only."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import click
import msgspec

from coterie.cli.common.output import output_option
from coterie.cli.common.signals import Signals
from coterie.cli.lock.job import Job, hold, job_options, read_program
from coterie.errors import UsageError
from coterie.locks import connect

if TYPE_CHECKING:
    from coterie.locks import Party


@click.command(
    "elect",
    context_settings={"allow_interspersed_args": False},
    short_help="Run a command on the leader only.",
)
@click.argument("name")
@click.option(
    "-l", "--listen", is_flag=True, help="Print the leader instead, and a line at each change."
)
@job_options
@output_option
def command(*, name: str, listen: bool, output: str, **options: Any) -> int:
    """Wait to become the leader of NAME, run COMMAND, and resign when it ends.

    Without COMMAND, print `NAME TOKEN` and lead until a signal or the end of input. Exits with the
    status of COMMAND, 79 if the leadership was lost, 130 if interrupted while waiting.
    """
    program = read_program(options["program"], options["shell"])
    if listen:
        if program:
            raise UsageError("-l runs no command: leave out the command")
        return asyncio.run(_follow(options["url"], name, output))
    job = Job(program, options["on_lost"], options["kill_after"])
    ttl = options["ttl"]
    return hold(options["url"], lambda coordinator: coordinator.elect(name, ttl=ttl), job)


async def _follow(url: str | None, name: str, output: str) -> int:
    with Signals().handled(), contextlib.suppress(asyncio.CancelledError):
        async with connect(url) as coordinator:
            async for leader in coordinator.observe(name):
                click.echo(_json(name, leader) if output == "json" else _line(name, leader))
    return 0


def _line(name: str, leader: Party | None) -> str:
    return f"{name} -" if leader is None else f"{name} {leader.token} {leader.owner}"


def _json(name: str, leader: Party | None) -> str:
    return msgspec.json.encode({"name": name, "leader": leader}).decode()
