"""Leases on PostgreSQL that are counted by those who wait: statements, late joins, other versions."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

import coterie
from coterie.engines.postgresql import statements
from coterie.engines.postgresql.connection import LockConnection
from coterie.errors import ConfigError, Unavailable
from coterie.lab.servers.postgresql import MISSING, PASSWORD, USER, PostgresqlServer
from tests.engines.programs import LEASE, programs, taken
from tests.engines.test_postgresql import ask, entries, start, until, until_entries, until_renewed
from tests.locks.memory import in_loop
from tests.locks.memory import until as until_true
from tests.processes import Directory, directory, kill, line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

FORMER_LABEL = "coterie 0123456789abcdef host:17"  # of a connection of version 1


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as started:
        yield started


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Directory]:
    with directory(tmp_path) as opened:
        yield opened


@contextlib.asynccontextmanager
async def raw(server: PostgresqlServer, label: str = "") -> AsyncIterator[Any]:
    """Connect past all locks."""
    connection = await asyncpg.connect(
        server.url(), server_settings={"application_name": label} if label else {}
    )
    try:
        yield connection
    finally:
        await connection.close()


async def alive(server: PostgresqlServer) -> int:
    return int(await ask(server, "select count(*) from coterie.session where alive"))


async def until_blocked(server: PostgresqlServer, count: int) -> None:
    """Wait until so many statements wait for a row."""

    async def are_blocked() -> bool:
        return int(await ask(server, "select count(*) from pg_locks where not granted")) >= count

    await until(are_blocked)


# Statements


@contextlib.asynccontextmanager
async def session(server: PostgresqlServer, name: str) -> AsyncIterator[Any]:
    """Connect with a session of that name, which is never renewed."""
    async with programs(server, 1):  # makes the tables
        pass
    async with raw(server) as connection:
        await connection.execute(statements.OPEN, name, 60.0)
        try:
            yield connection
        finally:
            await connection.execute(statements.CLOSE, name)
            await connection.execute("delete from coterie.line")


async def join(connection: Any, name: str, attempt: int, leaving: str = "") -> Any:
    begun = await connection.fetchval(f"select {statements.START}")
    query = statements.join(shared=False, leaves=bool(leaving))
    entry = f"x{attempt} {name} participant 0.0 host:1"
    arguments = [leaving] if leaving else []
    return await connection.fetchrow(query, name, begun, True, "x", entry, *arguments)


@in_loop
async def test_a_number_is_drawn_when_the_row_is_ours(server: PostgresqlServer) -> None:
    """One that was drawn before would be below that of a hold that came between."""
    async with session(server, "a") as ann, raw(server) as other:
        await other.execute("insert into coterie.line values ('x', '{}')")
        change = other.transaction()
        await change.start()
        await other.execute("select from coterie.line where lock = 'x' for update")
        joining = asyncio.create_task(join(ann, "a", 1))
        await until_blocked(server, 1)
        between = await other.fetchval("select nextval('coterie.number')")
        await change.commit()
        assert (await joining)[0] > between


@in_loop
async def test_a_join_that_is_sent_again_finds_its_entry(server: PostgresqlServer) -> None:
    async with session(server, "a") as ann:
        first, again = await join(ann, "a", 1), await join(ann, "a", 1)
        assert again[0] > first[0]
        assert await entries(server, "x") == 1
        behind = await join(ann, "a", 2)
        assert behind[0] is None
        assert len(behind[1]) == 2


async def join_and_leave(connection: Any, name: str, lock: str, leaving: str, left: str) -> Any:
    begun = await connection.fetchval(f"select {statements.START}")
    query = statements.join(shared=False, leaves=True, elsewhere=True)
    entry = f"x9 {name} participant 0.0 host:1"
    return await connection.fetchrow(query, name, begun, True, lock, entry, leaving, left)


@in_loop
async def test_a_join_leaves_an_entry_that_is_alone_in_another_lock(
    server: PostgresqlServer,
) -> None:
    entry = "x1 a participant 0.0 host:1"
    async with session(server, "a") as ann:
        await join(ann, "a", 1)
        number, _, gone = await join_and_leave(ann, "a", "y", entry, "x")
        assert (number is not None, gone) == (True, 1)
        assert (await entries(server, "x"), await entries(server, "y")) == (0, 1)


@in_loop
async def test_a_join_does_not_touch_another_lock_where_others_stand(
    server: PostgresqlServer,
) -> None:
    """They have to be woken, which a statement of its own does."""
    entry = "x1 a participant 0.0 host:1"
    async with session(server, "a") as ann:
        await join(ann, "a", 1)
        await join(ann, "a", 2)
        number, _, gone = await join_and_leave(ann, "a", "y", entry, "x")
        assert (number is not None, gone) == (True, 0)
        assert await entries(server, "x") == 2


@in_loop
async def test_programs_that_change_places_do_not_wait_for_each_other(
    server: PostgresqlServer,
) -> None:
    """A join that waits for the row of its lock has no other one, and takes none that is locked."""
    entry = "x1 a participant 0.0 host:1"
    async with session(server, "a") as ann, raw(server) as other:
        await join(ann, "a", 1)
        change = other.transaction()
        await change.start()
        await other.execute("select from coterie.line where lock = 'x' for update")
        number, _, gone = await join_and_leave(ann, "a", "y", entry, "x")  # without waiting
        assert (number is not None, gone) == (True, 0)
        await change.commit()
        assert await entries(server, "x") == 1


@in_loop
async def test_no_entry_is_made_for_a_session_that_is_dead_or_of_another_run(
    server: PostgresqlServer,
) -> None:
    async with session(server, "a") as ann:
        assert await ann.fetchval(statements.KILL, "a", 7) is None  # another counter
        assert await ann.fetchval(statements.FIND, "a") == 0
        assert await ann.fetchval(statements.KILL, "a", 0) == "a"
        assert await join(ann, "a", 1) is None
        assert await ann.fetchval(statements.RENEW, "a", 0) is None
        assert await ann.fetchval(statements.FIND, "a") is None
    async with session(server, "b") as bob:
        query = statements.join(shared=False, leaves=False)
        before = await bob.fetchval(f"select {statements.START} - interval '1 second'")
        entry = "x1 b participant 0.0 host:1"
        assert await bob.fetchrow(query, "b", before, True, "x", entry) is None
    assert not await entries(server)


@in_loop
async def test_no_number_is_drawn_while_the_run_is_closed(server: PostgresqlServer) -> None:
    async with session(server, "a") as ann:
        begun = await ann.fetchval(f"select {statements.START}")
        query, entry = statements.join(shared=False, leaves=False), "x1 a participant 0.0 host:1"
        number, queue = await ann.fetchrow(query, "a", begun, False, "x", entry)
        assert number is None
        assert queue == [entry]


@in_loop
async def test_an_entry_is_left_although_another_comes_at_the_same_moment(
    server: PostgresqlServer,
) -> None:
    """To a statement that removes a row that is alone it is no longer alone, when it has waited for it."""
    async with programs(server, 1) as (ann,), raw(server) as other:
        held = await taken(ann)
        change = other.transaction()
        await change.start()
        await other.execute("update coterie.line set queue = queue || $1::text", "x1 b c 0.0 d")
        await held.release()  # that is sent, and not waited for
        await until_blocked(server, 1)
        await change.commit()

        async def is_first() -> bool:
            return bool(await ask(server, "select queue[1] = $1 from coterie.line", "x1 b c 0.0 d"))

        await until(is_first)
        await other.execute("delete from coterie.line")


# Sessions


@in_loop
async def test_a_program_that_dies_with_no_one_waiting_is_buried_by_its_neighbour(
    server: PostgresqlServer, processes: Directory
) -> None:
    holder = start(processes, server)
    line(holder)
    async with programs(server, 1):
        kill(holder)

        async def is_buried() -> bool:
            return await alive(server) == 1 and not await entries(server)

        await until(is_buried)
    assert not await ask(server, "select count(*) from coterie.session")


@in_loop
async def test_many_that_died_with_no_one_waiting_cost_one_lease(server: PostgresqlServer) -> None:
    """A renewal shows several neighbours: else they would be found one after the other."""
    async with programs(server, 1), raw(server) as other:
        for number in range(10):
            await other.execute(statements.OPEN, f"dead{number}", LEASE)
        async with asyncio.timeout(3 * LEASE):
            while await alive(server) > 1:  # noqa: ASYNC110 - of other programs there are no events
                await asyncio.sleep(0.05)


@in_loop
async def test_many_that_died_in_one_line_cost_one_lease(server: PostgresqlServer) -> None:
    """All sessions before a waiter are observed at once, not one after the other."""
    names = [f"dead{number}" for number in range(20)]
    async with programs(server, 1) as (ann,), raw(server) as other:
        for name in names:
            await other.execute(statements.OPEN, name, LEASE)
        queue = [f"x1 {name} nobody 0.0 host:1" for name in names]
        await other.execute("insert into coterie.line values ('x', $1)", queue)
        async with asyncio.timeout(3 * LEASE):
            held = await taken(ann)
        assert held.valid
        await held.release()


@in_loop
async def test_a_session_that_is_gone_is_told_at_the_next_renewal(server: PostgresqlServer) -> None:
    async with programs(server, 2) as (ann, bob):
        held = await taken(ann)
        name = await ask(server, "select split_part(queue[1], ' ', 2) from coterie.line")
        await ask(server, "update coterie.session set alive = false where name = $1", name)
        await held.lost
        again = await taken(bob)
        assert again.token > held.token
        await again.release()


@in_loop
async def test_an_entry_that_was_removed_by_hand_is_made_again(server: PostgresqlServer) -> None:
    async with programs(server, 2) as (ann, bob):
        held = await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        await until_entries(server, "x", 2)
        await ask(server, "update coterie.line set queue = queue[:1]")
        await until_entries(server, "x", 2)
        await held.release()
        await (await waiting).release()


@in_loop
async def test_a_join_that_is_carried_out_after_it_was_left_is_removed(
    server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[tuple[str, tuple[object, ...]]] = []
    original = LockConnection.ask

    async def lose(self: LockConnection, query: str, *arguments: object, limit: float) -> Any:
        if query == statements.join(shared=False, leaves=False) and arguments[3] == "late":
            late.append((query, arguments))
            raise Unavailable("no answer in time")
        return await original(self, query, *arguments, limit=limit)

    monkeypatch.setattr(LockConnection, "ask", lose)
    async with programs(server, 2) as (ann, bob):
        waiting = asyncio.create_task(taken(ann, "late"))
        await until_true(lambda: bool(late))
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        monkeypatch.setattr(LockConnection, "ask", original)
        async with raw(server) as other:

            async def is_there() -> bool:
                await asyncio.sleep(0)
                await other.fetch(late[0][0], *late[0][1])
                return await entries(server, "late") == 1

            await until(is_there)
        held = await taken(bob, "late")
        await held.release()


# Costs


@in_loop
async def test_what_holding_and_waiting_cost_does_not_depend_on_the_number_of_locks(
    server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One renewal in a third of a lease, and one look in a sixth for all that is waited for."""
    sent: Counter[str] = Counter()
    original = LockConnection.ask

    async def count(self: LockConnection, query: str, *arguments: object, limit: float) -> Any:
        sent[query] += 1
        return await original(self, query, *arguments, limit=limit)

    monkeypatch.setattr(LockConnection, "ask", count)
    locks = [f"many{number}" for number in range(20)]
    async with programs(server, 2) as (ann, bob):
        held = [await taken(ann, lock) for lock in locks]
        waiting = [asyncio.create_task(taken(bob, lock)) for lock in locks]
        for lock in locks:
            await until_entries(server, lock, 2)
        sent.clear()
        for _ in range(4):
            await until_renewed(held[0], held[0].expires_at)
        renewals, looks = sent[statements.RENEW], sent[statements.LOOK]
        assert 4 <= renewals <= 2 * 5 + 1  # of both programs
        assert 2 <= looks <= renewals + 2  # of one of them
        for each in held:
            await each.release()
        for task in waiting:
            await (await task).release()


