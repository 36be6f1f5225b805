"""Locks on a real NATS: what its stream keeps, and what is not to be seen through the engine alone."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.engines.nats.connection import NatsConnection
from coterie.engines.nats.frames import (
    BODY_BYTES_MAX,
    LINE_BYTES_MAX,
    FrameReader,
    NatsAnswer,
    NatsFrame,
    read_message,
)
from coterie.engines.nats.news import GONE_MAX, HEARD_MAX, QueueNews
from coterie.engines.nats.records import Subjects
from coterie.engines.nats.server import NatsServer, NatsSteps
from coterie.engines.nats.stream import LockStream, TooMany
from coterie.engines.queue.server import Author, Ticket
from coterie.engines.queue.url import parse_server_url
from coterie.errors import ConfigError, Unavailable, UsageError
from coterie.lab.servers.child import ServerMissing
from tests.cluster.certificates import certificates
from tests.engines.conformance.suppliers import leave_out
from tests.engines.conformance.users import Users
from tests.engines.nats_server import MISSING, NatsTestServer
from tests.engines.programs import LEASE, programs, taken, until_renewed, until_shown
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from coterie import Coordinator
    from coterie.engines.nats.stream import Stored

AUTHOR = Author("participant", "host:1", 1.5)
PAST = "coterie.lock.past"
EXCLUSIVE, OTHER = Ticket("x", False, 1), Ticket("x", False, 2)


@pytest.fixture(scope="module")
def server() -> Iterator[NatsTestServer]:
    if MISSING:
        leave_out(ServerMissing(MISSING))
    with NatsTestServer() as started:
        yield started


def entries(server: NatsTestServer, lock: str = "*") -> int:
    return len(server.subjects(f"coterie.lock.q.{lock}.>"))


# Steps


@contextlib.asynccontextmanager
async def session(server: NatsTestServer, name: str) -> AsyncIterator[NatsSteps]:
    """Begin a session of that name, which is never renewed."""
    made = NatsServer(parse_server_url(server.url(LEASE), port=4222))
    steps = NatsSteps(made, name, f"of {name}", LEASE)
    try:
        await steps.open()
        yield steps
    finally:
        await steps.close(is_over=False)


@contextlib.asynccontextmanager
async def raw(server: NatsTestServer) -> AsyncIterator[LockStream]:
    """Write and read the stream by hand."""
    connection = NatsConnection(parse_server_url(server.url(), port=4222), 10.0)
    await connection.connect()
    stream = LockStream(connection, "coterie", "coterie.lock.>")
    await stream.enter()
    yield stream
    await connection.close()


@in_loop
async def test_a_join_that_is_sent_again_finds_its_entry(server: NatsTestServer) -> None:
    async with session(server, "a") as ann:
        _, first = await ann.join(EXCLUSIVE, AUTHOR, None)
        _, again = await ann.join(EXCLUSIVE, AUTHOR, None)
        assert first == again
        _, behind = await ann.join(Ticket("x", True, 2), AUTHOR, None)
        assert [(each.shared, each.session) for each in behind.before] == [(False, "a")]
        assert behind.number > first.number


@in_loop
async def test_a_session_is_buried_by_its_processes(server: NatsTestServer) -> None:
    async with session(server, "c") as ann, session(server, "d") as bob:
        assert not await ann.live("former"), "it needs a renewal"
        assert await ann.renew(0) is not None
        await ann.live("own")
        assert await ann.renew(1) is not None
        assert await bob.lives(["c", "d"]) == {"c": "own"}
        assert not await bob.bury("c", "former")
        assert await ann.renew(2) is not None
        assert await bob.bury("c", "own")
        assert not await bob.bury("c", "own")
        assert await ann.renew(3) is None


@in_loop
async def test_a_join_can_leave_another_entry(server: NatsTestServer) -> None:
    async with session(server, "a") as ann, session(server, "b") as bob:
        shared = Ticket("x", True, 1)
        await ann.join(EXCLUSIVE, AUTHOR, None)
        _, sight = await bob.join(shared, AUTHOR, None)
        assert [each.session for each in sight.before] == ["a"]
        _, sight = await ann.join(OTHER, AUTHOR, EXCLUSIVE)
        assert [(each.shared, each.session) for each in sight.before] == [(True, "b")]
        _, found = await bob.look([shared])
        assert not found[shared].before


@in_loop
async def test_a_join_that_arrives_after_its_entry_was_left_is_refused(
    server: NatsTestServer,
) -> None:
    """Else an entry that no task knows would keep others out as long as its session is renewed."""
    async with session(server, "a") as ann, raw(server) as stream:
        subject = Subjects("coterie").entry(EXCLUSIVE, "a")
        await ann.leave(EXCLUSIVE)  # its join was given up, and nothing is known of it
        assert await stream.put(subject, b"late", 0) is None
        assert await ann.own() == []
        _, sight = await ann.join(OTHER, AUTHOR, None)
        assert not sight.before
        again = Ticket("x", False, 3)
        await ann.join(again, AUTHOR, None)
        await ann.join(again, AUTHOR, None)  # so another one may be under way
        await ann.leave(again)
        assert await stream.put(Subjects("coterie").entry(again, "a"), b"late", 0) is None
        assert await ann.own() == [OTHER]
    assert entries(server) == 0


@in_loop
async def test_a_session_is_removed_only_with_the_counter_that_was_seen(
    server: NatsTestServer,
) -> None:
    async with session(server, "a") as ann, session(server, "b") as bob:
        await ann.join(EXCLUSIVE, AUTHOR, None)
        _, sight = await bob.join(EXCLUSIVE, AUTHOR, None)
        (seen,) = [each.counted for each in sight.before]
        assert seen is not None
        assert await ann.renew(0)
        assert not await bob.remove("a", seen.counter)
        assert await ann.find() == 1
        _, found = await bob.look([EXCLUSIVE])
        (seen,) = [each.counted for each in found[EXCLUSIVE].before]
        assert seen is not None
        assert await bob.remove("a", seen.counter)
        _, found = await bob.look([EXCLUSIVE])
        assert not found[EXCLUSIVE].before
        assert await ann.find() is None
        assert await ann.renew(1) is None


@in_loop
async def test_a_session_that_is_not_shown_is_over_only_if_that_can_be_written(
    server: NatsTestServer,
) -> None:
    """A replica may lag behind, so what is not seen may be there."""
    async with session(server, "a") as ann, raw(server) as stream:
        subjects = Subjects("coterie")
        await stream.put(subjects.entry(EXCLUSIVE, "gone"), b"\x90", 0)
        _, sight = await ann.join(EXCLUSIVE, AUTHOR, None)
        assert [(each.session, each.counted) for each in sight.before] == [("gone", None)]
        assert await stream.put(subjects.session("gone"), b"{}", 0) is None  # it is written down
        await ann.sweep("gone")
        assert server.subjects("coterie.lock.*.gone") == []
        _, found = await ann.look([EXCLUSIVE])
        assert not found[EXCLUSIVE].before


@in_loop
async def test_a_renewal_does_not_succeed_after_an_operator_has_ended_the_session(
    server: NatsTestServer,
) -> None:
    async with session(server, "a") as ann, session(server, "b") as bob:
        await ann.join(EXCLUSIVE, AUTHOR, None)
        assert await bob.condemn("x", "another") is None
        assert await bob.condemn("x", AUTHOR.participant) == LEASE
        assert await ann.renew(0) is None
        assert await ann.find() not in (0, 1)
        _, sight = await bob.join(EXCLUSIVE, AUTHOR, None)
        assert [each.counted is not None for each in sight.before] == [True]  # for a lease


@in_loop
async def test_a_queue_may_be_longer_than_what_the_server_shows_at_once(
    server: NatsTestServer,
) -> None:
    async with session(server, "a") as ann, session(server, "b") as bob, raw(server) as stream:
        subjects = Subjects("coterie")
        for attempt in range(1, 1101):
            await stream.put(subjects.entry(Ticket("x", True, attempt), "b"), b"\x90", 0)
        with pytest.raises(TooMany):
            await stream.last([subjects.queue("x")])
        _, sight = await ann.join(EXCLUSIVE, AUTHOR, None)
        assert len(sight.before) == 1100
        lines = await ann.lines(["x"])
        assert [entry.inside for entry in lines["x"]] == [True] * 1100 + [False]
        assert len(await bob.own()) == 1100
        await ann.sweep("b")  # which is alive
        assert len(await bob.own()) == 1100
        await stream.purge(subjects.queue("x"))


@in_loop
async def test_a_replica_that_lags_behind_is_not_believed(server: NatsTestServer) -> None:
    async with session(server, "a") as ann, raw(server) as stream:
        _, sight = await ann.join(EXCLUSIVE, AUTHOR, None)
        assert not sight.before
        (entry,) = await stream.last([Subjects("coterie").queue("x")])
        assert await stream.last([Subjects("coterie").queue("x")], entry.number) == [entry]
        with pytest.raises(Unavailable, match="lags behind"):
            await stream.last([Subjects("coterie").queue("x")], entry.number + 1)


@in_loop
async def test_a_look_wants_a_state_that_has_our_entries(
    server: NatsTestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only such a state has all that stand before them."""
    wanted: list[int] = []
    original = LockStream.last

    async def last(self: LockStream, subjects: Sequence[str], least: int = 0) -> list[Stored]:
        wanted.append(least)
        return await original(self, subjects, least)

    monkeypatch.setattr(LockStream, "last", last)
    async with session(server, "a") as ann, raw(server) as stream:
        await ann.join(EXCLUSIVE, AUTHOR, None)
        (entry,) = await stream.all(Subjects("coterie").queue("x"))
        assert wanted == [entry.number]
        await ann.look([EXCLUSIVE])
        assert wanted == [entry.number] * 2


