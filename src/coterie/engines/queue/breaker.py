"""How an operator ends a hold on a server that keeps queues: by an order to its program, or without it.

A program that does not answer may still believe in its hold: until its own lease ends, which it counts from the last
renewal that succeeded. Where other programs count the leases, its renewals are made to fail, and the next one
enters when the lease that began before has surely ended. Where the server counts, the removal of a session frees its
locks at once, so nothing of it is touched: either the program has stopped and its lease runs out while we wait, or
it renews, and only its end frees the lock.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from coterie import system
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.mail import HoldOrder, encode
from coterie.engines.queue.orders import operators_entry
from coterie.engines.queue.server import Author, CondemningSession, SessionLost, Ticket
from coterie.engines.queue.status import opened
from coterie.errors import Unavailable, UsageError
from coterie.locks.breaker import EndedHolds
from coterie.locks.legible import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie.engines.queue.server import QueueSession
    from coterie.locks.breaker import FoundHold

ANSWER_SECONDS_MAX = 5.0  # for a program whose session can be ended without it
EXPIRY_SECONDS = (
    3.0  # in which a server notices that a lease has run out: ticks of ZooKeeper are long
)
AGAIN_SECONDS = 0.5  # between two letters to the same program: one may be lost


def make_breaker(engine: object, scheme: str) -> QueueBreaker:
    """Return what ends holds at the server of an engine, if that keeps queues."""
    if not isinstance(engine, QueueEngine):
        raise UsageError(f"the engine of {scheme}: URLs does not take orders of operators")
    return QueueBreaker(engine)


class QueueBreaker:
    """Ends holds at one server."""

    def __init__(self, engine: QueueEngine) -> None:
        """Remember the engine, which is opened for each step."""
        self._engine = engine

    async def find(self, lock: str) -> FoundHold:
        """Ask the programs that the queue names."""
        async with opened(self._engine):
            return await self._engine.find_hold(lock)

    async def end(self, found: FoundHold) -> EndedHolds:
        """Stand in the queue as an operator, and give the order to each program that was found."""
        lock = found.state.name
        async with opened(self._engine):
            desk = self._engine.group.supply
            session = desk.session
            if session is None:
                raise Unavailable(f"{self._engine.server}: {desk.trouble}")
            try:
                ticket = Ticket(lock, False, desk.new_age())
                process = operators_entry(self._engine.waits.process, found.token)
                author = Author(desk.name, process, system.wall())
                await session.join(ticket, author, None)
                try:
                    return await self._end(session, desk.name, found)
                finally:
                    await session.leave(ticket)
            except SessionLost as error:
                raise Unavailable(f"{self._engine.server}: {error}") from None

    async def _end(self, session: QueueSession, sender: str, found: FoundHold) -> EndedHolds:
        lock = found.state.name
        inside = await _inside(session, lock)
        labels = {name: label for name, label in inside.items() if name in found.participants}
        patience = min(session.lease, ANSWER_SECONDS_MAX)
        if not isinstance(session, CondemningSession):
            patience = session.lease + EXPIRY_SECONDS
        order = HoldOrder(sender, lock)
        silent = await self._give(session, order, labels, patience)
        answers = self._engine.orders.answers
        told = [label for name, label in labels.items() if answers.get(name)]
        ended, failed = [], []
        for name, is_inside in silent.items():
            label = labels[name]
            if not is_inside:
                ended.append(_gone(label))
            elif isinstance(session, CondemningSession):
                lease = await session.condemn(lock, name)
                ended.append(_condemned(label, lease))
            else:
                failed.append(_kept(label, patience))
        return EndedHolds(tuple(told), tuple(ended), tuple(failed))

    async def _give(
        self, session: QueueSession, order: HoldOrder, labels: Mapping[str, str], patience: float
    ) -> dict[str, bool]:
        """Give an order again and again; return who has not answered it in time, and whether it is inside."""
        orders, now = self._engine.orders, system.now()
        deadline = now + patience
        # For the answers of those that are not inside any more, which may be lost as well.
        deadline_if_gone = now + min(session.lease, ANSWER_SECONDS_MAX)
        orders.expect(labels)
        silent = dict.fromkeys(labels, True)
        while silent:
            is_last = system.now() >= (deadline if any(silent.values()) else deadline_if_gone)
            for name in silent:
                await session.send(name, encode(order))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_SECONDS):
                    while not set(silent) <= set(orders.answers):
                        orders.answered.clear()
                        await orders.answered.wait()
            inside = await _inside(session, order.lock)
            silent = {name: name in inside for name in silent if name not in orders.answers}
            if is_last:
                break
        return silent


async def _inside(session: QueueSession, lock: str) -> dict[str, str]:
    """Return which participants are inside, and how people find them."""
    line = (await session.lines([lock])).get(lock, [])
    return {e.author.participant: one_line(e.author.process) for e in line if e.inside}


def _gone(label: str) -> str:
    return f"{label} does not answer, and does not hold it any more"


def _condemned(label: str, lease: float | None) -> str:
    if lease is None:
        return _gone(label)
    return (
        f"{label} does not answer: its session is ended, with all of its locks; the next one enters when its"
        f" lease of {lease:g} s is over"
    )


def _kept(label: str, seconds: float) -> str:
    host, _, pid = label.rpartition(":")
    way = f"on {host} run kill -9 {pid}" if pid.isdecimal() else "end that program"
    return (
        f"{label} does not answer, and its lease has not run out in {seconds:.0f} s: the lock is free when the"
        f" program has ended; {way}"
    )