# An older state


@in_loop
async def test_a_server_that_comes_up_with_an_older_state_ends_no_hold_late(
    server: PostgresqlServer,
) -> None:
    """As a standby that has the session and not the entry; and one that has an entry which was left."""
    async with programs(server, 2) as (ann, bob):
        held, other = await taken(ann), await taken(bob, "y")
        text = await ask(server, "select queue[1] from coterie.line where lock = 'y'")
        await ask(server, "insert into coterie.line values ('left', array[$1])", "x99" + text[2:])
        await ask(server, "delete from coterie.line where lock = 'x'")
        await ask(server, "update coterie.memory set mark = 'older'")
        await asyncio.to_thread(server.end_sessions)
        await held.lost
        await until_renewed(other, other.expires_at)
        await until_entries(server, "left", 0)
        await other.release()


# What hurts elsewhere


@in_loop
async def test_limits_that_an_administrator_has_set_end_no_wait(server: PostgresqlServer) -> None:
    limits = {"statement_timeout": "200ms", "idle_session_timeout": "300ms", "lock_timeout": "50ms"}
    if int((await ask(server, "show server_version")).partition(".")[0]) >= 17:
        limits["transaction_timeout"] = "200ms"
    for name, limit in limits.items():
        await ask(server, f"alter role {USER} set {name} = '{limit}'")
    try:
        async with programs(server, 2) as (ann, bob):
            sessions = await ask(
                server,
                "select count(*) from pg_stat_activity where application_name like 'coterie-%'",
            )
            held = await taken(ann)
            waiting = asyncio.create_task(taken(bob))
            await until_entries(server, "x", 2)
            pids = "select array_agg(pid order by pid) from pg_stat_activity where application_name like 'coterie-%'"
            before = await ask(server, pids)
            assert len(before) == sessions == 2
            for _ in range(2):
                await until_renewed(held, held.expires_at)
            assert await ask(server, pids) == before
            await held.release()
            await (await waiting).release()
    finally:
        await ask(server, f"alter role {USER} reset all")