@in_loop
async def test_what_no_program_of_ours_has_written_is_passed_over(server: NatsTestServer) -> None:
    strange = ["s.strange", "q.x", "q.x.a", "q.x.strange.x.one", "q.x.strange.x.1.2"]
    async with raw(server) as stream:
        for subject in strange:
            await stream.put(f"coterie.lock.{subject}", b"\xff{}", 0)
        async with programs(server, 2) as (ann, bob):
            held = await taken(ann)
            waiting = asyncio.create_task(taken(bob))
            await until_renewed(held)
            assert len(await bob.waiters("x")) == 1
            await held.release()
            await (await waiting).release()
        for subject in strange:
            await stream.purge(f"coterie.lock.{subject}")


# Sessions


@in_loop
async def test_nothing_is_left_when_programs_close(server: NatsTestServer) -> None:
    async with programs(server, 2) as (ann, bob):
        held = await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        await until_shown(lambda: entries(server) == 2)
        waiting.cancel()
        assert held.valid
    await until_shown(lambda: server.subjects() == [PAST])


def test_a_program_that_dies_with_no_one_waiting_is_removed_by_the_others(
    server: NatsTestServer,
) -> None:
    with Users(server.url(LEASE)) as users, coterie.sync.connect(server.url(LEASE)):
        (user,) = users.start(1)
        user.do("take", "x")
        user.process.send_signal(signal.SIGKILL)
        asyncio.run(until_shown(lambda: not entries(server)))


