"""What a task has that holds a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie import locks

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping


class LossEvent:
    """Is set when a lock is lost; `await held.lost` waits for it."""

    __slots__ = ("_inner",)

    def __init__(self, inner: locks.LossEvent) -> None:
        """Stand for the event of a hold."""
        self._inner = inner

    def is_set(self) -> bool:
        """Return True if the lock is lost."""
        return self._inner.is_set()

    __bool__ = is_set  # `if held.lost:` means what it says

    async def wait(self) -> bool:
        """Wait until the lock is lost."""
        return await self._inner.wait()

    def __await__(self) -> Generator[Any, None, bool]:
        """Wait until the lock is lost."""
        return self._inner.wait().__await__()


class Holding:
    """One lock or several, held together by one task."""

    __slots__ = ("_inner",)

    def __init__(self, inner: locks.Holding) -> None:
        """Stand for what is held."""
        self._inner = inner

    def __repr__(self) -> str:
        """Show what is held and how it stands."""
        return repr(self._inner)

    def __eq__(self, other: object) -> bool:
        """Return True for the same hold: `on_lost` is called with an object of its own for it."""
        return isinstance(other, Holding) and hash(self) == hash(other)

    def __hash__(self) -> int:
        """Return the same number for the same hold, and no other while one of them is there."""
        return id(self._inner)

    @property
    def name(self) -> str:
        """The name of the lock; of several, joined by commas."""
        return self._inner.name

    @property
    def tokens(self) -> Mapping[str, int]:
        """The fencing token of each lock by its name."""
        return self._inner.tokens

    @property
    def expires_at(self) -> float:
        """When the lease ends unless it is renewed, by `time.monotonic()`; inf without a lease."""
        return self._inner.expires_at

    @property
    def lost(self) -> LossEvent:
        """Is set when it is lost; of several, when one of them is."""
        return LossEvent(self._inner.lost)

    @property
    def valid(self) -> bool:
        """Whether it is held by its owner now; looked up, not remembered."""
        return self._inner.valid

    def ensure(self) -> None:
        """Raise `LockLost` if the lock is lost and `NotHeld` if it was given back."""
        self._inner.ensure()

    async def release(self) -> None:
        """Give it back; done to the end even if this task is cancelled meanwhile.

        Raises `NotHeld` in a task that does not own it, and `LockLost` if it was lost before:
        then nothing is freed, since another process may hold it by now.
        """
        await self._inner.release()


class Held(Holding):
    """A lock that is held."""

    __slots__ = ()
    _inner: locks.Held

    @property
    def token(self) -> int:
        """The fencing token: each that takes the lock later has a larger one."""
        return self._inner.token

    @property
    def shared(self) -> bool:
        """Whether others that share may hold it at the same time."""
        return self._inner.shared


class HeldAll(Holding):
    """Several locks that are held together; `held["name"]` is one of them."""

    __slots__ = ()
    _inner: locks.HeldAll

    def __iter__(self) -> Iterator[Holding]:
        """Iterate over the parts in the order in which they were asked for."""
        return map(wrap, self._inner)

    def __getitem__(self, name: str) -> Holding:
        """Return the part of that name."""
        return wrap(self._inner[name])


def wrap(inner: locks.Holding) -> Holding:
    """Stand for what is held, of whatever kind."""
    return HeldAll(inner) if isinstance(inner, locks.HeldAll) else Held(inner)
