"""Which syncs the event loop waits for itself, and which a thread takes."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from coterie.system import file_syncer as syncer
from coterie.system.file_syncer import SHORT_IN_A_ROW, FileSyncer

SHORT, LONG = syncer.SHORT_SECONDS / 2, syncer.SHORT_SECONDS * 2


class Disk:
    """A disk whose syncs take as long as the test says, by the clock of the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.takes = SHORT
        self.error: OSError | None = None
        self.told: list[OSError | None] = []
        self.now = 1000.0
        self.busy = 0.0  # CPU seconds of the event loop
        self.syncer = FileSyncer()
        monkeypatch.setattr(os, "fsync", self._sync)
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)
        monkeypatch.setattr(time, "thread_time", lambda: self.busy)

    def _sync(self, _: int) -> None:
        self.now += self.takes
        if threading.current_thread() is not threading.main_thread():
            self.busy += self.takes  # the event loop has other work meanwhile
        if self.error is not None:
            raise self.error

    def begin(self) -> bool:
        """Sync after a pause; return whether that was over at once, and wait if it was not."""
        self.now += 1.0
        before = len(self.told)
        self.syncer.begin(0, self.told.append)
        at_once = len(self.told) > before
        self.syncer.wait()
        assert len(self.told) == before + 1, "told once, and not more"
        return at_once


def test_after_a_long_sync_a_thread_has_the_next_until_enough_were_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        disk = Disk(monkeypatch)
        assert all(disk.begin() for _ in range(3))
        disk.takes = LONG
        assert disk.begin(), "nobody knew"
        assert not any(disk.begin() for _ in range(3))
        disk.takes = SHORT
        assert not any(disk.begin() for _ in range(SHORT_IN_A_ROW))
        assert disk.begin()
        disk.syncer.close()

    asyncio.run(test())


def test_an_event_loop_with_other_work_leaves_them_to_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits itself for as long as it was idle besides, and what it has saved up of that."""

    async def test(idle: float) -> float:
        disk = Disk(monkeypatch)
        waited = 0.0
        for _ in range(1000):
            disk.busy += 1.0 - idle
            waited += SHORT if disk.begin() else 0.0
        disk.syncer.close()
        return waited

    most = syncer.CREDIT_SECONDS_MAX + 2 * SHORT
    assert asyncio.run(test(0.0)) <= most
    assert 500 * SHORT < asyncio.run(test(SHORT / 2)) <= 500 * SHORT + most
    assert asyncio.run(test(2 * SHORT)) == pytest.approx(1000 * SHORT)


def test_a_sync_that_fails_says_so_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        disk = Disk(monkeypatch)
        disk.error = OSError("no disk")
        disk.takes = LONG
        assert disk.begin()
        assert not disk.begin()
        assert disk.told == [disk.error, disk.error]
        disk.syncer.close()

    asyncio.run(test())
