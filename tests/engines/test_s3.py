"""Locks on a real server that speaks the protocol of S3: what its bucket keeps, and what is not to be seen through the engine."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.engines.queue import desk
from coterie.engines.queue.server import Author, Ticket
from coterie.engines.queue.url import parse_server_url
from coterie.engines.s3.http import HttpClient
from coterie.engines.s3.records import DEAD, Keys, QueuedEntry, QueueObject, write
from coterie.engines.s3.server import S3Server, S3Steps
from coterie.errors import ConfigError, Unavailable
from coterie.lab.servers.child import ServerMissing
from tests.cluster.local_cluster import PATIENCE_SECONDS
from tests.engines.conformance.suppliers import leave_out
from tests.engines.conformance.users import Users
from tests.engines.seaweedfs_server import KEYS, MISSING, SeaweedfsServer
from tests.locks.memory import in_loop, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from coterie import Held
    from coterie.engines.s3.bucket import Bucket
    from coterie.engines.s3.signature import AccessKeys

pytestmark = pytest.mark.real

LEASE = 2.4
AUTHOR = Author("participant", "host:1", 1.5)
EXCLUSIVE, OTHER = Ticket("x", False, 1), Ticket("x", False, 2)
NAMES = Keys("coterie")
QUEUE = NAMES.queue("x")


@pytest.fixture(scope="module")
def started() -> Iterator[SeaweedfsServer]:
    if MISSING:
        leave_out(ServerMissing(MISSING))
    with SeaweedfsServer() as made:
        yield made


@pytest.fixture
def server(started: SeaweedfsServer) -> SeaweedfsServer:
    """Begin with a bucket that has been used, and has no locks."""
    started.empty()
    started.begin()
    return started


@contextlib.asynccontextmanager
async def raw(server: SeaweedfsServer, keys: AccessKeys = KEYS) -> AsyncIterator[Bucket]:
    bucket = server.bucket(keys)
    try:
        yield bucket
    finally:
        await bucket.close()


@contextlib.asynccontextmanager
async def session(server: SeaweedfsServer, name: str) -> AsyncIterator[S3Steps]:
    """Begin a session of that name, which is never renewed."""
    made = S3Server(parse_server_url(server.url(LEASE), port=80))
    steps = S3Steps(made, server.bucket(), name, f"of-{name}", LEASE)
    try:
        await steps.open()
        yield steps
    finally:
        await steps.close(is_over=False)


async def taken(c: coterie.Coordinator, lock: str = "x") -> Held:
    held = await c.lock(lock).acquire()
    assert held is not None
    return held


async def until_shown(condition: Callable[[], bool]) -> None:
    """Wait until something is the case at the server, which sends no events."""
    while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - as said
        await asyncio.sleep(0.05)


async def trouble_of(url: str) -> str:
    with pytest.raises(ConfigError) as caught:
        await coterie.connect(url).open()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What the server promises


@pytest.mark.parametrize("count", [2, 6])
@in_loop
async def test_of_writes_at_once_one_wins(server: SeaweedfsServer, count: int) -> None:
    async with raw(server) as bucket:
        etag: str | None = None
        for turn in range(3):
            writes = (bucket.put("k", b"%d.%d" % (turn, n), etag) for n in range(count))
            won = [each for each in await asyncio.gather(*writes) if each is not None]
            (etag,) = won
            found = await bucket.get("k")
            assert found is not None
            assert found.etag == etag


@in_loop
async def test_lists_show_etags_and_sizes_in_order(server: SeaweedfsServer) -> None:
    async with raw(server) as bucket:
        names = ["l/a", "l/b%2F c", "l/c"]
        etags = [await bucket.put(name, name.encode(), None) for name in names]
        listed = await bucket.list("l/")
        assert [(each.key, each.etag) for each in listed] == list(zip(names, etags, strict=True))
        assert [each.size for each in listed] == [len(name) for name in names]
        assert [each.key for each in await bucket.list("l/", after="l/a")] == names[1:]


# Steps


@in_loop
async def test_a_join_that_is_sent_again_finds_its_entry(server: SeaweedfsServer) -> None:
    async with session(server, "a") as ann:
        _, first = await ann.join(EXCLUSIVE, AUTHOR, None)
        _, again = await ann.join(EXCLUSIVE, AUTHOR, None)
        assert first == again
        _, behind = await ann.join(Ticket("x", True, 2), AUTHOR, None)
        assert [(each.shared, each.session) for each in behind.before] == [(False, "a")]
        assert behind.number > first.number
        assert len(await ann.own()) == 2


@in_loop
async def test_a_join_that_arrives_after_its_entry_was_left_is_refused(
    server: SeaweedfsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an entry that no task knows would keep others out as long as its session is renewed."""
    late: list[tuple[str, bytes, str | None]] = []
    async with session(server, "a") as ann, raw(server) as bucket:
        for begins_with in (None, "an object"):
            if begins_with:
                await ann.join(OTHER, AUTHOR, None)
                await ann.leave(OTHER)

            async def lose(_: object, key: str, body: bytes, etag: str | None) -> str | None:
                late.append((key, body, etag))
                raise Unavailable("no answer in time")

            with monkeypatch.context() as patched:
                patched.setattr("coterie.engines.s3.bucket.Bucket.put", lose)
                with pytest.raises(Unavailable):
                    await ann.join(EXCLUSIVE, AUTHOR, None)
            await ann.leave(EXCLUSIVE)
            assert await bucket.put(*late[-1]) is None
            assert await ann.own() == []


