"""Locks, combinations of locks and semaphores for tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from coterie.tasks.held import Held, HeldAll, Holding, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from coterie import locks

Kept_co = TypeVar("Kept_co", bound=Holding, covariant=True)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Acquirable(Generic[Kept_co]):
    """Something that can be held. It has no state of its own: each task has its own part in it."""

    def __init__(
        self, inner: locks.Acquirable[Any], wrapped: Callable[[Any], Holding] = wrap
    ) -> None:
        """Stand for it; `wrapped` makes what its holder gets."""
        self._inner = inner
        # The kind that is held follows from the kind that is asked for.
        self._wrapped = cast("Callable[[locks.Holding], Kept_co]", wrapped)

    def __repr__(self) -> str:
        """Show what it is and its name."""
        return repr(self._inner)

    @property
    def name(self) -> str:
        """The name of the lock; of several, joined by commas."""
        return self._inner.name

    async def acquire(self, blocking: bool = True, timeout: float | None = None) -> Kept_co | None:  # noqa: ASYNC109 - as everywhere
        """Acquire for this task; None if that did not succeed in time.

        `timeout` is how many seconds to wait, by default what the lock was made with; None is
        forever and 0 is one try, which `blocking=False` says as well.
        """
        held = await self._inner.acquire(blocking, timeout)
        return None if held is None else self._wrapped(held)

    def __call__(
        self, function: Callable[Parameters, Coroutine[Any, Any, Result]]
    ) -> Callable[Parameters, Coroutine[Any, Any, Result]]:
        """Decorate a coroutine function: each call waits for the lock and holds it until it returns."""
        return self._inner(function)

    async def __aenter__(self) -> Kept_co:
        """Acquire, or raise `AcquireTimeout`: the body never runs without the lock."""
        return self._wrapped(await self._inner.__aenter__())

    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Coroutine[Any, Any, None]:
        """Release; raise `LockLost` if it was lost, unless the body raised something else."""
        return self._inner.__aexit__(kind, error, traceback)


class Lock(Acquirable[Held]):
    """A lock by name. Any number of tasks may use the same object; each holds for itself."""

    _inner: locks.Lock

    def __init__(self, inner: locks.Lock) -> None:
        """Stand for a lock."""
        super().__init__(inner, Held)

    async def release(self) -> None:
        """Release what this task holds; `NotHeld` if it holds nothing of this name."""
        await self._inner.release()


class LockAll(Acquirable[HeldAll]):
    """Takes every one, in the order of their names, so that two of its kind never cross.

    A part that is several itself is taken as a whole, so those can; then detection has to help.
    """


class LockAny(Acquirable[Kept_co]):
    """Takes the first that is granted; `held.name` says which."""


class Semaphore(Acquirable[Held]):
    """Lets in as many holders as it has permits; a task that acquires twice takes two."""


def inner_of(part: Acquirable[Any]) -> locks.Acquirable[Any]:
    """Return what an object of this face stands for, to be combined with others."""
    return part._inner  # noqa: SLF001 - of this module, and no business of a program
