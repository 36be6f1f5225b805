"""Locks on a real ZooKeeper, and what it does that other servers do not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.client import KazooClient

import coterie
from coterie import system
from coterie.engines.queue.server import Author, SessionLost, Ticket
from coterie.engines.queue.url import parse_server_url
from coterie.engines.zookeeper import names
from coterie.engines.zookeeper.connection import LoopHandler, ZooKeeperConnection
from coterie.engines.zookeeper.server import ZooKeeperServer
from coterie.errors import ConfigError, DeadlockDetected, LockLost, Unavailable
from coterie.lab.servers.proxy import DOWN, UP, Proxy
from coterie.lab.servers.zookeeper import TICK_MILLISECONDS, missing, running_zookeeper
from tests.cluster.local_cluster import Program
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from coterie import Coordinator
    from coterie.engines.zookeeper.server import ZooKeeperSession
    from coterie.lab.servers.zookeeper import ZooKeeper

needs_server = pytest.mark.skipif(bool(missing()), reason=f"no ZooKeeper: {missing()}")


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeper]:
    with running_zookeeper() as running:
        yield running


class Listener:
    """Hears what a session says."""

    def __init__(self) -> None:
        self.renewals: list[float] = []
        self.letters: asyncio.Queue[bytes] = asyncio.Queue()
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def closed(self, reason: str, until: float) -> None:
        raise AssertionError(reason)

    def renewed(self, sent_at: float) -> None:
        self.renewals.append(sent_at)

    def lost(self, reason: str) -> None:
        self.ended.set_result(reason)

    def mail(self, letter: bytes) -> None:
        self.letters.put_nowait(letter)


@contextlib.asynccontextmanager
async def session(
    url: str, name: str, listener: Listener | None = None
) -> AsyncIterator[ZooKeeperSession]:
    """Open a session of the backend, without the engine above it."""
    parsed = parse_server_url(url, port=2181)
    opened = await ZooKeeperServer(parsed).open(name, listener or Listener(), parsed.lease)
    try:
        yield opened
    finally:
        await opened.close()


@contextlib.asynccontextmanager
async def programs(url: str, count: int) -> AsyncIterator[list[Coordinator]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(coterie.connect(url)) for _ in range(count)]


@contextlib.asynccontextmanager
async def proxied(server: ZooKeeper) -> AsyncIterator[Proxy]:
    proxy = Proxy(server.port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


@contextlib.contextmanager
def program(server: ZooKeeper, *arguments: str) -> Iterator[Program]:
    """Run a program in a process of its own."""
    started = Program(server.url(), arguments)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.communicate()


def first_to_speak(several: list[Program], seconds: float) -> list[Program]:
    """Wait for the output of programs, and return those that have said something."""
    outputs = {each.process.stdout: each for each in several if each.process.stdout is not None}
    return [outputs[output] for output in select.select(list(outputs), [], [], seconds)[0]]


async def seen(look: Callable[[], Awaitable[bool]]) -> None:
    """Look at the server until something is the case."""
    while not await look():  # noqa: ASYNC110 - another program's doing has no event here
        await asyncio.sleep(0.01)


def author(name: str) -> Author:
    return Author(name, "host-1:17", 1.5)


# Without a server


@pytest.mark.parametrize(
    "lock", ["a", "a/b", ".", "..", "./..", "/", "-x", "a" * 255, "a:b", "=.", "a%2Fb", "ü ü"]
)
def test_the_node_of_a_lock_tells_its_name(lock: str) -> None:
    node = names.escape(lock)
    assert names.unescape(node) == lock
    assert "/" not in node
    assert node not in {".", ".."}


def test_different_locks_have_different_nodes() -> None:
    locks = [
        "a/b",
        "a.b",
        ".",
        "..",
        "/.",
        "/",
        "./",
        "a-b",
        "a:b",
        "a%2Fb",
        "a%3Ab",
        "=.",
        "=",
        ":",
    ]
    assert len({names.escape(lock) for lock in locks}) == len(locks)


def test_a_name_tells_all_about_an_entry() -> None:
    ticket = Ticket("x", True, 7)
    name = names.stem(ticket, author("ann")) + "0000000012"
    assert name.startswith(names.prefix(ticket, "ann"))
    assert names.line([name]) == [names.QueueNode(12, name, True, author("ann"))]


def test_entries_stand_in_the_order_of_their_sequence_and_strangers_do_not_count() -> None:
    late = names.stem(Ticket("x", False, 1), author("ann")) + "0000000010"
    early = names.stem(Ticket("x", True, 2), author("bob")) + "0000000009"
    strangers = ["lock-0000000001", "x-1-2", "x", "x-a-b-c-d-e"]
    assert [node.name for node in names.line([late, *strangers, early])] == [early, late]


def test_a_sharer_waits_for_exclusive_entries_alone() -> None:
    stems = [names.stem(Ticket("x", shared, 1), author("ann")) for shared in (True, False, True)]
    nodes = names.line(f"{stem}{number:010}" for number, stem in enumerate(stems))
    assert names.in_the_way(nodes, nodes[1]) == nodes[:1]
    assert names.in_the_way(nodes, nodes[2]) == nodes[1:2]


@in_loop
async def test_a_connection_ends_when_the_event_loop_does_not_run() -> None:
    handler = LoopHandler(asyncio.get_running_loop(), lambda: None)
    reader, writer = os.pipe()
    try:
        handler.live(60)
        assert handler.select([], [writer], [], 0)[1] == [writer]
        handler.live(-1)
        with pytest.raises(OSError, match="event loop"):
            handler.select([reader], [], [], 0)
        with pytest.raises(OSError, match="event loop"):
            handler.create_connection(("127.0.0.1", 1), timeout=1)
    finally:
        os.close(reader)
        os.close(writer)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "coterie.engines.zookeeper")
    monkeypatch.setitem(sys.modules, "kazoo", None)
    with pytest.raises(ConfigError, match=r"coterie\[zookeeper\]"):
        coterie.connect("zookeeper://localhost")


@in_loop
async def test_a_port_where_nothing_listens_is_said_at_once() -> None:
    with pytest.raises(Unavailable, match=r"zookeeper at 127\.0\.0\.1:1: Connection refused"):
        await coterie.connect("zookeeper://127.0.0.1:1").open()


@in_loop
async def test_a_server_of_another_kind_is_not_used() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable, match=f"zookeeper at 127.0.0.1:{port}"):
            await coterie.connect(f"zookeeper://127.0.0.1:{port}?lease=1").open()


@in_loop
async def test_a_certificate_that_is_not_there_is_said() -> None:
    with pytest.raises(ConfigError, match=r"/nowhere/ca\.pem"):
        await coterie.connect("zookeepers://127.0.0.1:1?ca=/nowhere/ca.pem").open()


# Order, modes, tokens


@needs_server
def test_programs_are_served_in_the_order_of_asking(server: ZooKeeper) -> None:
    async def until_waiting(count: int) -> None:
        async with coterie.connect(server.url()) as c:

            async def waits() -> bool:
                return len(await c.waiters("fifo")) == count

            async with asyncio.timeout(20):
                await seen(waits)

    with contextlib.ExitStack() as stack:
        started: list[Program] = []
        tokens = []
        for count in range(3):
            started.append(stack.enter_context(program(server, "hold", "fifo")))
            if count:
                asyncio.run(until_waiting(count))
            else:
                tokens.append(int(started[0].read()[1]))
        while started:
            holder = started.pop(0)
            assert not first_to_speak(started, seconds=0)
            holder.write("")
            assert holder.rest() == [["valid"], ["released"]]
            if started:
                tokens.append(int(started[0].read()[1]))
    assert tokens == sorted(set(tokens))


@needs_server
@in_loop
async def test_sharers_hold_together_and_a_writer_is_not_overtaken(server: ZooKeeper) -> None:
    order: list[str] = []
    async with programs(server.url(), 3) as (ann, bob, eve), session(server.url(), "look") as look:

        async def use(c: Coordinator, word: str, *, shared: bool) -> None:
            async with c.lock("shared", shared=shared):
                order.append(word)

        def entries(count: int) -> Callable[[], Awaitable[bool]]:
            async def stand() -> bool:
                return len((await look.lines(["shared"])).get("shared", [])) == count

            return stand

        async with bob.lock("shared", shared=True):
            await use(ann, "first", shared=True)
            writing = asyncio.create_task(use(eve, "written", shared=False))
            await seen(entries(2))
            reading = asyncio.create_task(use(ann, "read", shared=True))
            await seen(entries(3))
            assert order == ["first"]
        await asyncio.gather(writing, reading)
    assert order == ["first", "written", "read"]


@needs_server
@in_loop
async def test_tokens_grow_when_the_queue_was_removed_and_made_again(server: ZooKeeper) -> None:
    tokens = []
    async with session(server.url(), "look") as look:
        for _ in range(3):
            async with coterie.connect(server.url()) as c, c.lock("again") as held:
                tokens.append(held.token)
            assert await look.lines(["again"]) == {}
    assert tokens == sorted(set(tokens))


@needs_server
@in_loop
async def test_a_queue_that_is_never_empty_is_made_again_before_its_sequence_is_used_up(
    server: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that come meanwhile wait outside of it until those in it are served."""
    monkeypatch.setattr(names, "SEQUENCE_MAX", 5)
    tokens: list[int] = []
    inside = 0

    async def take(c: Coordinator) -> None:
        nonlocal inside
        for _ in range(6):
            async with c.lock("worn") as held:
                inside += 1
                assert inside == 1
                tokens.append(held.token)
                await asyncio.sleep(0.01)
                inside -= 1

    async with programs(server.url(), 3) as several:
        holding = await several[0].lock("worn").acquire()
        assert holding is not None
        for _ in range(4):
            assert await several[1].lock("worn").acquire(timeout=0) is None
        with pytest.raises(Unavailable, match="5 requests have stood in its queue, which is made"):
            await several[2].lock("worn").acquire(timeout=0.2)
        await holding.release()
        await asyncio.gather(*map(take, several))
    assert len(tokens) == 18
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize(
    ("sequence", "worn"),
    [("0000000000", False), ("2130706431", False), ("2130706432", True), ("-2147483648", True)],
)
def test_an_entry_beyond_the_last_sequence_may_not_stay(sequence: str, worn: bool) -> None:
    stem = names.stem(Ticket("x", False, 1), author("ann"))
    assert names.is_worn(f"/coterie/q/x/{stem}{sequence}") is worn


