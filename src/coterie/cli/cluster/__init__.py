"""`coterie cluster`: look at the voters of a running cluster, and change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.cli.cluster.change import Terms, run_change, run_replacement
from coterie.cli.cluster.force import run_force
from coterie.cli.cluster.state import show_state
from coterie.cli.cluster.vouch import run_vouch
from coterie.cli.common.output import output_option
from coterie.cluster.change import plan
from coterie.cluster.change.operation import goal_to_add, goal_to_replace, goal_to_set
from coterie.cluster.change.plan import TIMES, Newcomer
from coterie.cluster.wire.address import parse_address
from coterie.errors import UsageError
from coterie.locks.duration import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.algorithms.mutex.quorum.leased.changer import Goal
    from coterie.cluster.change.survey import KnownConfiguration

Command = TypeVar("Command", bound="Callable[..., Any]")

url_option = click.option(
    "--url", metavar="URL", help="The cluster; default: COTERIE_URL, then coterie.toml."
)


patience_option = click.option(
    "--timeout",
    type=duration,
    metavar="DUR",
    help="Wait at most this long for answers; without it a node that hangs costs 5 s, twice.",
)


def change_options(command: Command) -> Command:
    """Add what every change has."""
    for option in reversed(
        (
            url_option,
            click.option(
                "--if-number",
                type=click.IntRange(0),
                metavar="N",
                help="Change nothing unless the configuration has this number; for scripts.",
            ),
            click.option(
                "--dry-run", is_flag=True, help="Check and show the steps, change nothing."
            ),
            click.option(
                "--yes",
                is_flag=True,
                help="Even if the cluster will tolerate fewer failures, or the lease exceeds an hour.",
            ),
            click.option(
                "--timeout",
                type=duration,
                metavar="DUR",
                help="Wait at most this long; a change that has begun then waits for finish or abort.",
            ),
            output_option,
        )
    ):
        command = option(command)
    return command


class InOrder(click.Group):
    """Lists its commands in the order in which they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names as they were added."""
        return list(self.commands)


@click.group("cluster", cls=InOrder, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> int:
    """Look at the voters of a running cluster, or change them while locks are held.

    Locks are granted all the time, and held locks stay held. A command may be interrupted at any
    moment: finish then completes the change, or abort undoes it.

    \b
      coterie cluster status
      coterie cluster add d=d.example:7420
      coterie cluster replace b d=d.example:7420
      coterie cluster set lease=20s

    A new node is started first: coterie serve --node d --join a.example:7420 --data DIR
    """  # noqa: D301 - Click needs the character itself
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        return UsageError.exit_status
    return 0


@command.command("status", short_help="Show the configuration, and a change in progress.")
@url_option
@patience_option
@output_option
def status(*, url: str | None, timeout: float | None, output: str) -> int:
    """Show the configuration: its number, voters and times, and a change in progress.

    Nodes at addresses of the URL that do not vote are listed as spares, or as removed if they did.

    Exits with 0 if all voters vote and no change is in progress, with 1 if not, and with 69 if no
    quorum of the voters votes.
    """
    return show_state(url, output, timeout)


@command.command("add", short_help="Make nodes voters.")
@click.argument("nodes", nargs=-1, required=True, metavar="NAME=ADDRESS...")
@click.option("--votes", type=int, default=1, show_default=True, help="Votes of each new node.")
@change_options
def add(*, nodes: tuple[str, ...], votes: int, **options: Any) -> int:
    """Make voters of nodes that were started with coterie serve --join.

    Each of them has to be reachable from here and from every voter.
    """
    newcomers = [_newcomer(text, votes) for text in nodes]

    async def goal(standing: KnownConfiguration) -> Goal:
        return await goal_to_add(standing, newcomers)

    return run_change(Terms(**options), goal)


@command.command("remove", short_help="Remove voters.")
@click.argument("nodes", nargs=-1, required=True, metavar="NAME...")
@change_options
def remove(*, nodes: tuple[str, ...], **options: Any) -> int:
    """Remove voters. You may stop these nodes when the command has ended."""

    async def goal(standing: KnownConfiguration) -> Goal:
        return plan.remove(standing.configuration, _names(nodes))

    return run_change(Terms(**options), goal)


@command.command("replace", short_help="Replace a voter, or its lost disk.")
@click.argument("old", metavar="NAME")
@click.argument("new", required=False, metavar="[NAME=ADDRESS]")
@change_options
def replace(*, old: str, new: str | None, **options: Any) -> int:
    """Replace a voter by a new node, or its lost disk by a new one.

    With one name: the disk of that node was lost, and the node runs with an empty one. It is removed
    and added again. The old node need not run.
    """
    if new is None or new.partition("=")[0] == old:
        return run_replacement(Terms(**options), old, _newcomer(new, 1).address if new else None)
    newcomer = _newcomer(new, 1)

    async def goal(standing: KnownConfiguration) -> Goal:
        return await goal_to_replace(standing, old, newcomer)

    return run_change(Terms(**options), goal)


@command.command("set", short_help="Change times, votes, coterie, addresses or protocol.")
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE...")
@change_options
def set_values(*, values: tuple[str, ...], **options: Any) -> int:
    """Change times, votes, coterie, policy, addresses or protocol, in one step.

    Keys are lease, rate-error, margin, heartbeat, hedge, lock-delay, coterie, policy, votes.NAME,
    address.NAME and protocol, as in the cluster file. Times that were derived from the lease
    change with it. A voter whose address changes has to run at its new address already, with its data
    directory. The protocol is changed by itself, when all nodes and programs run the new version; you
    cannot go back from it.
    """
    chosen = dict(_setting(text) for text in values)

    async def goal(standing: KnownConfiguration) -> Goal:
        return await goal_to_set(standing, chosen)

    return run_change(Terms(**options), goal, forms="protocol" in chosen)


@command.command("finish", short_help="Complete an interrupted change.")
@change_options
def finish(**options: Any) -> int:
    """Complete a change that was interrupted."""

    async def goal(standing: KnownConfiguration) -> Goal:
        return plan.finish(standing.configuration)

    return run_change(Terms(**options), goal)


@command.command("abort", short_help="Undo an interrupted change.")
@change_options
def abort(**options: Any) -> int:
    """Undo a change that was interrupted in its joint step; its new nodes need not run."""

    async def goal(standing: KnownConfiguration) -> Goal:
        return plan.abort(standing.configuration)

    return run_change(Terms(**options), goal)


@command.command("force", short_help="Go on when a quorum is lost for good.")
@click.option(
    "--keep", required=True, multiple=True, metavar="NAME,...", help="The remaining voters."
)
@url_option
@click.option("--dry-run", is_flag=True, help="Check and show what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask for the name of the cluster.")
@patience_option
@output_option
def force(*, keep: tuple[str, ...], url: str | None, **options: Any) -> int:
    """Go on with the remaining voters when a quorum is lost for good.

    All other voters have to be down for good: if one still runs, programs that reach it may hold the
    same locks as others. Wipe their disks before they are used again.
    """
    return run_force(url, _names(keep), **options)


@command.command("vouch", short_help="End all leases when no program runs.")
@url_option
@click.option("--yes", is_flag=True, help="Do not ask for the name of the cluster.")
@output_option
def vouch(*, url: str | None, yes: bool, output: str) -> int:
    """End all leases at once: you vouch that no program that has used a lock is running.

    Use it for nodes that abstain for a long time after a start, because the lease is long or was
    mistyped, and for locks of killed programs. It is refused while a program is connected to a node.
    """
    return run_vouch(url, yes=yes, output=output)


def _names(texts: tuple[str, ...]) -> list[str]:
    """Return names that are given one by one, or with commas between them."""
    return [name for text in texts for name in text.split(",") if name]


def _newcomer(text: str, votes: int) -> Newcomer:
    name, equals, address = text.partition("=")
    if not equals or not name or not address:
        raise UsageError(f"name a node and its address as in d=d.example:7420, got {text!r}")
    return Newcomer(name, str(parse_address(address)), votes=votes)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not value:
        raise UsageError(f"expected KEY=VALUE, such as lease=20s, got {text!r}")
    is_duration = key in TIMES and key != "rate-error"
    return key, str(duration(value)) if is_duration else value
