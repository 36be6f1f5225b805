"""A store in memory without any isolation, that may fail, and says whether it was tidied up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from coterie.errors import Unavailable
from coterie.lab.audit.target import Aborted, Level

if TYPE_CHECKING:
    from collections.abc import Sequence


class MemoryTarget:
    """Keys and lists in a dict."""

    rounds_at_a_time = None
    prefix: str = "memory"
    levels: ClassVar[dict[str, Level]] = {"none": Level("no isolation", "")}

    def __init__(self, *, calls_max: int | None = None, refuses: bool = False) -> None:
        self.values: dict[str, str] = {}
        self.lists: dict[str, list[int]] = {}
        self.calls_left = calls_max
        self.refuses = refuses
        self.is_removed = False
        self.lost_answers = 0  # of the commits that follow
        self.sessions = 0
        self.began = asyncio.Event()

    def __str__(self) -> str:
        return "memory"

    async def open(self) -> None:
        self.is_removed = False

    async def session(self, level: str) -> MemorySession:
        assert level in self.levels
        self.sessions += 1
        return MemorySession(self)

    async def remove(self) -> None:
        await asyncio.sleep(0)
        self.is_removed = True

    async def call(self) -> None:
        await asyncio.sleep(0)
        self.began.set()
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise Unavailable("memory: it is gone")


class MemorySession:
    """Does everything at once."""

    def __init__(self, target: MemoryTarget) -> None:
        self._target = target
        self._is_broken = False

    async def begin(self) -> None:
        assert not self._is_broken
        await self._target.call()

    async def read(self, key: str) -> str | None:
        await self._target.call()
        return self._target.values.get(key)

    async def write(self, key: str, value: str) -> None:
        await self._target.call()
        self._target.values[key] = value

    async def append(self, key: str, element: int) -> None:
        await self._target.call()
        self._target.lists.setdefault(key, []).append(element)

    async def read_list(self, key: str) -> list[int]:
        await self._target.call()
        return list(self._target.lists.get(key, ()))

    async def scan(self, prefix: str, names: Sequence[str]) -> dict[str, str]:
        await self._target.call()
        values = self._target.values
        assert all(name in names for name in values if name.startswith(prefix))
        return {name: values[name] for name in names if name in values}

    async def commit(self) -> None:
        await self._target.call()
        if self._target.lost_answers:
            self._target.lost_answers -= 1
            self._is_broken = True
            raise Unavailable("memory: it does not answer")
        if self._target.refuses:
            raise Aborted("always")

    async def abort(self) -> None:
        await self._target.call()

    async def close(self) -> None:
        self._target.sessions -= 1
