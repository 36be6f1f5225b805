"""Locks on a real PostgreSQL, which is killed, cut off and started again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

import coterie
from coterie.engines.postgresql.connection import connect, servers_of
from coterie.engines.postgresql.server import PostgresqlServer as Server
from coterie.engines.queue.url import parse_server_url
from coterie.errors import ConfigError, DeadlockDetected, LockLost, Unavailable
from coterie.lab.servers.postgresql import MISSING, POOLED, PostgresqlServer
from coterie.lab.servers.proxy import Proxy
from coterie.system.postgresql import PostgresqlServers
from tests.engines.postgresql_pooler import pooler
from tests.engines.programs import LEASE, programs, taken
from tests.locks.memory import in_loop
from tests.processes import Directory, directory, kill, line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from coterie import Coordinator, Held

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


# Takes a lock, says so, and says after a line of input what has become of it.
HOLDER = """
import sys, coterie
with coterie.sync.connect() as c:
    held = c.lock("x").acquire()
    print(held.token, flush=True)
    sys.stdin.readline()
    print(held.valid, flush=True)
    try:
        held.release()
    except coterie.LockLost:
        print("lost", flush=True)
    with c.lock("x") as held:
        print(held.token, flush=True)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as started:
        yield started


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Directory]:
    with directory(tmp_path) as opened:
        yield opened


async def ask(server: PostgresqlServer, query: str, *arguments: object) -> Any:
    """Ask the server past all locks."""
    connection = await asyncpg.connect(server.url())
    try:
        return await connection.fetchval(query, *arguments)
    finally:
        await connection.close()


async def entries(server: PostgresqlServer, lock: str | None = None) -> int:
    """Count the entries in the queue of a lock, or of all, holders included."""
    query = (
        "select coalesce(sum(cardinality(queue)), 0) from coterie.line"
        " where $1::text is null or lock = $1"
    )
    return int(await ask(server, query, lock))


SESSIONS = "select array_agg(pid) from pg_stat_activity where application_name like 'coterie%'"
END_ALL = (
    "select count(pg_terminate_backend(pid)) from pg_stat_activity"
    " where application_name like 'coterie%'"
)


async def until_renewed(held: Held, before: float) -> None:
    async def is_renewed() -> bool:
        assert held.valid
        return held.expires_at > before + LEASE / 10

    await until(is_renewed)


async def until(condition: Callable[[], Any]) -> None:
    """Wait until something is the case at the server, which sends no events."""
    while not await condition():  # noqa: ASYNC110 - as said
        await asyncio.sleep(0.01)


async def until_entries(server: PostgresqlServer, lock: str, count: int) -> None:
    async def are_there() -> bool:
        return await entries(server, lock) == count

    await until(are_there)


def start(processes: Directory, server: PostgresqlServer) -> Any:
    return processes.python("-c", HOLDER, environment={"COTERIE_URL": server.url(LEASE)})


# Order


@in_loop
async def test_a_statement_that_is_not_answered_in_time_ends_the_connection(
    server: PostgresqlServer,
) -> None:
    """Also one that comes after others, which share its timer, and with less time than those."""
    url = parse_server_url(server.url(LEASE), port=5432)
    for limits in ((0.2,), (0.2, 0.2), (60, 0.2)):
        connection = await connect(servers_of(url), LEASE, 0, durable=False)
        *quick, last = limits
        for limit in quick:
            await connection.ask("select 1", limit=limit)
        await asyncio.sleep(0.1)
        with pytest.raises(Unavailable):
            await connection.ask("select pg_sleep(2)", limit=last)
        assert not connection.is_up
        await connection.close()


@in_loop
async def test_one_holds_and_the_others_follow_in_the_order_of_asking(
    server: PostgresqlServer,
) -> None:
    order: list[tuple[int, int]] = []
    inside = 0

    async def use(c: Coordinator, number: int) -> None:
        nonlocal inside
        async with c.lock("x") as held:
            inside += 1
            assert inside == 1
            order.append((number, held.token))
            await asyncio.sleep(0)
            inside -= 1

    async with programs(server, 5) as (first, *others):
        tasks = []
        async with first.lock("x") as held:
            order.append((-1, held.token))
            for number, c in enumerate(others):
                tasks.append(asyncio.create_task(use(c, number)))
                await until_entries(server, "x", len(tasks) + 1)
        await asyncio.gather(*tasks)
    assert [number for number, _ in order] == [-1, 0, 1, 2, 3]
    assert [token for _, token in order] == sorted({token for _, token in order})
    assert not await entries(server)


