"""A semaphore: as many slot locks as there are permits, of which each holder has one.

A quorum that gave k votes per voter would let in too many; k ordinary locks cannot. Each slot has
its own queue and its own tokens. Processes that name different numbers of permits share the slots
that both know, so the largest number is the limit. A program with a smaller number logs a warning
when it has to wait; an error would break a rolling change of the number.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from coterie.errors import CoterieError, MisuseError, UsageError
from coterie.locks.held import Held
from coterie.locks.lock import Acquirable, Lock
from coterie.locks.names import BYTES_MAX, PERMITS_MAX, check_name, permit_name
from coterie.locks.several import try_any, wait_any

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.locks.engine import Party
    from coterie.locks.held import Holding
    from coterie.locks.lock import Owner, Patience, Session

NAMES_MAX = 10_000  # of semaphores that a coordinator knows; it forgets the one made first
WAIT_SECONDS = 1.0  # before the first look for programs that have more permits
LOOK_SECONDS = 10.0  # between two such looks

logger = logging.getLogger("coterie.locks")


class Semaphores:
    """The semaphores that one coordinator has made: the permits that each name stands for.

    Threads make semaphores, too, so the table has a lock.
    """

    def __init__(self, session: Session) -> None:
        """Know none yet."""
        self.session = session
        self._permits: dict[str, int] = {}
        self._guard = threading.Lock()
        self._look_due: dict[str, float] = {}  # when to look for others, by the loop's time

    def add(self, name: str, permits: int) -> None:
        """Remember a semaphore; of two numbers of permits the larger one counts."""
        with self._guard:
            self._permits[name] = max(permits, self._permits.pop(name, 0))
            if len(self._permits) > NAMES_MAX:
                oldest = next(iter(self._permits))
                del self._permits[oldest]
                self._look_due.pop(oldest, None)

    async def locked(self, name: str) -> bool:
        """Return True if the lock of that name is held, or all permits of the semaphore."""
        held = {party.name for party in await self.holders(name)}
        _, *slots = self._names(name)
        return name in held or (bool(slots) and held.issuperset(slots))

    async def holders(self, name: str) -> list[Party]:
        """List the holders of the lock of that name, and of the permits of the semaphore."""
        engine, names = self.session.engine, self._names(name)
        if names == [name]:
            return await engine.holders(name)
        found = await asyncio.gather(*(engine.holders(each) for each in names))
        return [party for parties in found for party in parties]

    async def waiters(self, name: str) -> list[Party]:
        """List the tasks that wait for the lock of that name or for a permit, each of them once."""
        engine, names = self.session.engine, self._names(name)
        if names == [name]:
            return await engine.waiters(name)
        own, *slots = await asyncio.gather(*(engine.waiters(each) for each in names))
        # A task waits in the queue of each permit that it does not hold, so the longest queue of
        # its process has it.
        longest: dict[str, list[Party]] = {}
        for parties in slots:
            for owner, count in Counter(party.owner for party in parties).items():
                if count > len(longest.get(owner, [])):
                    longest[owner] = [party for party in parties if party.owner == owner]
        waiting = [party for parties in longest.values() for party in parties]
        waiting.sort(key=lambda party: party.since)
        return own + [msgspec.structs.replace(party, name=name) for party in waiting]

    def _names(self, name: str) -> list[str]:
        """Name the lock of that name and the permits of the semaphore, if there is one."""
        with self._guard:
            permits = self._permits.get(name, 0)
        return [name, *(permit_name(name, number) for number in range(1, permits + 1))]

    async def warn_if_others_have_more(self, name: str, permits: int) -> None:
        """Log a warning now and then while a program uses a permit that is not one of ours."""
        beyond = permit_name(name, permits + 1)
        if len(beyond.encode()) > BYTES_MAX:
            return  # it cannot have one
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(max(WAIT_SECONDS, self._look_due.get(name, 0.0) - clock()))
            if clock() < self._look_due.get(name, 0.0):
                continue  # another task has looked meanwhile
            self._look_due[name] = clock() + LOOK_SECONDS
            with contextlib.suppress(CoterieError):
                engine = self.session.engine
                users = [*await engine.holders(beyond), *await engine.waiters(beyond)]
                if users:
                    self._warn(name, permits, users[0])

    def _warn(self, name: str, permits: int, user: Party) -> None:
        logger.warning(
            "semaphore %r has %d permits here and more in process %s: the largest number counts;"
            " use the same in all programs",
            name,
            permits,
            user.owner,
            extra={"event": "permits-differ"},
        )


class Semaphore(Acquirable[Held]):
    """Lets in as many holders as it has permits; a task that acquires twice takes two."""

    def __init__(
        self,
        known: Semaphores,
        name: str,
        permits: int,
        *,
        timeout: float | None = None,
        lease: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> None:
        """Prepare the slots `name/permit-1` and so on."""
        if permits < 1:
            raise UsageError(f"permits must be at least 1, got {permits}")
        if permits > PERMITS_MAX:
            raise UsageError(f"permits must be at most {PERMITS_MAX}")
        name = check_name(name, BYTES_MAX - len(permit_name("", permits)))
        slots = [permit_name(name, number) for number in range(1, permits + 1)]
        super().__init__(known.session, name, slots, timeout, on_lost)
        self._slots = [Lock(known.session, slot, lease=lease) for slot in slots]
        self._known = known
        known.add(name, permits)

    async def _obtain(self, owner: Owner, patience: Patience) -> Held | None:
        """Take the first free slot that the owner does not have."""
        held = self._session.held
        others = [slot for slot in self._slots if (owner, slot.name) not in held]
        if not others:
            raise MisuseError(
                f"all {len(self._slots)} permits of {self.name!r} are held by this task already,"
                " so it would wait for itself"
            )
        granted = await try_any(others, owner, patience)
        if granted is not None or not patience.wait:
            return granted
        warning = asyncio.ensure_future(
            self._known.warn_if_others_have_more(self.name, len(self._slots))
        )
        try:
            return await wait_any(self._session, others, owner, patience)
        finally:
            warning.cancel()
