"""One lock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.aio import to_the_end
from coterie.errors import MisuseError, NotHeld
from coterie.locks.acquirable import Acquirable
from coterie.locks.held import Held
from coterie.locks.names import check_name
from coterie.locks.patience import check_ttl

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.locks.engine import Claim
    from coterie.locks.held import Holding
    from coterie.locks.patience import Patience
    from coterie.locks.session import Owner, Session


class Lock(Acquirable[Held]):
    """A lock by name. Any number of tasks may use the same object; each holds for itself."""

    def __init__(
        self,
        session: Session,
        name: str,
        *,
        timeout: float | None = None,
        ttl: float | None = None,
        shared: bool = False,
        reentrant: bool = False,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> None:
        """Prepare to ask; nothing is sent before it is acquired."""
        super().__init__(check_name(name), [name], timeout, on_lost)
        check_ttl(ttl)
        self._session = session
        self._ttl = ttl
        self._shared = shared
        self._reentrant = reentrant

    async def obtain(self, owner: Owner, patience: Patience) -> Held | None:
        """Acquire on behalf of an owner; None if it was not to be had in time."""
        self._session.check()
        mine = self._session.held.get((owner, self.name))
        if mine is not None:
            return self._enter_again(mine)
        claim = await self._claim(owner, patience)
        if claim is None:
            return None
        held = Held(self._session, claim, self.name, owner, shared=self._shared)
        self._session.held[owner, self.name] = held
        if self._session.engine.waits.victims:
            self._session.engine.waits.obtained(owner, self.name)
        return held

    async def release(self) -> None:
        """Release what this task holds; `NotHeld` if it holds nothing of this name."""
        await self.give_back(asyncio.current_task())

    async def give_back(self, owner: Owner) -> None:
        """Release on behalf of an owner."""
        self._session.check()
        held = self._session.held.get((owner, self.name))
        if held is None:
            raise NotHeld(f"lock {self.name!r} is not held by {owner!r}")
        await held.give_back(owner)

    def _enter_again(self, mine: Held) -> Held:
        if not self._reentrant:
            raise MisuseError(
                f"lock {self.name!r} is held by this task already and would wait for itself;"
                " reentrant=True allows it to enter again"
            )
        if mine.shared and not self._shared:
            raise MisuseError(
                f"lock {self.name!r} is held by this task in shared mode; release it before"
                " asking for it alone, since two who wait for each other's share never end"
            )
        mine.enter_again()
        return mine

    async def _claim(self, owner: Owner, patience: Patience) -> Claim | None:
        while True:
            claim = self._session.engine.place(
                self.name, owner=owner, shared=self._shared, ttl=self._ttl, wait=patience.wait
            )
            if claim.token is not None:
                return claim
            if not await self._is_granted(owner, claim, patience):
                return None
            if claim.valid():
                return claim
            # The grant came too late to be of use: after a pause of this process, or with its end.
            await to_the_end(claim.release())
            self._session.check()

    async def _is_granted(self, owner: Owner, claim: Claim, patience: Patience) -> bool:
        """Wait for the grant; if it does not come, no request is left behind."""
        granted = None
        try:
            await self._wait(owner, claim, patience)
            granted = claim.granted.result() if claim.granted.done() else None
            if granted is None and (obstacle := claim.obstacle()) is not None:
                raise obstacle
        finally:
            if granted is None:
                await to_the_end(claim.release())
        return granted is not None

    async def _wait(self, owner: Owner, claim: Claim, patience: Patience) -> None:
        waits = self._session.engine.waits
        if patience.wait:
            waits.begin(owner, claim)
        try:
            # Not wait_for: it may cancel a grant that has just arrived.
            limit = patience.remaining() if patience.wait else None
            await asyncio.wait({claim.granted}, timeout=limit)
        finally:
            waits.end(owner, claim)
