"""The coordinator: where the faces for tasks and threads, and the commands, get their locks from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, overload

from coterie.errors import UsageError
from coterie.locks.engine import Elector
from coterie.locks.lock import Lock, Session
from coterie.locks.names import check_name
from coterie.locks.semaphore import Semaphore
from coterie.locks.several import LockAll, LockAny
from coterie.locks.url import without_password

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from types import TracebackType

    from coterie.locks.engine import Engine, Party
    from coterie.locks.held import Held, Holding
    from coterie.locks.lock import Acquirable
    from coterie.telemetry.observer import Observer


class Coordinator:
    """Locks, leaders and semaphores over one engine, with all that their users inside need.

    `coterie.Coordinator` and `coterie.sync.Coordinator` show a program what it may use of it.
    """

    def __init__(
        self,
        engine: Engine,
        url: str,
        again: Callable[[], Engine] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """Prepare; nothing is sent or opened yet. `again` makes another engine, for a forked child."""
        self.url = url
        self._session = Session(engine, url, again, observers)

    @property
    def engine(self) -> Engine:
        """What grants the locks."""
        return self._session.engine

    @property
    def held(self) -> list[Held]:
        """What tasks and threads of this process hold, in the order in which they took it."""
        return list(self._session.held.values())

    def __repr__(self) -> str:
        """Show where the locks come from."""
        return f"<Coordinator {without_password(self.url)!r}>"

    async def open(self) -> None:
        """Get ready; `async with` does this."""
        await self._session.open()

    async def close(self) -> None:
        """Withdraw all requests; a lock that is still held is lost to its holder."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        """Get ready."""
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Withdraw and give back everything."""
        await self.close()

    def lock(
        self,
        name: str,
        *,
        timeout: float | None = None,
        ttl: float | None = None,
        shared: bool = False,
        reentrant: bool = False,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> Lock:
        """Make a lock; nothing is sent before it is acquired. See `coterie.Coordinator.lock`."""
        return Lock(
            self._session,
            name,
            timeout=timeout,
            ttl=ttl,
            shared=shared,
            reentrant=reentrant,
            on_lost=on_lost,
        )

    def lock_all(
        self,
        *parts: str | Acquirable[Any],
        timeout: float | None = None,
        ttl: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> LockAll:
        """Make a lock of several, by name or made here, that takes every one or none."""
        return LockAll(self._session, self._parts(parts, ttl), timeout=timeout, on_lost=on_lost)

    @overload
    def lock_any(
        self,
        *parts: str,
        timeout: float | None = None,
        ttl: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> LockAny[Held]: ...

    @overload
    def lock_any(
        self,
        *parts: str | Acquirable[Any],
        timeout: float | None = None,
        ttl: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> LockAny[Any]: ...

    def lock_any(
        self,
        *parts: str | Acquirable[Any],
        timeout: float | None = None,
        ttl: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> LockAny[Any]:
        """Make a lock of several that takes the first to be had; `held.name` says which."""
        return LockAny(self._session, self._parts(parts, ttl), timeout=timeout, on_lost=on_lost)

    def semaphore(
        self,
        name: str,
        permits: int,
        *,
        timeout: float | None = None,
        ttl: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> Semaphore:
        """Make a semaphore: at most `permits` hold it at a time, each with a slot of its own."""
        return Semaphore(self._session, name, permits, timeout=timeout, ttl=ttl, on_lost=on_lost)

    def elect(
        self,
        name: str,
        *,
        timeout: float | None = None,
        ttl: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> Lock:
        """Stand for election: the term of a leader is the hold of the lock of that name."""
        return self.lock(name, timeout=timeout, ttl=ttl, on_lost=on_lost)

    def observe(self, name: str) -> AsyncGenerator[Party | None, None]:
        """Follow the leader: the present one first, then each change; None while there is none."""
        self._session.check()
        return self._session.engine.watch(check_name(name), self._session.check)

    async def leader(self) -> str:
        """Return the name of the node that this one follows; wait until there is one."""
        return await self._elector().leader(self._session.check)

    def leaders(self) -> AsyncGenerator[str, None]:
        """Follow the leader of a cluster whose algorithm elects: the present one, then each change."""
        return self._elector().leaders(self._session.check)

    def _elector(self) -> Elector:
        self._session.check()
        engine = self._session.engine
        if isinstance(engine, Elector):
            return engine
        raise UsageError(
            f"{without_password(self.url)} has locks and no election between nodes; use elect(name) and observe(name),"
            ' or a cluster with an algorithm that elects, such as "bully"'
        )

    async def locked(self, name: str) -> bool:
        """Return True if a task or thread of any process holds the lock."""
        return bool(await self.holders(name))

    async def holders(self, name: str) -> list[Party]:
        """List the holders of the lock."""
        self._session.check()
        return await self._session.engine.holders(check_name(name))

    async def waiters(self, name: str) -> list[Party]:
        """List the tasks that wait for the lock, the next first."""
        self._session.check()
        return await self._session.engine.waiters(check_name(name))

    def _parts(
        self, parts: tuple[str | Acquirable[Any], ...], ttl: float | None
    ) -> list[Acquirable[Any]]:
        return [self.lock(part, ttl=ttl) if isinstance(part, str) else part for part in parts]
