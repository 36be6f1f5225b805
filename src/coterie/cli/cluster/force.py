"""`coterie cluster force`: the consent, and what is to be done afterwards."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from coterie.cli.cluster.change import visit_of
from coterie.cli.common.output import print_json
from coterie.cluster.change.force import check_force, force
from coterie.cluster.change.survey import check_orders, look, patience_of
from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.cluster.change.survey import KnownConfiguration

TIMEOUT_SECONDS_MIN = 2.0
DANGER = (
    "No quorum decides this. If a voter that is given up still runs, programs that reach it may hold\n"
    "the same locks as others until they hear of it. Tokens go on above all before only if no clock of\n"
    "a lost voter ran more than a day ahead. Wipe the disks that are given up.\n"
    "A voter that was away while others were replaced does not know of those: name all nodes in --url."
)


def run_force(
    url: str | None,
    kept: Sequence[str],
    *,
    dry_run: bool,
    yes: bool,
    timeout: float | None,
    output: str,
) -> int:
    """Go on with the voters that are left."""
    if timeout is not None and timeout < TIMEOUT_SECONDS_MIN:
        raise UsageError(
            f"--timeout is {TIMEOUT_SECONDS_MIN:g} s at least, got {timeout:g} s: a voter that is only slow must"
            " not be taken for dead"
        )
    standing = asyncio.run(look_for_orders(url, patience_of(timeout)))
    voters = check_force(standing, kept)
    names = [voter.name for voter in voters]
    lost = [voter.name for voter in standing.voters if voter.name not in names]
    go = "goes" if len(names) == 1 else "go"
    click.echo(
        f"{', '.join(lost)} will be given up, {', '.join(names)} {go} on.\n{DANGER}", err=True
    )
    if dry_run:
        return 0
    if not yes:
        ask_for_name(standing)
    forced = asyncio.run(force(standing, voters))
    if output == "json":
        print_json(
            {"cluster": standing.membership.cluster, "number": forced.number, "voters": names}
        )
    else:
        click.echo(f"configuration {forced.number}: {', '.join(names)}")
    click.echo(
        f"{'They vote' if len(names) > 1 else 'It votes'} again in about {forced.settings.expiry:.0f} s. Then add voters with coterie cluster"
        " add, and look for settings with coterie cluster status.",
        err=True,
    )
    return 0


async def look_for_orders(url: str | None, patience: float | None = None) -> KnownConfiguration:
    """Look where a cluster stands that takes orders from here."""
    return await check_orders(await look(visit_of(url), patience))


def ask_for_name(standing: KnownConfiguration) -> None:
    """Have the operator type the name of the cluster; raises `UsageError` if that is not done."""
    cluster = standing.membership.cluster
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to confirm at: add --yes")
    typed = click.prompt(
        "Type the name of the cluster to go on", default="", show_default=False, err=True
    )
    if typed != cluster:
        raise UsageError(f"{typed!r} is not {cluster!r}: nothing was done")
