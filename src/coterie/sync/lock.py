"""Locks, combinations of locks and semaphores for threads."""

from __future__ import annotations

import functools
import inspect
import threading
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from coterie.errors import LockLost, NotHeld, UsageError
from coterie.locks import current
from coterie.locks.lock import FOREVER
from coterie.sync.held import Held, HeldAll, Holding, wrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from coterie import locks
    from coterie.locks.lock import Patience
    from coterie.sync.loop import Loop

Kept_co = TypeVar("Kept_co", bound=Holding, covariant=True)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Acquirable(Generic[Kept_co]):
    """Something that can be held; each thread has its own part in it."""

    name: str  # of the lock; of several, joined by commas

    def __init__(self, running: Callable[[], Loop], inner: locks.Acquirable[Any]) -> None:
        """Stand for an object of the event loop, which may be started later; `running` finds it."""
        self.name = inner.name
        self._inner = inner
        self._running = running
        self._entered: dict[threading.Thread, list[Kept_co]] = {}

    def __repr__(self) -> str:
        """Show what it is and its name."""
        return repr(self._inner)

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> Kept_co | None:
        """Acquire for this thread; None if that did not succeed in time.

        `timeout` is how many seconds to wait, by default what the lock was made with; None is
        forever and 0 is one try, which `blocking=False` says as well.
        """
        return self._take(threading.current_thread(), self._inner._patience(blocking, timeout))

    def __enter__(self) -> Kept_co:
        """Acquire, or raise `AcquireTimeout`: the body never runs without the lock."""
        owner, inner = threading.current_thread(), self._inner
        held = self._take(owner, FOREVER if inner._timeout is None else inner._patience())
        if held is None:
            raise self._running().run(inner._timed_out)
        self._entered.setdefault(owner, []).append(held)
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
        entered = self._entered[thread]
        held = entered.pop()
        if not entered:
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

    def _take(self, owner: threading.Thread, patience: Patience) -> Kept_co | None:
        """Acquire in the event loop, waiting if necessary."""
        loop = self._running()

        async def take() -> tuple[locks.Holding, Holding] | None:
            inner = await self._inner._take(owner, patience)
            return None if inner is None else (inner, wrap(loop, inner))

        async def undo(taken: tuple[locks.Holding, Holding] | None) -> None:
            if taken is not None:
                await taken[0]._give_back(owner)

        taken = loop.run(take, undo)
        # The kind that is held follows from the kind that is asked for.
        return None if taken is None else cast("Kept_co", taken[1])


class Lock(Acquirable[Held]):
    """A lock by name."""

    _inner: locks.Lock

    def __init__(self, running: Callable[[], Loop], inner: locks.Lock) -> None:
        """Stand for a lock; one whose engine needs no event loop is taken in the caller's thread."""
        super().__init__(running, inner)
        self._prompt = inner if inner._is_prompt else None

    def _take(self, owner: threading.Thread, patience: Patience) -> Held | None:
        """Acquire, waiting if necessary: in this thread if that is possible, else in the event loop."""
        prompt = self._prompt
        if prompt is not None:
            loop = self._running()
            loop.check()
            held = prompt._take_now(owner, patience)
            if held is not None:
                return Held(loop, held)
            if not prompt._needs_loop(owner):
                return None
        return super()._take(owner, patience)

    def release(self) -> None:
        """Release what this thread holds; `NotHeld` if it holds nothing of this name."""
        owner = threading.current_thread()
        self._running().run(lambda: self._inner._give_back(owner))


class LockAll(Acquirable[HeldAll]):
    """Takes every one, in the order of their names, so that two of its kind never cross."""


class LockAny(Acquirable[Kept_co]):
    """Takes the first that is granted; `held.name` says which."""


class Semaphore(Acquirable[Held]):
    """Lets in as many holders as it has permits; a thread that acquires twice takes two."""


def _makes_generators(function: Callable[..., object]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