@needs_server
def test_tokens_grow_over_a_restart_of_the_server(server: ZooKeeper) -> None:
    async def take(c: Coordinator) -> int:
        async with c.lock("restart") as held:
            return held.token

    async def over_the_restart() -> list[int]:
        async with coterie.connect(server.url()) as c:
            first = await take(c)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            async with coterie.connect(server.url()) as other:
                return [first, await take(other), await take(c)]

    tokens = asyncio.run(over_the_restart())
    assert tokens == sorted(set(tokens))


# Loss


@needs_server
def test_a_program_that_is_killed_frees_its_lock(server: ZooKeeper) -> None:
    with program(server, "hold", "killed") as first, program(server, "hold", "killed") as second:
        (holder,) = first_to_speak([first, second], seconds=20)[:1]
        other = second if holder is first else first
        token = int(holder.read()[1])
        holder.process.send_signal(signal.SIGKILL)
        assert int(other.read()[1]) > token


@needs_server
def test_a_program_that_is_suspended_loses_its_lock(server: ZooKeeper) -> None:
    with program(server, "hold", "stopped") as first:
        token = int(first.read()[1])
        first.process.send_signal(signal.SIGSTOP)
        with program(server, "hold", "stopped") as second:
            assert int(second.read()[1]) > token
            first.process.send_signal(signal.SIGCONT)
            first.write("")
            assert first.rest()[-1] == ["lost"]


