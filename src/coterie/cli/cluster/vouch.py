"""`coterie cluster vouch`: the consent, and which voters took the word."""

from __future__ import annotations

import asyncio

import click

from coterie.cli.cluster.force import ask_for_name, look_for_orders
from coterie.cli.common.output import print_json
from coterie.cluster.change.vouch import Vouched, check_vouch, vouch
from coterie.errors import Unavailable

MEANING = (
    "You vouch that every program that has used a lock of this cluster has ended, on all machines, and that\n"
    "nothing which it has sent is still on its way. All leases are over at once: if such a program runs, it\n"
    "and another one may hold the same lock. Tokens go on above all earlier ones."
)


def run_vouch(url: str | None, *, yes: bool, output: str) -> int:
    """End all leases, and let nodes vote that abstain."""
    vouched = asyncio.run(_vouch(url, yes=yes))
    if output == "json":
        print_json({"voting": vouched.voting, "troubles": vouched.troubles})
    else:
        click.echo(f"no lease is left at {', '.join(vouched.voting)}")
        for name, trouble in vouched.troubles.items():
            click.echo(f"{name}: {trouble}", err=True)
    return Unavailable.exit_status if vouched.troubles else 0


async def _vouch(url: str | None, *, yes: bool) -> Vouched:
    standing = await look_for_orders(url)
    voters = await check_vouch(standing)
    click.echo(MEANING, err=True)
    if not yes:
        ask_for_name(standing)
    return await vouch(standing, voters)
