"""Reading a value of a cluster without the lock: voters are asked until their answers show what it is (21.7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie import system
from coterie.errors import CoterieError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coterie.algorithms.mutex.quorum.leased.stored import Stamp, StoredValue
    from coterie.cluster.client.participant import ParticipantHost
    from coterie.cluster.client.values import ValueDesk

PATIENCE_LEASES = 2  # without anything new


class FreeReader:
    """One read.

    Voters differ while a write is under way. Where one hold goes on writing, the next answers show what it had written
    when the read began. Where a writer has died in the middle, or a change of voters has brought what one has left,
    the holder settles that as soon as voters ask. Where holds are so short that each question meets another one, or
    there is none, the reader gets in line, and reads when it is its turn.
    """

    def __init__(
        self,
        desk: ValueDesk,
        host: ParticipantHost,
        lock: str,
        known: StoredValue,
        take_turn: Callable[[], Awaitable[StoredValue | None]],
    ) -> None:
        """Prepare; `take_turn` takes the lock and reads as its holder, None if that came to nothing."""
        self._desk = desk
        self._host = host
        self._lock = lock
        self._known = known
        self._take_turn = take_turn
        self._found: asyncio.Future[StoredValue] = asyncio.get_running_loop().create_future()
        self._turn: asyncio.Task[None] | None = None
        self._question = 0
        self._number = -1  # of the configuration by which it is asked

    async def read(self) -> StoredValue:
        """Return the value; raise `Unavailable` if it cannot be decided, or no quorum answers."""
        try:
            return await self._ask_until_found()
        finally:
            self._desk.forget(self._question)
            if self._turn is not None:
                self._turn.cancel()
                await asyncio.wait({self._turn})

    async def _ask_until_found(self) -> StoredValue:
        patience = PATIENCE_LEASES * self._host.lease
        until, goal = system.now() + patience, None
        rounds = 0
        while True:
            self._ask(settles=rounds > 0)
            await asyncio.wait({self._found}, timeout=self._host.membership.settings.hedge)
            if self._found.done():
                return self._found.result()
            if not self._host.reaches_a_quorum():
                raise self._host.unavailable(self._lock)
            before, goal = goal, self._goal()
            if goal != before:
                until = system.now() + patience  # holds follow each other, so our turn comes
            if system.now() >= until:
                raise Unavailable(
                    f"lock {self._lock!r}: nodes have different values, and it could not be decided which one counts"
                )
            rounds += 1
            if rounds > 1 and (self._turn is None or self._turn.done()):
                self._turn = asyncio.get_running_loop().create_task(self._read_in_turn())

    def _ask(self, *, settles: bool) -> None:
        # What was said by the number before does not count, so it is another question.
        number = self._host.participant.configuration.number
        if number != self._number:
            self._desk.forget(self._question)
            self._number, self._question = number, self._desk.expect(self._found)
        self._desk.ask(self._lock, self._question, self._known, settles=settles)

    def _goal(self) -> Stamp | None:
        reading = self._host.participant.readings.get(self._question)
        return reading.goal.version if reading is not None and reading.goal is not None else None

    async def _read_in_turn(self) -> None:
        try:
            value = await self._take_turn()
        except CoterieError as error:
            if not self._found.done():
                self._found.set_exception(error)
        else:
            if value is not None and not self._found.done():
                self._found.set_result(value)
