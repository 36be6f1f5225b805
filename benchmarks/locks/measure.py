"""One measurement: a peer that serves, one workload, a window of time."""

from __future__ import annotations

import select
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from benchmarks.locks import judge
from benchmarks.locks.machine import busy_seconds, cpu_seconds, die_with_parent
from benchmarks.locks.worker import Answer, Begin, Command, Connect, Run

if TYPE_CHECKING:
    from benchmarks.locks.judge import Samples
    from benchmarks.locks.peers.base import Peer
    from benchmarks.locks.workload import Workload

ROOT = Path(__file__).parents[2]
ANSWER_SECONDS_MAX = 60.0
HEAD_START_SECONDS = 0.2  # for the workers to get going
CALL_SECONDS_MAX = 0.5  # in W5 an acquire without an answer is given up and tried again


class Pace(msgspec.Struct, frozen=True):
    """How long things take."""

    warm_up: float
    window: float
    before_kill: float = 1.0
    after_kill: float = 5.0


class Result(msgspec.Struct, kw_only=True):
    """What one measurement came to; None where a workload does not show it."""

    peer: str
    workload: str
    repetition: int = 0
    operations: float | None = None  # a second
    cpu_seconds: float | None = None  # per 1,000 operations, clients and servers together
    client_seconds: float | None = None  # of that, the clients alone
    wait_median: float | None = None  # seconds
    wait_99th: float | None = None
    handoffs: float | None = None  # a second
    fairness: float | None = None
    gap: float | None = None  # seconds without an entry after the kill
    checked: int = 0  # entries that were looked at for overlaps
    violations: int = 0  # overlaps and lost counts
    failures: dict[str, int] = {}  # operations that failed, by their text
    foreign_cores: float = 0.0  # that others on the machine kept busy meanwhile
    error: str | None = None  # there is no measurement


class WorkerProcess:
    def __init__(self, folder: Path, index: int, *, on_uvloop: bool) -> None:
        self.samples = folder / f"samples-{index}"
        with (folder / f"worker-{index}.log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.locks.worker",
                    *(["uvloop"] if on_uvloop else []),
                ],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - this process has one thread
            )

    def tell(self, command: Command) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(command) + b"\n")
        self.process.stdin.flush()

    def answer(self) -> Answer:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS_MAX)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise RuntimeError("a worker did not answer")
        answer = msgspec.json.decode(line, type=Answer)
        if answer.error is not None:
            raise RuntimeError(answer.error)
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def layout(peer: Peer, workload: Workload) -> list[int]:
    """Decide how many clients each worker has."""
    if workload.clients == 1:
        return [1] + [0] * (max(1, peer.members) - 1)
    wanted = workload.processes or (workload.clients if peer.is_blocking else 1)
    processes = peer.members or wanted
    return [
        workload.clients // processes + (i < workload.clients % processes) for i in range(processes)
    ]


class Measurement:
    """A workload that is run once."""

    def __init__(self, peer: Peer, key: str, workload: Workload, folder: Path, pace: Pace) -> None:
        folder.mkdir(parents=True)
        self._peer = peer
        self._key = key
        self._workload = workload
        self._pace = pace
        self._window = pace.before_kill + pace.after_kill if workload.is_killing else pace.window
        self._clients = layout(peer, workload)
        self._workers = [
            WorkerProcess(folder, index, on_uvloop=peer.is_on_uvloop)
            for index in range(len(self._clients))
        ]
        self._tally: Path | None = None
        if workload.is_contended and workload.names == 1:
            self._tally = folder / "tally"
            self._tally.write_bytes(bytes(8))

    def take(self) -> Result:
        try:
            self._prepare()
            return self._watch()
        finally:
            for worker in self._workers:
                worker.kill()

    def _prepare(self) -> None:
        settings = self._peer.settings(surviving=self._workload.is_killing)
        for index, worker in enumerate(self._workers):
            worker.tell(Begin(self._key, settings, index))
        for worker in self._workers:
            worker.answer()
        for index, worker in enumerate(self._workers):
            first = sum(self._clients[:index])
            worker.tell(Connect(first, self._clients[index], self._workload.is_shared))
        for worker in self._workers:
            worker.answer()

    def _watch(self) -> Result:
        begin = time.monotonic() + HEAD_START_SECONDS + self._pace.warm_up
        end = begin + self._window
        self._start(end)
        servers = [server.process.pid for server in self._peer.servers]
        everybody = [*servers, *(worker.process.pid for worker in self._workers)]
        _sleep_until(begin)
        spent, busy, own = cpu_seconds(everybody), busy_seconds(), time.process_time()
        served = cpu_seconds(servers)
        if self._workload.is_killing:
            _sleep_until(begin + self._pace.before_kill)
            victim = self._workers.pop() if self._peer.members else self._peer.victim()
            killed = time.monotonic()
            victim.kill()
        _sleep_until(end)
        served, spent = cpu_seconds(servers) - served, cpu_seconds(everybody) - spent
        busy = busy_seconds() - busy
        samples, failures = self._collect()
        result = Result(peer=self._key, workload=self._workload.key, failures=failures)
        result.foreign_cores = (busy - spent - (time.process_time() - own)) / self._window
        if self._workload.is_killing:
            result.gap = judge.longest_gap(samples, killed, end)
        else:
            self._judge(result, samples, judge.within(samples, begin, end), spent)
            assert result.cpu_seconds is not None, "it was judged"
            result.client_seconds = result.cpu_seconds * (1 - served / spent)
        return result

    def _start(self, end: float) -> None:
        name = f"{self._workload.key.lower()}-{uuid.uuid4().hex[:6]}"
        for worker in self._workers:
            run = Run(
                name=name,
                names=self._workload.names,
                until=end,
                timeout=CALL_SECONDS_MAX if self._workload.is_killing else None,
                is_contended=self._workload.is_contended,
                samples=str(worker.samples),
                tally=str(self._tally) if self._tally else None,
            )
            worker.tell(run)

    def _collect(self) -> tuple[Samples, dict[str, int]]:
        failures: Counter[str] = Counter()
        for worker in self._workers:
            failures.update(worker.answer().failures)
        rows = [np.fromfile(worker.samples).reshape(-1, 6) for worker in self._workers]
        return np.concatenate(rows), dict(failures)

    def _judge(self, result: Result, everything: Samples, counted: Samples, spent: float) -> None:
        if not len(counted):
            raise RuntimeError(f"nobody got a lock; failures: {result.failures}")
        result.operations = len(counted) / self._window
        result.cpu_seconds = 1000 * spent / len(counted)
        median, late = np.percentile(judge.waits(counted), [50, 99])
        result.wait_median, result.wait_99th = float(median), float(late)
        if not self._workload.is_contended:
            return
        result.checked = len(everything)
        result.violations = judge.overlaps(everything)
        if self._tally:
            count = int.from_bytes(self._tally.read_bytes(), "little")
            result.violations += len(everything) - count
            service = judge.service(counted, self._workload.clients)
            result.handoffs = service.handoffs / self._window
            result.fairness = service.fairness


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
