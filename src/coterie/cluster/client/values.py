"""Values of locks over a cluster: calls of tasks, and what its participants tell of them."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from coterie import system
from coterie.algorithms.mutex.quorum.leased.participant import (
    ValueForsaken,
    ValueRead,
    ValueRefused,
    ValueSeen,
    ValueWritten,
)
from coterie.algorithms.mutex.quorum.leased.stored import VALUES_PROTOCOL, StoredValue
from coterie.errors import LockLost, Unavailable, UsageError
from coterie.locks.value import Value, Version

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.client.participant import ParticipantHost
    from coterie.locks.leases.group import LeasedClaim, LeaseGroup
    from coterie.process import Event

FORMING_SECONDS = 0.05  # between two looks whether a new cluster has its first number


def value_of(stored: StoredValue) -> Value | None:
    """Return a value as programs see it; None if there is none."""
    if stored.data is None:
        return None
    return Value(stored.data, Version(*stored.origin), stored.written, stored.by, stored.doubtful)


class ValueDesk:
    """The calls for values by one participant, until it has told what came of them.

    In a hold one call follows the other, so for each lock one reads or writes.
    """

    def __init__(self, group: LeaseGroup[ParticipantHost]) -> None:
        """Begin without calls."""
        self._group = group
        self._holding: dict[str, tuple[int, asyncio.Future[StoredValue]]] = {}  # with the token
        self._looking: dict[int, asyncio.Future[StoredValue]] = {}  # without the lock, by question
        self._questions = itertools.count(1)

    def tell(self, event: Event) -> bool:
        """Take an event of the participant; return False if it is not about a value."""
        match event:
            case ValueRead(lock, token, value) | ValueWritten(lock, token, value):
                self._end(lock, token, lambda future: future.set_result(value))
            case ValueRefused(lock, token, reason):
                error = Unavailable(
                    f"lock {lock!r}: the nodes refuse its value: {reason}; delete values that are not needed"
                )
                self._end(lock, token, lambda future: future.set_exception(error))
            case ValueForsaken(lock, token):
                self._end(lock, token, lambda future: future.set_exception(_ended(lock, token)))
            case ValueSeen(_, question, value):
                looking = self._looking.pop(question, None)
                if looking is not None and not looking.done():
                    looking.set_result(value)
            case _:
                return False
        return True

    def _end(
        self, lock: str, token: int, end: Callable[[asyncio.Future[StoredValue]], None]
    ) -> None:
        begun, future = self._holding.get(lock, (0, None))
        if future is not None and begun == token:
            del self._holding[lock]
            if not future.done():
                end(future)

    async def read(self, claim: LeasedClaim) -> StoredValue:
        """Read the value as the holder."""
        return await self._call(claim, self._group.supply.read_value)

    async def write(
        self, claim: LeasedClaim, sequence: int, data: bytes | None, by: str
    ) -> StoredValue:
        """Write the value as the holder."""
        origin = (claim.token or 0, sequence)
        value = StoredValue(data=data, written=system.wall(), by=by, origin=origin)
        return await self._call(claim, lambda lock: self._group.supply.write_value(lock, value))

    async def _call(self, claim: LeasedClaim, call: Callable[[str], None]) -> StoredValue:
        lock, token = claim.lock, claim.token
        if token is None or not claim.valid():
            raise _ended(lock, token)
        future: asyncio.Future[StoredValue] = asyncio.get_running_loop().create_future()
        self._holding[lock] = token, future
        call(lock)
        return await future

    def ask(self, lock: str, question: int, known: StoredValue, *, settles: bool) -> None:
        """Ask all voters once more what the value is."""
        self._group.supply.look_at_value(lock, question, known, settles=settles)

    def expect(self, found: asyncio.Future[StoredValue]) -> int:
        """Begin a question, whose answer is put there; return its number."""
        question = next(self._questions)
        self._looking[question] = found
        return question

    def forget(self, question: int) -> None:
        """Expect no answer any more."""
        self._looking.pop(question, None)
        self._group.supply.forget_look(question)


def _ended(lock: str, token: int | None) -> LockLost:
    return LockLost(
        f"lock {lock!r} (token {token}): the hold has ended, so its value is what the next holder finds"
    )


async def check_values(host: ParticipantHost) -> None:
    """Wait for the first number of a new cluster; raise `UsageError` if this one keeps no values."""
    until = system.now() + host.lease
    while host.membership.decided is None and system.now() < until:  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(FORMING_SECONDS)
    cluster, protocol = host.membership.cluster, host.membership.configuration.protocol
    if host.membership.decided is None:
        raise UsageError(
            f"cluster {cluster!r} keeps no values of locks: it has no numbered configuration, which takes that each"
            " node has a data directory, and has met the others; coterie cluster status says what is missing"
        )
    if protocol < VALUES_PROTOCOL:
        raise UsageError(
            f"cluster {cluster!r} keeps no values of locks: its configuration asks for protocol {protocol}; when all"
            f" nodes and programs run this version, say coterie cluster set protocol={VALUES_PROTOCOL}"
        )
