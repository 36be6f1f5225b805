"""`coterie elect`: run a command on the leader only."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import click
import msgspec

from coterie.cli.common.output import output_option, say
from coterie.cli.common.signals import Signals
from coterie.cli.lock.job import INTERRUPTED, enter, hold, job_options, with_options
from coterie.cli.lock.options import NOTE_OPTION
from coterie.cli.lock.program import Job, read_program
from coterie.errors import UsageError
from coterie.locks import ElectionCoordinator
from coterie.locks.legible import legible_json
from coterie.locks.url import choose_url, scheme_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from coterie.locks import Party


@click.command(
    "elect",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("name")
@click.option(
    "-l", "--listen", is_flag=True, help="Print the leader instead, and a line at each change."
)
@with_options((NOTE_OPTION,))
@job_options
@output_option
def command(*, name: str, listen: bool, output: str, note: str | None, **options: Any) -> int:
    """Wait to become the leader of NAME, run COMMAND, and resign when it ends.

    Without COMMAND, print `NAME TOKEN` and lead until a signal or the end of input. Exits with the
    status of COMMAND, 79 if the leadership was lost, 130 if interrupted while waiting or
    following (-l).

    A cluster whose algorithm elects a leader among its nodes, such as bully, has one leader and no
    names: -l follows it and prints `NAME NODE`. It has no lease, so no command is run for it.
    """
    program = read_program(options["program"], options["shell"])
    if listen:
        if program or note is not None:
            raise UsageError(
                "-l runs no command and leads nothing: leave out the command and --note"
            )
        return asyncio.run(_follow(options["url"], options["node"], name, output))
    job = Job(program, options["on_lost"], options["kill_after"])
    lease = options["lease"]
    return hold(
        options["url"],
        lambda coordinator: coordinator.elect(name, lease=lease, note=note or ""),
        job,
        node=options["node"],
    )


async def _follow(url: str | None, node: str | None, name: str, output: str) -> int:
    """Print each leader until a signal comes, which is the only way to end this."""
    with Signals().handled(), contextlib.suppress(asyncio.CancelledError):
        leaders = await _leaders_of_nodes(url) if node is None else None
        if leaders is not None:
            async for elected in leaders:
                _show(name, elected, output)
            return 0
        async with enter(url, node) as coordinator:
            seen: AsyncGenerator[Party | str | None, None] = (
                coordinator.leaders()
                if isinstance(coordinator, ElectionCoordinator)
                else coordinator.observe(name)
            )
            async for leader in seen:
                _show(name, leader, output)
        return 0
    return INTERRUPTED


async def _leaders_of_nodes(url: str | None) -> AsyncGenerator[str | None, None] | None:
    """Follow the leader of a cluster whose nodes elect one, if this is such a cluster."""
    chosen = choose_url(url)
    if scheme_of(chosen) != "coterie":
        return None
    from coterie.cluster.classic.status import follow  # noqa: PLC0415 - asks for ssl
    from coterie.cluster.url import learn_membership, make_visit  # noqa: PLC0415 - as above

    return follow(await learn_membership(chosen), make_visit(chosen).security)


def _show(name: str, leader: Party | str | None, output: str) -> None:
    """Print a leader: the holder of a lock, or the node that is elected."""
    if output == "json":
        click.echo(legible_json(msgspec.json.encode({"name": name, "leader": leader}).decode()))
    elif isinstance(leader, str) or leader is None:
        say(f"{name} {leader or '-'}")
    else:
        note = f" {leader.note}" if leader.note else ""
        say(f"{name} {leader.token} {leader.owner}{note}")
