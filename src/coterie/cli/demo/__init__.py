"""`coterie demo`: a lock that survives dead nodes, shown with real processes in a few seconds."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.cli.common.output import print_table
from coterie.cli.common.signals import Signals
from coterie.cli.demo.children import child_processes
from coterie.cli.demo.display import Display
from coterie.cli.demo.phases import LEASE_SECONDS, NODES, WORKERS, perform
from coterie.cli.demo.state import DemoState

if TYPE_CHECKING:
    from coterie.cli.demo.verdict import Verdict

INTERRUPTED = 130
INTRODUCTION = f"""\
{NODES} nodes on this machine grant one lock, with a lease of {LEASE_SECONDS:g} s. {WORKERS} workers compete for it;
while it holds the lock, a worker reads the last number in a file, works, and writes the next one.
"""
TRY_NEXT = """
Try next:
  coterie lock nightly -- echo mine    hold a lock while a command runs, on this machine
  coterie serve --dev 3                a cluster of your own to try things on
  coterie status --web                 locks, waits and deadlocks, live in the browser
  coterie lab                          play an algorithm by hand, and see where each move leads
  coterie tour                         the classic algorithms measured, verified and broken"""


@click.command("demo")
def command() -> int:
    """Show a lock that survives dead nodes.

    Five nodes and four workers run as processes on this machine; one node is killed, one is
    stopped, and then a worker that holds the lock. Takes less than half a minute and leaves nothing
    behind. Exits with 0 if nothing was lost, 1 otherwise.
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
    state = DemoState()
    with tempfile.TemporaryDirectory(prefix="coterie-demo-") as path:
        folder = Path(path)
        async with child_processes(folder) as children, Display(state).shown():
            return await perform(state, children, folder)


def _print(verdict: Verdict) -> None:
    header = ["what happened", "entries", "longest gap"]
    rows = [[title, entries, f"{gap:.2f} s"] for title, entries, gap in verdict.passages]
    print_table(header, rows)
    click.echo()
    for finding in verdict.findings:
        answer = "yes" if finding.holds else "NO "
        click.echo(f"{answer}  {finding.claim:23}  {finding.evidence}")
