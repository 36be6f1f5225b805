"""One transaction of an audit: what it does is done by the store and written down."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from coterie.transactions.history import History, HistoryEvent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from coterie.lab.audit.target import Session

MEET_SECONDS_MAX = 0.05  # one that waits for a lock in the store does not come
PAUSE_SECONDS_MAX = 0.004


class Recorder:
    """The history of an audit, and the names of its transactions."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.history = History()
        self.events: list[HistoryEvent] = []
        self.workloads: dict[str, str] = {}  # by transaction
        self._elements = 0

    def begin(self, workload: str) -> str:
        """Name the next transaction."""
        name = f"T{len(self.workloads) + 1}"
        self.workloads[name] = workload
        self.add(name, "begin")
        return name

    def element(self) -> int:
        """Return a number that no other element has."""
        self._elements += 1
        return self._elements

    def add(self, name: str, op: str, key: str | None = None, value: Any = None) -> None:
        """Write down an event."""
        event = HistoryEvent(name, op) if key is None else HistoryEvent(name, op, key, value)
        self.history.add(event)
        self.events.append(event)


class Meeting:
    """A point at which the transactions of a round wait for each other."""

    def __init__(self, parties: int) -> None:
        """Expect so many."""
        self._expected = parties
        self._all_here = asyncio.Event()

    async def wait(self) -> None:
        """Wait until all others are there or have left, but not for long."""
        self.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MEET_SECONDS_MAX):
                await self._all_here.wait()

    def leave(self) -> None:
        """Do not keep the others waiting any more."""
        self._expected -= 1
        if self._expected <= 0:
            self._all_here.set()


class Client:
    """What a script of a workload does, in one transaction."""

    def __init__(
        self, session: Session, recorder: Recorder, name: str, meeting: Meeting, random: Random
    ) -> None:
        """Do everything on this session and under this name."""
        self._session = session
        self._recorder = recorder
        self._name = name
        self._meeting = meeting
        self._random = random
        self._has_met = False

    async def meet(self) -> None:
        """Wait for the others of the round."""
        self._has_met = True
        await self._meeting.wait()

    def leave(self) -> None:
        """Let the others go on without this one, if they may still wait for it."""
        if not self._has_met:
            self._has_met = True
            self._meeting.leave()

    async def pause(self) -> None:
        """Wait for a moment."""
        await asyncio.sleep(self._random.uniform(0, PAUSE_SECONDS_MAX))

    async def read(self, key: str) -> str | None:
        """Read a key."""
        value = await self._session.read(key)
        self._recorder.add(self._name, "read", key, value)
        return value

    async def write(self, key: str, value: str) -> None:
        """Write a value; the name of the transaction makes it one of a kind."""
        value = f"{value} ({self._name})"
        await self._session.write(key, value)
        self._recorder.add(self._name, "write", key, value)

    async def append(self, key: str) -> None:
        """Append an element that is one of a kind."""
        element = self._recorder.element()
        await self._session.append(key, element)
        self._recorder.add(self._name, "append", key, element)

    async def read_list(self, key: str) -> list[int]:
        """Read a list."""
        found = await self._session.read_list(key)
        self._recorder.add(self._name, "read", key, found)
        return found

    async def scan(self, prefix: str, names: Sequence[str]) -> dict[str, str]:
        """Read all rows of a prefix: those that are not there count as read, too."""
        found = await self._session.scan(prefix, names)
        for name in names:
            self._recorder.add(self._name, "read", name, found.get(name))
        return found
