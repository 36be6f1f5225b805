"""The dashboard beside what has happened: workers and nodes come and go, and each look is judged by their notes.

A look lasts: it begins `took` seconds before its stamp, and what it shows is true if it was so at some moment between.
"""

from __future__ import annotations

import asyncio
import math
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.dashboard.monitor import Delta, First, Monitor

if TYPE_CHECKING:
    from coterie.dashboard.snapshot import Lock, Snapshot
    from tests.cluster.local_cluster import Processes

LOOK_SECONDS = 0.1  # between two looks
CLOCK_SECONDS = 0.1  # by which `since`, which nodes count back from, may be off
LATE_SECONDS = 1.0  # that a worker on a busy machine may ask after it has noted that it does
NOTICE_SECONDS = 2.0  # after the end of its lease in which a program is noticed to be gone
FAULT_SECONDS = 1.5  # between two faults


@dataclass
class Turn:
    """What a worker has noted of one wait for a lock and of the hold that followed."""

    worker: int
    lock: str
    asked: float
    got: float = math.inf
    token: str | None = None
    ended: float = math.inf


class Stretch(NamedTuple):
    """A time in which a node ran."""

    node: str
    up: float
    dying: float = math.inf  # it was killed between these two
    dead: float = math.inf


@dataclass
class Chronicle:
    """What has happened, by those to whom it did."""

    lease: float
    turns: list[Turn] = field(default_factory=list)
    killed: dict[int, float] = field(default_factory=dict)  # workers, not before
    paused: list[tuple[int, float, float]] = field(default_factory=list)
    nodes: list[Stretch] = field(default_factory=list)
    removed: dict[str, float] = field(default_factory=dict)  # nodes that others have replaced

    def read(self, notes: Path) -> None:
        """Read the notes of workers; the last line of a killed one may be cut."""
        last: dict[int, Turn] = {}
        for line in notes.read_text(encoding="utf-8").splitlines():
            pid, at, word, lock, *token = line.split()
            worker, moment = int(pid), float(at)
            if word == "asks":
                last[worker] = Turn(worker, lock, moment)
                self.turns.append(last[worker])
            elif word == "has":
                last[worker].got, last[worker].token = moment, token[0]
            else:
                last[worker].ended = moment

    def is_dead(self, worker: int, since: float) -> bool:
        """Return whether a worker was dead at a moment, and all had the time to notice."""
        return self.killed.get(worker, math.inf) + self.lease + NOTICE_SECONDS < since

    def was_silent(self, worker: int, begin: float, end: float) -> bool:
        """Return whether a worker was killed or paused before a look ended, and not long before it."""
        stretches = [(a, b) for pid, a, b in self.paused if pid == worker]
        stretches.append((self.killed.get(worker, math.inf), math.inf))
        return any(a <= end and b >= begin - self.lease for a, b in stretches)


def lies(shown: Snapshot, chronicle: Chronicle) -> list[str]:
    """Return what a look shows that was true at no moment of it."""
    begin, end = shown.at - shown.took, shown.at
    found = [lie for lock in shown.locks.values() for lie in _of_lock(lock, begin, end, chronicle)]
    found += [f"a deadlock of {name}, and none takes two locks" for name in shown.deadlocks]
    for name, node in shown.nodes.items():
        ran = [stretch for stretch in chronicle.nodes if stretch.node == name]
        if node.look == "good" and not any(each.dead >= begin for each in ran):
            found.append(f"node {name}: {node.state}, and it is dead")
        is_up = any(each.up <= begin and each.dying >= end for each in ran)
        if node.state.startswith("down") and is_up:
            found.append(f"node {name}: {node.state}, and it is up")
        if chronicle.removed.get(name, math.inf) < begin:
            found.append(f"node {name} is shown, and was replaced")
    return found


def _of_lock(lock: Lock, begin: float, end: float, chronicle: Chronicle) -> list[str]:
    turns = [turn for turn in chronicle.turns if turn.lock == lock.name]
    found = []
    if len(lock.holders) > 1:
        found.append(f"{lock.name}: two hold it")
    for holder in lock.holders:
        worker = _worker(holder.owner)
        known = [t for t in turns if t.worker == worker and t.token in {None, holder.token}]
        turn = next((t for t in known if t.token), known[-1] if known else None)
        if turn is None or turn.asked > end or turn.ended < begin:
            found.append(f"{lock.name}: {holder.owner} holds it with {holder.token}, and does not")
        elif any(
            t.token and int(t.token) > int(holder.token or 0) and t.got < begin for t in turns
        ):
            found.append(f"{lock.name}: {holder.owner} holds it, and another had it since")
        elif not turn.asked - CLOCK_SECONDS <= holder.since <= min(turn.got, end) + CLOCK_SECONDS:
            found.append(f"{lock.name}: {holder.owner} holds it since {holder.since}")
        if chronicle.is_dead(worker, begin):
            found.append(f"{lock.name}: {holder.owner} holds it, and is dead")
    for waiter in lock.waiters:
        worker = _worker(waiter.owner)
        waits = [t for t in turns if t.worker == worker]
        if not any(t.asked <= end and min(t.got, t.ended) >= begin for t in waits):
            found.append(f"{lock.name}: {waiter.owner} waits for it, and does not")
        elif not any(-CLOCK_SECONDS <= waiter.since - t.asked <= LATE_SECONDS for t in waits):
            found.append(f"{lock.name}: {waiter.owner} waits for it since {waiter.since}")
        if chronicle.is_dead(worker, begin):
            found.append(f"{lock.name}: {waiter.owner} waits for it, and is dead")
    found += [
        f"{lock.name}: {owner} is silent, and is not"
        for owner in lock.silent
        if not chronicle.was_silent(_worker(owner), begin, end)
    ]
    return found


