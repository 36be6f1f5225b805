"""Members of a group, for threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator
    from types import TracebackType

    from coterie import locks
    from coterie.locks import Party
    from coterie.sync.held import Held
    from coterie.sync.lock import Lock
    from coterie.sync.loop import Loop

    Follow = Callable[[Callable[[], AsyncGenerator[list[Party], None]]], Iterator[list[Party]]]


class GroupMember:
    """This thread as a member of a group."""

    held: Held  # the lock in shared mode by which it belongs to the group
    name: str  # of the group

    def __init__(self, held: Held, inner: locks.GroupMember, loop: Loop, follow: Follow) -> None:
        """Belong to a group from now on."""
        self.held = held
        self.name = held.name
        self._inner = inner
        self._loop = loop
        self._follow = follow

    def __repr__(self) -> str:
        """Show the group and how the membership stands."""
        return repr(self._inner)

    def parties(self) -> list[Party]:
        """List all members, this one included; the oldest first."""
        return self._loop.run(self._inner.parties)

    def watch(self) -> Iterator[list[Party]]:
        """Follow the members: the present ones first, then after each change."""
        return self._follow(self._inner.watch)


class Members:
    """A group to be joined; `with` belongs to it while its body runs."""

    name: str  # of the group

    def __init__(
        self, running: Callable[[], Loop], lock: Lock, inner: locks.Members, follow: Follow
    ) -> None:
        """Stand for a group, which is joined by its lock."""
        self.name = inner.name
        self._running = running
        self._lock = lock
        self._inner = inner
        self._follow = follow

    def __repr__(self) -> str:
        """Show the name of the group."""
        return repr(self._inner)

    def __enter__(self) -> GroupMember:
        """Join, or raise `AcquireTimeout`: another task holds the lock of the group alone, or waits for that."""
        held = self._lock.__enter__()
        return GroupMember(held, self._inner._member(held._inner), self._running(), self._follow)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave; raise `LockLost` if the membership was lost, unless the body raised something else."""
        self._lock.__exit__(kind, error, traceback)
