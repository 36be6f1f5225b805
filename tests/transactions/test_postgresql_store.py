"""The store on a real PostgreSQL, whose connections are cut at a commit and which is killed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from typing import TYPE_CHECKING, Any, Self

import pytest

import coterie
from coterie.errors import (
    ConfigError,
    Conflict,
    MisuseError,
    OutcomeUnknown,
    Unavailable,
    UsageError,
)
from coterie.lab.serializability import check
from coterie.lab.servers.postgresql import MISSING, PostgresqlServer
from coterie.transactions.history import parse_history
from tests.transactions.test_store_storms import client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from coterie.transactions import Transaction

asyncpg = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

from coterie.transactions.store.postgresql import PostgresqlExecutor, pool, statements  # noqa: E402

TABLE_OF_OTHERS = (
    "create role guest login password 'guest'; revoke create on schema public from public"
)


@pytest.fixture(scope="module")
def started() -> Iterator[PostgresqlServer]:
    with PostgresqlServer(deadlock_timeout="50ms") as server:
        yield server


@pytest.fixture
def server(started: PostgresqlServer) -> PostgresqlServer:
    """Return the server without a table."""
    asyncio.run(ask(started, "drop table if exists coterie_store"))
    return started


async def ask(server: PostgresqlServer, query: str) -> Any:
    """Ask the server past all stores."""
    connection = await asyncpg.connect(server.url())
    try:
        if ";" in query:
            return await connection.execute(query)
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def left_behind(server: PostgresqlServer) -> int:
    """Count the transactions of others that are under way at the server."""
    return int(
        await ask(
            server,
            "select count(*) from pg_stat_activity where xact_start is not null"
            " and backend_type = 'client backend' and pid <> pg_backend_pid()",
        )
    )


async def put(store: coterie.Store, **values: Any) -> None:
    async with store.transaction() as t:
        for key, value in values.items():
            await t.put(key, value)


async def everything(store: coterie.Store) -> dict[str, Any]:
    async with store.transaction() as t:
        return dict(await t.scan())


async def count(t: Transaction) -> None:
    await t.put("visitors", await t.get("visitors", 0) + 1)


# What transactions see


def test_values_come_back_from_another_store_in_the_order_of_their_keys(
    server: PostgresqlServer,
) -> None:
    async def main() -> None:
        keys = ["", "B", "a", "a b", "ä", "\uffff", "\U0001f600"]
        async with coterie.Store(server.url()) as store, store.transaction() as t:
            for key in reversed(keys):
                await t.put(key, [key, {"bytes": b"\0"}])
            assert [key for key, _ in await t.scan()] == keys
        async with coterie.Store(server.url()) as store, store.transaction() as t:
            assert await t.scan() == [(key, [key, {"bytes": b"\0"}]) for key in keys]
            assert [key for key, _ in await t.scan("a", "ä")] == ["a", "a b"]
            assert [key for key, _ in await t.scan("a\0", "a b\0")] == ["a b"]
            await t.delete("a")
            await t.put("a c", 1)
            assert [key for key, _ in await t.scan_prefix("a", limit=1)] == ["a b"]
            assert [key for key, _ in await t.scan("B", limit=3)] == ["B", "a b", "a c"]
            assert await t.get("a", "gone") == "gone"
            assert await t.get("a\0") is None
            with pytest.raises(UsageError, match="NUL"):
                await t.put("a\0", 1)
            with pytest.raises(UsageError, match="2,600 bytes"):
                await t.put("ä" * 1400, 1)

    asyncio.run(main())


def test_deletions_that_were_recorded_are_gone_for_all(server: PostgresqlServer) -> None:
    async def main() -> None:
        async with coterie.Store(server.url(), record=True) as store:
            await put(store, a=1, b=2, c=3, d=4)
            async with store.transaction() as t:
                for key in "abc":
                    await t.delete(key)
            async with store.transaction() as t:
                assert await t.scan(limit=1) == [("d", 4)]
            assert check(store.history()).serializable
        async with coterie.Store(server.url()) as store:
            assert await everything(store) == {"d": 4}
            await put(store, a=5)
            async with store.transaction() as t:
                await t.delete("d")
            assert await everything(store) == {"a": 5}
        assert await ask(server, "select count(*) from coterie_store where key = 'd'") == 0

    asyncio.run(main())


def test_a_scan_sees_no_phantom_and_two_that_overlap_do_not_both_commit(
    server: PostgresqlServer,
) -> None:
    async def main() -> None:
        async with coterie.Store(server.url()) as store:
            await put(store, a=1)

            async def add() -> None:
                async with store.transaction() as t:
                    await t.put("b", await t.get("total", 0))

            async def total() -> None:
                async with store.transaction() as t:
                    seen = await t.scan()
                    await asyncio.create_task(add())
                    assert await t.scan() == seen
                    await t.put("total", len(seen))

            with pytest.raises(Conflict):
                await total()
            assert await everything(store) == {"a": 1, "b": 0}

    asyncio.run(main())


# Many at a time


def test_money_is_kept_and_refused_transfers_are_tried_again(server: PostgresqlServer) -> None:
    async def main() -> None:
        async with coterie.Store(server.url() + "?connections=4", record=True) as store:
            names = [f"account/{number}" for number in range(6)]
            await put(store, **dict.fromkeys(names, 100))

            async def transfers(dice: random.Random) -> None:
                for _ in range(30):
                    giver, taker = dice.sample(names, 2)

                    async def transfer(
                        t: Transaction, *, giver: str = giver, taker: str = taker
                    ) -> None:
                        has, gets = await t.get(giver), await t.get(taker)
                        await t.put(giver, has - 1)
                        await t.put(taker, gets + 1)

                    await store.run(transfer)

            await asyncio.gather(*(transfers(random.Random(seed)) for seed in range(6)))
            assert sum((await everything(store)).values()) == 600
            assert store.counts.committed == 182
            assert store.counts.repeated == store.counts.refused > 0
            assert check(store.history(), real_time=True).serializable
            backends = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
            assert await ask(server, backends) <= 5

    asyncio.run(main())


def test_histories_of_two_programs_are_one_that_is_serializable(server: PostgresqlServer) -> None:
    async def main() -> None:
        async with (
            coterie.Store(server.url(), record=True) as one,
            coterie.Store(server.url(), record=True) as two,
        ):
            await everything(one), await everything(two)
            clients = [client(store, random.Random(n)) for n in range(12) for store in (one, two)]
            await asyncio.gather(*clients)
            assert one.counts.committed + two.counts.committed > 100
            assert one.counts.refused > 0
            together = parse_history(one.history_lines() + two.history_lines())
            assert check(together).serializable
        assert await left_behind(server) == 0

    asyncio.run(main())


async def duties(store: coterie.Store) -> None:
    """Go off duty, unless that leaves none on it: write skew, if both may."""

    async def leave(t: Transaction, name: str) -> None:
        on_duty = [await t.get(key) for key in ("ann", "bob")]
        await asyncio.sleep(0.001)
        await t.put(name, 0 if sum(on_duty) == 2 else 1)

    async def again(name: str) -> None:
        for _ in range(20):
            with contextlib.suppress(Conflict):
                async with store.transaction() as t:
                    await leave(t, name)

    await put(store, ann=1, bob=1)
    await asyncio.gather(again("ann"), again("bob"))


def test_write_skew_happens_only_by_a_weaker_isolation(
    server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> bool | None:
        async with coterie.Store(server.url(), record=True) as store:
            await duties(store)
            return check(store.history()).serializable

    assert asyncio.run(run()) is True
    weaker = statements.BEGIN.replace("serializable", "repeatable read")
    monkeypatch.setattr(statements, "BEGIN", weaker)
    assert asyncio.run(run()) is False


def test_a_history_begins_with_what_is_there(server: PostgresqlServer) -> None:
    async def main() -> None:
        async with coterie.Store(server.url()) as store:
            await store.run(count)
        async with coterie.Store(server.url(), record=True) as store:
            await store.run(count)
            assert b'"recovered"' in store.history_lines()
            report = check(store.history())
        assert report.serializable
        assert report.order is not None
        assert report.order[0] == "recovered"

    asyncio.run(main())


# Waiting


@contextlib.asynccontextmanager
async def locked(store: coterie.Store, key: str) -> AsyncIterator[str]:
    """Let another task keep writers from a key; give the name of its transaction."""
    names: asyncio.Queue[str] = asyncio.Queue()
    done = asyncio.Event()

    async def hold() -> None:
        async with store.transaction() as t:
            await t.get(key, for_update=True)
            names.put_nowait(t.name)
            await done.wait()

    task = asyncio.create_task(hold())
    try:
        yield await names.get()
    finally:
        done.set()
        await task


def test_a_wait_ends_after_its_timeout(server: PostgresqlServer) -> None:
    async def main() -> None:
        async with coterie.Store(server.url(), timeout=1.5) as store:
            await put(store, x=1)
            async with locked(store, "x") as holder:
                with pytest.raises(Conflict) as caught:
                    await put(store, x=2)
                assert caught.value.rule == "waited too long"
                assert caught.value.others == (holder,)
                with pytest.raises(Conflict, match="given up after"):
                    await store.run(lambda t: t.put("x", 2), timeout=0.1)
            assert await everything(store) == {"x": 1}
        assert await left_behind(server) == 0

    asyncio.run(main())


def test_a_cancelled_wait_leaves_nothing_behind(server: PostgresqlServer) -> None:
    async def main() -> None:
        async with coterie.Store(server.url() + "?connections=2") as store:
            await put(store, x=1)
            async with locked(store, "x"):
                for _ in range(3):
                    task = asyncio.create_task(put(store, x=2))
                    waits = "select count(*) from pg_locks where not granted"
                    while not await ask(server, waits):
                        assert not task.done()
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
            await put(store, x=3)
            assert await everything(store) == {"x": 3}
        assert await left_behind(server) == 0

    asyncio.run(main())


def test_a_task_that_would_wait_for_itself_is_told_so(server: PostgresqlServer) -> None:
    async def main() -> None:
        async with coterie.Store(server.url()) as store:
            await put(store, x=1)
            async with store.transaction() as t:
                await t.get("x", for_update=True)
                with pytest.raises(MisuseError, match="the same task has begun"):
                    await put(store, x=2)
            assert await everything(store) == {"x": 1}

    asyncio.run(main())


def test_closing_refuses_what_is_under_way(server: PostgresqlServer) -> None:
    async def main() -> None:
        store = coterie.Store(server.url())
        await put(store, x=1)

        async def work() -> None:
            async with store.transaction() as t:
                await t.put("x", await t.get("x") + 1)
                await store.close()
                await t.get("y")

        with pytest.raises(Conflict, match="the store was closed"):
            await work()
        with pytest.raises(MisuseError, match="closed"):
            store.transaction()
        assert await left_behind(server) == 0

    asyncio.run(main())


# Failures


class Cutter:
    """A way to the server that breaks once, when a commit comes along; connections after that stand.

    `at` is called with what passes the commit on; whatever it does, the client's end breaks then.
    """

    def __init__(
        self, port: int, at: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
    ) -> None:
        self._target = port
        self._at = at
        self.cuts = 0
        self.refuses = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        if self.refuses:
            writer.transport.abort()
            return
        inner, outer = await asyncio.open_connection("127.0.0.1", self._target)
        down = asyncio.create_task(self._pass_down(inner, writer))
        self._tasks.add(down)
        try:
            while data := await reader.read(65536):
                if b"commit\0" in data and not self.cuts:
                    self.cuts += 1
                    down.cancel()
                    await asyncio.wait({down})

                    async def pass_on(data: bytes = data) -> None:
                        outer.write(data)
                        await inner.read(65536)

                    await self._at(pass_on)
                    writer.transport.abort()
                    await asyncio.Event().wait()  # the server hears nothing of that
                outer.write(data)
        except OSError:
            pass
        finally:
            outer.transport.abort()
            writer.transport.abort()

    async def _pass_down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.transport.abort()


@pytest.mark.parametrize("arrives", [True, False])
def test_a_line_cut_at_the_commit_does_not_count_twice_or_never(
    server: PostgresqlServer, *, arrives: bool
) -> None:
    """The server tells what became of it, and a backend that waits for what was lost is ended."""

    async def at(pass_on: Callable[[], Awaitable[None]]) -> None:
        if arrives:
            await pass_on()

    async def main() -> None:
        async with (
            Cutter(server.port, at) as cutter,
            coterie.Store(server.url(port=cutter.port), record=True) as store,
        ):
            await store.run(count)
            assert await everything(store) == {"visitors": 1}
            assert cutter.cuts == 1
            assert store.counts.refused == (0 if arrives else 1)
            assert check(store.history()).serializable
        assert await left_behind(server) == 0

    asyncio.run(main())


@pytest.mark.parametrize("arrives", [True, False])
def test_the_outcome_is_unknown_where_the_server_cannot_be_asked(
    server: PostgresqlServer, *, arrives: bool
) -> None:
    async def main() -> None:
        async def at(pass_on: Callable[[], Awaitable[None]]) -> None:
            cutter.refuses = True
            if arrives:
                await pass_on()

        async with Cutter(server.port, at) as cutter:
            executor = PostgresqlExecutor(server.url(port=cutter.port), patience=0.2)
            store = coterie.Store(executor)
            with pytest.raises(OutcomeUnknown, match="may have been committed or not"):
                await store.run(count)
            assert store.counts.unknown == 1
            await store.close()
        async with coterie.Store(server.url()) as other:
            assert await everything(other) == ({"visitors": 1} if arrives else {})

    asyncio.run(main())


def test_a_number_that_is_given_again_after_a_crash_is_not_taken_for_ours(
    server: PostgresqlServer,
) -> None:
    async def at(_: Callable[[], Awaitable[None]]) -> None:
        server.restart()
        for _number in range(20):  # what the crash has forgotten, others get now, and commit
            await ask(server, "select txid_current()")

    async def main() -> None:
        async with coterie.Store(server.url()) as store:
            await put(store, x=1)
        async with (
            Cutter(server.port, at) as cutter,
            coterie.Store(server.url(port=cutter.port)) as store,
        ):
            with pytest.raises((Conflict, OutcomeUnknown)):
                await put(store, x=2)
            assert await everything(store) == {"x": 1}

    asyncio.run(main())


def test_a_killed_server_is_unavailable_and_used_again_when_it_is_back(
    server: PostgresqlServer,
) -> None:
    async def main() -> None:
        async with coterie.Store(server.url()) as store:
            await store.run(count)

            async def count_late(t: Transaction) -> None:
                await t.get("visitors")
                server.kill()
                await count(t)

            with pytest.raises(Unavailable):
                await store.run(count_late)
            with pytest.raises(Unavailable):
                await store.run(count)
            server.start()
            await store.run(count)
            server.restart()
            await store.run(count)  # over a connection that had ended while it was not used
            assert await everything(store) == {"visitors": 3}

    asyncio.run(main())


# Clear lines


def fails(url: str, error: type[Exception], match: str) -> None:
    async def main() -> None:
        async with coterie.Store(url) as store:
            with pytest.raises(error, match=match):
                await store.run(count)

    asyncio.run(main())


def test_what_is_wrong_is_said_in_one_line(
    server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, port = server.url(), server.port
    fails(url.replace("correct", "wrong"), ConfigError, "password authentication failed")
    fails(url.replace("/postgres", "/nothing"), ConfigError, 'database "nothing" does not exist')
    fails(server.url(port=1), Unavailable, "127.0.0.1:1")
    fails(f"{url}?lease=5&sslmode=require", ConfigError, "SSL")
    asyncio.run(ask(server, f"{TABLE_OF_OTHERS};"))
    guest = f"postgresql://guest:guest@127.0.0.1:{port}/postgres"
    fails(guest, ConfigError, "permission denied.*create table")
    asyncio.run(ask(server, statements.MAKE))
    fails(guest, ConfigError, "permission denied")
    monkeypatch.setattr(pool, "VERSION_MIN", 99)
    fails(url, ConfigError, "is too old; a store needs 99 or newer")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"scheme": "optimistic"}, "scheme=: PostgreSQL keeps transactions apart in its own way"),
        ({"variant": "wound-wait"}, "variant="),
        ({"path": "bank"}, "path= is for a store in a file"),
    ],
)
def test_what_postgresql_decides_is_not_to_be_chosen(options: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        coterie.Store("postgresql://localhost/bank", **options)


def test_a_url_must_make_sense() -> None:
    with pytest.raises(UsageError, match="no store at mysql://"):
        coterie.Store("mysql://localhost/bank")
    with pytest.raises(UsageError, match="connections must be at least 1, got 'many'"):
        coterie.Store("postgresql://localhost/bank?connections=many")
    with pytest.raises(UsageError, match="two schemes"):
        coterie.Store("optimistic", scheme="multiversion")


def test_a_missing_client_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(statements.__package__ or "")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigError, match=r"pip install 'coterie\[postgresql\]'"):
        coterie.Store("postgresql://localhost/bank")