@in_loop
async def test_sharers_hold_together_and_a_writer_is_not_overtaken(
    server: PostgresqlServer,
) -> None:
    order = []

    async def use(c: Coordinator, word: str, *, shared: bool) -> None:
        async with c.lock("x", shared=shared):
            order.append(word)

    async with programs(server, 3) as (ann, bob, eve):
        async with bob.lock("x", shared=True) as one:
            async with ann.lock("x", shared=True) as two:
                assert one.valid
                assert two.valid
            await until_entries(server, "x", 1)
            writing = asyncio.create_task(use(eve, "written", shared=False))
            await until_entries(server, "x", 2)
            reading = asyncio.create_task(use(ann, "read", shared=True))
            await until_entries(server, "x", 3)
            assert not order
        await asyncio.gather(writing, reading)
    assert order == ["written", "read"]


@in_loop
async def test_a_task_that_wants_the_lock_alone_waits_for_those_of_its_own_process_that_share(
    server: PostgresqlServer,
) -> None:
    async with programs(server, 1) as (c,):
        async with c.lock("x", shared=True):
            writing = asyncio.create_task(taken(c))
            await until_entries(server, "x", 2)
            assert not writing.done()
        held = await writing
        await held.release()


@in_loop
async def test_a_wait_that_is_given_up_leaves_no_entry(server: PostgresqlServer) -> None:
    async with programs(server, 2) as (ann, bob):
        async with ann.lock("x"):
            for turns in range(12):
                task = asyncio.create_task(bob.lock("x").acquire())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await until_entries(server, "x", 1)
            task = asyncio.create_task(bob.lock("x").acquire())
            await until_entries(server, "x", 2)
            task.cancel()
            await until_entries(server, "x", 1)
        await until_entries(server, "x", 0)


@in_loop
async def test_nothing_is_left_when_programs_close(server: PostgresqlServer) -> None:
    async with programs(server, 2) as (ann, bob):
        await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        await until_entries(server, "x", 2)
    await asyncio.wait([waiting])
    assert waiting.exception() is not None

    async def is_empty() -> bool:
        query = "select count(*) from pg_stat_activity where application_name like 'coterie%'"
        return not await ask(server, query) and not await entries(server)

    await until(is_empty)


# Deadlocks, questions


@pytest.mark.parametrize("shared", [False, True])
@in_loop
async def test_a_deadlock_of_two_programs_is_found(server: PostgresqlServer, shared: bool) -> None:
    async with programs(server, 2) as (ann, bob):
        entered = [asyncio.Event(), asyncio.Event()]

        async def cross(c: Coordinator, first: str, second: str, mine: int) -> str:
            async with c.lock(first, shared=shared):
                entered[mine].set()
                await entered[1 - mine].wait()
                try:
                    async with c.lock(second):
                        return "through"
                except DeadlockDetected:
                    return "gave way"

        outcomes = await asyncio.gather(cross(ann, "a", "b", 0), cross(bob, "b", "a", 1))
    assert sorted(outcomes) == ["gave way", "through"]


@in_loop
async def test_holders_and_waiters_are_those_of_all_processes(server: PostgresqlServer) -> None:
    async with programs(server, 3) as (ann, bob, eve):
        async with ann.lock("x") as held:
            waiting = asyncio.create_task(taken(bob))
            await until_entries(server, "x", 2)
            assert [party.token for party in await eve.holders("x")] == [held.token]
            assert len(await eve.waiters("x")) == 1
        await (await waiting).release()


@in_loop
async def test_a_letter_may_be_long(server: PostgresqlServer) -> None:
    """What a process with many tasks says about them does not fit into one notice."""
    async with programs(server, 2) as (ann, bob), ann.lock("x"):
        several = [asyncio.create_task(ann.lock("x").acquire()) for _ in range(1000)]
        await asyncio.sleep(0)
        assert len(await bob.waiters("x")) == 1000
        for task in several:
            task.cancel()
        await asyncio.wait(several)


@in_loop
async def test_the_server_says_what_it_is(server: PostgresqlServer) -> None:
    url = parse_server_url(server.url(), port=5432)
    absent = url._replace(addresses=[*url.addresses, ("127.0.0.1", 1)])
    up, down = await Server(absent).nodes()
    assert (up.address, up.role, up.trouble) == (f"127.0.0.1:{server.port}", "primary", "")
    assert int(up.version.partition(".")[0]) >= 14
    assert (down.address, down.role) == ("127.0.0.1:1", "")
    assert down.trouble


