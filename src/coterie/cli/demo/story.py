"""The course of the demonstration: what is done to whom, and when."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from coterie.cli.demo.crew import start_workers
from coterie.cli.demo.ledger import Ledger
from coterie.cli.demo.nodes import start_nodes, url_of
from coterie.cli.demo.verdict import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from coterie.cli.demo.children import Children
    from coterie.cli.demo.crew import Worker
    from coterie.cli.demo.stage import Stage

NODES = 5
WORKERS = 4
LEASE_SECONDS = 2.0
ACT_SECONDS = 2.0
PATIENCE_SECONDS = 6.0  # for what takes a lease at most on a machine that is not busy
LOOK_SECONDS = 0.02


async def perform(stage: Stage, children: Children, folder: Path) -> Verdict:
    """Play it all, and judge what the ledger and the workers say."""
    stage.begin(f"{NODES} nodes start")
    stage.nodes += await start_nodes(children, folder, NODES, LEASE_SECONDS)
    stage.begin(f"{WORKERS} workers start")
    stage.workers += await start_workers(children, folder, WORKERS, url_of(stage.nodes))
    await _until(lambda: all(worker.written for worker in stage.workers))
    await _fail_nodes(stage)
    await _stop_a_holder(stage)
    for worker in stage.workers:
        worker.finish()
    await _until(lambda: all(worker.ended for worker in stage.workers))
    return judge(stage, Ledger(folder).entries(), children.last_words)


async def _fail_nodes(stage: Stage) -> None:
    _, second, _, fourth, _ = stage.nodes
    stage.begin("all nodes vote")
    await _go_on_for(stage, ACT_SECONDS)
    await second.kill()
    stage.begin(f"{second.name} is killed (SIGKILL)")
    await _go_on_for(stage, ACT_SECONDS)
    fourth.stop()
    stage.begin(f"{fourth.name} is stopped as well (SIGSTOP)")
    await _go_on_for(stage, LEASE_SECONDS + ACT_SECONDS / 2)
    fourth.go_on()
    stage.begin(f"{fourth.name} goes on (SIGCONT)")
    await _go_on_for(stage, ACT_SECONDS)


async def _stop_a_holder(stage: Stage) -> None:
    """Stop a worker between its last look at the lock and its write, for longer than its lease."""
    late = stage.workers[2]
    stage.begin(f"{late.name} is stopped while it holds the lock")
    late.stop_inside()
    await _until(lambda: late.condition == "stopped")
    await _until(lambda: _overtaken(late, stage))
    stage.begin(f"the others have gone on without {late.name}")
    await _go_on_for(stage, ACT_SECONDS / 2)
    late.go_on()
    stage.begin(f"{late.name} goes on, and writes too late")
    await _until(lambda: late.refused or late.process.returncode is not None)
    await _go_on_for(stage, ACT_SECONDS / 2)


def _overtaken(late: Worker, stage: Stage) -> bool:
    return any(worker.written and worker.written[-1] > late.token for worker in stage.workers)


async def _go_on_for(stage: Stage, seconds: float) -> None:
    """Let time pass, and more of it if nobody has entered since."""
    before = stage.entries
    deadline = time.monotonic() + seconds
    await _until(lambda: time.monotonic() >= deadline)
    await _until(lambda: stage.entries > before)


async def _until(condition: Callable[[], object]) -> None:
    """Wait for something, not for ever: what has not happened is for the verdict to find."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 - clocks set no event
        await asyncio.sleep(LOOK_SECONDS)
