"""Locks on a real MariaDB: what its statements keep, and what is not to be seen through the engine alone."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.engines.mariadb import statements
from coterie.engines.mariadb.connection import Answer, MariadbConnection
from coterie.engines.mariadb.server import MariadbServer, MariadbSteps
from coterie.engines.queue.server import Author, SessionLost, Ticket
from coterie.engines.queue.url import parse_server_url
from coterie.errors import ConfigError, Unavailable, UsageError
from tests.cluster.certificates import certificates
from tests.engines.conformance.users import Users
from tests.engines.mariadb_server import MISSING, PASSWORD, MariadbTestServer
from tests.engines.programs import LEASE, programs, taken, until_renewed, until_shown
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

CERTIFICATE = (("cert", "pem"), ("key", "key"))
AUTHOR = Author("participant", "host:1", 1.5)


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbTestServer]:
    with MariadbTestServer() as started:
        yield started


def number_of(server: MariadbTestServer, query: str) -> int:
    ((found,),) = server.say(f"use coterie; select {query}")
    return int(found)


def entries(server: MariadbTestServer, lock: str = "%") -> int:
    return number_of(server, f"count(*) from coterie_entry where lock_name like '{lock}'")


# Statements


@contextlib.asynccontextmanager
async def session(server: MariadbTestServer, name: str) -> AsyncIterator[MariadbSteps]:
    """Begin a session of that name, which is never renewed."""
    url = parse_server_url(server.url(LEASE), port=3306)
    steps = MariadbSteps(MariadbServer(url), url, name, f"of {name}", LEASE)
    try:
        await steps.open()
        yield steps
    finally:
        await steps.close(is_over=False)


@in_loop
async def test_a_number_is_drawn_when_no_other_join_is_under_way(server: MariadbTestServer) -> None:
    """One that was drawn before would be below that of an entry which was not seen."""
    async with session(server, "a") as ann, session(server, "b") as bob:
        other = MariadbConnection(parse_server_url(server.url(), port=3306), 10.0)
        await other.connect()
        first = Ticket("x", False, 1)
        stripe = "select id from coterie_stripe for update"
        await other.ask(f"use coterie; begin; {stripe}")
        joining = asyncio.create_task(ann.join(Ticket("x", False, 1), AUTHOR, None))
        waits = "count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT'"
        await until_shown(lambda: number_of(server, waits) > 0)
        enter = statements.join("b", first, AUTHOR, None).split(";")[0]
        own = "alive and connection = connection_id()"
        assert own in enter
        await other.ask(f"{enter.replace(own, 'alive')}; commit")
        _, sight = await joining
        _, found = await bob.look([first])
        assert [each.session for each in sight.before] == ["b"]
        assert sight.number > found[first].number
        assert not found[first].before
        await other.close()


@in_loop
async def test_a_join_that_is_sent_again_finds_its_entry(server: MariadbTestServer) -> None:
    async with session(server, "a") as ann:
        ticket = Ticket("x", False, 1)
        _, first = await ann.join(ticket, AUTHOR, None)
        _, again = await ann.join(ticket, AUTHOR, None)
        assert first == again
        _, behind = await ann.join(Ticket("x", True, 2), AUTHOR, None)
        assert [(each.shared, each.session) for each in behind.before] == [(False, "a")]
        assert behind.number > first.number


@in_loop
async def test_a_join_can_leave_another_entry_in_the_same_step(server: MariadbTestServer) -> None:
    async with session(server, "a") as ann, session(server, "b") as bob:
        first, second, third = Ticket("x", False, 1), Ticket("x", True, 1), Ticket("x", False, 2)
        await ann.join(first, AUTHOR, None)
        _, sight = await bob.join(second, AUTHOR, None)
        assert [each.session for each in sight.before] == ["a"]
        _, sight = await ann.join(third, AUTHOR, first)
        assert [(each.shared, each.session) for each in sight.before] == [(True, "b")]
        _, found = await bob.look([second])
        assert not found[second].before


@in_loop
async def test_what_arrives_late_over_an_earlier_connection_finds_no_session(
    server: MariadbTestServer,
) -> None:
    async with session(server, "a") as ann:
        late = statements.join("a", Ticket("late", False, 7), AUTHOR, None)
        other = MariadbConnection(parse_server_url(server.url(), port=3306), 10.0)
        await other.connect()
        await other.ask(f"use coterie; {late}")
        assert not (await other.ask(statements.renew("a", 0))).changed[0]
        assert entries(server, "late") == 0
        assert await ann.find() == 0
        await other.close()


@in_loop
async def test_a_session_is_removed_only_with_the_counter_that_was_seen(
    server: MariadbTestServer,
) -> None:
    async with session(server, "a") as ann, session(server, "b") as bob:
        ticket, behind = Ticket("x", False, 1), Ticket("x", False, 1)
        await ann.join(ticket, AUTHOR, None)
        await bob.join(behind, AUTHOR, None)
        assert await ann.renew(0)
        assert not await bob.remove("a", 0)
        assert await ann.find() == 1
        assert await bob.remove("a", 1)
        _, found = await bob.look([behind])
        assert not found[behind].before
        with pytest.raises(SessionLost):
            await ann.look([ticket])
        with pytest.raises(SessionLost):
            await ann.join(Ticket("y", False, 2), AUTHOR, None)
        assert entries(server, "y") == 0


@in_loop
async def test_an_entry_of_a_session_that_is_dead_is_in_no_ones_way(
    server: MariadbTestServer,
) -> None:
    """Also where the one that has made it dead has ended before it could remove its entries."""
    async with session(server, "a") as ann, programs(server, 1) as (bob,):
        await ann.join(Ticket("x", False, 1), AUTHOR, None)
        server.say("use coterie; update coterie_session set alive = 0 where name = 'a'")
        held = await taken(bob)
        await until_shown(lambda: entries(server) == 1)
        await until_shown(
            lambda: not number_of(server, "count(*) from coterie_session where not alive")
        )
        await held.release()


# Sessions


@in_loop
async def test_nothing_is_left_when_programs_close(server: MariadbTestServer) -> None:
    async with programs(server, 2) as (ann, bob):
        held = await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        await until_shown(lambda: entries(server) == 2)
        waiting.cancel()
        assert held.valid
    for table in ("session", "entry", "mail"):
        await until_shown(lambda t=table: not number_of(server, f"count(*) from coterie_{t}"))  # type: ignore[misc]


def test_a_program_that_dies_with_no_one_waiting_is_removed_by_its_neighbour(
    server: MariadbTestServer,
) -> None:
    with Users(server.url(LEASE)) as users, coterie.sync.connect(server.url(LEASE)):
        (user,) = users.start(1)
        user.do("take", "x")
        user.process.send_signal(signal.SIGKILL)
        asyncio.run(until_shown(lambda: not entries(server)))


@in_loop
async def test_connections_that_the_server_ends_cost_no_hold(server: MariadbTestServer) -> None:
    async with programs(server, 2) as (ann, bob):
        held = await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        await until_shown(lambda: entries(server) == 2)
        for _ in range(3):
            await asyncio.to_thread(server.end_connections)
            await until_renewed(held)
        await held.release()
        await (await waiting).release()


@in_loop
async def test_a_waiter_stays_in_line_over_a_restart_and_tokens_grow(
    server: MariadbTestServer,
) -> None:
    async with programs(server, 3) as (ann, bob, eve):
        held = await taken(ann)
        first = asyncio.create_task(taken(bob))
        await until_shown(lambda: entries(server) == 2)
        second = asyncio.create_task(taken(eve))
        await until_shown(lambda: entries(server) == 3)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        await until_renewed(held)
        await held.release()
        got = await first
        assert held.token < got.token
        assert not second.done()
        await got.release()
        last = await second
        assert got.token < last.token
        await last.release()


@in_loop
async def test_no_program_is_let_in_after_a_restart_before_the_leases_are_over(
    server: MariadbTestServer,
) -> None:
    async with programs(server, 1) as (ann,):
        held = await taken(ann)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        async with coterie.connect(server.url(LEASE)) as bob:
            with pytest.raises(Unavailable, match="locks from before may be held"):
                await bob.lock("y").acquire(timeout=0)
            await until_renewed(held)
            other = await taken(bob, "y")
            assert held.valid
            await other.release()
        await held.release()


# An older state


@in_loop
async def test_a_server_that_comes_back_with_an_older_state_ends_no_hold_late(
    server: MariadbTestServer,
) -> None:
    """As a backup that has the session and not the entry; and one that has an entry which was left."""
    async with programs(server, 2) as (ann, bob):
        held, other = await taken(ann), await taken(bob, "y")
        server.say(
            "use coterie; delete from coterie_mark; delete from coterie_entry where lock_name = 'x';"
            " insert into coterie_entry select 1, 'left', session, 999, 0, participant, process, since"
            " from coterie_entry where lock_name = 'y'"
        )
        await asyncio.to_thread(server.end_connections)
        async with coterie.connect(server.url(LEASE)) as eve:
            again = await taken(eve)
            assert not held.valid
            assert held.token < again.token
            assert other.valid
            await until_shown(lambda: entries(server, "left") == 0)
            await again.release()
        await other.release()


@in_loop
async def test_tokens_grow_where_all_is_lost(server: MariadbTestServer) -> None:
    """The server forgets its numbers, and its time of day might have gone back: a program knows of more."""
    async with programs(server, 2) as (ann, bob):
        server.say("use coterie; alter table coterie_entry auto_increment = 2000000000000000")
        held = await taken(ann)
        assert held.token > 2 * 10**18
        await held.release()
        server.say("drop database coterie")
        again = await taken(ann)
        assert held.token < again.token
        await again.release()
        other = await taken(bob)
        assert again.token < other.token
        await other.release()


# Costs


@in_loop
async def test_what_holding_and_waiting_cost_does_not_depend_on_the_number_of_locks(
    server: MariadbTestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One renewal in a third of a lease, and one look in a sixth for all that is waited for."""
    sent: Counter[str] = Counter()
    original = MariadbConnection.ask

    async def count(self: MariadbConnection, text: str, **options: Any) -> Answer:
        kinds = {"counter = counter + 1": "renewal", "left join coterie_entry": "look"}
        sent.update(kind for part, kind in kinds.items() if part in text and "begin;" not in text)
        return await original(self, text, **options)

    monkeypatch.setattr(MariadbConnection, "ask", count)
    locks = [f"many{number}" for number in range(20)]
    async with programs(server, 2) as (ann, bob):
        held = [await taken(ann, lock) for lock in locks]
        waiting = [asyncio.create_task(taken(bob, lock)) for lock in locks]
        await until_shown(lambda: entries(server, "many%") == 2 * len(locks))
        sent.clear()
        for _ in range(4):
            await until_renewed(held[0])
        assert 4 <= sent["renewal"] <= 2 * 5 + 1  # of both programs
        assert 2 <= sent["look"] <= 2 * sent["renewal"] + 4
        for each in held:
            await each.release()
        for task in waiting:
            await (await task).release()