# Losses


@in_loop
async def test_a_killed_process_frees_its_lock_after_its_lease(
    server: PostgresqlServer, processes: Directory
) -> None:
    holder = start(processes, server)
    first = int(line(holder))
    async with programs(server, 1) as (c,):
        waiting = asyncio.create_task(taken(c))
        await until_entries(server, "x", 2)
        kill(holder)
        held = await waiting
        assert held.token > first
        await held.release()


@in_loop
async def test_a_suspended_process_loses_its_lock_after_the_lease_and_knows_it(
    server: PostgresqlServer, processes: Directory
) -> None:
    holder = start(processes, server)
    first = int(line(holder))
    async with programs(server, 1) as (c,):
        holder.send_signal(signal.SIGSTOP)
        async with c.lock("x") as held:
            assert held.token > first
            second = held.token
            holder.send_signal(signal.SIGCONT)
            holder.stdin.write("\n")
            holder.stdin.flush()
            assert await asyncio.to_thread(line, holder) == "False"
            assert await asyncio.to_thread(line, holder) == "lost"
        assert int(await asyncio.to_thread(line, holder)) > second


@pytest.mark.parametrize("cut", ["cut", "stall"])
@in_loop
async def test_a_loss_is_told_before_another_holds_when_the_line_is_cut(
    server: PostgresqlServer, cut: str
) -> None:
    proxy = Proxy(server.port)
    await proxy.start()
    try:
        async with (
            coterie.connect(server.url(LEASE, port=proxy.port)) as ann,
            coterie.connect(server.url(LEASE)) as bob,
        ):
            for _ in range(2):  # on the main connection, then on one of its own
                first = await taken(ann)
                waiting = asyncio.create_task(taken(bob))
                await until_entries(server, "x", 2)
                getattr(proxy, cut)()
                await first.lost
                assert not first.valid
                assert cut == "cut" or not waiting.done()
                second = await waiting
                assert second.token > first.token
                proxy.resume()
                again = asyncio.create_task(taken(ann))
                await until_entries(server, "x", 2)
                await second.release()
                await (await again).release()
                with pytest.raises(LockLost):
                    await first.release()
    finally:
        await proxy.stop()


@in_loop
async def test_a_server_that_falls_silent_in_a_transaction_is_not_waited_for_without_an_end(
    server: PostgresqlServer,
) -> None:
    """A timeout cancels the statement, and then the transaction waits for its rollback."""
    proxy = Proxy(server.port)
    await proxy.start()

    async def begin(connection: Any) -> None:
        async with connection.transaction():
            proxy.stall()
            await connection.fetchval("select 1")

    servers = PostgresqlServers("a server", [server.url(LEASE, port=proxy.port).partition("?")[0]])
    try:
        async with asyncio.timeout(20):
            with pytest.raises(Unavailable):
                await servers.open(1.0, begin)
    finally:
        await proxy.stop()


@contextlib.asynccontextmanager
async def behind_proxy(server: PostgresqlServer) -> AsyncIterator[tuple[Proxy, Coordinator]]:
    """Connect a program by a line of its own, which can fall silent at its end alone."""
    proxy = Proxy(server.port)
    await proxy.start()
    try:
        async with coterie.connect(server.url(LEASE, port=proxy.port)) as c:
            yield proxy, c
    finally:
        await proxy.stop()


@pytest.mark.parametrize("waited", [False, True])
@in_loop
async def test_a_session_that_the_server_ends_holds_until_its_program_knows(
    server: PostgresqlServer, waited: bool
) -> None:
    """A balancer that lost its state, or an administrator: the holder's end of the line stays silent."""
    async with behind_proxy(server) as (proxy, ann):
        first = await take_after_another(server, ann) if waited else await taken(ann)
        await until_gone(server, 1 + waited)
        ended = await ask(server, SESSIONS)
        async with programs(server, 1) as (bob,):
            waiting = asyncio.create_task(taken(bob))
            await until_entries(server, "x", 2)
            proxy.stall()
            await ask(
                server, "select pg_terminate_backend(each) from unnest($1::int[]) each", ended
            )
            second = await waiting
            assert not first.valid
            assert second.token > first.token
            proxy.resume()
            again = asyncio.create_task(taken(ann))
            await until_entries(server, "x", 2)
            await second.release()
            await (await again).release()


