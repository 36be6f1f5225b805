"""What locks, combinations of locks and semaphores have in common: the ways to acquire them."""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from coterie.errors import AcquireTimeout, LockLost, NotHeld
from coterie.locks.body import Body
from coterie.locks.held import Holding
from coterie.locks.patience import Patience, check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from coterie.locks.session import Owner

Kept_co = TypeVar("Kept_co", bound=Holding, covariant=True)


class Acquirable(ABC, Generic[Kept_co]):
    """Something that can be held. It has no state of its own: each task has its own part in it."""

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        timeout: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> None:
        """Remember how long to wait and whom to tell of a loss; nothing is asked for yet."""
        check_timeout(timeout)
        self.name = name
        self.names = tuple(names)  # of every lock that it may take
        self.timeout = timeout
        self.on_lost = on_lost
        self._bodies: dict[asyncio.Task[object], list[Body]] = {}

    def __repr__(self) -> str:
        """Tell what it is and its name."""
        return f"<{type(self).__name__} {self.name!r}>"

    @abstractmethod
    async def obtain(self, owner: Owner, patience: Patience) -> Kept_co | None:
        """Acquire on behalf of an owner; None if it was not to be had in time.

        If it is cancelled or fails, no request is left behind and nothing is held.
        """

    async def acquire(self, blocking: bool = True, timeout: float | None = None) -> Kept_co | None:  # noqa: ASYNC109 - as everywhere
        """Acquire for this task; None if that did not succeed in time.

        `timeout` is how many seconds to wait, by default what the lock was made with; None is for
        ever and 0 is one try, which `blocking=False` says as well.
        """
        return await self.take(asyncio.current_task(), self.patience(blocking, timeout))

    async def take(self, owner: Owner, patience: Patience) -> Kept_co | None:
        """Acquire on behalf of an owner, and see to it that `on_lost` is called."""
        holding = await self.obtain(owner, patience)
        if holding is not None and self.on_lost is not None:
            # Through the loop: an error in the callback must not keep the body from being cancelled.
            tell = asyncio.get_running_loop().call_soon
            holding.lost.call(functools.partial(tell, self.on_lost, holding))
        return holding

    def patience(self, blocking: bool = True, timeout: float | None = None) -> Patience:
        """Work out how long to wait."""
        if not blocking:
            if timeout is not None:
                raise ValueError("a timeout makes no sense for an acquire that does not block")
            return Patience.of(0)
        return Patience.of(self.timeout if timeout is None else timeout)

    def timed_out(self, holders: str = "somebody else") -> AcquireTimeout:
        """Word the error for a wait that was in vain."""
        waited = f"within {self.timeout:g} s" if self.timeout else "at once"
        return AcquireTimeout(
            f"lock {self.name!r} was not obtained {waited}: it is held by {holders};"
            " try again later, or wait longer"
        )

    async def __aenter__(self) -> Kept_co:
        """Acquire, or raise `AcquireTimeout`: the body never runs without the lock."""
        task = asyncio.current_task()
        assert task is not None, "async with runs in a task"
        holding = await self.take(task, self.patience())
        if holding is None:
            raise self.timed_out()
        self._bodies.setdefault(task, []).append(Body(holding, task))
        return holding

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release; raise `LockLost` if it was lost, unless the body raised something else."""
        task = asyncio.current_task()
        assert task is not None, "async with runs in a task"
        body = self._bodies[task].pop()
        if not self._bodies[task]:
            del self._bodies[task]
        gives_way = body.end(error)
        try:
            await body.holding.give_back(task)
        except LockLost as loss:
            if gives_way:
                raise loss from error
        except NotHeld:
            pass  # the body has released it by itself, and the owner is the same task
