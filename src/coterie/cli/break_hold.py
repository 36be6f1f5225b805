"""`coterie break`: end the hold of a program that is alive and does not give its lock back."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from coterie.cli.common.output import say
from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie.locks.breaker import EndedHolds, FoundHold

NOT_HELD = KEPT = 1  # the answer is no


@click.command("break")
@click.argument("name")
@click.option(
    "--url",
    metavar="URL",
    help="Where the lock is; default: COTERIE_URL, then coterie.toml, then file:.",
)
@click.option("--yes", is_flag=True, help="Do not ask for the name again.")
def command(*, name: str, url: str | None, yes: bool) -> int:
    """End the hold of the lock NAME, even if its program does not want to.

    The program is told that its lock is lost, and its body is cancelled. The next program in the queue
    gets the lock with a larger token, so a resource that compares tokens refuses the old holder. Code
    that neither reacts to the loss nor passes its token on goes on beside the next holder. Make sure
    first that this does no damage.

    Where there are leases, a program that hangs or is cut off needs no command: its lease runs out. If
    the program does not answer, the command says what it has done and what you can do.

    On a cluster with an operator secret (COTERIE_OPERATOR_SECRET_FILE, or operator-secret-file in
    coterie.toml) you need that secret; on a server, the right to take the lock; in a directory (file:)
    you have to be the user of the program, root, or the owner of the directory. The nodes of a cluster
    log the order, elsewhere the program does. Exits with 1 if the lock is not held, or if a program
    does not answer and keeps it.
    """
    from coterie.locks.breaker import find_breaker  # noqa: PLC0415 - with what the URL needs
    from coterie.locks.names import check_name  # noqa: PLC0415 - as above
    from coterie.locks.url import choose_url  # noqa: PLC0415 - as above

    breaker, lock = find_breaker(choose_url(url)), check_name(name)
    found = asyncio.run(breaker.find(lock))
    _show(found)
    if not found.participants:
        click.echo(f"lock {lock!r} is not held", err=True)
        return NOT_HELD
    if not yes and not _confirmed(name, lock):
        click.echo("nothing was done", err=True)
        return UsageError.exit_status
    return _report(asyncio.run(breaker.end(found)))


def _show(found: FoundHold) -> None:
    lock = found.state
    _show_troubles(found.troubles)
    for owner, token in dict.fromkeys((party.owner, party.token) for party in lock.holders):
        say(f"{owner} holds {lock.name!r} with token {token}", err=True)
    for owner in lock.silent:
        say(f"{owner} may hold {lock.name!r} and does not answer", err=True)
    if found.participants:
        click.echo(f"{len(lock.waiters)} wait for it", err=True)


def _show_troubles(troubles: Mapping[str, str]) -> None:
    for node, trouble in troubles.items():
        say(f"node {node} could not be asked: {trouble}", err=True)


def _confirmed(*spellings: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to confirm at: add --yes")
    question = "Type the name of the lock to end the hold"
    typed: str = click.prompt(question, default="", show_default=False, err=True)
    return typed in spellings


def _report(outcome: EndedHolds) -> int:
    _show_troubles(outcome.troubles)
    if outcome.told:
        say(f"told to stop: {', '.join(outcome.told)}")
    for line in outcome.ended:
        say(line)
    for line in outcome.failed:
        say(line, err=True)
    if outcome.failed:
        return KEPT
    if outcome.told or outcome.ended:
        return 0
    click.echo("it is not held any more", err=True)
    return NOT_HELD
