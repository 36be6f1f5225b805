"""Orders of operators to end a hold, as the program of the hold obeys them.

An order is a letter, and a letter proves nothing: on PostgreSQL any role of the database may notify any channel, and
on Redis a user may be let to every channel and to no key. So the operator first puts an entry into the queue of the
lock, which says that it is an operator's, and an order counts if the queue has an entry of its sender. Only a
program that may take the lock can write there; and one that may take it could keep it for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from coterie.engines.queue.mail import HoldEnded, encode
from coterie.engines.queue.server import SessionLost
from coterie.errors import CoterieError
from coterie.locks.legible import legible
from coterie.locks.names import check_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.engines.queue.desk import Desk
    from coterie.engines.queue.mail import HoldOrder
    from coterie.engines.queue.server import QueueEntry

OPERATOR = "coterie break at "  # what the entry of an operator says before host:pid
OBEYED_MAX = 64

logger = logging.getLogger("coterie.engines")


class Orders:
    """The orders that this program was given, and the answers to those that it gave itself."""

    def __init__(self) -> None:
        """Begin with none."""
        self.answered = asyncio.Event()
        self.answers: dict[str, bool] = {}  # whether there was a hold that is over, by participant
        self._asked: frozenset[str] = frozenset()
        self._obeyed: OrderedDict[tuple[str, str], bool] = OrderedDict()  # by operator and lock
        self._turn = asyncio.Lock()

    def expect(self, participants: Iterable[str]) -> None:
        """Forget the answers so far, and take one of each of these."""
        self.answers.clear()
        self._asked = frozenset(participants)

    def learn(self, answer: HoldEnded) -> None:
        """Take an answer, if that program was asked."""
        if answer.sender in self._asked:
            self.answers.setdefault(answer.sender, answer.is_ended)
            self.answered.set()

    async def obey(self, desk: Desk, order: HoldOrder, *, runs_command: bool) -> None:
        """End a hold if the order is an operator's, and answer; the same order may come again."""
        with contextlib.suppress(SessionLost, CoterieError):  # the operator asks again
            async with self._turn:
                is_ended = await self._obey_once(desk, order, runs_command=runs_command)
            session = desk.session
            if is_ended is not None and session is not None:
                await session.send(order.sender, encode(HoldEnded(desk.name, order.lock, is_ended)))

    async def _obey_once(self, desk: Desk, order: HoldOrder, *, runs_command: bool) -> bool | None:
        """Return whether there was a hold which is over; None if it is no order for us."""
        key = order.sender, order.lock
        if key in self._obeyed or desk.session is None:
            return self._obeyed.get(key)
        check_name(order.lock)  # what is none makes no request
        line = (await desk.session.lines([order.lock])).get(order.lock, [])
        operator = operator_in(line, order.sender)
        if not operator:
            logger.warning(
                "an order to end the hold of lock %r is refused: no operator who gives it stands in its queue now",
                order.lock,
                extra={"event": "order-refused"},
            )
            return None
        is_ended = self._obeyed[key] = await desk.revoke(
            order.lock, order.token, runs_command=runs_command
        )
        if len(self._obeyed) > OBEYED_MAX:
            self._obeyed.popitem(last=False)
        if is_ended:
            logger.warning(
                "operator %s has ended our hold of lock %r",
                legible(operator),
                order.lock,
                extra={"event": "hold-broken"},
            )
        return is_ended


def operator_in(line: Iterable[QueueEntry], participant: str) -> str:
    """Return which process gives orders as that participant; empty if the queue has no such entry."""
    for entry in line:
        process = entry.author.process
        if entry.author.participant == participant and process.startswith(OPERATOR):
            return process.removeprefix(OPERATOR)
    return ""
