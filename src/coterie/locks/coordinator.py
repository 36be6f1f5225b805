"""The coordinator: where a program gets its locks from, and `connect`, which makes one of a URL."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self, overload

from coterie.locks.lock import Lock, Session
from coterie.locks.members import Members
from coterie.locks.names import check_name
from coterie.locks.semaphore import Semaphore, Semaphores
from coterie.locks.several import LockAll, LockAny
from coterie.locks.url import choose_url, engine_of_url, url_of, without_password
from coterie.locks.value import values_of
from coterie.system.aio import require_loop

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable, Sequence
    from types import TracebackType

    from coterie.locks.engine import Elector, Engine, Party
    from coterie.locks.held import Held, Holding
    from coterie.locks.lock import Acquirable
    from coterie.locks.once.once import Once
    from coterie.locks.value import Value
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
    found = choose_url(url if url is None or isinstance(url, str) else url_of(url))
    make = partial(engine_of_url, found)
    return Coordinator(make(), found, make, observers)


class Coordinator:
    """Locks, leaders and semaphores over one engine; use it in `async with`.

    What is guaranteed under which assumption depends on the engine; the objects behave alike.
    """

    url: str  # where the locks come from

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
        self._semaphores = Semaphores(self._session)

    def __repr__(self) -> str:
        """Show where the locks come from."""
        return f"<Coordinator {without_password(self.url)!r}>"

    async def open(self) -> None:
        """Get ready; `async with` does this."""
        require_loop()
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
        lease: float | None = None,
        shared: bool = False,
        reentrant: bool = False,
        note: str = "",
        on_lost: Callable[[Holding], object] | None = None,
    ) -> Lock:
        """Make a lock; nothing is sent before it is acquired.

        Args:
            name: 1 to 255 bytes of UTF-8 that can be printed, such as `order:17`.
            timeout: Seconds to wait; None waits forever, 0 tries once. Never the lease. An `async with` that was in
                vain asks who holds the lock, which may take half a second more; `acquire` does not.
            lease: Length of the lease in seconds: that of the cluster or server, which is also the
                longest, or less. With `file:` it means nothing, for there the system frees a lock
                when its process ends.
            shared: Many may hold it in shared mode together, but none beside an exclusive holder.
            reentrant: Let a task that holds it enter again, with the same token.
            note: What others read about the hold as long as it lasts, such as the address of a leader: up to 255
                bytes. `holders`, `observe`, `coterie status` and the dashboard show it.
            on_lost: Called with what was held when it is lost.
        """
        return Lock(
            self._session,
            name,
            timeout=timeout,
            lease=lease,
            shared=shared,
            reentrant=reentrant,
            note=note,
            on_lost=on_lost,
        )

    def lock_all(
        self,
        *parts: str | Acquirable[Any],
        timeout: float | None = None,
        lease: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> LockAll:
        """Make a lock of several, by name or made here, that takes every one or none.

        How long to wait is said here: the timeouts of its parts do not count.
        """
        return LockAll(self._session, self._parts(parts, lease), timeout=timeout, on_lost=on_lost)

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
        """Make a lock that takes the first of several names to become free; `held.name` says which.

        How long to wait is said here: the timeouts of its parts do not count.
        """
        return LockAny(self._session, self._parts(parts, lease), timeout=timeout, on_lost=on_lost)

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
        return Semaphore(
            self._semaphores, name, permits, timeout=timeout, lease=lease, on_lost=on_lost
        )

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
        """Make a job that runs once per period, however many programs begin it; nothing is sent before it is acquired.

        Args:
            name: Of the job, and of its lock, whose value is the record of its runs.
            period: The key of the period, such as `2026-11-17`, where the caller knows it; a later one is the larger text.
            every: How long a period lasts, such as `1d` or `6h`, or in seconds; the clock of this machine says which it is.
            at: The time of day at which a period begins, such as `02:00`; midnight by default.
            zone: The time zone of that time, such as `Europe/Berlin`, for periods of whole days; UTC by default.
            attempts: How often a period may be begun, if runs fail or are interrupted. With 1 it runs at most once.
            catch_up: How many of the latest periods are run if some were missed, the oldest first; by default the newest.
            only_within: How long after its beginning a period may be begun; by default until its end.
            timeout: Seconds to wait for a run that goes on, to take over if it fails and an attempt is left; by default
                until the next period.
            lease: Length of the lease in seconds, as for a lock.
        """
        from coterie.locks.once.once import Once  # noqa: PLC0415 - most programs have no such jobs
        from coterie.locks.once.plan import Plan  # noqa: PLC0415 - as above

        plan = Plan(
            check_name(name),
            period,
            every=every,
            at=at,
            zone=zone,
            attempts=attempts,
            catch_up=catch_up,
            only_within=only_within,
        )
        return Once(self._session, plan, timeout=timeout, lease=lease)

    def elect(
        self,
        name: str,
        *,
        timeout: float | None = None,
        lease: float | None = None,
        note: str = "",
        on_lost: Callable[[Holding], object] | None = None,
    ) -> Lock:
        """Stand for election: `async with` waits to lead, and leads while its body runs.

        A term is the hold of the lock of that name, its number the token. The leader resigns
        after the body has stopped, also when the term is lost. Those who observe read its note.
        """
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
        """Join a group: `async with` belongs to it while its body runs, and yields a `GroupMember`.

        It is the lock of that name in shared mode: a member that is killed is gone when its lock is free, and who
        takes the lock alone waits for all members to leave, and keeps others out. The note of each is shown to all.
        """
        return Members(
            self._session, name, timeout=timeout, lease=lease, note=note, on_lost=on_lost
        )

    def observe(self, name: str) -> AsyncGenerator[Party | None, None]:
        """Follow the leader: the present one first, then each change; None while there is none.

        A term that begins and ends between two looks is not seen.
        """
        self._session.check()
        return self._session.engine.watch(check_name(name), self._session.check)

    async def read(self, name: str) -> Value | None:
        """Return the value of a lock, or None, without taking the lock; its holder may just write another."""
        self._session.check()
        return await values_of(self._session.engine, self.url).read_value(check_name(name))

    def watch(self, name: str) -> AsyncGenerator[Value | None, None]:
        """Follow the value of a lock: the present one first, then each change; None while there is none.

        A value that is replaced between two looks is not seen.
        """
        self._session.check()
        values = values_of(self._session.engine, self.url)
        return values.watch_value(check_name(name), self._session.check)

    async def locked(self, name: str) -> bool:
        """Return True if a task or thread of any process holds the lock.

        A semaphore made here is locked when all of its permits are held.
        """
        self._session.check()
        return await self._semaphores.locked(check_name(name))

    async def holders(self, name: str) -> list[Party]:
        """List the holders of the lock; of a semaphore made here, the holders of its permits."""
        self._session.check()
        return await self._semaphores.holders(check_name(name))

    async def waiters(self, name: str) -> list[Party]:
        """List the tasks that wait for the lock, the next first; of a semaphore made here, for a permit."""
        self._session.check()
        return await self._semaphores.waiters(check_name(name))

    def _parts(
        self, parts: tuple[str | Acquirable[Any], ...], lease: float | None
    ) -> list[Acquirable[Any]]:
        return [self.lock(part, lease=lease) if isinstance(part, str) else part for part in parts]


class ElectionCoordinator(Coordinator):
    """What `coterie.join` returns for a cluster whose algorithm elects a leader, such as bully."""

    def __init__(self, engine: Elector, url: str, observers: Sequence[Observer] = ()) -> None:
        """Prepare; nothing is sent or opened yet."""
        super().__init__(engine, url, observers=observers)
        self._elector = engine

    async def leader(self) -> str:
        """Return the name of the node that this one follows; wait until there is one."""
        self._session.check()
        return await self._elector.leader(self._session.check)

    def leaders(self) -> AsyncGenerator[str, None]:
        """Follow the leader: the present one, then each change."""
        self._session.check()
        return self._elector.leaders(self._session.check)
