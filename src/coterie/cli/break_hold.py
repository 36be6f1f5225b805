"""`coterie break`: end the hold of a program that is alive and does not give its lock back."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from coterie.cli.common.output import say
from coterie.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from coterie.cluster.admin.holds import Holding, NodeAnswer

NOT_HELD = 1


@click.command("break")
@click.argument("name")
@click.option("--url", metavar="URL", help="The cluster; default: COTERIE_URL, then coterie.toml.")
@click.option("--yes", is_flag=True, help="Do not ask for the name again.")
def command(*, name: str, url: str | None, yes: bool) -> int:
    """End the hold of the lock NAME, whichever program has it.

    The program is told that its lock is lost: its body is cancelled, and the next in line gets the
    lock with a larger token, so that a resource that compares tokens refuses what the old holder
    still does. Code that neither heeds the loss nor hands over its token goes on beside the next
    holder: look first whether that does harm.

    A program that hangs or is cut off needs no command: its lease runs out.

    With an operator secret (COTERIE_OPERATOR_SECRET_FILE, or operator-secret-file in coterie.toml)
    only those can do this that have it. The nodes log it. The exit status is 1 if it is not held.
    """
    from coterie.cluster.admin.holds import break_hold, find_hold  # noqa: PLC0415 - needs ssl
    from coterie.cluster.url import make_visit  # noqa: PLC0415 - as above
    from coterie.locks.names import check_name  # noqa: PLC0415 - as above
    from coterie.locks.url import choose_url, scheme_of  # noqa: PLC0415 - as above

    chosen, lock = choose_url(url), check_name(name)
    if scheme_of(chosen) != "coterie":
        raise UsageError(
            f"only holds on a cluster can be ended, not on {scheme_of(chosen)}:; end the program,"
            " or remove its lock with the tools of that engine"
        )
    visit = make_visit(chosen)
    holding = asyncio.run(find_hold(visit, lock))
    _show(holding)
    if not holding.participants:
        click.echo(f"lock {lock!r} is not held", err=True)
        return NOT_HELD
    if not yes and not _confirmed(name, lock):
        click.echo("nothing was done", err=True)
        return UsageError.exit_status
    return _report(asyncio.run(break_hold(visit, holding)))


def _show(holding: Holding) -> None:
    found = holding.state
    for node, trouble in holding.troubles.items():
        say(f"node {node} could not be asked: {trouble}", err=True)
    for owner, token in dict.fromkeys((party.owner, party.token) for party in found.holders):
        say(f"{owner} holds {found.name!r} with token {token}", err=True)
    for owner in found.silent:
        say(f"{owner} may hold {found.name!r} and does not answer", err=True)
    if holding.participants:
        click.echo(f"{len(found.waiters)} wait for it", err=True)


def _confirmed(*spellings: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to confirm at: add --yes")
    question = "Type the name of the lock to end the hold"
    typed: str = click.prompt(question, default="", show_default=False, err=True)
    return typed in spellings


def _report(answers: list[NodeAnswer]) -> int:
    too_old = sorted({label for answer in answers for label in answer.too_old})
    told = sorted({label for answer in answers for label in answer.told})
    for answer in answers:
        if answer.trouble:
            say(f"node {answer.node} could not be asked: {answer.trouble}", err=True)
    if told:
        say(f"told to stop: {', '.join(told)}")
        return 0
    if too_old:
        raise UsageError(
            f"{', '.join(too_old)} runs a version of coterie that cannot be told: end the program"
        )
    if all(answer.trouble for answer in answers):
        raise Unavailable("no node could be asked")
    click.echo("it is not held any more", err=True)
    return NOT_HELD