async def take_after_another(server: PostgresqlServer, c: Coordinator) -> Held:
    async with programs(server, 1) as (eve,):
        before = await taken(eve)
        waiting = asyncio.create_task(taken(c))
        await until_entries(server, "x", 2)
        await before.release()
        return await waiting


async def until_gone(server: PostgresqlServer, most: int) -> None:
    """Wait until programs that have ended have no connection any more."""

    async def are_gone() -> bool:
        return len(await ask(server, SESSIONS)) <= most

    await until(are_gone)


@in_loop
async def test_a_session_that_the_server_ends_costs_no_hold(server: PostgresqlServer) -> None:
    """The program connects again within its lease."""
    async with programs(server, 2) as (ann, bob):
        first = await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        await until_entries(server, "x", 2)
        for _ in range(3):
            renewed = first.expires_at
            await ask(server, END_ALL)
            await until_renewed(first, renewed)
        await first.release()
        second = await waiting
        assert second.token > first.token
        await second.release()


@in_loop
async def test_a_lock_that_was_waited_for_is_in_force_beyond_the_lease(
    server: PostgresqlServer,
) -> None:
    async with programs(server, 2) as (ann, bob):
        first = await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        await asyncio.sleep(1.2 * LEASE)  # bob's main connection is renewed while it waits
        await first.release()
        second = await waiting
        await asyncio.sleep(1.2 * LEASE)
        assert second.valid
        assert await entries(server, "x") == 1
        await second.release()


# Restarts of the server


@pytest.mark.parametrize("how", ["kill", "crash"])
@in_loop
async def test_no_program_is_let_in_after_a_restart_before_the_leases_are_over(
    server: PostgresqlServer, how: str
) -> None:
    async with programs(server, 2) as (ann, bob):
        first = await taken(ann)
        run = await ask(server, "select run from coterie.past")
        if how == "crash":
            # The server takes all its processes with one that is killed, and goes on.
            with contextlib.suppress(OSError, asyncpg.PostgresError):
                await ask(server, "copy (select 1) to program 'kill -9 $PPID'")
        else:
            await asyncio.to_thread(getattr(server, how))
            await asyncio.to_thread(server.start)
        await first.lost
        with pytest.raises(LockLost):
            await first.release()
        second = await taken(bob)
        pause = "select lease from coterie.past where is_open and run <> $1"
        assert await ask(server, pause, run) >= LEASE
        assert second.token > first.token
        await second.release()
        third = await taken(ann)
        assert third.token > second.token
        await third.release()


@in_loop
async def test_holds_go_on_where_the_server_is_stopped_in_order_and_started_again() -> None:
    """Its tables are there; no other program is let in before earlier leases are over, all the same."""
    with PostgresqlServer() as own:
        async with coterie.connect(own.url(10)) as ann:
            first = await taken(ann)
            await asyncio.to_thread(own.stop)
            await asyncio.to_thread(own.start)
            await until_renewed(first, first.expires_at)
            assert not await ask(own, "select is_open from coterie.past")
            with pytest.raises(Unavailable, match=r"it was restarted; .* be held for \d+ s more"):
                await ann.lock("y").acquire(timeout=0)
            await first.release()


@in_loop
async def test_programs_that_come_first_at_the_same_time_wait_for_no_past() -> None:
    """One of them finds the first run; the others, which have waited for it, must not find another one."""
    with PostgresqlServer() as own:
        async with coterie.connect(own.url(10)):
            pass
        await ask(own, "delete from coterie.memory")
        await ask(own, "update coterie.past set run = '', is_open = false, longest = 0")
        other = await asyncpg.connect(own.url())
        try:
            change = other.transaction()
            await change.start()
            await other.execute("select from coterie.past for update")
            several = [coterie.connect(own.url(10)) for _ in range(2)]
            opening = [asyncio.create_task(c.open()) for c in several]

            async def are_blocked() -> bool:
                return bool(await ask(own, "select count(*) = 2 from pg_locks where not granted"))

            await until(are_blocked)
            await change.commit()
            for task, c in zip(opening, several, strict=True):
                await task
                await c.close()
            assert await other.fetchval("select is_open from coterie.past")
        finally:
            await other.close()


@in_loop
async def test_a_waiter_stays_in_line_over_a_restart(server: PostgresqlServer) -> None:
    async with programs(server, 2) as (ann, bob):
        first = await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        await until_entries(server, "x", 2)
        await asyncio.to_thread(server.restart)
        await first.lost
        second = await waiting
        assert second.token > first.token
        await second.release()


