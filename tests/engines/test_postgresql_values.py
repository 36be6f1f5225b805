"""Values on a real PostgreSQL: work and checkpoint in one commit, tables of an earlier version, a crash."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg
import pytest

import coterie
import coterie.sync
from coterie.engines.postgresql import statements
from coterie.engines.postgresql.server import PostgresqlSession
from coterie.engines.queue.engine import QueueEngine
from coterie.errors import LockLost, Unavailable, UsageError
from coterie.lab.servers.postgresql import MISSING, PASSWORD, USER, PostgresqlServer
from coterie.lab.servers.proxy import Proxy
from coterie.locks.internals import engine_of
from coterie.locks.value import ValueRecord
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from coterie.engines.postgresql.values import PostgresqlValues

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

LEASE = 1.0


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as started:
        yield started


@contextlib.asynccontextmanager
async def connected(server: PostgresqlServer, database: str = "postgres") -> AsyncIterator[Any]:
    """Connect as a user's own work does, with a table for it."""
    connection = await asyncpg.connect(
        host="127.0.0.1", port=server.port, user=USER, password=PASSWORD, database=database
    )
    try:
        await connection.execute("create table if not exists work (row int)")
        await connection.execute("truncate work")
        yield connection
    finally:
        await connection.close()


class CutOff(NamedTuple):
    """A hold of a program that does not reach the server any more, but has another connection to it."""

    held: coterie.Held
    store: PostgresqlValues  # of its session, which looks at no clock

    async def write(self, mine: Any) -> bool:
        record = ValueRecord(self.held.name, self.held.token, 9, 0.0, "late", b"late")
        return await self.store.write_in(mine, record)


@contextlib.asynccontextmanager
async def cut_off(
    server: PostgresqlServer, name: str
) -> AsyncIterator[tuple[CutOff, coterie.Coordinator]]:
    """Hold a lock in a program that is cut off; another one may have it after a lease."""
    proxy = Proxy(server.port)
    await proxy.start()
    try:
        async with (
            coterie.connect(server.url(LEASE, port=proxy.port)) as late,
            coterie.connect(server.url(LEASE)) as c,
        ):
            held = await late.lock(name).acquire()
            assert held is not None
            await held.write(b"0")
            engine = engine_of(late)
            assert isinstance(engine, QueueEngine)
            session = engine.group.supply.session
            assert isinstance(session, PostgresqlSession)
            store = session.values
            proxy.cut()
            yield CutOff(held, store), c
    finally:
        await proxy.stop()


async def rows(connection: Any) -> list[int]:
    return [row for (row,) in await connection.fetch("select row from work order by row")]


@in_loop
async def test_work_and_checkpoint_are_one_commit(server: PostgresqlServer) -> None:
    async with coterie.connect(server.url(LEASE)) as c, connected(server) as mine:
        for number in range(1, 4):
            async with c.lock("one") as held:
                before = await held.read()
                assert (before.data if before else None) == (
                    b"%d" % (number - 1) if number > 1 else None
                )
                with contextlib.suppress(ZeroDivisionError):
                    async with mine.transaction():
                        await mine.execute("insert into work values (99)")
                        await held.write(b"never", connection=mine)
                        raise ZeroDivisionError
                async with mine.transaction():
                    await mine.execute("insert into work values ($1)", number)
                    await held.write(b"%d" % number, connection=mine)
                after = await held.read()
                assert after is not None
                assert after.data == b"%d" % number
        assert await rows(mine) == [1, 2, 3]


@in_loop
async def test_the_next_holder_reads_after_a_transaction_of_the_one_before(
    server: PostgresqlServer,
) -> None:
    """Its commit comes after the end of the hold, and still before the read."""
    async with cut_off(server, "two") as (late, c), connected(server) as mine:
        transaction = mine.transaction()
        await transaction.start()
        await mine.execute("insert into work values (1)")
        await late.held.write(b"1", connection=mine)
        async with c.lock("two") as own:
            reading = asyncio.create_task(own.read())
            free = await c.read("two")
            assert free is not None
            assert free.data == b"0"
            await asyncio.sleep(1.2 * LEASE)  # the read waits, and the lease is renewed
            assert not reading.done()
            assert own.valid
            await transaction.commit()
            found = await reading
            assert found is not None
            assert (found.data, await rows(mine)) == (b"1", [1])


@in_loop
async def test_a_transaction_that_comes_late_is_refused(server: PostgresqlServer) -> None:
    """Also if the next holder has only read, and before the program knows that its hold is over."""

    async def work(late: CutOff, mine: Any) -> None:
        async with mine.transaction():
            await mine.execute("insert into work values (2)")
            await late.held.write(b"late", connection=mine)

    async with (
        cut_off(server, "three") as (late, c),
        connected(server) as mine,
        c.lock("three") as own,
    ):
        await own.read()
        async with mine.transaction():
            await mine.execute("insert into work values (1)")
            assert await late.write(mine) is False
        with pytest.raises(LockLost):
            await work(late, mine)
        assert await rows(mine) == [1]
        found = await c.read("three")
        assert found is not None
        assert found.data == b"0"


@in_loop
async def test_a_transaction_that_is_still_open_is_not_waited_for_by_its_own_holder(
    server: PostgresqlServer,
) -> None:
    async with (
        coterie.connect(server.url(LEASE)) as c,
        connected(server) as mine,
        c.lock("four") as held,
    ):
        async with mine.transaction():
            await held.write(b"1", connection=mine)
            for call in (held.read, held.delete):
                with pytest.raises(Unavailable, match="a transaction that is still open"):
                    await call()
        found = await held.read()
        assert found is not None
        assert found.data == b"1"


