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
    help="Wait no longer than this for answers; a node that hangs takes 5 s, twice.",
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
                help="Only if the configuration has this number; for scripts.",
            ),
            click.option(
                "--dry-run", is_flag=True, help="Check and show the steps, change nothing."
            ),
            click.option(
                "--yes",
                is_flag=True,
                help="Also if fewer failures are borne afterwards, or the lease is longer than an hour.",
            ),
            click.option(
                "--timeout",
                type=duration,
                metavar="DUR",
                help="Wait no longer than this; what is begun stays for finish or abort.",
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
    moment: what it has begun is ended by finish, or taken back by abort.

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


@command.command("status", short_help="Show the configuration and what is under way.")
@url_option
@patience_option
@output_option
def status(*, url: str | None, timeout: float | None, output: str) -> int:
    """Show the configuration: its number, voters, times, and what is under way.

    Nodes at addresses of the URL that do not vote are listed as spares, or as removed if they did.

    Exits with 0 if all voters vote and no change is under way, with 1 if not, and with 69 if no
    quorum of the voters votes.
    """
    return show_state(url, output, timeout)


@command.command("add", short_help="Make nodes voters.")
@click.argument("nodes", nargs=-1, required=True, metavar="NAME=ADDRESS...")
@click.option("--votes", type=int, default=1, show_default=True, help="Votes of each new node.")
@change_options
def add(*, nodes: tuple[str, ...], votes: int, **options: Any) -> int:
    """Make nodes voters that were started with coterie serve --join.

    Each has to answer at its address, here and from every present voter.
    """
    newcomers = [_newcomer(text, votes) for text in nodes]

    async def goal(standing: KnownConfiguration) -> Goal:
        return await goal_to_add(standing, newcomers)

    return run_change(Terms(**options), goal)


@command.command("remove", short_help="Let nodes vote no more.")
@click.argument("nodes", nargs=-1, required=True, metavar="NAME...")
@change_options
def remove(*, nodes: tuple[str, ...], **options: Any) -> int:
    """Let nodes vote no more; they may be switched off when the command has ended."""

    async def goal(standing: KnownConfiguration) -> Goal:
        return plan.remove(standing.configuration, _names(nodes))

    return run_change(Terms(**options), goal)


@command.command("replace", short_help="Put a node in the place of a voter.")
@click.argument("old", metavar="NAME")
@click.argument("new", required=False, metavar="[NAME=ADDRESS]")
@change_options
def replace(*, old: str, new: str | None, **options: Any) -> int:
    """Put a new node in the place of a voter, or a new disk under the same name.

    With one name: the disk of that node was lost, and it runs again with an empty one. It is removed
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
    """Change times, votes, coterie, policy, addresses or protocol; all in one change.

    Keys are lease, rate-error, margin, heartbeat, hedge, lock-delay, coterie, policy, votes.NAME,
    address.NAME and protocol, as in the cluster file. Times that were derived from the lease follow
    it. A voter that was renumbered has to run at its new address, with its data directory. The
    protocol is changed alone, when all nodes and programs run the new version; there is no way back
    from it.
    """
    chosen = dict(_setting(text) for text in values)

    async def goal(standing: KnownConfiguration) -> Goal:
        return await goal_to_set(standing, chosen)

    return run_change(Terms(**options), goal, forms="protocol" in chosen)


@command.command("finish", short_help="Bring a change to its end.")
@change_options
def finish(**options: Any) -> int:
    """Bring a change to its end that was left in the middle."""

    async def goal(standing: KnownConfiguration) -> Goal:
        return plan.finish(standing.configuration)

    return run_change(Terms(**options), goal)


@command.command("abort", short_help="Take a change back.")
@change_options
def abort(**options: Any) -> int:
    """Take back a change that was left in its joint step; its new nodes need not run."""

    async def goal(standing: KnownConfiguration) -> Goal:
        return plan.abort(standing.configuration)

    return run_change(Terms(**options), goal)


@command.command("force", short_help="Go on when a quorum is lost for good.")
@click.option(
    "--keep", required=True, multiple=True, metavar="NAME,...", help="The voters that are left."
)
@url_option
@click.option("--dry-run", is_flag=True, help="Check and show what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask for the name of the cluster.")
@patience_option
@output_option
def force(*, keep: tuple[str, ...], url: str | None, **options: Any) -> int:
    """Go on with the voters that are left when a quorum is lost for good.

    All voters that are given up have to be down for good: where one still runs, programs that reach
    it may hold the same locks as others. Wipe their disks before they are used again.
    """
    return run_force(url, _names(keep), **options)


@command.command("vouch", short_help="End all leases when no program runs.")
@url_option
@click.option("--yes", is_flag=True, help="Do not ask for the name of the cluster.")
@output_option
def vouch(*, url: str | None, yes: bool, output: str) -> int:
    """End all leases at once: you vouch that no program runs that has used a lock.

    For nodes that abstain for long after a start, because the lease is long or was mistyped, and for
    locks of killed programs. It is refused while a program is connected to any node.
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