def _worker(owner: str) -> int:
    return int(owner.rpartition(":")[2])


def after(old: Snapshot, delta: Delta) -> Snapshot:
    """Apply a change as a page does."""
    merged = {}
    for part in ("nodes", "programs", "locks", "deadlocks"):
        every = getattr(old, part) | getattr(delta, part)
        merged[part] = {name: value for name, value in every.items() if value is not None}
    return msgspec.structs.replace(
        old, at=delta.at, took=delta.took, look=delta.look, health=delta.health, **merged
    )


class Churn:
    """Kills and pauses workers, kills nodes and starts them again, and replaces them by others."""

    def __init__(self, cluster: Processes, folder: Path, seed: int, workers: int = 4) -> None:
        """Start the workers; the cluster votes."""
        self.chronicle = Chronicle(float(cluster.document["lease"]))
        self.faults: Counter[str] = Counter()
        self._cluster = cluster
        self._notes = folder / "notes"
        self._choices = random.Random(seed)
        names: list[str] = list(cluster.document["nodes"])
        self._up = dict.fromkeys(names, time.time())
        self._spares = iter(f"s{number}" for number in range(1, 1000))
        self._workers = [self._worker() for _ in range(workers)]

    def _worker(self) -> subprocess.Popen[bytes]:
        program = Path(__file__).with_name("churn_program.py")
        seed = str(self._choices.random())
        command = [sys.executable, str(program), self._cluster.url, str(self._notes), seed]
        return subprocess.Popen(command)

    def fault(self) -> None:
        """Let one thing happen, and be over."""
        kinds = (
            "kill a worker",
            "kill a worker",
            "pause a worker",
            "kill a node",
            "replace a node",
        )
        kind = self._choices.choice(kinds)
        {
            "kill a worker": self._kill_worker,
            "pause a worker": self._pause_worker,
            "kill a node": self._kill_node,
            "replace a node": self._replace_node,
        }[kind]()
        self.faults[kind] += 1

    def _kill_worker(self) -> None:
        place = self._choices.randrange(len(self._workers))
        worker = self._workers[place]
        self.chronicle.killed[worker.pid] = time.time()
        worker.kill()
        worker.wait()
        self._workers[place] = self._worker()

    def _pause_worker(self) -> None:
        worker = self._choices.choice(self._workers)
        began = time.time()
        worker.send_signal(signal.SIGSTOP)
        time.sleep(self._choices.uniform(0.5, 2.5) * self.chronicle.lease)
        worker.send_signal(signal.SIGCONT)
        self.chronicle.paused.append((worker.pid, began, time.time()))

    def _kill_node(self) -> None:
        name = self._choice_of_node()
        self._down(name)
        time.sleep(self._choices.uniform(0.2, 2.0))
        self._cluster.start(name)
        self._cluster.wait(
            lambda state: any(node.name == name and node.report for node in state.nodes),
            f"{name} to be back",
        )
        self._up[name] = time.time()

    def _replace_node(self) -> None:
        # One node of the URL stays, or the dashboard would know none of the others.
        first = next(iter(self._cluster.document["nodes"]))
        old, new = self._choice_of_node(but=first), next(self._spares)
        arguments = self._cluster.join(new)
        self._up[new] = time.time()
        self._cluster.change("replace", old, *arguments)
        self._down(old)
        self.chronicle.removed[old] = time.time()

    def _choice_of_node(self, but: str = "") -> str:
        return self._choices.choice([name for name in self._up if name != but])

    def _down(self, name: str) -> None:
        dying = time.time()
        self._cluster.kill(name)
        self.chronicle.nodes.append(Stretch(name, self._up.pop(name), dying, time.time()))

    def end(self) -> Chronicle:
        """End the workers, and return what has happened."""
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self.chronicle.nodes += [Stretch(name, since) for name, since in self._up.items()]
        self.chronicle.read(self._notes)
        return self.chronicle


async def looks_under_churn(churn: Churn, url: str, count: int) -> tuple[list[Snapshot], int]:
    """Look so many times while faults happen; return what was shown, and how often nothing could be."""
    shown: list[Snapshot] = []
    troubles = 0
    over = asyncio.Event()

    async def misbehave() -> None:
        while not over.is_set():
            await asyncio.to_thread(churn.fault)
            await asyncio.sleep(FAULT_SECONDS)

    faults = asyncio.create_task(misbehave())
    updates = Monitor(url, LOOK_SECONDS).updates()
    while len(shown) < count:
        _, update = await anext(updates)
        if isinstance(update, First):
            shown.append(update.snapshot)
        elif isinstance(update, Delta):
            shown.append(after(shown[-1], update))
        else:
            troubles += 1
    over.set()
    await updates.aclose()  # type: ignore[attr-defined]
    await faults
    return shown, troubles