@in_loop
async def test_statistics_that_are_set_back_end_no_hold(server: PostgresqlServer) -> None:
    async with programs(server, 2) as (ann, bob):
        held, other = await taken(ann), await taken(bob, "y")
        await ask(server, "select pg_stat_reset_shared('bgwriter')")
        waiting = asyncio.create_task(taken(ann, "y"))
        await until_entries(server, "y", 2)
        await other.release()
        got = await waiting
        assert held.valid
        await got.release()
        await held.release()


@in_loop
async def test_tokens_grow_where_the_time_of_day_went_back(server: PostgresqlServer) -> None:
    """The run before has drawn its numbers by a clock that was an hour ahead; the lock is granted after a lease."""
    async with programs(server, 1) as (ann,):
        async with ann.lock("x"):
            pass
        ahead = (
            "select setval('coterie.number', last_value + (3600::bigint << 22)) from coterie.number"
        )
        await ask(server, ahead)
        async with ann.lock("y") as held:
            last = held.token
    await ask(server, "update coterie.past set run = 'before'")
    async with programs(server, 1) as (bob,), bob.lock("y", timeout=3 * LEASE) as held:
        assert held.token > last


# Durable


@in_loop
async def test_durable_holds_go_on_over_a_crash() -> None:
    with PostgresqlServer() as own:
        url = f"{own.url(10)}&durable=yes"
        async with coterie.connect(url) as ann:
            held = await taken(ann)
            await asyncio.to_thread(own.restart)
            await until_renewed(held, held.expires_at)
            assert await entries(own, "x") == 1
            await held.release()


