"""What commands and tests use of locks, and programs must not: the way to names with an underscore."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from coterie.locks.value import values_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from coterie.errors import AcquireTimeout
    from coterie.locks.coordinator import Coordinator
    from coterie.locks.engine import Engine
    from coterie.locks.held import Held, Holding
    from coterie.locks.lock import Acquirable, Owner
    from coterie.locks.once.once import Once, Run
    from coterie.locks.value import ValueEngine


def engine_of(coordinator: Coordinator) -> Engine:
    """Return what grants the locks."""
    return coordinator._session.engine


def holds_of(coordinator: Coordinator) -> list[Held]:
    """List what tasks and threads of this process hold, in the order in which they took it."""
    return list(coordinator._session.held.values())


def names_of(wanted: Acquirable[Any]) -> tuple[str, ...]:
    """Name every lock that this may take."""
    return wanted._names


async def timed_out(wanted: Acquirable[Any]) -> AcquireTimeout:
    """Make the error for a lock that was not obtained in time; ask who holds it, for a moment."""
    return await wanted._timed_out()


def lifelines_of(holding: Holding) -> tuple[int, ...]:
    """Return descriptors by which a program that inherits them keeps the lock if we are killed.

    Empty where the engine has no such thing. A release frees the lock in any case.
    """
    return holding._lifelines


async def give_back(holding: Holding, owner: Owner) -> None:
    """Release on behalf of another task, or of a thread."""
    await holding._give_back(owner)


def call_when_lost(holding: Holding, callback: Callable[[], object]) -> None:
    """Call back when this is lost, at once if it is."""
    holding.lost._call(callback)


@contextlib.asynccontextmanager
async def opened_to_look(coordinator: Coordinator) -> AsyncIterator[ValueEngine]:
    """Open a coordinator, if it is not, in order to look at values.

    A directory is looked at without being opened, which would make it.
    """
    session = coordinator._session
    values = values_of(session.engine, coordinator.url)
    if session.is_open or coordinator.url.startswith("file:"):
        yield values
        return
    async with coordinator:
        yield values


async def begin_run(once: Once, timeout: float | None) -> Run:  # noqa: ASYNC109 - as everywhere
    """Begin a run for this task; raise `NotDue`, which says why none is due, or `AcquireTimeout`."""
    return await once._begin(asyncio.current_task(), timeout)


def held_of(run: Run) -> Held:
    """Return the lock that a run holds."""
    return run._held
