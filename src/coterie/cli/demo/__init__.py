"""`coterie demo`: a lock that outlives dead nodes, shown with real processes in a few seconds."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.cli.common.output import print_table
from coterie.cli.common.signals import Signals
from coterie.cli.demo.children import Children
from coterie.cli.demo.picture import Picture
from coterie.cli.demo.stage import Stage
from coterie.cli.demo.story import LEASE_SECONDS, NODES, WORKERS, perform

if TYPE_CHECKING:
    from coterie.cli.demo.verdict import Verdict

INTERRUPTED = 130
INTRODUCTION = f"""\
{NODES} nodes on this machine grant one lock, with a lease of {LEASE_SECONDS:g} s. {WORKERS} workers fight for it;
inside it each reads the last number of a file, works, and writes the next one.
"""
TRY_NEXT = """
Try next:
  coterie lock nightly -- echo mine    hold a lock while a command runs, on this machine
  coterie serve --dev 3                a cluster of your own to try things on
  coterie tour                         the classic algorithms measured, proven and broken"""


@click.command("demo")
def command() -> int:
    """Show a lock that outlives dead nodes.

    Five nodes and four workers run as processes on this machine; one node is killed, one is
    stopped, and then a worker inside. Takes less than half a minute and leaves nothing behind.
    Exits with 0 if nothing was lost, 1 otherwise.
    """
    click.echo(INTRODUCTION, err=True)
    return asyncio.run(_interruptible())


async def _interruptible() -> int:
    with Signals().handled():
        try:
            verdict = await _show()
        except asyncio.CancelledError:
            return INTERRUPTED
    _print(verdict)
    click.echo(TRY_NEXT, err=True)
    return 0 if verdict.holds else 1


async def _show() -> Verdict:
    stage = Stage()
    with tempfile.TemporaryDirectory(prefix="coterie-demo-") as path:
        folder = Path(path)
        async with Children(folder) as children, Picture(stage).shown():
            return await perform(stage, children, folder)


def _print(verdict: Verdict) -> None:
    header = ["what happened", "entries", "longest gap"]
    rows = [[title, entries, f"{gap:.2f} s"] for title, entries, gap in verdict.passages]
    print_table(header, rows)
    click.echo()
    for finding in verdict.findings:
        answer = "yes" if finding.holds else "NO "
        click.echo(f"{answer}  {finding.claim:23}  {finding.evidence}")