@needs_server
@in_loop
async def test_a_loss_is_told_before_another_program_is_let_in(server: ZooKeeper) -> None:
    async with (
        proxied(server) as proxy,
        coterie.connect(server.url()) as other,
        coterie.connect(server.url(proxy.port)) as c,
    ):
        held = await c.lock("cut").acquire()
        assert held is not None
        waiting = asyncio.create_task(other.lock("cut").acquire())
        proxy.stall()
        await held.lost
        assert not held.valid
        assert not waiting.done()
        later = await waiting
        assert later is not None
        assert later.token > held.token
        with pytest.raises(LockLost):
            await held.release()
        await later.release()
        proxy.sever()
        proxy.resume()
        async with c.lock("cut") as again:
            assert again.token > later.token


@needs_server
@in_loop
async def test_a_session_that_has_expired_is_over_for_good(server: ZooKeeper) -> None:
    heard, lock = Listener(), "expired"
    async with (
        proxied(server) as proxy,
        session(server.url(), "look") as look,
        session(server.url(proxy.port), "ann", heard) as ann,
    ):
        await ann.join(Ticket(lock, False, 1), author("ann"), None)
        proxy.stall()

        async def gone() -> bool:
            return not await look.lines([lock])

        await seen(gone)
        proxy.sever()
        proxy.resume()
        assert "expired" in await heard.ended
        with pytest.raises(SessionLost, match="expired"):
            await ann.join(Ticket(lock, False, 2), author("ann"), None)
        assert not await look.lines([lock])