# What is refused, and said


async def trouble_of(server: MariadbTestServer, url: str = "") -> str:
    with pytest.raises((ConfigError, Unavailable)) as caught:
        async with coterie.connect(url or server.url(LEASE)):
            pass
    text = str(caught.value)
    assert PASSWORD not in text
    assert "\n" not in text
    kind = "config" if isinstance(caught.value, ConfigError) else "unavailable"
    return f"{kind}: {text}"


@in_loop
async def test_a_server_that_may_lose_what_it_granted_is_refused(server: MariadbTestServer) -> None:
    server.say("set global innodb_flush_log_at_trx_commit = 2")
    try:
        found = await trouble_of(server)
    finally:
        server.say("set global innodb_flush_log_at_trx_commit = 1")
    assert found.startswith("config: ")
    assert "innodb_flush_log_at_trx_commit is 2" in found


@in_loop
async def test_a_server_that_takes_no_writes_is_not_of_use_now(server: MariadbTestServer) -> None:
    server.say("set global read_only = 1")
    try:
        found = await trouble_of(server)
    finally:
        server.say("set global read_only = 0")
    assert found.startswith("unavailable: ")
    assert "name the primary" in found


@in_loop
async def test_an_account_without_rights_is_told_what_it_needs(server: MariadbTestServer) -> None:
    async with programs(server, 1):  # makes the tables
        pass
    server.say(f"create user poor identified by '{PASSWORD}'; grant select on coterie.* to poor")
    found = await trouble_of(server, server.url(LEASE, user="poor"))
    assert found.startswith("config: ")
    assert "grant select, insert, update, delete, create" in found
    wrong = await trouble_of(server, server.url(LEASE, user="nobody"))
    assert wrong.startswith("config: ")
    assert "Access denied" in wrong
    missing = await trouble_of(
        server, server.url().replace(f":{server.port}", f":{server.port}/no")
    )
    assert missing.startswith("config: ")


