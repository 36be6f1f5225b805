"""One asker for all viewers: looks while a page is open, and tells each page what has changed."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from coterie.dashboard.events import Event, events_between
from coterie.dashboard.snapshot import Snapshot, changes, view_of
from coterie.errors import CoterieError
from coterie.locks.status import Look, find_source
from coterie.locks.url import without_password

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coterie.dashboard.snapshot import View
    from coterie.locks.status import Source

SECONDS = 1.0  # between two looks
EVENTS_MAX = 5_000
EVENTS_AT_FIRST = 200  # that a page gets when it opens
BEHIND_MAX = 10  # updates that a page may lag; then it gets the whole state instead


class First(msgspec.Struct, frozen=True):
    """What a page gets when it opens, or when it has fallen behind."""

    url: str
    snapshot: Snapshot
    events: list[Event]
    events_kept: int


class Delta(msgspec.Struct, frozen=True):
    """What has changed since the look before; None stands for what is gone."""

    at: float
    took: float
    look: Look
    health: str
    nodes: dict[str, Any]
    programs: dict[str, Any]
    locks: dict[str, Any]
    deadlocks: dict[str, Any]
    notes: list[str]
    events: list[Event]
    graph: bool  # whether the wait-for graph is another one


class Trouble(msgspec.Struct, frozen=True):
    """Why there was no answer; the page keeps what it has and shows that it is old."""

    at: float
    error: str


Update: TypeAlias = tuple[Literal["first", "delta", "trouble"], First | Delta | Trouble]


class Monitor:
    """Asks once a second while at least one page is open, however many there are."""

    def __init__(self, url: str, seconds: float = SECONDS) -> None:
        """Remember where to look; nothing is asked before the first page opens."""
        self.url = url
        self.view: View | None = None
        self._seconds = seconds
        self._trouble: Trouble | None = None
        self._events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._pages: set[asyncio.Queue[Update | Exception | None]] = set()
        self._asking: asyncio.Task[None] | None = None

    async def updates(self) -> AsyncIterator[Update]:
        """Yield the whole state, then every change, until the page closes.

        A defect of this program is raised at every page; what cannot be reached is told as `Trouble`.
        """
        page: asyncio.Queue[Update | Exception | None] = asyncio.Queue()
        self._pages.add(page)
        if self._asking is None or self._asking.done():
            # What was seen when the last page closed is old: the first look is told as a whole.
            self.view = self._trouble = None
            self._asking = asyncio.create_task(self._ask(), name="coterie dashboard")
        elif self.view is not None:
            page.put_nowait(self._first(self.view))
        if self._trouble is not None:
            page.put_nowait(("trouble", self._trouble))
        try:
            while True:
                update = await page.get()
                if update is None:
                    return
                if isinstance(update, Exception):
                    raise update
                yield update
        finally:
            self._pages.discard(page)
            if not self._pages:
                await self._stop()

    async def _stop(self) -> None:
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
            await asyncio.wait([asking])

    async def _ask(self) -> None:
        try:
            await self._look_repeatedly()
        except Exception as defect:  # noqa: BLE001 - ours: each page ends with it, and the server logs it
            for page in self._pages:
                page.put_nowait(defect)

    async def _look_repeatedly(self) -> None:
        source: Source | None = None
        while True:
            began = time.monotonic()
            try:
                source = source or await find_source(self.url)
                status = await source.look(locks=True, waits=True)
                self._take(view_of(status, time.time(), time.monotonic() - began))
            except (CoterieError, OSError) as error:
                self._miss(error)
            # A look that takes long is followed by a pause of the same length.
            took = time.monotonic() - began
            await asyncio.sleep(max(self._seconds - took, took))

    def _miss(self, error: Exception) -> None:
        since = self._trouble.at if self._trouble else time.time()
        self._trouble = Trouble(since, str(error))
        self._tell(("trouble", self._trouble))

    def _take(self, view: View) -> None:
        before, self.view, self._trouble = self.view, view, None
        if before is None:
            self._tell(self._first(view))
            return
        old, new = before.snapshot, view.snapshot
        events = events_between(old, new)
        self._events.extend(events)
        delta = Delta(
            new.at,
            new.took,
            new.look,
            new.health,
            changes(old.nodes, new.nodes),
            changes(old.programs, new.programs),
            changes(old.locks, new.locks),
            changes(old.deadlocks, new.deadlocks),
            new.notes,
            events,
            before.graph != view.graph,
        )
        self._tell(("delta", delta))

    def _first(self, view: View) -> Update:
        recent = list(self._events)[-EVENTS_AT_FIRST:]
        shown = without_password(self.url)
        return "first", First(shown, view.snapshot, recent, len(self._events))

    def _tell(self, update: Update) -> None:
        for page in self._pages:
            if page.qsize() >= BEHIND_MAX:
                while not page.empty():
                    page.get_nowait()
                if self.view is not None:
                    page.put_nowait(self._first(self.view))
                if self._trouble is None:
                    continue
            page.put_nowait(update)

    def close(self) -> None:
        """Let every page end, so that the server can."""
        for page in self._pages:
            page.put_nowait(None)
