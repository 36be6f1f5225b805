"""How many requests a lock costs on servers that keep queues, as docs/engines.md says."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.engines.etcd.channel import EtcdChannel
from coterie.engines.mariadb.connection import MariadbConnection
from coterie.engines.nats.connection import NatsConnection
from coterie.engines.postgresql.connection import LockConnection
from coterie.engines.queue import desk
from coterie.engines.redis.server import RedisConnection
from tests.cli.engine_servers import engine_server
from tests.cluster.local_cluster import PATIENCE_SECONDS
from tests.engines import mariadb_server, postgresql_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from coterie import Coordinator

# The calls of an engine that each send one request to the server.
CALLS: dict[str, tuple[type, tuple[str, ...]]] = {
    "etcd": (EtcdChannel, ("call",)),
    "valkey": (RedisConnection, ("run_script", "publish")),
    "mariadb": (MariadbConnection, ("ask",)),
    "nats": (NatsConnection, ("ask", "ask_for_batch")),
    "postgresql": (LockConnection, ("ask",)),
}
LISTENS = "do get_lock("  # what a program on MariaDB asks all the time, to have its news
ROUNDS = 10
NEARLY = pytest.approx((2, 0), abs=0.5)  # leases are renewed meanwhile


@pytest.fixture
def requests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests so far, by name."""
    sent: list[str] = []
    kind, names = CALLS[request.getfixturevalue("kind")]

    def counted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **options: Any) -> Any:
            if not any(LISTENS in each for each in arguments if isinstance(each, str)):
                sent.append(name)
            return await original(*arguments, **options)

        return call

    for name in names:
        monkeypatch.setattr(kind, name, counted(name, getattr(kind, name)))
    # On a machine that is busy a turn takes long, and the next in line knocks: that is not counted here.
    monkeypatch.setattr(desk, "KNOCK_LATE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(desk, "WANTED_SECONDS", PATIENCE_SECONDS)
    return sent


async def take(c: Coordinator, name: str) -> None:
    async with c.lock(name):
        pass


async def costs(url: str, requests: list[str]) -> tuple[float, float, float]:
    """Count requests of a fresh lock, of one that is taken again, and of a turn in a line."""
    async with contextlib.AsyncExitStack() as stack:
        line = [await stack.enter_async_context(coterie.connect(url)) for _ in range(8)]
        a = line[0]
        for program in line:  # a server that has just started may let wait
            await take(program, "first")
        requests.clear()
        for number in range(ROUNDS):
            await take(a, f"fresh-{number}")
        await asyncio.sleep(0)
        fresh = len(requests) / ROUNDS
        for _ in range(2):
            await take(a, "kept")
        requests.clear()
        for _ in range(ROUNDS):
            await take(a, "kept")
        again = len(requests) / ROUNDS

        async def turns(program: Coordinator) -> None:
            for _ in range(ROUNDS):
                await take(program, "wanted")

        await asyncio.gather(*map(turns, line))
        requests.clear()
        await asyncio.gather(*map(turns, line))
        return fresh, again, len(requests) / (len(line) * ROUNDS)


@pytest.mark.parametrize("kind", ["etcd", "valkey"])
def test_costs_on_etcd_and_redis(kind: str, requests: list[str], tmp_path: Path) -> None:
    with engine_server(kind, tmp_path) as server:
        fresh, again, turn = asyncio.run(costs(server.url, requests))
    assert (fresh, again) == NEARLY
    assert turn < {"etcd": 1, "valkey": 2}[kind] + 0.5  # beside what the begin and the end cost


@pytest.mark.parametrize("kind", ["nats"])
def test_costs_on_nats(kind: str, requests: list[str], tmp_path: Path) -> None:
    with engine_server(kind, tmp_path) as server:
        fresh, again, turn = asyncio.run(costs(server.url, requests))
    assert (fresh, again) == pytest.approx((3, 0), abs=0.5)
    assert turn < 5 + 0.5


@pytest.mark.skipif(bool(mariadb_server.MISSING), reason=mariadb_server.MISSING)
@pytest.mark.parametrize("kind", ["mariadb"])
@pytest.mark.usefixtures("kind")
def test_costs_on_mariadb(requests: list[str]) -> None:
    with mariadb_server.MariadbTestServer() as server:
        fresh, again, turn = asyncio.run(costs(server.url(2), requests))
    assert (fresh, again) == NEARLY
    assert turn < 4 + 0.5  # with the ring and the look that follows it


@pytest.mark.skipif(bool(postgresql_server.MISSING), reason=postgresql_server.MISSING)
@pytest.mark.parametrize("kind", ["postgresql"])
@pytest.mark.usefixtures("kind")
def test_costs_on_postgresql(requests: list[str]) -> None:
    with postgresql_server.PostgresqlServer() as server:
        fresh, again, turn = asyncio.run(costs(server.url(2), requests))
    assert (fresh, again) == NEARLY
    assert turn < 2 + 0.5
