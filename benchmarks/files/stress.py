"""Programs that take the locks of one directory and are killed with -9: is every promise kept?

Workers take a few locks, in tasks or in threads, alone and in shared mode, wait for some in vain, and
write down each grant while they are inside. The parent kills one after the other. Afterwards:

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
import threading
import time
import traceback
from pathlib import Path
from typing import NamedTuple, TypeAlias

import coterie
from coterie import locks
from coterie.engines.file.engine import FileEngine
from coterie.locks.internals import engine_of

Moments: TypeAlias = list[tuple[int, int]]  # before and after a look, in nanoseconds
RECORD = struct.Struct("<IIIIqqQ")
HOLD_SECONDS_MAX = 0.0002
LOOK_SECONDS = 0.0002  # between two looks of the main thread whether threads stand in a line


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


class Marks:
    """A second lock of another kind for each lock, which is locked by those inside."""

    def __init__(self, folder: Path, locks: int) -> None:
        flags = os.O_RDWR | os.O_CREAT
        self._marks = [os.open(folder / f"mark-{lock}", flags) for lock in range(locks)]
        self._log = os.open(folder / "log", flags | os.O_APPEND)
        self._inside = [0] * locks
        self._guard = threading.Lock()

    def enter(self, grant: Grant) -> None:
        """Lock the mark, and write the grant down."""
        # The mark is the process's: among tasks and threads of one worker we count.
        with self._guard:
            assert grant.shared or not self._inside[grant.lock], "two are inside"
            self._inside[grant.lock] += 1
            how = fcntl.LOCK_SH if grant.shared else fcntl.LOCK_EX
            fcntl.lockf(self._marks[grant.lock], how | fcntl.LOCK_NB)
            os.write(self._log, RECORD.pack(*grant))

    def leave(self, lock: int) -> None:
        """Unlock the mark after the last."""
        with self._guard:
            self._inside[lock] -= 1
            if not self._inside[lock]:
                fcntl.lockf(self._marks[lock], fcntl.LOCK_UN)


class Wish(NamedTuple):
    """What a task or thread asks for next."""

    lock: int
    shared: bool
    patience: float | None
    hold_seconds: float


class Worker:
    """A program that takes locks until it is killed: by tasks, or by threads."""

    def __init__(self, folder: Path, locks: int, seed: int) -> None:
        self._marks = Marks(folder, locks)
        self._locks = locks
        self._url = f"file:{folder / 'locks'}"
        self._random = random.Random(seed)

    def run(self) -> None:
        """Work until killed."""
        number = self._random.randint(1, 3)
        if self._random.random() < 0.5:
            asyncio.run(self._run_tasks(number))
        else:
            self._run_threads(number)

    def _wish(self) -> Wish:
        draw = self._random
        return Wish(
            draw.randrange(self._locks),
            draw.random() < 0.4,
            draw.choice([None, None, None, 0.0, 0.0005, 0.01]),
            draw.choice([0.0, draw.random() * HOLD_SECONDS_MAX]),
        )

    async def _run_tasks(self, number: int) -> None:
        async with locks.connect(self._url) as c:
            await asyncio.gather(*(self._work_in_task(c) for _ in range(number)))

    async def _work_in_task(self, c: locks.Coordinator) -> None:
        while True:
            wish = self._wish()
            began = time.monotonic_ns()
            asking = asyncio.create_task(
                c.lock(f"lock-{wish.lock}", shared=wish.shared).acquire(timeout=wish.patience)
            )
            while not (asking.done() or stands(c, asking)):  # noqa: ASYNC110 - most often at once
                await asyncio.sleep(0)
            waited = not asking.done()
            stood = time.monotonic_ns()
            held = await asking
            if held is None:
                continue
            self._marks.enter(
                Grant(wish.lock, wish.shared, waited, os.getpid(), began, stood, held.token)
            )
            if wish.hold_seconds:
                await asyncio.sleep(wish.hold_seconds)
            assert held.valid
            self._marks.leave(wish.lock)
            # Taken in a task of its own, which has ended, so any may give it back.
            await held.release()

    def _run_threads(self, number: int) -> None:
        inner = locks.connect(self._url)
        failed: list[BaseException] = []

        def work(stood: Moments) -> None:
            try:
                self._work_in_thread(c, stood)
            except BaseException as error:  # noqa: BLE001 - raised below
                failed.append(error)

        with coterie.sync.Coordinator(inner) as c:
            seen: dict[threading.Thread, Moments] = {}
            for _ in range(number):
                stood: Moments = []
                thread = threading.Thread(target=work, args=(stood,), daemon=True)
                seen[thread] = stood
                thread.start()
            while not failed:
                for thread, stood in seen.items():
                    before = time.monotonic_ns()
                    if not stood and stands(inner, thread):
                        stood.append((before, time.monotonic_ns()))
                time.sleep(LOOK_SECONDS)
            raise failed[0]

    def _work_in_thread(self, c: coterie.sync.Coordinator, stood: Moments) -> None:
        """Take locks; the main thread writes into `stood` when it has seen that we stand in a line."""
        while True:
            wish = self._wish()
            stood.clear()
            began = time.monotonic_ns()
            held = c.lock(f"lock-{wish.lock}", shared=wish.shared).acquire(timeout=wish.patience)
            if held is None:
                continue
            # One that began to look before we asked may have seen us in an earlier wait.
            seen = [after for before, after in stood[:1] if before > began]
            grant = Grant(
                wish.lock,
                wish.shared,
                bool(seen),
                os.getpid(),
                began,
                seen[0] if seen else time.monotonic_ns(),
                held.token,
            )
            self._marks.enter(grant)
            if wish.hold_seconds:
                time.sleep(wish.hold_seconds)
            assert held.valid
            self._marks.leave(wish.lock)
            held.release()


def stands(c: locks.Coordinator, owner: object) -> bool:
    """Return True if a request has joined the line."""
    engine = engine_of(c)
    assert isinstance(engine, FileEngine)
    return engine.stands(owner)


def start(folder: Path, locks: int, seed: int) -> int:
    """Fork a worker."""
    pid = os.fork()
    if pid:
        return pid
    try:
        Worker(folder, locks, seed).run()
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