@needs_server
@in_loop
async def test_a_short_break_of_the_line_costs_nothing(server: ZooKeeper) -> None:
    async with (
        proxied(server) as proxy,
        coterie.connect(server.url()) as other,
        coterie.connect(server.url(proxy.port)) as c,
    ):
        async with other.lock("break"):
            waiting = asyncio.create_task(c.lock("break").acquire())

            async def waits() -> bool:
                return len(await other.waiters("break")) == 1

            await seen(waits)
            async with c.lock("mine") as held:
                before = proxy.connections
                proxy.sever()
                await seen(lambda: asyncio.sleep(0, proxy.connections > before))
                assert await other.lock("mine").acquire(timeout=0) is None
                assert held.valid
        got = await waiting
        assert got is not None
        await got.release()


@needs_server
@in_loop
async def test_an_entry_that_an_operator_has_removed_is_a_loss(server: ZooKeeper) -> None:
    heard, ticket = Listener(), Ticket("gone", False, 1)
    async with session(server.url(), "ann") as ann, session(server.url(), "bob", heard) as bob:
        await ann.join(ticket, author("ann"), None)
        assert await bob.join(ticket, author("bob"), None) is None
        waiting = asyncio.create_task(bob.wait(ticket))
        await asyncio.to_thread(remove, server, "/coterie/q/gone", "-bob-")
        await ann.leave(ticket)
        assert "removed" in await heard.ended
        with pytest.raises(SessionLost, match="removed"):
            await waiting


