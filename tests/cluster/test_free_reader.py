"""A read without the lock, at the program: it asks again, waits for its turn, and gives up where nothing moves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.mutex.quorum.leased.stored import NOTHING, StoredValue
from coterie.cluster.client.free_reader import FreeReader
from coterie.errors import NoQuorum, Unavailable
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LONG, SHORT = 60.0, 0.02
HEDGE = 0.002
VALUE = StoredValue(5, 1, b"data")


class Cluster:
    """Nodes whose answers show nothing by themselves."""

    def __init__(self, lease: float = LONG) -> None:
        self.lease = lease
        self.configuration = SimpleNamespace(number=1)
        self.readings: dict[int, Any] = {}
        self.found: asyncio.Future[StoredValue] | None = None
        self.asked: list[tuple[int, bool]] = []
        self.forgotten: list[int] = []
        self.reaches = True
        self.on_ask: Callable[[int], None] = lambda _: None

    # What a host is asked

    membership = SimpleNamespace(settings=SimpleNamespace(hedge=HEDGE))

    @property
    def participant(self) -> Cluster:
        return self

    def reaches_a_quorum(self) -> bool:
        return self.reaches

    def unavailable(self, lock: str) -> NoQuorum:
        return NoQuorum(lock)

    # What a desk is asked

    def expect(self, found: asyncio.Future[StoredValue]) -> int:
        self.found = found
        return len(self.forgotten) + 1

    def forget(self, question: int) -> None:
        self.forgotten.append(question)

    def ask(self, lock: str, question: int, known: StoredValue, *, settles: bool) -> None:
        self.asked.append((question, settles))
        self.on_ask(len(self.asked))

    async def read(self, take_turn: Callable[[], Awaitable[StoredValue | None]]) -> StoredValue:
        whole: Any = self
        return await FreeReader(whole, whole, "x", NOTHING, take_turn).read()


async def never() -> StoredValue | None:
    await asyncio.Event().wait()
    return None


@in_loop
async def test_a_late_answer_to_an_earlier_round_ends_the_read() -> None:
    cluster = Cluster()

    def answer(rounds: int) -> None:
        if rounds == 3 and cluster.found is not None:
            cluster.found.set_result(VALUE)

    cluster.on_ask = answer
    assert await cluster.read(never) == VALUE
    assert cluster.asked == [(2, False), (2, True), (2, True)], "one question"


@in_loop
async def test_it_is_read_when_the_turn_of_the_reader_comes_however_late() -> None:
    cluster = Cluster(SHORT)

    def go_on(rounds: int) -> None:
        # Holds follow each other, for more than two leases.
        cluster.readings[2] = SimpleNamespace(goal=StoredValue(rounds, 1, b""))

    async def turn() -> StoredValue | None:
        await asyncio.sleep(4 * SHORT)
        return VALUE

    cluster.on_ask = go_on
    assert await cluster.read(turn) == VALUE


@in_loop
async def test_a_turn_that_came_to_nothing_is_tried_again() -> None:
    turns = iter([None, None, VALUE])

    async def turn() -> StoredValue | None:
        return next(turns)

    assert await Cluster().read(turn) == VALUE


@in_loop
async def test_it_fails_when_nothing_moves_and_leaves_nothing_behind() -> None:
    cluster, ended = Cluster(SHORT), asyncio.Event()

    async def turn() -> StoredValue | None:
        try:
            return await never()
        finally:
            ended.set()

    with pytest.raises(Unavailable, match="could not be decided"):
        await cluster.read(turn)
    assert ended.is_set()
    assert cluster.forgotten[-1] == 2


@in_loop
async def test_it_fails_at_once_without_a_quorum_and_by_what_its_turn_fails() -> None:
    cluster = Cluster()
    cluster.reaches = False
    with pytest.raises(NoQuorum):
        await cluster.read(never)

    async def turn() -> StoredValue | None:
        raise NoQuorum("no votes")

    with pytest.raises(NoQuorum, match="no votes"):
        await Cluster().read(turn)


@in_loop
async def test_another_configuration_is_another_question() -> None:
    cluster = Cluster()

    def change(rounds: int) -> None:
        cluster.configuration.number = rounds
        if rounds == 3 and cluster.found is not None:
            cluster.found.set_result(VALUE)

    cluster.on_ask = change
    assert await cluster.read(never) == VALUE
    assert [question for question, _ in cluster.asked] == [2, 2, 3]