# What is refused


async def refused(url: str) -> str:
    with pytest.raises((ConfigError, Unavailable)) as caught:
        async with coterie.connect(url):
            pass
    text = str(caught.value)
    assert "\n" not in text
    assert "horse" not in text
    return f"{type(caught.value).__name__}: {text}"


@in_loop
async def test_what_is_wrong_is_said_in_one_line(server: PostgresqlServer) -> None:
    url, place = server.url(), f"postgresql at 127.0.0.1:{server.port}, database"
    assert await refused(url.replace("correct", "wrong").replace("horse", "one")) == (
        f'ConfigError: {place} postgres: refused: password authentication failed for user "coterie"'
    )
    assert await refused(url.replace("/postgres", "/absent")) == (
        f'ConfigError: {place} absent: refused: database "absent" does not exist'
    )
    assert await refused(server.url(port=1)) == (
        "Unavailable: postgresql at 127.0.0.1:1, database postgres: Connection refused"
    )
    assert "rejected SSL upgrade" in await refused(f"{url}?sslmode=require")


@in_loop
async def test_a_role_without_rights_is_told_what_it_needs(server: PostgresqlServer) -> None:
    for query in ("create role guest login password 'horse'", "create database bare"):
        await ask(server, query)
    url = (
        server.url().replace("coterie:correct%20horse", "guest:horse").replace("/postgres", "/bare")
    )
    assert "permission denied for database bare; locks need a schema" in await refused(url)
    async with coterie.connect(server.url().replace("/postgres", "/bare")):
        pass
    complaint = await refused(url)
    grants = complaint.partition("let their owner run: ")[2].split("; ")
    assert grants[0] == "grant usage on schema coterie to guest"
    assert len(grants) == 6
    administrator = await asyncpg.connect(server.url().replace("/postgres", "/bare"))
    try:
        for grant in grants:
            assert grant in await refused(url)
            await administrator.execute(grant)
        async with coterie.connect(url) as c, c.lock("x"):
            pass
        # The next run of the server is not in the table.
        await administrator.execute("update coterie.past set run = 'before', longest = 0.5")
        async with coterie.connect(f"{url}?lease=0.5") as c, c.lock("x"):
            pass
    finally:
        await administrator.close()


LIVES = "select count(*) from coterie.session where life <> ''"
HAS_LIVES = "select count(*) from pg_attribute where attname = 'life' and attrelid = 'coterie.session'::regclass"


@in_loop
async def test_the_owner_of_former_tables_adds_a_column_for_witnesses(
    server: PostgresqlServer,
) -> None:
    for query in ("create role member login password 'horse'", "create database former"):
        await ask(server, query)
    url = server.url().replace("/postgres", "/former")
    async with coterie.connect(url):
        pass
    administrator = await asyncpg.connect(url)
    member = url.replace("coterie:correct%20horse", "member:horse")
    try:
        for grant in (await refused(member)).partition("let their owner run: ")[2].split("; "):
            await administrator.execute(grant)
        await administrator.execute("alter table coterie.session drop column life")
        async with coterie.connect(member) as c, c.lock("x"):
            pass
        async with administrator.transaction():  # as of a dump, which runs for long
            await administrator.execute("lock table coterie.session in access share mode")
            async with coterie.connect(url) as c, c.lock("x"):
                pass
        assert await administrator.fetchval(HAS_LIVES) == 0
        async with coterie.connect(url) as c, c.lock("x"):
            while not await administrator.fetchval(LIVES):  # noqa: ASYNC110 - it sends no events
                await asyncio.sleep(0.01)
        async with coterie.connect(member) as c, c.lock("x"):
            pass
    finally:
        await administrator.close()


@in_loop
async def test_an_old_server_is_refused() -> None:
    async with pooler(1, "13.14") as port:
        assert (await refused(f"postgresql://{POOLED}@127.0.0.1:{port}/postgres")).endswith(
            "postgres: version 13 is too old; locks need 14 or newer"
        )


@in_loop
async def test_a_pooler_that_does_not_keep_sessions_is_refused(server: PostgresqlServer) -> None:
    with contextlib.suppress(asyncpg.DuplicateObjectError):
        await ask(server, f"create role {POOLED} superuser login")
    async with pooler(server.port) as port:
        text = await refused(f"postgresql://{POOLED}@127.0.0.1:{port}/postgres")
    assert "ConfigError" in text
    assert "a pooler in the way does not keep sessions" in text
