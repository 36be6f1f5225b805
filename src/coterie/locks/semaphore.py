"""A semaphore: as many slot locks as there are permits, of which each holder has one.

A quorum that gave k votes per voter would let in too many; k ordinary locks cannot. Each slot has
its own queue and its own tokens. Processes that name different numbers of permits share the slots
that both know, so the largest number is the limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.errors import MisuseError, UsageError
from coterie.locks.held import Held
from coterie.locks.lock import Acquirable, Lock
from coterie.locks.names import BYTES_MAX, check_name
from coterie.locks.several import obtain_any

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.locks.held import Holding
    from coterie.locks.lock import Owner, Patience, Session


class Semaphore(Acquirable[Held]):
    """Lets in as many holders as it has permits; a task that acquires twice takes two."""

    def __init__(
        self,
        session: Session,
        name: str,
        permits: int,
        *,
        timeout: float | None = None,
        ttl: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> None:
        """Prepare the slots `name/permit-1` and so on."""
        if permits < 1:
            raise UsageError(f"permits must be at least 1, got {permits}")
        name = check_name(name, BYTES_MAX - len(f"/permit-{permits}"))
        slots = [f"{name}/permit-{number}" for number in range(1, permits + 1)]
        super().__init__(session, name, slots, timeout, on_lost)
        self._slots = [Lock(session, slot, ttl=ttl) for slot in slots]

    async def obtain(self, owner: Owner, patience: Patience) -> Held | None:
        """Take the first free slot that the owner does not have."""
        held = self._session.held
        others = [slot for slot in self._slots if (owner, slot.name) not in held]
        if not others:
            raise MisuseError(
                f"all {len(self._slots)} permits of {self.name!r} are held by this task already,"
                " so it would wait for itself"
            )
        return await obtain_any(self._session, others, owner, patience)
