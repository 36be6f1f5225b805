"""The coordinator for tasks: where a program gets its locks from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, overload

from coterie import locks
from coterie.tasks.held import Held, HeldAll, wrap
from coterie.tasks.lock import Acquirable, Lock, LockAll, LockAny, Semaphore, inner_of

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable, Sequence
    from types import TracebackType

    from coterie.locks import Party
    from coterie.tasks.held import Holding
    from coterie.telemetry.observer import Observer


def connect(
    url: str | os.PathLike[str] | None = None, *, observers: Sequence[Observer] = ()
) -> Coordinator:
    """Make a coordinator, to be used in `async with`; nothing is opened yet.

    Without a URL the environment variable COTERIE_URL counts, then `url` or the nodes in
    `coterie.toml` of the current directory, then `file:`, which needs nothing but this machine.
    A path is a directory of locks, or the file `NAME.toml` that describes a cluster.

    A coordinator belongs to the process that opens it: one that is made at the top of a module may be opened in
    each child after a fork.

    `observers`, such as `coterie.telemetry.Metrics()`, are told of each lock that is taken, missed and
    given back.
    """
    return Coordinator(locks.connect(url, observers=observers))


class Coordinator:
    """Locks, leaders and semaphores over one engine; use it in `async with`.

    What is guaranteed under which assumption depends on the engine; the objects behave alike.
    """

    def __init__(self, inner: locks.Coordinator) -> None:
        """Prepare; nothing is sent or opened yet."""
        self._inner = inner

    def __repr__(self) -> str:
        """Show where the locks come from."""
        return repr(self._inner)

    @property
    def url(self) -> str:
        """Where the locks come from."""
        return self._inner.url

    async def open(self) -> None:
        """Get ready; `async with` does this."""
        await self._inner.open()

    async def close(self) -> None:
        """Withdraw all requests; a lock that is still held is lost to its holder."""
        await self._inner.close()

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
        """Make a lock; nothing is sent before it is acquired.

        Args:
            name: 1 to 255 bytes of UTF-8 that can be printed, such as `order:17`.
            timeout: Seconds to wait; None waits forever, 0 tries once. Never the lease. An `async with` that was in
                vain asks who holds the lock, which may take half a second more; `acquire` does not.
            ttl: Length of the lease in seconds: that of the cluster or server, which is also the
                longest, or less. With `file:` it means nothing, for there the system frees a lock
                when its process ends.
            shared: Many may hold it in shared mode together, but none beside an exclusive holder.
            reentrant: Let a task that holds it enter again, with the same token.
            on_lost: Called with what was held when it is lost.
        """
        return Lock(
            self._inner.lock(
                name,
                timeout=timeout,
                ttl=ttl,
                shared=shared,
                reentrant=reentrant,
                on_lost=_passing_to(on_lost),
            )
        )

    def lock_all(
        self,
        *parts: str | Acquirable[Any],
        timeout: float | None = None,
        ttl: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> LockAll:
        """Make a lock of several, by name or made here, that takes every one or none.

        How long to wait is said here: the timeouts of its parts do not count.
        """
        inner = self._inner.lock_all(
            *_inner(parts), timeout=timeout, ttl=ttl, on_lost=_passing_to(on_lost)
        )
        return LockAll(inner, HeldAll)

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
        """Make a lock of several that takes the first to be had; `held.name` says which.

        How long to wait is said here: the timeouts of its parts do not count.
        """
        inner = self._inner.lock_any(
            *_inner(parts), timeout=timeout, ttl=ttl, on_lost=_passing_to(on_lost)
        )
        return LockAny(inner)

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
        inner = self._inner.semaphore(
            name, permits, timeout=timeout, ttl=ttl, on_lost=_passing_to(on_lost)
        )
        return Semaphore(inner, Held)

    def elect(
        self,
        name: str,
        *,
        timeout: float | None = None,
        ttl: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> Lock:
        """Stand for election: `async with` waits to lead, and leads while its body runs.

        A term is the hold of the lock of that name, its number the token. The leader resigns
        after the body has stopped, also when the term is lost.
        """
        return self.lock(name, timeout=timeout, ttl=ttl, on_lost=on_lost)

    def observe(self, name: str) -> AsyncGenerator[Party | None, None]:
        """Follow the leader: the present one first, then each change; None while there is none.

        A term that begins and ends between two looks is not seen.
        """
        return self._inner.observe(name)

    async def leader(self) -> str:
        """Return the name of the node that this one follows; wait until there is one.

        Only for a program that has joined a cluster whose algorithm elects, such as bully.
        """
        return await self._inner.leader()

    def leaders(self) -> AsyncGenerator[str, None]:
        """Follow the leader of a cluster whose algorithm elects: the present one, then each change."""
        return self._inner.leaders()

    async def locked(self, name: str) -> bool:
        """Return True if a task or thread of any process holds the lock."""
        return await self._inner.locked(name)

    async def holders(self, name: str) -> list[Party]:
        """List the holders of the lock."""
        return await self._inner.holders(name)

    async def waiters(self, name: str) -> list[Party]:
        """List the tasks that wait for the lock, the next first."""
        return await self._inner.waiters(name)


def _passing_to(
    on_lost: Callable[[Holding], object] | None,
) -> Callable[[locks.Holding], object] | None:
    return None if on_lost is None else lambda holding: on_lost(wrap(holding))


def _inner(parts: tuple[str | Acquirable[Any], ...]) -> list[str | locks.Acquirable[Any]]:
    return [part if isinstance(part, str) else inner_of(part) for part in parts]