@in_loop
async def test_locks_come_over_tls_and_a_certificate_that_is_not_known_is_refused(
    server: MariadbTestServer, tmp_path: Path
) -> None:
    certificates(tmp_path, "one")
    options = {f"ssl_{kind}": str(tmp_path / f"one.{end}") for kind, end in CERTIFICATE}
    with MariadbTestServer(require_secure_transport="ON", **options) as secure:
        url = secure.url(LEASE).replace("mariadb:", "mariadbs:")
        async with coterie.connect(f"{url}&ca={tmp_path / 'one-ca.pem'}") as c:
            await (await taken(c)).release()
        assert (await trouble_of(secure, url)).startswith("config: ")
        assert (await trouble_of(secure)).startswith("config: ")  # it wants TLS
    other = server.url(LEASE).replace("mariadb:", "mariadbs:")
    assert (await trouble_of(server, other)).startswith("config: ")


@in_loop
async def test_limits_that_an_administrator_has_set_end_no_wait(server: MariadbTestServer) -> None:
    limits = {"wait_timeout": 1, "max_statement_time": 0.1, "innodb_lock_wait_timeout": 100}
    before = {name: server.say(f"select @@global.{name}")[0][0] for name in (*limits, "sql_mode")}
    for name, value in (limits | {"sql_mode": "'NO_BACKSLASH_ESCAPES,ANSI'"}).items():
        server.say(f"set global {name} = {value}")
    try:
        async with programs(server, 2) as (ann, bob):
            held = await taken(ann, 'it\'s \\ "odd"')
            waiting = asyncio.create_task(taken(bob, held.name))
            await until_shown(lambda: entries(server) == 2)
            for _ in range(3):
                await until_renewed(held)
            await held.release()
            await (await waiting).release()
    finally:
        for name, old in before.items():
            server.say(f"set global {name} = {old!r}")


