"""The phases of the demonstration: which process is killed or stopped, and when."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from coterie.cli.demo.ledger import Ledger
from coterie.cli.demo.nodes import start_nodes, url_of
from coterie.cli.demo.verdict import Verdict, judge
from coterie.cli.demo.workers import start_workers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from coterie.cli.demo.children import Children
    from coterie.cli.demo.state import DemoState
    from coterie.cli.demo.workers import Worker

NODES = 5
WORKERS = 4
LEASE_SECONDS = 2.0
PHASE_SECONDS = 2.0
PATIENCE_SECONDS = 6.0  # for what takes a lease at most on a machine that is not busy
LOOK_SECONDS = 0.02


async def perform(state: DemoState, children: Children, folder: Path) -> Verdict:
    """Run all phases, and judge what the ledger and the workers say."""
    state.begin(f"{NODES} nodes start")
    state.nodes += await start_nodes(children, folder, NODES, LEASE_SECONDS)
    state.begin(f"{WORKERS} workers start")
    state.workers += await start_workers(children, folder, WORKERS, url_of(state.nodes))
    await _until(lambda: all(worker.written for worker in state.workers))
    await _fail_nodes(state)
    await _stop_a_holder(state)
    for worker in state.workers:
        worker.finish()
    await _until(lambda: all(worker.ended for worker in state.workers))
    return judge(state, Ledger(folder).entries(), children.last_words)


async def _fail_nodes(state: DemoState) -> None:
    _, second, _, fourth, _ = state.nodes
    state.begin("all nodes vote")
    await _go_on_for(state, PHASE_SECONDS)
    await second.kill()
    state.begin(f"{second.name} is killed (SIGKILL)")
    await _go_on_for(state, PHASE_SECONDS)
    fourth.stop()
    state.begin(f"{fourth.name} is stopped as well (SIGSTOP)")
    await _go_on_for(state, LEASE_SECONDS + PHASE_SECONDS / 2)
    fourth.go_on()
    state.begin(f"{fourth.name} goes on (SIGCONT)")
    await _go_on_for(state, PHASE_SECONDS)


async def _stop_a_holder(state: DemoState) -> None:
    """Stop a worker between its last look at the lock and its write, for longer than its lease."""
    late = state.workers[2]
    state.begin(f"{late.name} is stopped while it holds the lock")
    late.stop_inside()
    await _until(lambda: late.condition == "stopped")
    await _until(lambda: _overtaken(late, state))
    state.begin(f"the others have gone on without {late.name}")
    await _go_on_for(state, PHASE_SECONDS / 2)
    late.go_on()
    state.begin(f"{late.name} goes on, and writes too late")
    await _until(lambda: late.refused or late.process.returncode is not None)
    await _go_on_for(state, PHASE_SECONDS / 2)


def _overtaken(late: Worker, state: DemoState) -> bool:
    return any(worker.written and worker.written[-1] > late.token for worker in state.workers)


async def _go_on_for(state: DemoState, seconds: float) -> None:
    """Wait, and longer if no worker has entered since."""
    before = state.entries
    deadline = time.monotonic() + seconds
    await _until(lambda: time.monotonic() >= deadline)
    await _until(lambda: state.entries > before)


async def _until(condition: Callable[[], object]) -> None:
    """Wait for a condition up to a limit: the verdict finds what has not happened."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 - clocks set no event
        await asyncio.sleep(LOOK_SECONDS)
