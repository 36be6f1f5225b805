"""Locks, combinations of locks and semaphores for threads."""

from __future__ import annotations

import functools
import inspect
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from coterie import locks
from coterie.errors import LockLost, NotHeld, UsageError
from coterie.locks import current
from coterie.sync.held import Held, Holding, wrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from coterie.locks.lock import Patience
    from coterie.sync.loop import Loop

Kept_co = TypeVar("Kept_co", bound=Holding, covariant=True)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Acquirable(Generic[Kept_co]):
    """Something that can be held; each thread has its own part in it."""

    def __init__(
        self,
        running: Callable[[], Loop],
        inner: locks.Acquirable[Any],
    ) -> None:
        """Stand for an object of the event loop, which may be started later; `running` finds it."""
        self.name = inner.name
        self._inner = inner
        self._running = running
        self._prompt = inner if isinstance(inner, locks.Lock) and inner.is_prompt else None
        self._entered: defaultdict[threading.Thread, list[Kept_co]] = defaultdict(list)

    def __repr__(self) -> str:
        """Show what it is and its name."""
        return repr(self._inner)

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> Kept_co | None:
        """Acquire for this thread; None if that did not succeed in time.

        `timeout` is how many seconds to wait, by default what the lock was made with; None is
        forever and 0 is one try, which `blocking=False` says as well.
        """
        owner, patience = threading.current_thread(), self._inner.patience(blocking, timeout)
        return self._take_now(owner) or self._take(owner, patience)

    def __enter__(self) -> Kept_co:
        """Acquire, or raise `AcquireTimeout`: the body never runs without the lock."""
        owner = threading.current_thread()
        held = self._take_now(owner) or self._take(owner, self._inner.patience())
        if held is None:
            raise self._running().run(self._inner.timed_out)
        self._entered[owner].append(held)
        current.enter(held)
        return held

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release; raise `LockLost` if it was lost, unless the body raised something else."""
        thread = threading.current_thread()
        held = self._entered[thread].pop()
        if not self._entered[thread]:
            del self._entered[thread]
        current.leave(held)
        try:
            held.release()
        except LockLost:
            if error is None:
                raise
        except NotHeld:
            pass  # the body has released it by itself, and the owner is the same thread

    def __call__(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        """Decorate a function: each call waits for the lock and holds it until it returns."""
        if inspect.iscoroutinefunction(function) or _makes_generators(function):
            raise UsageError(
                f"{self!r} can decorate a `def` that returns; for an `async def` take the lock from"
                " coterie.connect, and in a generator use `with` in the body"
            )

        @functools.wraps(function)
        def locked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            with self:
                return function(*args, **kwargs)

        return locked

    def _take_now(self, owner: threading.Thread) -> Kept_co | None:
        """Acquire in this thread, without the event loop, if that is possible at once."""
        if self._prompt is None:
            return None
        loop = self._running()
        loop.check()
        held = self._prompt.take_now(owner)
        return None if held is None else cast("Kept_co", Held(loop, held))

    def _take(self, owner: threading.Thread, patience: Patience) -> Kept_co | None:
        """Acquire, waiting if necessary: in this thread if that is possible, else in the event loop."""
        loop = self._running()
        if self._prompt is not None and self._prompt.can_wait_now(owner):
            held = self._prompt.wait_now(owner, patience)
            return None if held is None else cast("Kept_co", Held(loop, held))

        async def take() -> tuple[locks.Holding, Holding] | None:
            inner = await self._inner.take(owner, patience)
            return None if inner is None else (inner, wrap(loop, inner))

        async def undo(taken: tuple[locks.Holding, Holding] | None) -> None:
            if taken is not None:
                await taken[0].give_back(owner)

        taken = loop.run(take, undo)
        # The kind that is held follows from the kind that is asked for.
        return None if taken is None else cast("Kept_co", taken[1])


class Lock(Acquirable[Held]):
    """A lock by name."""

    _inner: locks.Lock

    def release(self) -> None:
        """Release what this thread holds; `NotHeld` if it holds nothing of this name."""
        owner = threading.current_thread()
        self._running().run(lambda: self._inner.give_back(owner))


def inner_of(part: Acquirable[Any]) -> locks.Acquirable[Any]:
    """Return what an object of this face stands for, to be combined with others."""
    return part._inner  # noqa: SLF001 - of this module, and no business of a program


def _makes_generators(function: Callable[..., object]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
