"""What a thread has that holds a lock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from coterie import locks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from coterie.sync.loop import Loop


class Holding:
    """One lock or several, held together by one thread."""

    def __init__(self, loop: Loop, inner: locks.Holding) -> None:
        """Stand for what is held; made in the thread of the loop, or in that of its owner."""
        self.name = inner.name
        self._loop = loop
        self.inner = inner
        self._lost: threading.Event | None = None
        if loop.is_here():
            self._watch()

    def __repr__(self) -> str:
        """Show what is held and how it stands."""
        return repr(self.inner)

    @property
    def lost(self) -> threading.Event:
        """Is set when it is lost; what was taken without the event loop is watched from now on."""
        if self._lost is None:
            self._loop.run(self._watch_in_loop)
        assert self._lost is not None, "made just now"
        return self._lost

    async def _watch_in_loop(self) -> None:
        self._watch()

    def _watch(self) -> None:
        if self._lost is None:
            self._lost = threading.Event()
            self.inner.lost.call(self._lost.set)

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
        if isinstance(self.inner, locks.Held) and self._lost is None:
            self._loop.check()
            if self.inner.give_back_now(owner):
                return
        self._loop.run(lambda: self.inner.give_back(owner))

    async def _ensure(self) -> None:
        self.inner.ensure()


class Held(Holding):
    """A lock that is held."""

    def __init__(self, loop: Loop, inner: locks.Held) -> None:
        """Stand for what is held."""
        super().__init__(loop, inner)
        self.token = inner.token
        self.shared = inner.shared


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
    """Stand for what is held, of whatever kind."""
    if isinstance(inner, locks.HeldAll):
        return HeldAll(loop, inner)
    assert isinstance(inner, locks.Held), "there are two kinds"
    return Held(loop, inner)
