"""Programs that take the locks of one directory and are killed with -9: is every promise kept?

Workers take a few locks, alone and in shared mode, wait for some in vain, and write down each grant while
they are inside. The parent kills one after the other. Afterwards:

* No two were inside together that may not be: each locks a mark of its lock while it is inside, which
  fails at once if another has it. The mark is a lock of the process, which the kernel drops when it begins
  to close the files of one that is killed; the locks of a directory go later, with their descriptors.
* Tokens only grow: in the order of the log, which is written inside, the token of one that is alone is above
  all before it, and that of one that shares above those of all that were alone.
* First come, first served: one that stood in the line before another began to ask has the smaller token,
  unless both share.

    python -m benchmarks.files.stress --grants 50000 --kills 500
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

import coterie
from coterie.engines.file.engine import FileEngine

RECORD = struct.Struct("<IIIIqqQ")
HOLD_SECONDS_MAX = 0.0002


class Grant(NamedTuple):
    """What a worker wrote while it was inside."""

    lock: int
    shared: bool
    waited: bool
    pid: int
    began: int  # to ask, in nanoseconds
    stood: int  # in the line, or inside
    token: int


class Report(NamedTuple):
    """What came of it."""

    grants: int
    waited: int
    shared: int
    kills: int
    problems: list[str]

    def __str__(self) -> str:
        verdict = "; ".join(self.problems[:5]) or "no overlap, no token that went back, order kept"
        return (
            f"{self.grants} grants ({self.waited} after a wait, {self.shared} shared),"
            f" {self.kills} kills: {verdict}"
        )


class Worker:
    """A program that takes locks until it is killed."""

    def __init__(self, folder: Path, locks: int, seed: int) -> None:
        flags = os.O_RDWR | os.O_CREAT
        self._marks = [os.open(folder / f"mark-{lock}", flags) for lock in range(locks)]
        self._log = os.open(folder / "log", flags | os.O_APPEND)
        self._url = f"file:{folder / 'locks'}"
        self._random = random.Random(seed)
        self._inside = [0] * locks

    async def run(self) -> None:
        async with coterie.connect(self._url) as c:
            await asyncio.gather(*(self._work(c) for _ in range(self._random.randint(1, 3))))

    async def _work(self, c: coterie.Coordinator) -> None:
        while True:
            lock = self._random.randrange(len(self._marks))
            shared = self._random.random() < 0.4
            patience = self._random.choice([None, None, None, 0.0, 0.0005, 0.01])
            began = time.monotonic_ns()
            asking = asyncio.create_task(
                c.lock(f"lock-{lock}", shared=shared).acquire(timeout=patience)
            )
            while not (asking.done() or stands(c, asking)):  # noqa: ASYNC110 - most often at once
                await asyncio.sleep(0)
            waited = not asking.done()
            stood = time.monotonic_ns()
            held = await asking
            if held is None:
                continue
            await self._hold(
                held, Grant(lock, shared, waited, os.getpid(), began, stood, held.token)
            )
            # Taken in a task of its own, which has ended, so any may give it back.
            await held.release()

    async def _hold(self, held: coterie.Held, grant: Grant) -> None:
        lock, mark = grant.lock, self._marks[grant.lock]
        # The mark is the process's: among tasks of one worker we count.
        assert held.shared or not self._inside[lock], "two tasks are inside"
        self._inside[lock] += 1
        fcntl.lockf(mark, (fcntl.LOCK_SH if held.shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        os.write(self._log, RECORD.pack(*grant))
        if self._random.random() < 0.5:
            await asyncio.sleep(self._random.random() * HOLD_SECONDS_MAX)
        assert held.valid
        self._inside[lock] -= 1
        if not self._inside[lock]:
            fcntl.lockf(mark, fcntl.LOCK_UN)


def stands(c: coterie.Coordinator, owner: object) -> bool:
    """Return True if a request has joined the line."""
    assert isinstance(c.engine, FileEngine)
    return any(claim.stands for claim in c.engine.claims() if claim.owner is owner)


def start(folder: Path, locks: int, seed: int) -> int:
    """Fork a worker."""
    pid = os.fork()
    if pid:
        return pid
    try:
        asyncio.run(Worker(folder, locks, seed).run())
    except BaseException:  # noqa: BLE001 - the parent is to know
        (folder / f"failure-{os.getpid()}").write_text(traceback.format_exc())
    os._exit(1)


def stress(folder: Path, *, grants: int, kills: int, locks: int = 2, seed: int = 0) -> Report:
    """Let 4 to 8 workers run, and kill them one after the other."""
    rng = random.Random(seed)
    workers = [start(folder, locks, rng.getrandbits(32)) for _ in range(4)]
    log, killed = folder / "log", 0
    try:
        while not any(folder.glob("failure-*")):
            done = log.stat().st_size // RECORD.size if log.exists() else 0
            if done >= grants and killed >= kills:
                break
            if killed * grants <= done * kills:
                victim = workers.pop(rng.randrange(len(workers)))
                os.kill(victim, signal.SIGKILL)
                os.waitpid(victim, 0)
                killed += 1
                while len(workers) < rng.randint(4, 8):
                    workers.append(start(folder, locks, rng.getrandbits(32)))
            time.sleep(rng.random() * 0.005)
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
    failures = [path.read_text() for path in folder.glob("failure-*")]
    return judge(read(log), killed, failures)


def read(log: Path) -> list[Grant]:
    """Read the grants in the order in which they were written."""
    content = log.read_bytes()
    return [Grant(*fields) for fields in RECORD.iter_unpack(content)]


def judge(log: list[Grant], kills: int, failures: list[str]) -> Report:
    """Check what the workers wrote."""
    problems = [f"a worker failed: {text.strip().splitlines()[-1]}" for text in failures]
    for lock in {grant.lock for grant in log}:
        line = [grant for grant in log if grant.lock == lock]
        problems += tokens_back(line) + overtaken(line)
    waited = sum(grant.waited for grant in log)
    return Report(len(log), waited, sum(grant.shared for grant in log), kills, problems)


def tokens_back(line: list[Grant]) -> list[str]:
    """Find tokens that are not above those before them."""
    problems, highest, alone = [], 0, 0
    for grant in line:
        if grant.token <= (alone if grant.shared else highest):
            problems.append(f"token {grant.token} after {highest}")
        highest = max(highest, grant.token)
        if not grant.shared:
            alone = max(alone, grant.token)
    return problems


def overtaken(line: list[Grant]) -> list[str]:
    """Find those that stood in the line before another asked, and were served after it."""
    problems = []
    earliest = earliest_alone = sys.maxsize  # of those with greater tokens
    for grant in sorted(line, key=lambda grant: -grant.token):
        before = earliest_alone if grant.shared else earliest
        if before < grant.began:
            problems.append(f"{grant} was served before one that stood there at {before}")
        earliest = min(earliest, grant.stood)
        if not grant.shared:
            earliest_alone = min(earliest_alone, grant.stood)
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--grants", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--locks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="coterie-stress-"))
    try:
        report = stress(
            folder, grants=given.grants, kills=given.kills, locks=given.locks, seed=given.seed
        )
    finally:
        shutil.rmtree(folder)
    print(report)
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
