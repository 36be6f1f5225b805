"""The coordinator for threads."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from coterie import locks
from coterie.errors import MisuseError
from coterie.locks.url import without_password
from coterie.sync.held import wrap
from coterie.sync.lock import Acquirable, Lock, LockAll, LockAny, Semaphore
from coterie.sync.loop import Loop

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
    from types import TracebackType

    from coterie.locks import Party
    from coterie.locks.value import Value
    from coterie.sync.held import Held, Holding
    from coterie.sync.members import Members
    from coterie.sync.once import Once
    from coterie.telemetry.observer import Observer

Seen = TypeVar("Seen")


def connect(
    url: str | os.PathLike[str] | None = None, *, observers: Sequence[Observer] = ()
) -> Coordinator:
    """Make a coordinator, to be used in `with`; the arguments are those of `coterie.connect`."""
    return Coordinator(locks.connect(url, observers=observers))


class Coordinator:
    """Locks, leaders and semaphores for threads; use it in `with`."""

    url: str  # where the locks come from

    def __init__(self, inner: locks.Coordinator) -> None:
        """Prepare; the thread is started when it is opened."""
        self.url = inner.url
        self._inner = inner
        self._started: Loop | None = None
        self._closing = threading.RLock()

    def __repr__(self) -> str:
        """Show where the locks come from."""
        return repr(self._inner)

    def open(self) -> None:
        """Start the thread and get ready; `with` does this."""
        if self._started is not None:
            raise MisuseError(f"the coordinator {without_password(self.url)} is open already")
        self._started = loop = Loop()
        try:
            loop.run(self._inner.open)
        except BaseException:
            self._started = None
            loop.stop()
            raise

    def close(self) -> None:
        """Withdraw all requests; a lock that is still held is lost to its holder."""
        loop = self._started
        if loop is None:
            return
        loop.check()  # a forked child must not wait for a thread that it does not have
        with self._closing:
            if self._started is not loop:
                return  # another thread has closed it meanwhile
            loop.run(self._inner.close)
            self._started = None
            loop.stop()

    def __enter__(self) -> Self:
        """Get ready."""
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Withdraw and give back everything."""
        self.close()

    def lock(
        self,
        name: str,
        *,
        timeout: float | None = None,
        lease: float | None = None,
        shared: bool = False,
        reentrant: bool = False,
        note: str = "",
        on_lost: Callable[[Holding], object] | None = None,
    ) -> Lock:
        """Make a lock; nothing is sent before it is acquired. See `coterie.Coordinator.lock`."""
        inner = self._inner.lock(
            name,
            timeout=timeout,
            lease=lease,
            shared=shared,
            reentrant=reentrant,
            note=note,
            on_lost=self._passing_to(on_lost),
        )
        return Lock(self._running, inner)

    def lock_all(
        self,
        *parts: str | Acquirable[Any],
        timeout: float | None = None,
        lease: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> LockAll:
        """Make a lock of several, by name or made here, that takes every one or none."""
        inner = self._inner.lock_all(
            *_inner(parts), timeout=timeout, lease=lease, on_lost=self._passing_to(on_lost)
        )
        return LockAll(self._running, inner)

    @overload
    def lock_any(
        self,
        *parts: str,
        timeout: float | None = None,
        lease: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> LockAny[Held]: ...

    @overload
    def lock_any(
        self,
        *parts: str | Acquirable[Any],
        timeout: float | None = None,
        lease: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> LockAny[Any]: ...

    def lock_any(
        self,
        *parts: str | Acquirable[Any],
        timeout: float | None = None,
        lease: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> LockAny[Any]:
        """Make a lock that takes the first of several names to become free; `held.name` says which."""
        inner = self._inner.lock_any(
            *_inner(parts), timeout=timeout, lease=lease, on_lost=self._passing_to(on_lost)
        )
        return LockAny(self._running, inner)

    def semaphore(
        self,
        name: str,
        permits: int,
        *,
        timeout: float | None = None,
        lease: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> Semaphore:
        """Make a semaphore: at most `permits` hold it at a time, each with a slot of its own."""
        inner = self._inner.semaphore(
            name, permits, timeout=timeout, lease=lease, on_lost=self._passing_to(on_lost)
        )
        return Semaphore(self._running, inner)

    def once(
        self,
        name: str,
        period: str | None = None,
        *,
        every: float | str | None = None,
        at: str | None = None,
        zone: str | None = None,
        attempts: int = 1,
        catch_up: int = 1,
        only_within: float | str | None = None,
        timeout: float | None = None,
        lease: float | None = None,
    ) -> Once:
        """Make a job that runs once per period. See `coterie.Coordinator.once`."""
        from coterie.sync.once import Once  # noqa: PLC0415 - most programs run none

        inner = self._inner.once(
            name,
            period,
            every=every,
            at=at,
            zone=zone,
            attempts=attempts,
            catch_up=catch_up,
            only_within=only_within,
            timeout=timeout,
            lease=lease,
        )
        return Once(self._running, inner)

    def elect(
        self,
        name: str,
        *,
        timeout: float | None = None,
        lease: float | None = None,
        note: str = "",
        on_lost: Callable[[Holding], object] | None = None,
    ) -> Lock:
        """Stand for election: `with` waits to lead, and leads while its body runs."""
        return self.lock(name, timeout=timeout, lease=lease, note=note, on_lost=on_lost)

    def members(
        self,
        name: str,
        *,
        timeout: float | None = None,
        lease: float | None = None,
        note: str = "",
        on_lost: Callable[[Holding], object] | None = None,
    ) -> Members:
        """Join a group: `with` belongs to it while its body runs, and yields a `Member`."""
        from coterie.sync.members import Members  # noqa: PLC0415 - most programs join none

        inner = self._inner.members(
            name, timeout=timeout, lease=lease, note=note, on_lost=self._passing_to(on_lost)
        )
        return Members(self._running, Lock(self._running, inner._lock), inner, self._following)

    def observe(self, name: str) -> Iterator[Party | None]:
        """Follow the leader: the present one first, then each change; None while there is none."""
        return self._following(lambda: self._inner.observe(name))

    def read(self, name: str) -> Value | None:
        """Return the value of a lock, or None, without taking the lock; its holder may just write another."""
        return self._running().run(lambda: self._inner.read(name))

    def watch(self, name: str) -> Iterator[Value | None]:
        """Follow the value of a lock: the present one first, then each change; None while there is none."""
        return self._following(lambda: self._inner.watch(name))

    def locked(self, name: str) -> bool:
        """Return True if a task or thread of any process holds the lock.

        A semaphore made here is locked when all of its permits are held.
        """
        return self._running().run(lambda: self._inner.locked(name))

    def holders(self, name: str) -> list[Party]:
        """List the holders of the lock; of a semaphore made here, the holders of its permits."""
        return self._running().run(lambda: self._inner.holders(name))

    def waiters(self, name: str) -> list[Party]:
        """List the tasks that wait for the lock, the next first; of a semaphore made here, for a permit."""
        return self._running().run(lambda: self._inner.waiters(name))

    def _following(self, follow: Callable[[], AsyncGenerator[Seen, None]]) -> Iterator[Seen]:
        """Yield in this thread what is seen in the event loop."""

        async def begin() -> AsyncGenerator[Seen, None]:
            return follow()

        changes = self._running().run(begin)
        try:
            while True:
                yield self._running().run(changes.__anext__)
        finally:
            with contextlib.suppress(MisuseError):  # closing has ended this, too
                self._running().run(changes.aclose)

    def _passing_to(
        self, on_lost: Callable[[Holding], object] | None
    ) -> Callable[[locks.Holding], object] | None:
        if on_lost is None:
            return None
        return lambda holding: on_lost(wrap(self._running(), holding))

    def _running(self) -> Loop:
        if self._started is None:
            raise MisuseError(
                f"the coordinator {without_password(self.url)} is not open; use `with coterie.sync.connect(...)`"
            )
        return self._started


def _inner(parts: tuple[str | Acquirable[Any], ...]) -> list[str | locks.Acquirable[Any]]:
    return [part if isinstance(part, str) else part._inner for part in parts]
