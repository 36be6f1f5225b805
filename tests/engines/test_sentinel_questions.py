"""Questions to sentinels leave no connection behind, whoever answers first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("redis")

from coterie.engines.redis.sentinel import PrimaryAddress, Sentinels
from tests.locks.memory import in_loop


class SentinelClient:
    """A sentinel that answers at once, over a connection that takes some turns of the event loop to be closed."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self.is_closed = False

    async def execute_command(self, *words: str) -> list[bytes]:
        del words
        return [b"127.0.0.1", b"6379"]

    async def aclose(self) -> None:
        for _ in range(self._turns):
            await asyncio.sleep(0)
        self.is_closed = True


@in_loop
async def test_a_connection_is_closed_although_the_others_have_decided_meanwhile() -> None:
    clients: list[SentinelClient] = []

    def connect(host: str, port: int) -> Any:
        del host, port
        clients.append(SentinelClient(turns=10 * len(clients)))
        return clients[-1]

    sentinels = Sentinels("three", [("a", 1), ("b", 1), ("c", 1)], "main", connect)
    assert await sentinels.primary() == PrimaryAddress("127.0.0.1", 6379)
    assert [each.is_closed for each in clients] == [True] * 3