@in_loop
async def test_durable_is_refused_beside_programs_that_do_not_wait_for_the_disk(
    server: PostgresqlServer,
) -> None:
    async with programs(server, 1):
        with pytest.raises(ConfigError, match="without durable=yes"):
            async with coterie.connect(f"{server.url(LEASE)}&durable=yes"):
                pass
    with pytest.raises(coterie.UsageError, match="yes or no, got 'perhaps'"):
        coterie.connect(f"{server.url(LEASE)}&durable=perhaps")


# Other versions

# What programs of version 1 said to the server before they took an advisory lock.
FORMER_MAKE = """
create schema if not exists coterie;
create sequence if not exists coterie.number;
create table if not exists coterie.epoch (
    run text primary key, opens timestamptz not null, pause float8 not null, lease float8 not null
)
"""
FORMER_FIND = (
    "select least(pause, extract(epoch from opens - clock_timestamp()))::float8, lease"
    " from coterie.epoch where run = $1"
)


@contextlib.asynccontextmanager
async def former_database(server: PostgresqlServer, name: str) -> AsyncIterator[str]:
    """Make a database with the tables of version 1, in which a lease of 3 s was granted."""
    await ask(server, f"create database {name}")
    url = server.url().replace("/postgres", f"/{name}")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(FORMER_MAKE)
        await connection.execute("insert into coterie.epoch values ('run', now(), 0, 3)")
        yield url
    finally:
        await connection.close()


@in_loop
async def test_a_program_of_the_version_before_is_refused(server: PostgresqlServer) -> None:
    async with programs(server, 1), raw(server, FORMER_LABEL) as former:
        await former.execute(FORMER_MAKE)
        with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError, match="newer version"):
            await former.fetchrow(FORMER_FIND, "run")


@in_loop
async def test_we_are_refused_beside_programs_of_the_version_before(
    server: PostgresqlServer,
) -> None:
    async with former_database(server, "beside") as url:
        options: dict[str, Any] = {"server_settings": {"application_name": FORMER_LABEL}}
        former = await asyncpg.connect(url, password=PASSWORD, **options)
        try:
            with pytest.raises(ConfigError, match=r"older version .* \(host:17\); end them first"):
                async with coterie.connect(f"{url}?lease=1"):
                    pass
            assert await former.fetchrow(FORMER_FIND, "run")  # it goes on
        finally:
            await former.close()


@in_loop
async def test_the_leases_of_the_version_before_are_waited_for(server: PostgresqlServer) -> None:
    async with former_database(server, "moved") as url, coterie.connect(f"{url}?lease=1") as c:
        connection = await asyncpg.connect(url)
        try:
            assert await connection.fetchrow("select is_open, lease from coterie.past") == (
                False,
                3,
            )
        finally:
            await connection.close()
        async with c.lock("x", timeout=10) as held:
            assert held.valid


@in_loop
async def test_tables_of_another_version_are_refused(server: PostgresqlServer) -> None:
    await ask(server, "update coterie.past set version = 9")
    try:
        with pytest.raises(ConfigError, match="tables of version 9 there, and this program knows"):
            async with coterie.connect(server.url(LEASE)):
                pass
    finally:
        await ask(server, "update coterie.past set version = 2")
