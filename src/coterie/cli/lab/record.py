"""`coterie record`: note what the nodes of a classic algorithm do for a while, as a trace."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from coterie.cli.common.progress import ProgressLine
from coterie.cli.lab.options import trace_option, write_trace
from coterie.errors import UsageError
from coterie.locks.duration import duration

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.cluster.classic.record import RecordedCluster

SECONDS_MAX = 600.0


@click.command("record")
@click.argument("length", type=duration, metavar="DURATION")
@click.option("--url", metavar="URL", help="The cluster; default: COTERIE_URL, then coterie.toml.")
@click.option("--lock", metavar="NAME", help="Which lock; default: the busiest one.")
@trace_option
@click.option("--open", "opened", is_flag=True, help="Look at it in the browser (see coterie lab).")
def command(
    *, length: float, url: str | None, lock: str | None, trace_file: Path | None, opened: bool
) -> int:
    """Record a live cluster that runs a classic algorithm, such as 30s of it.

    Each node notes what its processes send, receive and tell, and hands it over at the end. Nothing
    else changes for the nodes and their programs; a node that is not recorded looks at an empty table
    for each message. The records of all nodes become one run, in which nothing arrives before it was
    sent.

    A recording that began before the first use of a lock can also be played on by hand.
    """
    if not 0 < length <= SECONDS_MAX:
        raise UsageError(f"record more than 0 and at most {SECONDS_MAX:g} seconds")
    if trace_file is None and not opened:
        raise UsageError("say where it goes: --trace FILE.jsonl, or --open")
    recorded = asyncio.run(_record(url, length))
    for node in recorded.nodes:
        if node.trouble:
            click.echo(f"node {node.name} is missing: {node.trouble}", err=True)
        if node.left_out:
            click.echo(
                f"node {node.name} had no room for its last {node.left_out:,} records", err=True
            )
    locks = recorded.locks
    if not locks or lock not in (None, *locks):
        said = f"of {lock!r}: there were {', '.join(locks)}" if locks else "at all"
        click.echo(f"nothing happened {said}", err=True)
        return 1
    chosen = lock or locks[0]
    trace = recorded.trace(chosen)
    others = [name for name in locks if name != chosen]
    more = f"; --lock chooses among {len(others)} more" if others else ""
    click.echo(f"{chosen}: {len(trace.records):,} records{more}", err=True)
    if trace_file is not None:
        write_trace(trace, trace_file)
    if opened:
        from coterie.cli.lab.play import look_at  # noqa: PLC0415 - an extra

        look_at(trace)
    return 0


async def _record(url: str | None, seconds: float) -> RecordedCluster:
    from coterie.cluster.classic.record import record_cluster  # noqa: PLC0415 - needs ssl
    from coterie.cluster.url import learn_membership, make_visit  # noqa: PLC0415 - as above
    from coterie.locks.url import choose_url, scheme_of  # noqa: PLC0415 - as above

    chosen = choose_url(url)
    if scheme_of(chosen) != "coterie":
        raise UsageError(f"only clusters are recorded, not {scheme_of(chosen)}:")
    membership = await learn_membership(chosen)
    if membership.algorithm is None:
        raise UsageError(
            f"cluster {membership.cluster!r} runs the leased lock: only classic algorithms are recorded"
        )
    line = ProgressLine()
    try:
        return await record_cluster(
            membership,
            make_visit(chosen).security,
            seconds,
            lambda passed: line.show(f"recording: {passed:.0f} of {seconds:g} s"),
        )
    finally:
        line.close()
