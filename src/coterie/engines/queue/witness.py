"""The end of a program that stands before us in a queue, seen by us as its neighbour on the same machine.

A server frees what a dead process held when its session has run out. A process of the same kernel can know
sooner that it is dead, and end what is left of it at the server: see `coterie.system.witness` for what is
proof, and what is none. Nothing else rests on it: where this fails, the session runs out.

`watched` is for servers on which one entry is waited for. `Witness` is for those on which all sessions before us are
observed, and removed by those who wait when their counters have not moved for a lease.

Why such a session may be removed at once. Its lease is there for a program that cannot be told from a dead one. This
one can: all of its processes are gone, so none of them believes that it holds a lock, and none renews, joins or
enters. What they have sent before their end may still arrive, as it may after a lease. Before the removal it
changes nothing for us: it is a step of a session that is removed afterwards. After the removal it finds no session.
The counter is not compared, then, but the life is: a program that has got children meanwhile lives on in them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from coterie.engines.queue.server import SessionLost
from coterie.errors import CoterieError
from coterie.locks.legible import legible
from coterie.system.witness import Watch, ends_of, read_life

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence

LOOKS_PER_LEASE = 3  # at a program that has not said its life yet
GRACE_SECONDS = 0.05  # before the first look, which is a request: most waits are over by then
RETRY_SECONDS = 0.1  # after a removal of which it is not known what has become of it

logger = logging.getLogger("coterie.engines")


@runtime_checkable
class SeenSession(Protocol):
    """A session that others may end when they have seen the end of its program."""

    async def live(self, life: str) -> None:
        """Write down by which processes the program is known; those that write none are not seen."""


@contextlib.asynccontextmanager
async def watched(
    name: str, lease: float, find: Callable[[], Awaitable[str]], end: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Watch a program that is waited for, as long as the body runs.

    Args:
        name: The program and the server, for the log.
        lease: How long its session lasts without it.
        find: Reads its life at the server; empty: it has not said one.
        end: Ends what is left of it there.
    """
    task = asyncio.ensure_future(_watch(name, lease, find, end))
    try:
        yield
    finally:
        task.cancel()


async def _watch(
    name: str, lease: float, find: Callable[[], Awaitable[str]], end: Callable[[], Awaitable[None]]
) -> None:
    await asyncio.sleep(GRACE_SECONDS)
    while True:
        with contextlib.suppress(CoterieError, SessionLost):
            life = await find()
            if read_life(life) is not None:
                async for _ in ends_of([life], None):
                    _note_end(name)
                    await end()
                return  # or it is not near us
        # A command that runs under a lock says its life when its processes are there.
        await asyncio.sleep(lease / LOOKS_PER_LEASE)


class Witness:
    """Watches the programs of all sessions that are observed, on behalf of one session of ours."""

    def __init__(
        self,
        server: str,
        lease: float,
        read: Callable[[Sequence[str]], Awaitable[Mapping[str, str]]],
        bury: Callable[[str, str], Awaitable[bool]],
    ) -> None:
        """Prepare; `run` watches.

        Args:
            server: For people.
            lease: Of our session.
            read: Reads the lives of sessions at the server, of those that have said theirs.
            bury: Removes a session there if this is still its life; returns False if it was over, or is not.
        """
        self._server = server
        self._lease = lease
        self._read = read
        self._bury = bury
        self._lives: dict[str, str] = {}  # of the sessions before us; empty: not known
        self._ended: set[str] = set()  # lives, of sessions to be buried
        self._news = asyncio.Event()
        self._over = asyncio.Event()

    def look_at(self, sessions: Iterable[str]) -> None:
        """Watch the programs of these sessions from now on, and no others."""
        wanted = dict.fromkeys(sessions, "")
        if wanted.keys() != self._lives.keys():
            self._lives = {session: self._lives.get(session, "") for session in wanted}
            self._news.set()

    def stop(self) -> None:
        """Let `run` end by itself, as soon as no request of it is under way."""
        self._over.set()
        self._news.set()

    async def run(self) -> None:
        """Watch until the end of our session."""
        watch = Watch(self._note_death)
        try:
            while not self._over.is_set():
                with contextlib.suppress(CoterieError):
                    await self._bury_dead()
                    await self._learn()
                # One that could not be buried is not told of again: its turn comes after a pause.
                watch.set([life for life in self._lives.values() if life not in self._ended])
                await self._await_news()
        except SessionLost:
            pass
        finally:
            watch.close()

    def _note_death(self, life: str) -> None:
        self._ended.add(life)
        self._news.set()

    async def _await_news(self) -> None:
        limit = None
        if self._ended:
            limit = RETRY_SECONDS
        elif "" in self._lives.values():
            # A command that runs under a lock says its life when its processes are there.
            limit = self._lease / LOOKS_PER_LEASE
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._news.wait()
        self._news.clear()

    async def _bury_dead(self) -> None:
        for session, life in list(self._lives.items()):
            if life in self._ended:
                if await self._bury(session, life):
                    _note_end(f"{self._server}: the program of session {session}")
                if session in self._lives:
                    self._lives[session] = ""  # to be read again, if it has another one by now
        self._ended.clear()

    async def _learn(self) -> None:
        """Read the lives that are not known yet, all in one request."""
        if "" not in self._lives.values():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self._over.wait()
        unknown = [session for session, life in self._lives.items() if not life]
        if unknown and not self._over.is_set():
            for session, life in (await self._read(unknown)).items():
                if session in self._lives:
                    self._lives[session] = life


def _note_end(name: str) -> None:
    logger.warning(
        "%s is dead, as we have seen: its locks are free",
        legible(name),
        extra={"event": "session-buried"},
    )