@in_loop
async def test_a_value_belongs_into_a_transaction_of_the_same_database(
    server: PostgresqlServer,
) -> None:
    async with coterie.connect(server.url(LEASE)) as c, c.lock("five") as held:
        async with connected(server) as mine:
            with pytest.raises(UsageError, match="no transaction is open"):
                await held.write(b"1", connection=mine)
            with pytest.raises(UsageError, match=r"of asyncpg or psycopg, got builtins\.str"):
                await held.write(b"1", connection="mine")
            await mine.execute("create database other")
        async with connected(server, "other") as other:
            for _ in range(2):  # without such a table, and with one of other locks
                with pytest.raises(UsageError, match="in another database than the locks"):
                    async with other.transaction():
                        await held.write(b"1", connection=other)
                there = server.url(LEASE).replace("/postgres?", "/other?")
                async with coterie.connect(there) as elsewhere:
                    assert await elsewhere.read("five") is None
        assert await held.read() is None


@in_loop
async def test_another_engine_takes_no_transaction(tmp_path: Path) -> None:
    async with coterie.connect(tmp_path) as c, c.lock("a") as held:
        with pytest.raises(UsageError, match="only postgresql:// does"):
            await held.write(b"1", connection=object())


def test_a_thread_has_its_transaction_by_psycopg(server: PostgresqlServer) -> None:
    import psycopg  # noqa: PLC0415 - the other tests of this file do without it

    with (
        coterie.sync.connect(server.url(LEASE)) as c,
        psycopg.connect(server.url()) as mine,
        c.lock("six") as held,
    ):
        mine.execute("create temporary table mine (row int)")
        held.write(b"1", connection=mine)
        mine.rollback()
        assert held.read() is None
        held.write(b"2", connection=mine)
        mine.commit()
        found = held.read()
        assert found is not None
        assert found.data == b"2"
        mine.autocommit = True
        with pytest.raises(UsageError, match="no transaction is open"):
            held.write(b"3", connection=mine)


@in_loop
async def test_a_task_has_its_transaction_by_psycopg(server: PostgresqlServer) -> None:
    import psycopg  # noqa: PLC0415 - the other tests of this file do without it

    async with (
        coterie.connect(server.url(LEASE)) as c,
        await psycopg.AsyncConnection.connect(server.url()) as mine,
        c.lock("seven") as held,
    ):
        async with mine.transaction():
            await held.write(b"1", connection=mine)
        with contextlib.suppress(ZeroDivisionError):
            async with mine.transaction():
                await held.write(b"2", connection=mine)
                raise ZeroDivisionError
        found = await held.read()
        assert found is not None
        assert found.data == b"1"


@in_loop
async def test_a_value_survives_a_crash_in_which_the_locks_are_lost() -> None:
    with PostgresqlServer(fsync="on") as server:
        async with coterie.connect(server.url(LEASE)) as c, c.lock("a") as held:
            await held.write(b"1")
        server.kill()
        server.start()
        async with coterie.connect(server.url(LEASE)) as c, c.lock("a") as held:
            found = await held.read()
            assert found is not None
            assert (found.data, found.doubtful) == (b"1", False)


@in_loop
async def test_tables_of_an_earlier_version_get_another_one(server: PostgresqlServer) -> None:
    async with connected(server) as mine, coterie.connect(server.url(LEASE)) as c:
        async with c.lock("seven"):
            await mine.execute("drop table coterie.value")
        async with coterie.connect(server.url(LEASE)) as again, again.lock("seven") as held:
            await held.write(b"1")
            assert await held.read() is not None


# Once per period


@in_loop
async def test_work_is_done_exactly_once_whose_end_is_recorded_in_its_transaction(
    server: PostgresqlServer,
) -> None:
    async with connected(server) as mine, coterie.connect(server.url(LEASE)) as c:
        job = c.once("nightly", "2026-11-17", attempts=5)
        for outcome in ("rolled back", "committed", "not due"):
            run = await job.acquire()
            assert (run is None) == (outcome == "not due")
            if run is None:
                break
            work = mine.transaction()
            await work.start()
            await mine.execute("insert into work values (1)")
            await run.finish(connection=mine)
            # It may be killed here, also: the next holder waits for the end of the transaction.
            await (work.commit() if outcome == "committed" else work.rollback())
        assert await mine.fetchval("select count(*) from work") == 1


@in_loop
async def test_no_session_ends_while_a_write_of_it_is_carried_out(server: PostgresqlServer) -> None:
    """Its end waits for the commit; and a write that waits for the end does nothing then."""
    async with coterie.connect(server.url(LEASE)) as c, c.lock("eight") as held:
        await held.write(b"1")
        async with connected(server) as writer, connected(server) as other:
            (queue,) = await other.fetchrow("select queue from coterie.line where lock = 'eight'")
            session = queue[0].split(" ")[1]
            arguments = [session, "eight", queue[0], held.token]
            await other.execute("set lock_timeout = '100ms'")
            async with writer.transaction():
                assert await writer.fetch(statements.WRITE_VALUE, *arguments, 2, b"2")
                for end, name in (
                    ("update coterie.session set alive = false where name = $1", session),
                    ("update coterie.line set queue = '{}' where lock = $1", "eight"),
                ):
                    with pytest.raises(asyncpg.LockNotAvailableError):
                        await other.execute(end, name)
            async with other.transaction():
                await other.execute("delete from coterie.session where name = $1", session)
                late = asyncio.create_task(
                    writer.fetch(
                        statements.WRITE_VALUE.replace("100ms", "10s"), *arguments, 3, b"3"
                    )
                )
                while not await other.fetchval("select count(*) from pg_locks where not granted"):  # noqa: ASYNC110 - no events
                    await asyncio.sleep(0.01)
            assert not await late
            with pytest.raises(LockLost):
                await held.write(b"4")
