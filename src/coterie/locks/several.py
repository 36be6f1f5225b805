"""Several locks: all of them, or the first that is free. Both may be parts of each other."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.errors import LockLost, NotHeld, Unavailable, UsageError
from coterie.locks.held import HeldAll, Holding, give_back_all, wake
from coterie.locks.lock import AT_ONCE, Acquirable
from coterie.system.aio import to_the_end

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.locks.lock import Owner, Patience, Session

Part = TypeVar("Part", bound=Holding)


class LockAll(Acquirable[HeldAll]):
    """Takes every one, in the order of their names, so that two of its kind never cross.

    A part that is several itself is taken as a whole, so those can; then detection has to help.
    """

    def __init__(
        self,
        session: Session,
        parts: Sequence[Acquirable[Any]],
        *,
        timeout: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> None:
        """Bind the parts together."""
        super().__init__(session, _joined(parts), _distinct(parts), timeout, on_lost)
        self._parts = parts

    async def _obtain(self, owner: Owner, patience: Patience) -> HeldAll | None:
        """Take one after the other; give all back if one is not obtained in time.

        If one is lost while others are waited for, they were never held together: begin again at
        once. A task that went on waiting would keep the others for nothing.
        """
        while True:
            spoilt: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            held = await self._obtain_every(owner, patience.unless(spoilt), spoilt)
            if held is not None and held.valid:
                return held
            if held is not None:
                await to_the_end(_abandon([held], owner))
            elif not spoilt.done():
                return None

    async def _obtain_every(
        self, owner: Owner, patience: Patience, spoilt: asyncio.Future[None]
    ) -> HeldAll | None:
        """Take every part; `spoilt` is done when one of those taken so far is lost."""
        taken: dict[str, Holding] = {}
        complete = False
        try:
            for part in sorted(self._parts, key=lambda part: part.name):
                holding = await part._take(owner, patience)
                if holding is None:
                    return None
                holding.lost._call(partial(wake, spoilt))
                taken[part.name] = holding
            complete = True
        finally:
            if not complete:
                await to_the_end(_abandon(list(taken.values()), owner))
        return HeldAll([taken[part.name] for part in self._parts])


class LockAny(Acquirable[Part]):
    """Takes the first that is granted; `held.name` says which."""

    def __init__(
        self,
        session: Session,
        parts: Sequence[Acquirable[Part]],
        *,
        timeout: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> None:
        """Collect the alternatives, the best liked first."""
        super().__init__(session, _joined(parts), _distinct(parts), timeout, on_lost)
        self._parts = parts

    async def _obtain(self, owner: Owner, patience: Patience) -> Part | None:
        """Take the first that is free; if none is, wait for all of them and take one."""
        granted = await try_any(self._parts, owner, patience)
        if granted is not None or not patience.wait:
            return granted
        return await wait_any(self._session, self._parts, owner, patience)


async def try_any(
    parts: Sequence[Acquirable[Part]], owner: Owner, patience: Patience
) -> Part | None:
    """Take the first that is free, if one is."""
    for part in parts:
        try:
            holding = await part._take(owner, AT_ONCE)
        except Unavailable:
            if not patience.wait:
                raise
            return None  # a wait outlasts it, or ends with this error itself
        if holding is not None:
            return holding
    return None


async def wait_any(
    session: Session, parts: Sequence[Acquirable[Part]], owner: Owner, patience: Patience
) -> Part | None:
    """Ask for all of them and keep the first granted.

    The owner stands in every queue. Two grants at the same moment are possible: the later one is
    given back at once, so a try of another task may fail for that moment. If the one that is
    kept is lost before the others are withdrawn, it is as if it had not been granted.
    """
    with session.engine.waits.side_by_side(owner, len(parts)):
        while (granted := await _obtain_first(parts, owner, patience)) is not None:
            if granted.valid:
                return granted
            await to_the_end(_abandon([granted], owner))
    return None


async def _obtain_first(
    parts: Sequence[Acquirable[Part]], owner: Owner, patience: Patience
) -> Part | None:
    attempts = [asyncio.ensure_future(part._take(owner, patience)) for part in parts]
    winner: asyncio.Future[Part | None] | None = None
    try:
        winner = await _first(attempts)
    finally:
        losers = [attempt for attempt in attempts if attempt is not winner]
        try:
            await to_the_end(_give_up(losers, owner))
        except BaseException:
            if winner is not None:
                await to_the_end(_give_up([winner], owner))
            raise
    return winner.result() if winner is not None else None


async def _first(
    attempts: Sequence[asyncio.Future[Part | None]],
) -> asyncio.Future[Part | None] | None:
    """Wait for the first attempt that succeeds or fails with an error; None if none does."""
    pending = set(attempts)
    while pending:
        _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for attempt in attempts:
            if attempt.done() and (attempt.exception() or attempt.result() is not None):
                return attempt
    return None


async def _give_up(attempts: Sequence[asyncio.Future[Part | None]], owner: Owner) -> None:
    """Withdraw what waits and give back what was granted meanwhile."""
    for attempt in attempts:
        attempt.cancel()
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    await _abandon([outcome for outcome in outcomes if isinstance(outcome, Holding)], owner)


async def _abandon(holdings: Sequence[Holding], owner: Owner) -> None:
    """Give back what its caller never had: a loss of it must not hide why the caller gets nothing."""
    with contextlib.suppress(LockLost, NotHeld):
        await give_back_all(holdings, owner)


def _joined(parts: Sequence[Acquirable[Any]]) -> str:
    return ",".join(part.name for part in parts)


def _distinct(parts: Sequence[Acquirable[Any]]) -> list[str]:
    names = [name for part in parts for name in part._names]
    if not names:
        raise UsageError("name at least one lock")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"lock {name!r} is named twice, and a task cannot hold it twice")
    return names
