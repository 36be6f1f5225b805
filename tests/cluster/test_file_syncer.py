"""Which syncs the event loop waits for itself, and which a thread takes."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from coterie import syncer
from coterie.syncer import SHORT_IN_A_ROW, FileSyncer

if TYPE_CHECKING:
    import pytest

SHORT, LONG = syncer.SHORT_SECONDS / 2, syncer.SHORT_SECONDS * 2


class Disk:
    """A disk whose syncs take as long as the test says, by the clock of the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.takes = SHORT
        self.error: OSError | None = None
        self.told: list[OSError | None] = []
        self.now = 1000.0
        self.syncer = FileSyncer()
        monkeypatch.setattr(os, "fsync", self._sync)
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)

    def _sync(self, _: int) -> None:
        self.now += self.takes
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


def test_one_after_another_they_take_no_more_than_a_share_of_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        disk = Disk(monkeypatch)
        began = disk.now
        waited = 0.0
        for _ in range(1000):
            disk.now -= 1.0  # no pause
            waited += SHORT if disk.begin() else 0.0
        most = syncer.SHARE_OF_TIME * (disk.now - began) + syncer.CREDIT_SECONDS_MAX + SHORT
        assert most / 2 < waited <= most
        disk.syncer.close()

    asyncio.run(test())


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