@needs_server
@in_loop
async def test_nodes_that_others_remove_first_are_not_asked_for(
    server: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that begins looks for what killed ones have left; others that begin just then do so as well."""
    send, swept = ZooKeeperConnection.send, asyncio.Event()

    def emptied(self: ZooKeeperConnection, method: str, *arguments: str, **how: bool) -> Any:
        if method != "get_children" or not arguments[0].endswith("/q"):
            return send(self, method, *arguments, **how)
        nothing = asyncio.get_running_loop().create_future()
        nothing.set_result([])
        swept.set()
        return nothing

    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
    async with session(server.url(), "ann") as ann:
        await ann.join(Ticket("x", False, 1), author("ann"), None)
        monkeypatch.setattr(ZooKeeperConnection, "send", emptied)
        async with session(server.url(), "bob"):
            await swept.wait()
        monkeypatch.undo()
    assert not errors


def remove(server: ZooKeeper, parent: str, part: str) -> None:
    """Delete a node by hand."""
    with by_hand(server) as client:
        for name in client.get_children(parent):
            if part in name:
                client.delete(f"{parent}/{name}")


def nodes(server: ZooKeeper, *parents: str) -> list[str]:
    """List nodes, also those that are empty."""
    with by_hand(server) as client:
        return [name for parent in parents for name in client.get_children(parent)]


@contextlib.contextmanager
def by_hand(server: ZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(f"127.0.0.1:{server.port}")
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


@needs_server
@in_loop
async def test_the_lease_counts_from_before_a_beat_by_what_the_leader_may_not_know(
    server: ZooKeeper,
) -> None:
    heard = Listener()
    before = system.now()
    async with session(server.url(), "ann", heard) as ann:
        (counted,) = heard.renewals
        assert before - ann.lease / 4 <= counted <= system.now() - ann.lease / 4


@needs_server
@in_loop
async def test_the_server_says_how_long_a_session_lasts(server: ZooKeeper) -> None:
    async with session(f"zookeeper://127.0.0.1:{server.port}?lease=600", "ann") as ann:
        assert ann.lease == 20 * TICK_MILLISECONDS / 1000


@needs_server
@in_loop
async def test_each_server_of_the_url_says_how_it_is(server: ZooKeeper) -> None:
    url = parse_server_url(f"zookeeper://127.0.0.1:{server.port},127.0.0.1:1", port=2181)
    up, down = await ZooKeeperServer(url).nodes()
    assert (up.address, up.role, up.trouble) == (f"127.0.0.1:{server.port}", "", "")
    assert up.version.startswith("3.")
    assert (down.address, down.version) == ("127.0.0.1:1", "")
    assert "refused" in down.trouble.lower()


# What is left behind


@needs_server
@in_loop
async def test_a_wait_that_is_given_up_leaves_no_entry(server: ZooKeeper) -> None:
    async with programs(server.url(), 2) as (ann, bob), session(server.url(), "look") as look:

        async def alone() -> bool:
            return len((await look.lines(["cancel"]))["cancel"]) == 1

        async with ann.lock("cancel"):
            for turns in range(0, 30, 3):
                task = asyncio.create_task(bob.lock("cancel").acquire())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await seen(alone)

        async def gone() -> bool:
            return "cancel" not in await asyncio.to_thread(nodes, server, "/coterie/q")

        await seen(gone)


@needs_server
@pytest.mark.parametrize("stays", [True, False])
@in_loop
async def test_an_entry_whose_creation_was_not_answered_is_found_by_its_name(
    server: ZooKeeper, stays: bool
) -> None:
    ticket, lock = Ticket("unknown", False, 5), "unknown"
    async with (
        proxied(server) as proxy,
        session(server.url(), "look") as look,
        session(server.url(proxy.port), "ann") as ann,
    ):
        proxy.stall(DOWN)
        joining = asyncio.create_task(ann.join(ticket, author("ann"), None))

        async def stands() -> bool:
            return lock in await look.lines([lock])

        await seen(stands)
        proxy.sever()
        with pytest.raises(Unavailable):
            await joining
        proxy.resume()
        if stays:
            await patiently(lambda: ann.join(ticket, author("ann"), None))
        else:
            await patiently(lambda: ann.leave(ticket))
        assert len((await look.lines([lock])).get(lock, [])) == stays


@needs_server
@in_loop
async def test_an_entry_whose_creation_did_not_arrive_is_made_then(server: ZooKeeper) -> None:
    ticket, lock = Ticket("not-arrived", False, 5), "not-arrived"
    async with proxied(server) as proxy, session(server.url(proxy.port), "ann") as ann:
        proxy.stall(UP)
        joining = asyncio.create_task(ann.join(ticket, author("ann"), None))
        await asyncio.sleep(0)
        proxy.sever()
        with pytest.raises(Unavailable):
            await joining
        proxy.resume()
        await patiently(lambda: ann.join(ticket, author("ann"), None))
        assert len((await ann.lines([lock]))[lock]) == 1


async def patiently(call: Callable[[], Awaitable[object]]) -> None:
    """Call until there is a connection."""
    while True:
        try:
            await call()
        except Unavailable:
            await asyncio.sleep(0.02)
        else:
            return


@needs_server
def test_what_a_killed_program_has_left_is_removed_by_later_ones(server: ZooKeeper) -> None:
    with program(server, "hold", "left/behind") as first:
        first.read()
        first.process.send_signal(signal.SIGKILL)

    async def open_until_it_is_gone() -> None:
        async with asyncio.timeout(20):
            while await asyncio.to_thread(nodes, server, "/coterie/q", "/coterie/m"):
                async with session(server.url(), "later"):
                    await asyncio.sleep(0.1)

    asyncio.run(open_until_it_is_gone())


# Mail, deadlocks, users


@needs_server
@in_loop
async def test_a_letter_is_read_once_and_one_to_nowhere_is_dropped(server: ZooKeeper) -> None:
    heard = Listener()
    async with session(server.url(), "ann", heard), session(server.url(), "bob") as bob:
        await bob.send("nowhere", b"lost")
        for number in range(5):
            await bob.send("ann", b"%d" % number)
        assert [await heard.letters.get() for _ in range(5)] == [b"%d" % n for n in range(5)]
        assert heard.letters.empty()


@needs_server
@in_loop
async def test_a_deadlock_of_two_programs_is_found(server: ZooKeeper) -> None:
    async with programs(server.url(), 2) as (ann, bob):
        entered = [asyncio.Event(), asyncio.Event()]

        async def cross(c: Coordinator, first: str, second: str, mine: int) -> str:
            async with c.lock(first):
                entered[mine].set()
                await entered[1 - mine].wait()
                try:
                    async with c.lock(second):
                        return "through"
                except DeadlockDetected:
                    return "gave way"

        outcomes = await asyncio.gather(cross(ann, "a", "b", 0), cross(bob, "b", "a", 1))
        assert sorted(outcomes) == ["gave way", "through"]


@needs_server
@in_loop
async def test_the_locks_of_a_user_are_for_that_user_alone(server: ZooKeeper) -> None:
    address = f"127.0.0.1:{server.port}/apps/one?lease=2"
    async with coterie.connect(f"zookeeper://ann:secret@{address}") as ann, ann.lock("x") as held:
        assert held.valid
        for user in ("", "ann:wrong@", "bob:secret@"):
            with pytest.raises(ConfigError, match="refused"):
                await coterie.connect(f"zookeeper://{user}{address}").open()
