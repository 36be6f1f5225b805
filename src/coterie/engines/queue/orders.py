"""Orders of operators to end a hold, as the program of the hold obeys them.

An order comes by a letter, and a letter proves nothing: on PostgreSQL any role of the database may notify any
channel, and on Redis a user may be let to every channel and to no key. So it is a bell, and no more. The operator has
put an entry into the queue of the lock before, which says that it is an operator's, and up to which token holds are to
end: a hold with a larger one has begun since the operator looked. Only a program that may take the lock can
write there; and one that may take it could keep it for good.

A letter costs us one look at the queue at most, and only of a lock that we hold; letters that come during a look share the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from coterie import system
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

OPERATOR, UP_TO = (
    "coterie break at ",
    ", up to token ",
)  # what the entry of an operator says around host:pid
DIGITS_MAX = 20  # of a token
OBEYED_MAX = 64
REFUSED_PAUSE_SECONDS = 60.0  # between two lines about orders that are refused

logger = logging.getLogger("coterie.engines")


class Orders:
    """The orders that this program was given, and the answers to those that it gave itself."""

    def __init__(self) -> None:
        """Begin with none."""
        self.answered = asyncio.Event()
        self.answers: dict[str, bool] = {}  # whether there was a hold that is over, by participant
        self._asked: frozenset[str] = frozenset()
        self._obeyed: OrderedDict[tuple[str, str], bool] = OrderedDict()  # by operator and lock
        self._looks: dict[str, bool] = {}  # at queues, under way; True: to be done again
        self._refused_at = -math.inf  # when the log said so last

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
        """End our hold of a lock if an operator wants that, and answer; the same order may come again."""
        with contextlib.suppress(SessionLost, CoterieError):  # the operator asks again
            lock = check_name(order.lock)
            is_ended = self._obeyed.get((order.sender, lock))
            if is_ended is None and lock in desk.bids:
                await self._look(desk, order, runs_command=runs_command)
            else:
                await _answer(desk, order.sender, lock, is_ended=bool(is_ended))

    async def _look(self, desk: Desk, order: HoldOrder, *, runs_command: bool) -> None:
        """Obey the operators that stand in the queue; a letter that comes meanwhile makes us look again."""
        lock = order.lock
        if lock in self._looks:
            self._looks[lock] = True
            return
        self._looks[lock] = True
        try:
            while self._looks[lock] and desk.session is not None:
                self._looks[lock] = False
                line = (await desk.session.lines([lock])).get(lock, [])
                operators = operators_in(line)
                if order.sender not in operators:
                    self._note_refused(lock)
                for operator in operators.values():
                    await self._obey_operator(desk, lock, operator, runs_command=runs_command)
        finally:
            del self._looks[lock]

    async def _obey_operator(
        self, desk: Desk, lock: str, operator: Operator, *, runs_command: bool
    ) -> None:
        key = operator.participant, lock
        if key not in self._obeyed:
            is_ended = self._obeyed[key] = await desk.revoke(
                lock, operator.token, runs_command=runs_command
            )
            if len(self._obeyed) > OBEYED_MAX:
                self._obeyed.popitem(last=False)
            if is_ended:
                logger.warning(
                    "operator %s has ended our hold of lock %r",
                    legible(operator.process),
                    lock,
                    extra={"event": "hold-broken"},
                )
        await _answer(desk, operator.participant, lock, is_ended=self._obeyed[key])

    def _note_refused(self, lock: str) -> None:
        """Log that an order is refused, once in a while: a letter costs its sender nothing."""
        now = system.now()
        if now < self._refused_at + REFUSED_PAUSE_SECONDS:
            return
        self._refused_at = now
        logger.warning(
            "an order to end the hold of lock %r is refused: no operator who gives it stands in its queue now",
            lock,
            extra={"event": "order-refused"},
        )


async def _answer(desk: Desk, operator: str, lock: str, *, is_ended: bool) -> None:
    if desk.session is not None:
        await desk.session.send(operator, encode(HoldEnded(desk.name, lock, is_ended)))


class Operator(NamedTuple):
    """What the entry of an operator says."""

    participant: str  # where the answer goes
    process: str  # host:pid
    token: int  # the largest of the holds that are to end


def operators_entry(process: str, token: int) -> str:
    """Return the process of an entry that has the holds up to a token ended."""
    return f"{OPERATOR}{process}{UP_TO}{token}"


def operators_in(line: Iterable[QueueEntry]) -> dict[str, Operator]:
    """Return the operators that stand in a queue, by their participants."""
    found = {}
    for entry in line:
        process, _, token = entry.author.process.partition(UP_TO)
        if (
            process.startswith(OPERATOR)
            and token.isascii()
            and token.isdecimal()
            and len(token) <= DIGITS_MAX
        ):
            participant = entry.author.participant
            found[participant] = Operator(participant, process.removeprefix(OPERATOR), int(token))
    return found
