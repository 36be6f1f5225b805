"""Members of a group: each holds the lock of that name in shared mode, as long as it belongs to the group.

So a member that ends, or is killed, leaves the group as it would lose a lock; and who takes the lock alone waits until
all members have left. What is seen of a group is a view: two members may see different ones at the same moment.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.locks.engine import WATCH_SECONDS
from coterie.locks.lock import Lock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from types import TracebackType

    from coterie.locks.engine import Party
    from coterie.locks.held import Held, Holding
    from coterie.locks.lock import Session

ASKED_PER_SECOND = 20  # members, by each one that watches: a look asks them all


class GroupMember:
    """This task or thread as a member of a group."""

    held: Held  # the lock in shared mode by which it belongs to the group
    name: str  # of the group

    def __init__(self, held: Held, session: Session) -> None:
        """Belong to a group from now on."""
        self.held = held
        self.name = held.name
        self._session = session

    def __repr__(self) -> str:
        """Show the group and how the membership stands."""
        return f"<GroupMember of {self.name!r} {'there' if self.held.valid else 'gone'}>"

    async def parties(self) -> list[Party]:
        """List all members, this one included; the oldest first."""
        self._session.check()
        return in_order(await self._session.engine.holders(self.name))

    def watch(self) -> AsyncGenerator[list[Party], None]:
        """Follow the members: the present ones first, then after each change.

        One that joins and leaves between two looks is not seen.
        """
        self._session.check()
        engine = self._session.engine
        return follow_members(lambda: engine.holders(self.name), self._session.check)


class Members:
    """A group to be joined; `async with` belongs to it while its body runs."""

    name: str  # of the group

    def __init__(
        self,
        session: Session,
        name: str,
        *,
        timeout: float | None = None,
        lease: float | None = None,
        note: str = "",
        on_lost: Callable[[Holding], object] | None = None,
    ) -> None:
        """Prepare to join; nothing is sent yet."""
        self._session = session
        self._lock = Lock(
            session, name, timeout=timeout, lease=lease, shared=True, note=note, on_lost=on_lost
        )
        self.name = self._lock.name

    def __repr__(self) -> str:
        """Show the name of the group."""
        return f"<Members {self.name!r}>"

    async def __aenter__(self) -> GroupMember:
        """Join, or raise `AcquireTimeout`: another task holds the lock of the group alone, or waits for that."""
        return self._member(await self._lock.__aenter__())

    def _member(self, held: Held) -> GroupMember:
        return GroupMember(held, self._session)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave; raise `LockLost` if the membership was lost, unless the body raised something else."""
        await self._lock.__aexit__(kind, error, traceback)


def in_order(parties: list[Party]) -> list[Party]:
    """Return members in the order in which they have joined, by their clocks."""
    return sorted(parties, key=lambda party: (party.since, party.owner, party.note))


async def follow_members(
    read: Callable[[], Awaitable[list[Party]]], check: Callable[[], None]
) -> AsyncGenerator[list[Party], None]:
    """Follow a group by looking again and again; `check` is called before each look.

    A member is gone when it is missing twice in a row: once it may just have been slow to answer.
    """
    seen: list[Party] | None = None
    missed: list[Party] = []
    while True:
        check()
        found = await read()
        late = [party for party in seen or () if party not in found]
        now = in_order([*found, *(party for party in late if party not in missed)])
        missed = late
        if now != seen:
            seen = now
            yield now
        await asyncio.sleep(max(WATCH_SECONDS, len(now) / ASKED_PER_SECOND))