@in_loop
async def test_a_join_leaves_another_entry_in_the_same_write(server: SeaweedfsServer) -> None:
    async with session(server, "a") as ann, session(server, "b") as bob:
        shared = Ticket("x", True, 1)
        await ann.join(EXCLUSIVE, AUTHOR, None)
        _, sight = await bob.join(shared, AUTHOR, None)
        assert [each.session for each in sight.before] == ["a"]
        _, sight = await ann.join(OTHER, AUTHOR, EXCLUSIVE)
        assert [(each.shared, each.session) for each in sight.before] == [(True, "b")]
        await asyncio.sleep(LEASE / 15)  # what was read a moment ago is good enough
        _, found = await bob.look([shared])
        assert not found[shared].before


@in_loop
async def test_a_session_is_removed_only_with_the_counter_that_was_seen(
    server: SeaweedfsServer,
) -> None:
    async with session(server, "a") as ann, session(server, "b") as bob:
        await ann.join(EXCLUSIVE, AUTHOR, None)
        _, sight = await bob.join(EXCLUSIVE, AUTHOR, None)
        (seen,) = [each.counted for each in sight.before]
        assert seen is not None
        assert await ann.renew(0)
        assert not await bob.remove("a", seen.counter)
        assert await ann.find() == 1
        renewal = await bob.renew(0)
        assert renewal is not None
        assert renewal.neighbour is not None
        assert renewal.neighbour.name == "a"
        assert await bob.remove("a", renewal.neighbour.counter)
        assert await ann.find() is None
        assert await ann.renew(1) is None
        await asyncio.sleep(LEASE / 6)
        _, found = await bob.look([EXCLUSIVE])
        assert [each.counted for each in found[EXCLUSIVE].before] == [None]
        await bob.sweep("a")
        assert await bob.own() == [EXCLUSIVE]


@in_loop
async def test_a_session_that_is_not_shown_is_over_only_if_that_can_be_written(
    server: SeaweedfsServer,
) -> None:
    async with session(server, "a") as ann, raw(server) as bucket:
        entry = QueuedEntry("gone", 1, False, 1, AUTHOR)
        await bucket.put(QUEUE, write(QueueObject(number=1, entries=(entry,))), None)
        _, sight = await ann.join(EXCLUSIVE, AUTHOR, None)
        assert [(each.session, each.counted) for each in sight.before] == [("gone", None)]
        assert await bucket.put(NAMES.session("gone"), write(DEAD), None) is None
        await ann.sweep("gone")
        assert await bucket.get(NAMES.session("gone")) is None
        _, found = await ann.look([EXCLUSIVE])
        assert not found[EXCLUSIVE].before


@in_loop
async def test_a_session_is_buried_by_its_processes(server: SeaweedfsServer) -> None:
    async with session(server, "c") as ann, session(server, "d") as bob:
        assert not await ann.live("own"), "it needs a renewal"
        assert await ann.renew(0) is not None
        assert await bob.lives(["c", "d"]) == {"c": "own"}
        assert not await bob.bury("c", "former")
        assert await ann.renew(1) is not None
        assert await bob.bury("c", "own")
        assert not await bob.bury("c", "own")
        assert await ann.renew(2) is None


