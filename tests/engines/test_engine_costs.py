"""How many requests a lock costs on servers that keep queues, as docs/engines/costs.md says."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import coterie
from coterie import system
from coterie.engines.cas.session import BEATS_PER_LEASE
from coterie.engines.etcd.channel import EtcdChannel
from coterie.engines.mariadb.connection import MariadbConnection
from coterie.engines.nats.connection import NatsConnection
from coterie.engines.postgresql.connection import LockConnection
from coterie.engines.queue import desk
from coterie.engines.redis.server import RedisConnection
from coterie.engines.zookeeper.connection import ZooKeeperConnection
from coterie.lab.servers.child import ServerMissing
from tests.cluster.local_cluster import PATIENCE_SECONDS
from tests.engines.conformance.suppliers import SUPPLIERS, leave_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from coterie import Coordinator
    from coterie.lab.servers.supplier import Supplier

# The calls of an engine that each send one request to the server.
CALLS: dict[str, tuple[type, tuple[str, ...]]] = {
    "etcd": (EtcdChannel, ("call",)),
    "valkey": (RedisConnection, ("run_script", "publish")),
    "mariadb": (MariadbConnection, ("ask",)),
    "nats": (NatsConnection, ("ask", "ask_for_batch")),
    "postgresql": (LockConnection, ("ask",)),
    "zookeeper": (ZooKeeperConnection, ("send", "transact")),
}


class Costs(NamedTuple):
    """Requests, as docs/engines/costs.md has them."""

    alone: int  # of a fresh lock, with nothing asked for in the turn of its release
    in_a_row: int  # of fresh locks, each asked for as the one before is given back
    turn: int  # of each process of a line
    beat: int  # of one that holds and one that waits, between two renewals


COSTS = {
    "etcd": Costs(2, 1, 1, 6),  # renewals are reads there, two in each beat
    "valkey": Costs(2, 1, 2, 4),
    "mariadb": Costs(2, 1, 4, 4),  # a turn with the ring and the look that follows it
    "nats": Costs(3, 3, 6, 10),  # a turn of 5, and renewals of 3
    "postgresql": Costs(2, 1, 2, 4),
    "zookeeper": Costs(6, 6, 5, 2),
}
LISTENS = "do get_lock("  # what a program on MariaDB asks all the time, to have its news
ROUNDS = 10
MANY = 20  # locks
BEATS = 4
LONG_SECONDS = 30.0  # a lease that is not renewed while something else is counted


@pytest.fixture
def requests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The requests so far, by connection."""
    sent: list[int] = []
    kind, names = CALLS[request.getfixturevalue("kind")]

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(connection: object, *arguments: Any, **options: Any) -> Any:
            if not any(LISTENS in each for each in arguments if isinstance(each, str)):
                sent.append(id(connection))
            return original(connection, *arguments, **options)

        return call

    for name in names:
        monkeypatch.setattr(kind, name, counted(getattr(kind, name)))
    # On a machine that is busy a turn takes long, and the next in line knocks: that is not counted here.
    monkeypatch.setattr(desk, "KNOCK_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(desk, "KNOCK_LATE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(desk, "WANTED_SECONDS", PATIENCE_SECONDS)
    return sent


@contextlib.contextmanager
def server_of(kind: str, folder: Path) -> Iterator[Supplier]:
    """Run a server."""
    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(SUPPLIERS[kind](folder / "server"))
        except ServerMissing as error:
            leave_out(error)


async def take(c: Coordinator, name: str) -> None:
    async with c.lock(name):
        pass


async def fresh_costs(c: Coordinator, requests: list[int], alone: int) -> tuple[float, float]:
    """Count the requests of fresh locks: with nothing asked for until one has gone back, and one after the other."""
    requests.clear()
    for number in range(1, ROUNDS + 1):
        await take(c, f"alone-{number}")
        while of_one(requests) < number * alone:  # noqa: ASYNC110 - a release is not waited for
            await asyncio.sleep(0)
    found = of_one(requests) / ROUNDS
    requests.clear()
    for number in range(ROUNDS):
        await take(c, f"fresh-{number}")
    return found, of_one(requests) / ROUNDS


def of_one(requests: list[int]) -> int:
    """Count the requests of the program that has sent the most: what others do beside it is no cost of its locks."""
    return max(Counter(requests).values(), default=0)


async def costs(url: str, requests: list[int], alone: int) -> tuple[float, float, float, float]:
    """Count requests of a fresh lock, of one that is taken again, and of a turn in a line."""
    async with contextlib.AsyncExitStack() as stack:
        line = [await stack.enter_async_context(coterie.connect(url)) for _ in range(8)]
        a = line[0]
        for program in line:  # a server that has just started may let wait
            await take(program, "first")
        by_itself, in_a_row = await fresh_costs(a, requests, alone)
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
        return by_itself, in_a_row, again, len(requests) / (len(line) * ROUNDS)


async def beats(held: coterie.Held, count: int) -> None:
    """Wait until the lease of a hold was renewed so many times."""
    for _ in range(count):
        ends = held.expires_at
        while held.expires_at < ends + 0.1:  # noqa: ASYNC110 - of renewals there are no events
            await asyncio.sleep(0.01)


async def beat_costs(url: str, requests: list[int], lease: float) -> float:
    """Count the requests of two programs in the time between two renewals: one holds many locks, one waits for all.

    That time is a third of a lease, or longer where the machine is busy; looks go on meanwhile. So the time that has
    passed counts, and not the renewals that were seen.
    """
    async with coterie.connect(url) as ann, coterie.connect(url) as bob:
        held = [await ann.lock(f"many-{number}").acquire() for number in range(MANY)]
        tasks = [asyncio.create_task(bob.lock(f"many-{n}").acquire()) for n in range(MANY)]
        first = held[0]
        assert first is not None
        while len(await ann.waiters(f"many-{MANY - 1}")) < 1:  # noqa: ASYNC110 - of other programs there are no events
            await asyncio.sleep(0.01)
        await beats(
            first, 2
        )  # in which each wait has looked by which processes the holder is known
        requests.clear()
        began_at = system.now()
        await beats(first, BEATS)
        count = len(requests) / ((system.now() - began_at) / (lease / BEATS_PER_LEASE))
        for each, task in zip(held, tasks, strict=True):
            assert each is not None
            await each.release()
            got = await task
            assert got is not None
            await got.release()
        return count


async def value_costs(url: str, requests: list[int]) -> tuple[float, float, float]:
    """Count requests of the first read in a hold, of a write, and of a read without the lock."""
    async with coterie.connect(url) as c:
        await take(c, "first")  # a server that has just started may let wait
        async with c.lock("valued") as held:
            await held.write(b"first")  # which finds out whether there are tables
        await take(c, "valued")  # from now on it is kept
        requests.clear()
        for _ in range(ROUNDS):
            async with c.lock("valued") as held:
                await held.read()
                await held.read()
        first = len(requests) / ROUNDS
        async with c.lock("valued") as held:
            requests.clear()
            for number in range(ROUNDS):
                await held.write(b"%d" % number)
                await held.read()
            write = len(requests) / ROUNDS
        requests.clear()
        for _ in range(ROUNDS):
            await c.read("valued")
        return first, write, len(requests) / ROUNDS


@pytest.mark.parametrize("kind", list(CALLS))
def test_costs_of_values(kind: str, requests: list[int], tmp_path: Path) -> None:
    with server_of(kind, tmp_path) as server:
        server.lease = LONG_SECONDS
        found = asyncio.run(value_costs(server.url(), requests))
    expected = {"zookeeper": (1, 2, 2), "nats": (2, 1, 2)}.get(kind, (1, 1, 1))
    assert found == pytest.approx(expected, abs=0.5)


@pytest.mark.parametrize("kind", list(CALLS))
def test_costs(kind: str, requests: list[int], tmp_path: Path) -> None:
    expected = COSTS[kind]
    with server_of(kind, tmp_path) as server:
        lease, server.lease = (
            server.lease,
            LONG_SECONDS,
        )  # no lease is renewed while these are counted
        *fresh, again, turn = asyncio.run(costs(server.url(), requests, expected.alone))
        server.lease = lease
        beat = asyncio.run(beat_costs(server.url(), requests, lease))
    # What a lock leaves to the next one may be a request of the first, or of one more.
    assert fresh == pytest.approx((expected.alone, expected.in_a_row), abs=0.5)
    assert again == 0
    assert turn < expected.turn + 0.5  # beside what the begin and the end cost
    assert (
        beat < expected.beat + 1.5
    )  # what is cut at both ends is less than a renewal of one program
