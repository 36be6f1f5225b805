"""Ending a hold from the page, for those whose dashboard has the operator secret of a cluster.

It is what `coterie break` does, with the same rights, and the nodes log the same. A person has typed the name of
the lock, and has seen a token beside it: a hold that began since is not ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.exceptions import HTTPException

from coterie.errors import ConfigError, CoterieError, UsageError
from coterie.locks.breaker import TOKEN_MAX, EndedHolds, find_operators_breaker
from coterie.locks.names import check_name

if TYPE_CHECKING:
    from coterie.locks.breaker import Breaker, FoundHold


class BreakOrder(msgspec.Struct, frozen=True):
    """What a person has decided."""

    lock: str
    typed: str  # the name once more, by hand
    token: str | None  # the largest that the page has shown; None: a holder does not answer


class BreakRight(msgspec.Struct, frozen=True):
    """Whether a page has something to press."""

    allowed: bool


def right_at(url: str) -> BreakRight:
    """Return whether holds at a URL can be ended from here."""
    try:
        return BreakRight(find_operators_breaker(url) is not None)
    except (CoterieError, OSError):
        return BreakRight(allowed=False)


async def end_hold(url: str, body: bytes) -> EndedHolds:
    """Carry out the order in the body of a request; raise an `HTTPException` that says why not."""
    try:
        order = msgspec.json.decode(body, type=BreakOrder)
        lock = check_name(order.lock)
    except (msgspec.MsgspecError, UnicodeDecodeError, CoterieError) as error:
        raise HTTPException(400, f"not an order: {error}") from None
    if order.typed != order.lock:
        raise HTTPException(400, f"nothing was done: {order.typed!r} is not the name of the lock")
    try:
        breaker = find_operators_breaker(url)
        if breaker is None:
            raise HTTPException(403, "this program has no operator secret; nothing was done")
        return await _end_as_seen(breaker, lock, order.token)
    except (ConfigError, UsageError) as error:
        raise HTTPException(403, str(error)) from None
    except (CoterieError, OSError) as error:
        raise HTTPException(503, str(error)) from None


async def _end_as_seen(breaker: Breaker, lock: str, token: str | None) -> EndedHolds:
    found = await breaker.find(lock)
    if not found.participants:
        raise HTTPException(409, f"lock {lock!r} is not held any more; nothing was done")
    if _token_shown(found) != token:
        raise HTTPException(409, f"lock {lock!r} has another holder by now; nothing was done")
    return await breaker.end(found)


def _token_shown(found: FoundHold) -> str | None:
    """Return a token as pages have it: as a text, since it exceeds what they can count."""
    return None if found.token == TOKEN_MAX else str(found.token)
