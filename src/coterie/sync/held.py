"""What a thread has that holds a lock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from coterie import locks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from coterie.locks.value import Value
    from coterie.sync.loop import Loop


class LossEvent:
    """Is set when a lock is lost; `held.lost.wait()` waits for it."""

    def __init__(self, event: threading.Event) -> None:
        """Stand for an event that the event loop sets."""
        self._event = event

    def is_set(self) -> bool:
        """Return True if the lock is lost."""
        return self._event.is_set()

    __bool__ = is_set  # `if held.lost:` means what it says

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the lock is lost, or for the given number of seconds; return True if it is lost."""
        return self._event.wait(timeout)


def watched(inner: locks.Holding) -> LossEvent:
    """Return an event that is set when this is lost; in the thread of the loop."""
    event = threading.Event()
    inner.lost._call(event.set)
    return LossEvent(event)


class Holding:
    """One lock or several, held together by one thread."""

    name: str  # of the lock; of several, joined by commas

    def __init__(self, loop: Loop, inner: locks.Holding, lost: LossEvent | None = None) -> None:
        """Stand for what is held; without an event, nothing watches over it before `lost`."""
        self.name = inner.name
        self._loop = loop
        self._inner = inner
        self._lost = lost

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
    def lost(self) -> LossEvent:
        """Is set when it is lost; what was taken without the event loop is watched from now on."""
        if self._lost is None:
            self._lost = self._loop.run(self._watched)
        return self._lost

    async def _watched(self) -> LossEvent:
        return watched(self._inner)

    @property
    def tokens(self) -> Mapping[str, int]:
        """The fencing token of each lock by its name."""
        return self._inner.tokens

    @property
    def expires_at(self) -> float:
        """When the lease ends unless it is renewed, by `time.monotonic()`; inf without a lease."""
        return self._inner.expires_at

    @property
    def valid(self) -> bool:
        """Whether it is held by its owner now; looked up, not remembered."""
        return self._inner.valid

    def ensure(self) -> None:
        """Raise `LockLost` if the lock is lost and `NotHeld` if it was given back."""
        if not self.valid:
            self._loop.run(self._ensure)

    def release(self) -> None:
        """Give it back; `NotHeld` in another thread, `LockLost` if it was lost before."""
        owner = threading.current_thread()
        held = self._inner
        if self._lost is None and isinstance(held, locks.Held) and held._give_back_now(owner):
            return
        self._loop.run(lambda: self._inner._give_back(owner))

    async def _ensure(self) -> None:
        self._inner.ensure()


class Held(Holding):
    """A lock that is held."""

    _inner: locks.Held

    @property
    def token(self) -> int:
        """The fencing token: each that takes the lock later has a larger one."""
        return self._inner.token

    @property
    def shared(self) -> bool:
        """Whether others that share may hold it at the same time."""
        return self._inner.shared

    def read(self) -> Value | None:
        """Return the value of the lock, or None; asked again in the same hold it costs nothing."""
        return self._loop.run(self._inner.read)

    def write(self, data: bytes, *, connection: object = None) -> None:
        """Write the value of the lock, at most 64 KiB; return when it is durable.

        Raises `LockLost` if the hold ended before that: the write may have happened then, but not after another
        holder has read.

        Args:
            data: The value.
            connection: Of psycopg, to the database of locks on PostgreSQL, with an open transaction. That commits the
                value together with what else was written in it, or neither. After `LockLost` it has to be rolled back.
        """
        self._loop.run(lambda: self._inner.write(data, connection=connection))

    def delete(self) -> None:
        """Delete the value of the lock, as `write` writes it."""
        self._loop.run(self._inner.delete)


class HeldAll(Holding):
    """Several locks that are held together; `held["name"]` is one of them."""

    def __init__(self, loop: Loop, inner: locks.HeldAll, lost: LossEvent) -> None:
        """Stand for what is held."""
        super().__init__(loop, inner, lost)
        self._parts = {part.name: wrap(loop, part) for part in inner}

    def __iter__(self) -> Iterator[Holding]:
        """Iterate over the parts in the order in which they were asked for."""
        return iter(self._parts.values())

    def __getitem__(self, name: str) -> Holding:
        """Return the part of that name."""
        return self._parts[name]


def wrap(loop: Loop, inner: locks.Holding) -> Holding:
    """Stand for what is held, of whatever kind, and watch over it; in the thread of the loop."""
    if isinstance(inner, locks.HeldAll):
        return HeldAll(loop, inner, watched(inner))
    assert isinstance(inner, locks.Held), "there are two kinds"
    return Held(loop, inner, watched(inner))
