"""What a thread has that holds a lock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from coterie import locks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from coterie.sync.loop import Loop


class LossEvent(threading.Event):
    """Is set when a lock is lost; `held.lost.wait()` waits for it."""

    def __bool__(self) -> bool:
        """Return True if the lock is lost: `if held.lost:` means what it says."""
        return self.is_set()


class Holding:
    """One lock or several, held together by one thread."""

    def __init__(self, loop: Loop, inner: locks.Holding) -> None:
        """Stand for what is held; nothing watches over it before `watch` or `lost`."""
        self.name = inner.name
        self._loop = loop
        self.inner = inner
        self._lost: LossEvent | None = None

    def __repr__(self) -> str:
        """Show what is held and how it stands."""
        return repr(self.inner)

    @property
    def lost(self) -> LossEvent:
        """Is set when it is lost; what was taken without the event loop is watched from now on."""
        if self._lost is None:
            self._loop.run(self._watch_in_loop)
        assert self._lost is not None, "made just now"
        return self._lost

    def watch(self) -> None:
        """Watch over it; in the thread of the loop."""
        if self._lost is None:
            self._lost = LossEvent()
            self.inner.lost.call(self._lost.set)

    async def _watch_in_loop(self) -> None:
        self.watch()

    @property
    def tokens(self) -> Mapping[str, int]:
        """The fencing token of each lock by its name."""
        return self.inner.tokens

    @property
    def expires_at(self) -> float:
        """When the lease ends unless it is renewed, by `time.monotonic()`; inf without a lease."""
        return self.inner.expires_at

    @property
    def valid(self) -> bool:
        """Whether it is held by its owner now; looked up, not remembered."""
        return self.inner.valid

    def ensure(self) -> None:
        """Raise `LockLost` if the lock is lost and `NotHeld` if it was given back."""
        if not self.valid:
            self._loop.run(self._ensure)

    def release(self) -> None:
        """Give it back; `NotHeld` in another thread, `LockLost` if it was lost before."""
        owner = threading.current_thread()
        held = self.inner
        if self._lost is None and isinstance(held, locks.Held) and held.give_back_now(owner):
            return
        self._loop.run(lambda: self.inner.give_back(owner))

    async def _ensure(self) -> None:
        self.inner.ensure()


class Held(Holding):
    """A lock that is held."""

    inner: locks.Held

    @property
    def token(self) -> int:
        """The fencing token."""
        return self.inner.token

    @property
    def shared(self) -> bool:
        """Whether others that share may hold it at the same time."""
        return self.inner.shared


class HeldAll(Holding):
    """Several locks that are held together; `held["name"]` is one of them."""

    def __init__(self, loop: Loop, inner: locks.HeldAll) -> None:
        """Stand for what is held."""
        super().__init__(loop, inner)
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
        held: Holding = HeldAll(loop, inner)
    else:
        assert isinstance(inner, locks.Held), "there are two kinds"
        held = Held(loop, inner)
    held.watch()
    return held