@in_loop
async def test_a_waiter_stays_in_line_over_a_restart_and_tokens_grow(
    server: NatsTestServer,
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
    server: NatsTestServer,
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


@in_loop
async def test_a_holder_is_told_and_tokens_grow_where_all_is_lost(server: NatsTestServer) -> None:
    async with programs(server, 2) as (ann, bob):
        held = await taken(ann)
        await asyncio.to_thread(server.kill)
        server.lose_memory()
        await asyncio.to_thread(server.start)
        again = await taken(bob)
        assert not held.valid
        assert held.token < again.token
        await again.release()


@in_loop
async def test_a_stream_that_is_removed_and_made_again_lets_no_one_in_too_early(
    server: NatsTestServer,
) -> None:
    """Without any end of a connection."""
    async with programs(server, 2) as (ann, bob):
        held = await taken(ann)
        await asyncio.to_thread(server.ask, "$JS.API.STREAM.DELETE.coterie")
        async with session(server, "maker"):
            again = await taken(bob)
            assert not held.valid
            assert held.token < again.token
            await again.release()


@in_loop
async def test_programs_on_a_cluster_take_turns_and_go_on_without_a_follower() -> None:
    """Each of them is connected to a server of its own, and most read replicas that lag behind."""
    with NatsTestServer(3) as servers:
        urls = [servers.url(20.0, port=port) for port in servers.ports]
        inside = 0

        async def use(c: Coordinator) -> list[int]:
            nonlocal inside
            tokens = []
            for _ in range(10):
                async with c.lock("y") as held:
                    assert inside == 0
                    inside += 1
                    await asyncio.sleep(0)
                    inside -= 1
                    tokens.append(held.token)
            return tokens

        async with contextlib.AsyncExitStack() as stack:
            # None of them is let in for a lease after the stream was made.
            await asyncio.to_thread(servers.begin)
            opened = [await stack.enter_async_context(coterie.connect(url)) for url in urls]
            used = await asyncio.gather(*map(use, opened))
            assert len({token for tokens in used for token in tokens}) == 30
            held = await taken(opened[0])
            follower = await asyncio.to_thread(servers.kill_follower)
            waiting = asyncio.create_task(taken(opened[1 if follower != 1 else 2]))
            await until_shown(lambda: len(servers.subjects("coterie.lock.q.x.>")) == 2)
            assert held.valid
            await held.release()
            await (await waiting).release()


# What is refused, and said


async def trouble_of(url: str) -> str:
    with pytest.raises((ConfigError, Unavailable)) as caught:
        async with coterie.connect(url):
            pass
    text = str(caught.value)
    assert "secret" not in text
    assert "\n" not in text
    kind = "config" if isinstance(caught.value, ConfigError) else "unavailable"
    return f"{kind}: {text}"


@in_loop
async def test_a_stream_that_may_lose_locks_is_refused(server: NatsTestServer) -> None:
    config = {"name": "other", "subjects": ["other.>"], "max_msgs_per_subject": 2}
    await asyncio.to_thread(server.ask, "$JS.API.STREAM.CREATE.other", config)
    found = await trouble_of(f"{server.url()}/other")
    assert found.startswith("config: ")
    assert "it keeps more than the last message of a subject" in found


@in_loop
async def test_a_server_without_jetstream_says_so() -> None:
    with NatsTestServer(jetstream=False) as plain:
        found = await trouble_of(plain.url())
    assert found.startswith("config: ")
    assert "JetStream is off" in found


# What docs/engines/nats.md says that the locks need.
RIGHTS = """publish: ["coterie.>", "$JS.API.STREAM.*.coterie", "$JS.API.STREAM.MSG.DELETE.coterie",
    "$JS.API.DIRECT.GET.coterie", "$JS.API.DIRECT.GET.coterie.>"], subscribe: ["coterie.>", "_INBOX.>"]"""
USERS = f"""
authorization {{ users: [
    {{ user: good, password: secret, permissions: {{ {RIGHTS} }} }},
    {{ user: poor, password: secret, permissions: {{ publish: ["$JS.API.>"], subscribe: ["_INBOX.>"] }} }},
] }}
"""


@in_loop
async def test_who_may_not_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTERIE_PASSWORD", "secret")
    with NatsTestServer(text=USERS) as guarded:
        wrong = await trouble_of(guarded.url(user="nobody@"))
        assert wrong.startswith("config: ")
        assert "Authorization Violation" in wrong
        poor = await trouble_of(guarded.url(user="poor@"))
        assert poor.startswith("config: ")
        assert 'Permissions Violation for Publish to "coterie.lock.past"' in poor
        url = guarded.url(LEASE, user="good@")
        async with coterie.connect(url) as ann, coterie.connect(url) as bob:
            held = await taken(ann)
            waiting = asyncio.create_task(taken(bob))
            await until_renewed(held)
            await held.release()
            await (await waiting).release()


@in_loop
async def test_locks_come_over_tls_and_a_certificate_that_is_not_known_is_refused(
    server: NatsTestServer, tmp_path: Path
) -> None:
    certificates(tmp_path, "one")
    files = f'cert_file: "{tmp_path / "one.pem"}", key_file: "{tmp_path / "one.key"}"'
    with NatsTestServer(text=f"tls {{ {files} }}", scheme="natss") as secure:
        async with coterie.connect(f"{secure.url(LEASE)}&ca={tmp_path / 'one-ca.pem'}") as c:
            await (await taken(c)).release()
        assert (await trouble_of(secure.url())).startswith("config: ")
        plain = await trouble_of(secure.url().replace("natss:", "nats:"))
        assert "write natss://" in plain
    assert "offers no TLS" in await trouble_of(server.url().replace("nats:", "natss:"))


@in_loop
async def test_a_letter_may_be_long(server: NatsTestServer) -> None:
    async with programs(server, 2) as (ann, bob), ann.lock("x"):
        several = [asyncio.create_task(ann.lock("x").acquire()) for _ in range(1000)]
        await asyncio.sleep(0)
        assert len(await bob.waiters("x")) == 1000
        for task in several:
            task.cancel()
        await asyncio.wait(several)


@in_loop
async def test_the_server_says_what_it_is(server: NatsTestServer) -> None:
    def made(port: int) -> NatsServer:
        return NatsServer(parse_server_url(server.url(port=port), port=4222))

    (node,) = await made(server.port).nodes()
    assert node.version.startswith("2.")
    assert node.role == "alone"
    (node,) = await made(1).nodes()
    assert node.trouble == "Connection refused"


# Without a server


def test_urls_that_make_no_sense_are_refused() -> None:
    for url in ("nats://a?lease=0.1", "nats://a/b.c", "nats://a/b/c", "nats://a?sslmode=require"):
        with pytest.raises(UsageError):
            coterie.connect(url)


HEADERS = b"NATS/1.0 404 No Results\r\nNats-Sequence: 7\r\n\r\n"
SAID = (
    b'INFO {"server_id":"a"}\r\nPING\r\n'
    b"MSG \xc3\xbc 1 5\r\na\r\nbc\r\n"
    b"HMSG y 2 %d %d\r\n%srest\r\n-ERR 'no'\r\n" % (len(HEADERS), len(HEADERS) + 4, HEADERS)
)
FRAMES = [
    NatsFrame("INFO", '{"server_id":"a"}'),
    NatsFrame("PING", ""),
    NatsFrame("MSG", "\u00fc 1 5", b"a\r\nbc"),
    NatsFrame("HMSG", f"y 2 {len(HEADERS)} {len(HEADERS) + 4}", HEADERS + b"rest"),
    NatsFrame("-ERR", "'no'"),
]


@pytest.mark.parametrize("size", [1, 2, 7, len(SAID)])
def test_frames_are_the_same_in_whatever_pieces_they_arrive(size: int) -> None:
    reader = FrameReader()
    found = [f for at in range(0, len(SAID), size) for f in list(reader.feed(SAID[at : at + size]))]
    assert found == FRAMES
    assert read_message(found[2]) == ("\u00fc", NatsAnswer(0, {}, b"a\r\nbc"))
    assert read_message(found[3]) == ("y", NatsAnswer(404, {"Nats-Sequence": "7"}, b"rest"))


@pytest.mark.parametrize(
    "said",
    [b"MSG x 1 many\r\n", b"MSG x 1 -1\r\n", b"MSG\r\n", b"MSG x 1 %d\r\n" % (BODY_BYTES_MAX + 1)],
)
def test_a_frame_that_makes_no_sense_is_refused(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"int|bytes"):
        list(FrameReader().feed(said))
    with pytest.raises(ValueError, match="without an end"):
        list(FrameReader().feed(b"x" * (LINE_BYTES_MAX + 1)))


def test_only_the_end_of_the_last_entry_in_the_way_is_a_reason_to_look() -> None:
    news = QueueNews()
    assert not news.saw(EXCLUSIVE, [3, 4])
    assert not news.left("x", 4)
    assert not news.left("y", 3)  # of another lock
    assert news.left("x", 3)
    assert not news.left("x", 3)
    assert news.saw(EXCLUSIVE, [4])  # the look was made before that entry had left
    assert not news.saw(EXCLUSIVE, [5])
    news.forget(EXCLUSIVE)
    assert not news.left("x", 5)
    for number in range(6, 7 + GONE_MAX):
        news.left("x", number)
    assert not news.saw(EXCLUSIVE, [6])  # forgotten: the next look shows it


def test_news_are_heard_of_locks_that_are_waited_for_and_of_some_others() -> None:
    news = QueueNews()
    news.saw(EXCLUSIVE, [1])
    assert news.unheard(["x", "y"]) == ["x", "y"]
    locks = ["x", *(f"other{number}" for number in range(HEARD_MAX))]
    dropped = [news.hear(lock) for lock in locks]
    assert dropped == [""] * HEARD_MAX + ["other0"]
    assert news.unheard(locks) == ["other0"]
    assert news.begin_again() == ["x"]


@pytest.mark.parametrize("lock", ["a", "a.b", "*", ">", "a b", "%2E", "q.x.s.1", "\u00fc/."])
def test_the_subject_of_an_entry_says_whose_it_is(lock: str) -> None:
    subjects = Subjects("locks")
    for shared in (False, True):
        ticket = Ticket(lock, shared, 17)
        subject = subjects.entry(ticket, "5e55")
        assert subject.startswith(subjects.queue(lock).removesuffix(">"))
        assert subject.count(".") == 6
        assert not set("*> ") & set(subject)
        assert Subjects.read_entry(subject) == (ticket, "5e55")
    assert subjects.lock_of_news(subjects.news(lock)) == lock
    assert not subjects.lock_of_news(subjects.mail(lock))
