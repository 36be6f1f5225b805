"""Processes that take locks again and again, and what that costs them."""

from __future__ import annotations

import os
import struct
import time
import traceback
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.files.peers import Peer

RESULT = struct.Struct("<qd")
WARM_UP = 20


class Outcome(NamedTuple):
    """What the processes of a crowd did."""

    entries: list[int]  # of each process
    cpu_seconds: float

    @property
    def microseconds(self) -> float:
        """CPU time of an entry, over all processes."""
        return self.cpu_seconds / max(1, sum(self.entries)) * 1e6

    @property
    def fairness(self) -> float:
        """The least served over the most served."""
        return min(self.entries) / max(1, *self.entries)


class Crowd:
    """A number of processes, each with a lock of its own or all with one."""

    def __init__(self, peer: Peer, folder: Path, number: int, *, own_locks: bool) -> None:
        self._work = peer
        self._folder = folder
        self._names = [f"lock-{each}" if own_locks else "lock" for each in range(number)]

    def run(self, seconds: float) -> Outcome:
        """Start all, let them go at one moment, and collect what they say."""
        gate, opened = os.pipe()
        ready, told = os.pipe()
        results, results_in = os.pipe()
        children = []
        for name in self._names:
            child = os.fork()
            if not child:
                os.close(opened)
                self._live(name, seconds, gate, told, results_in)
            children.append(child)
        for _ in children:
            os.read(ready, 1)
        os.close(opened)  # the end of this pipe is the sign to begin
        for child in children:
            status = os.waitpid(child, 0)[1]
            assert status == 0, f"a process failed: {status}"
        found = [RESULT.unpack(os.read(results, RESULT.size)) for _ in children]
        for descriptor in (gate, ready, told, results, results_in):
            os.close(descriptor)
        return Outcome([entries for entries, _ in found], sum(cpu for _, cpu in found))

    def _live(self, name: str, seconds: float, gate: int, told: int, results: int) -> None:
        def begin() -> Callable[[], bool]:
            """Return what says whether to go on; called when all is warm."""
            os.write(told, b"x")
            os.read(gate, 1)
            end = time.monotonic() + seconds

            def goes_on() -> bool:
                if time.monotonic() < end:
                    return True
                measured.append(time.process_time())
                return False

            measured.append(time.process_time())
            return goes_on

        measured: list[
            float
        ] = []  # at the begin and at the end; neither opening nor closing counts
        try:
            entries = self._work(self._folder, name, begin)
            os.write(results, RESULT.pack(entries, measured[1] - measured[0]))
        except BaseException:  # noqa: BLE001 - the parent is to know
            traceback.print_exc()
            os.write(told, b"x")
            os._exit(1)
        os._exit(0)