@in_loop
async def test_a_renewal_does_not_succeed_after_an_operator_has_ended_the_session(
    server: SeaweedfsServer,
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
async def test_a_bucket_that_was_emptied_lets_no_one_in_before_the_leases_are_over(
    server: SeaweedfsServer,
) -> None:
    async with session(server, "a") as ann, session(server, "b") as bob:
        past, sight = await ann.join(EXCLUSIVE, AUTHOR, None)
        assert past.is_open
        await asyncio.to_thread(server.empty)
        later, again = await bob.join(EXCLUSIVE, AUTHOR, None)
        assert not later.is_open
        assert later.run != past.run
        assert again.number > sight.number
        assert await ann.renew(0) is None
        await bob.open_past(later.run)
        opened, _ = await bob.look([EXCLUSIVE])
        assert opened.is_open


# Programs


@in_loop
async def test_nothing_is_left_but_the_lock_when_programs_close(server: SeaweedfsServer) -> None:
    url = server.url(LEASE)
    async with coterie.connect(url) as ann, coterie.connect(url) as bob:
        held = await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        while len(await ann.waiters("x")) < 1:  # noqa: ASYNC110 - of other programs there are no events
            await asyncio.sleep(0.05)
        waiting.cancel()
        assert held.valid
    left = await asyncio.to_thread(server.keys, "coterie/")
    assert left == [NAMES.past, QUEUE]


def test_a_program_that_dies_with_no_one_waiting_is_removed_by_the_others(
    server: SeaweedfsServer,
) -> None:
    with Users(server.url(LEASE)) as users, coterie.sync.connect(server.url(LEASE)):
        (user,) = users.start(1)
        user.do("take", "x")
        assert len(server.keys(NAMES.sessions)) == 2
        user.process.send_signal(signal.SIGKILL)
        asyncio.run(until_shown(lambda: len(server.keys(NAMES.sessions)) == 1))


@in_loop
async def test_a_holder_is_told_where_all_objects_are_removed(server: SeaweedfsServer) -> None:
    async with coterie.connect(server.url(LEASE)) as ann:
        held = await taken(ann)
        await asyncio.to_thread(server.empty)
        await held.lost
        with pytest.raises(coterie.LockLost):
            await held.release()
        async with ann.lock("x") as again:
            assert again.token > held.token


@in_loop
async def test_who_may_not_is_told_in_a_line(server: SeaweedfsServer) -> None:
    url = server.url()
    assert "SignatureDoesNotMatch" in await trouble_of(url.replace(":secret@", ":wrong@"))
    assert "InvalidAccessKeyId" in await trouble_of(url.replace("access:", "nobody:"))
    no_bucket = url.replace("/locks", "/missing")
    assert "there is no such bucket; make it first" in await trouble_of(no_bucket)


@in_loop
async def test_keys_may_stand_in_the_environment(
    server: SeaweedfsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS.secret_key)
    async with coterie.connect(f"s3://127.0.0.1:{server.port}/locks/team/a?lease=2.4") as c:
        await until(lambda: bool(c))
    assert await asyncio.to_thread(server.keys, "team/") == ["team/a/past.json"]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The requests so far: what is done with which kind of object."""
    sent: Counter[str] = Counter()
    original = HttpClient.ask

    def ask(self: HttpClient, method: str, target: str, *rest: Any) -> Any:
        path, _, query = target.partition("?")
        sent["list" if query else f"{method} {path.split('/')[3]}"] += 1
        return original(self, method, target, *rest)

    monkeypatch.setattr(HttpClient, "ask", ask)
    # How long a turn takes is not counted here.
    for seconds in ("KNOCK_SECONDS", "KNOCK_LATE_SECONDS", "WANTED_SECONDS"):
        monkeypatch.setattr(desk, seconds, PATIENCE_SECONDS)
    return sent


@in_loop
async def test_what_a_lock_costs(server: SeaweedfsServer, requests: Counter[str]) -> None:
    """In requests, as docs/engines/s3.md says: each is paid for."""
    async with coterie.connect(f"{server.url(30)}&deadlock-detection=off") as c:
        first = ["GET past.json", "PUT s", "PUT s", "PUT s"]  # two of them are refused
        assert not Counter(first) - requests
        await (await taken(c, "fresh-0")).release()
        await until_idle(requests)
        requests.clear()
        for number in range(1, 6):
            await (await taken(c, f"fresh-{number}")).release()
            await until_idle(requests)
        never_used = Counter({"GET q": 10, "PUT q": 10, "GET past.json": 5})
        assert not never_used - requests
        assert (requests - never_used).total() <= 2  # one look for letters, and one renewal cut
        for _ in range(2):
            await (await taken(c, "kept")).release()
        requests.clear()
        for _ in range(50):
            await (await taken(c, "kept")).release()
        assert requests.total() <= 2


@in_loop
async def test_what_a_hold_and_a_wait_cost(server: SeaweedfsServer, requests: Counter[str]) -> None:
    url = f"{server.url(30)}&deadlock-detection=off&witness=off"
    async with coterie.connect(url) as ann, coterie.connect(url) as bob:
        held = await taken(ann)
        await asyncio.sleep(0.5)
        requests.clear()
        await asyncio.sleep(2.2)
        assert requests["GET m"] == requests.total()
        assert requests.total() <= 2
        waiting = asyncio.create_task(taken(bob))
        await asyncio.sleep(0.5)
        requests.clear()
        await asyncio.sleep(2.2)
        assert requests["GET q"] < 15
        assert requests.total() - requests["GET q"] <= 2 + 2 + 1  # letters of both, and the session
        await held.release()
        await (await waiting).release()


async def until_idle(requests: Counter[str]) -> None:
    """Wait until what was released has been given back."""
    before = -1
    while before != requests["PUT q"]:
        before = requests["PUT q"]
        await asyncio.sleep(0.05)


@in_loop
async def test_the_server_says_what_it_is(server: SeaweedfsServer) -> None:
    def made(port: int) -> S3Server:
        return S3Server(parse_server_url(server.url(port=port), port=80))

    (node,) = await made(server.port).nodes()
    assert "SeaweedFS" in node.version
    (node,) = await made(1).nodes()
    assert node.trouble == "Connection refused"