@in_loop
async def test_a_letter_may_be_long(server: MariadbTestServer) -> None:
    """What a process with many tasks says about them does not fit into one row."""
    async with programs(server, 2) as (ann, bob), ann.lock("x"):
        several = [asyncio.create_task(ann.lock("x").acquire()) for _ in range(1000)]
        await asyncio.sleep(0)
        assert len(await bob.waiters("x")) == 1000
        for task in several:
            task.cancel()
        await asyncio.wait(several)


@in_loop
async def test_former_tables_get_one_for_witnesses(server: MariadbTestServer) -> None:
    async with programs(server, 1):
        pass
    await asyncio.to_thread(server.say, "use coterie; drop table coterie_life")
    async with programs(server, 1):
        said = "count(*) from coterie_life join coterie_session on name = session and alive"
        await until_shown(lambda: number_of(server, said) == 1)
    await until_shown(lambda: number_of(server, "count(*) from coterie_life") == 0)


@in_loop
async def test_a_session_is_buried_by_its_processes(server: MariadbTestServer) -> None:
    async with session(server, "c") as ann, session(server, "d") as bob:
        await ann.live("former")
        await ann.live("own")
        assert await bob.lives(["c", "d"]) == {"c": "own"}
        assert not await bob.bury("c", "former")
        assert not await bob.bury("d", "")
        assert await ann.renew(0) is not None
        assert await bob.bury("c", "own")
        assert not await bob.bury("c", "own")
        with pytest.raises(SessionLost):
            await ann.look([])
        assert number_of(server, "count(*) from coterie_life where session = 'c'") == 0


@in_loop
async def test_the_server_says_what_it_is(server: MariadbTestServer) -> None:
    def made(port: int) -> MariadbServer:
        return MariadbServer(parse_server_url(server.url(port=port), port=3306))

    (node,) = await made(server.port).nodes()
    assert "MariaDB" in node.version
    assert node.role == "primary"
    (node,) = await made(1).nodes()
    assert node.trouble == "Connection refused"


def test_urls_that_make_no_sense_are_refused() -> None:
    for url in ("mariadb://a,b", "mysql://a?lease=0.1", "mariadb://a?sslmode=require"):
        with pytest.raises(UsageError):
            coterie.connect(url)
