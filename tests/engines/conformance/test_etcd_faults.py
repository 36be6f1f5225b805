"""What etcd alone can do to a lock."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import subprocess
import urllib.error
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.engines.etcd.channel import EtcdChannel
from coterie.engines.etcd.messages import KeyChange
from coterie.engines.etcd.watches import GONE_MAX, EntryWatch, KeyWait
from coterie.engines.queue import desk
from coterie.engines.queue.desk import TIMES_MAX
from coterie.lab.servers.child import ServerMissing, wait_for
from coterie.lab.servers.etcd import EtcdSupplier, etcd
from coterie.lab.servers.proxy import Proxy
from tests.cluster.local_cluster import COTERIE, PATIENCE_SECONDS
from tests.engines.conformance.suppliers import ENGINES, leave_out
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path


LEASES = 2  # for which a holder has to keep its lock


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdSupplier]:
    """Run one member."""
    try:
        with etcd(tmp_path_factory.mktemp("etcd") / "server") as made:
            yield made
    except ServerMissing as error:
        leave_out(error)


def entries(server: EtcdSupplier, lock: str) -> int:
    """Count the entries of a queue."""
    key, end = (
        base64.b64encode(f"coterie/q/{lock}{mark}".encode()).decode() for mark in (":", ";")
    )
    found = server.call(0, "kv/range", {"key": key, "range_end": end, "count_only": True})
    return int(str(found.get("count", 0)))


async def hold(c: coterie.Coordinator, name: str) -> int:
    async with c.lock(name) as held:
        return held.token


@in_loop
async def test_requests_for_each_hand_off_are_few_whatever_number_waits(
    server: EtcdSupplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No herd: an entry that goes wakes the one behind it."""
    count, call = 0, EtcdChannel.call

    async def counting(self: EtcdChannel, method: str, request: bytes, limit: float) -> bytes:
        nonlocal count
        count += 1
        return await call(self, method, request, limit)

    monkeypatch.setattr(EtcdChannel, "call", counting)
    # A turn may take long on a busy machine, and the next in line would knock.
    monkeypatch.setattr(desk, "KNOCK_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(desk, "KNOCK_LATE_SECONDS", PATIENCE_SECONDS)
    costs, url = [], server.url().replace("lease=2", "lease=20")
    for waiters in (5, 60):
        async with contextlib.AsyncExitStack() as stack:
            first, *others = [
                await stack.enter_async_context(coterie.connect(url)) for _ in range(waiters + 1)
            ]
            held = await first.lock("crowd").acquire()
            assert held is not None
            tasks = [asyncio.create_task(hold(c, "crowd")) for c in others]
            while await asyncio.to_thread(entries, server, "crowd") <= waiters:  # noqa: ASYNC110 - no events
                await asyncio.sleep(0.05)
            before = -1
            while (
                before != count
            ):  # each looks who is before it, and by which processes that is known
                before = count
                await asyncio.sleep(0.2)
            await held.release()
            assert len(set(await asyncio.gather(*tasks))) == waiters
            costs.append((count - before) / waiters)
    assert costs[1] <= costs[0] + 1, costs


@in_loop
async def test_a_line_that_takes_turns_needs_no_more_than_its_writes(
    server: EtcdSupplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry is left and joined again in one write, and its end is heard of by the watch of before."""
    sent, call = Counter[str](), EtcdChannel.call

    async def counting(self: EtcdChannel, method: str, request: bytes, limit: float) -> bytes:
        sent[method] += 1
        return await call(self, method, request, limit)

    monkeypatch.setattr(EtcdChannel, "call", counting)
    # A turn may take long on a busy machine, and the next in line would knock.
    monkeypatch.setattr(desk, "KNOCK_LATE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(desk, "WANTED_SECONDS", PATIENCE_SECONDS)
    url, rounds = server.url().replace("lease=2", "lease=20"), 20

    async def turns(c: coterie.Coordinator) -> None:
        for _ in range(rounds):
            await hold(c, "turns")

    async with contextlib.AsyncExitStack() as stack:
        line = [await stack.enter_async_context(coterie.connect(url)) for _ in range(4)]
        await asyncio.gather(*map(turns, line))
        sent.clear()
        await asyncio.gather(*map(turns, line))
    holds = rounds * len(line)
    assert sent["KV/Txn"] <= holds + len(line), sent
    # There are reads at the beginning and the end, where the line is not complete.
    assert sent.total() - sent["KV/Txn"] < holds / 2, sent


@in_loop
async def test_the_end_of_an_entry_that_only_waited_lets_none_in(server: EtcdSupplier) -> None:
    async with contextlib.AsyncExitStack() as stack:
        ann, bob, eve = [
            await stack.enter_async_context(coterie.connect(server.url())) for _ in range(3)
        ]
        held = await ann.lock("given-up").acquire()
        assert held is not None
        waits = []
        for place, c in enumerate((bob, eve), 2):
            waits.append(asyncio.create_task(hold(c, "given-up")))
            while await asyncio.to_thread(entries, server, "given-up") < place:  # noqa: ASYNC110 - no events
                await asyncio.sleep(0.01)
        waits[0].cancel()
        while await asyncio.to_thread(entries, server, "given-up") > 2:  # noqa: ASYNC110 - no events
            await asyncio.sleep(0.01)
        await asyncio.wait([waits[1]], timeout=0.1)
        assert not waits[1].done()
        await held.release()
        assert await waits[1] > held.token


@in_loop
async def test_one_of_several_sharers_that_shares_again_lets_no_writer_in(
    server: EtcdSupplier,
) -> None:
    """It was inside, as one that passes a lock on is; but so are the others."""
    async with contextlib.AsyncExitStack() as stack:
        ann, bob, eve = [
            await stack.enter_async_context(coterie.connect(server.url())) for _ in range(3)
        ]
        first = await ann.lock("shares", shared=True).acquire()
        second = await bob.lock("shares", shared=True).acquire()
        assert first is not None
        assert second is not None
        writing = asyncio.create_task(hold(eve, "shares"))
        while await asyncio.to_thread(entries, server, "shares") < 3:  # noqa: ASYNC110 - no events
            await asyncio.sleep(0.01)
        await asyncio.sleep(
            0.1
        )  # bob has heard that the lock is wanted, so it leaves and joins at once
        await second.release()
        again = asyncio.create_task(bob.lock("shares", shared=True).acquire())
        await asyncio.wait([writing], timeout=0.2)
        assert not writing.done()
        await first.release()
        assert await writing > first.token
        third = await again
        assert third is not None
        await third.release()


def test_an_end_that_a_watch_has_forgotten_is_looked_for() -> None:
    """A watch remembers few ends; for a key that was there before the last forgotten one it knows nothing."""

    async def forgotten() -> list[tuple[float, bool]]:
        entries = EntryWatch(2, b"q:x.1.")
        entries.start(5)
        found = []
        for revision in range(6, 6 + GONE_MAX + 1):
            entries.hear([KeyChange(True, b"q:x.1.%d" % revision, b"", revision)])
            wait = KeyWait(entries, b"q:x.1.6")
            found.append((await wait.since(), wait.ended.done()))
            wait.give_up()
        return found

    assert asyncio.run(forgotten()) == [(5, True)] * GONE_MAX + [(6, False)]


@in_loop
async def test_a_compacted_history_disturbs_no_wait(server: EtcdSupplier) -> None:
    async with coterie.connect(server.url()) as ann, coterie.connect(server.url()) as bob:
        held = await ann.lock("compact").acquire()
        assert held is not None
        task = asyncio.create_task(hold(bob, "compact"))
        while not await ann.waiters("compact"):  # noqa: ASYNC110 - no events
            await asyncio.sleep(0.01)
        state = await asyncio.to_thread(server.call, 0, "maintenance/status", {})
        header = state["header"]
        assert isinstance(header, dict)
        await asyncio.to_thread(
            server.call, 0, "kv/compaction", {"revision": header["revision"], "physical": True}
        )
        await held.release()
        assert await task > held.token


@in_loop
async def test_a_lease_of_etcd_that_is_revoked_ends_no_hold(server: EtcdSupplier) -> None:
    """Before etcd 3.5.13 a leader that was stopped revokes all leases when it goes on."""
    async with coterie.connect(server.url()) as ann, coterie.connect(server.url()) as bob:
        held = await ann.lock("revoked").acquire()
        assert held is not None
        task = asyncio.create_task(hold(bob, "revoked"))
        while await asyncio.to_thread(entries, server, "revoked") < 2:  # noqa: ASYNC110 - no events
            await asyncio.sleep(0.01)
        for _ in range(LEASES):
            ends = held.expires_at
            while held.valid and held.expires_at < ends + server.lease:
                await revoke_all(server)
                await asyncio.sleep(0.05)
                assert not (task.done() and held.valid)
        assert held.valid
        await held.release()
        assert await task > held.token


@in_loop
async def test_no_one_is_let_in_while_a_holder_that_is_cut_off_believes_in_its_hold(
    server: EtcdSupplier,
) -> None:
    """etcd has ended its lease, and the one that waits counts all the same."""
    proxy = Proxy(server.port)
    await proxy.start()
    try:
        async with (
            coterie.connect(server.url()) as bob,
            coterie.connect(server.url(proxy.port)) as ann,
        ):
            held = await ann.lock("cut-off").acquire()
            assert held is not None
            task = asyncio.create_task(hold(bob, "cut-off"))
            while await asyncio.to_thread(entries, server, "cut-off") < 2:  # noqa: ASYNC110 - no events
                await asyncio.sleep(0.01)
            proxy.stall()
            await revoke_all(server)
            while held.valid:
                assert not task.done()
                await asyncio.sleep(0.005)
            proxy.resume()
            assert await task > held.token
    finally:
        await proxy.stop()


@in_loop
async def test_programs_that_hold_and_wait_write_nothing(
    server: EtcdSupplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So an etcd that is never compacted does not fill while programs wait to lead."""
    monkeypatch.setattr(desk, "KNOCK_SECONDS", PATIENCE_SECONDS)
    async with coterie.connect(server.url()) as ann, coterie.connect(server.url()) as bob:
        held = await ann.lock("quiet").acquire()
        assert held is not None
        task = asyncio.create_task(hold(bob, "quiet"))
        while not await ann.waiters("quiet"):  # noqa: ASYNC110 - no events
            await asyncio.sleep(0.01)
        before = await revision(server)
        ends = held.expires_at
        while held.expires_at < ends + server.lease:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        assert await revision(server) == before
        await held.release()
        assert await task > held.token


@in_loop
async def test_an_entry_of_an_earlier_build_is_in_the_way_until_etcd_ends_it(
    server: EtcdSupplier,
) -> None:
    """Its program renews a lease of etcd, and answers no challenge."""
    granted = await asyncio.to_thread(server.call, 0, "lease/grant", {"TTL": 60})
    number = int(str(granted["ID"]))
    key = base64.b64encode(b"coterie/q/earlier:x.%x.1" % number).decode()
    await asyncio.to_thread(server.call, 0, "kv/put", {"key": key, "value": "", "lease": number})
    async with coterie.connect(server.url()) as bob:
        assert await bob.lock("earlier").acquire(timeout=2 * server.lease) is None
        task = asyncio.create_task(hold(bob, "earlier"))
        while await asyncio.to_thread(entries, server, "earlier") < 2:  # noqa: ASYNC110 - no events
            await asyncio.sleep(0.01)
        await asyncio.to_thread(server.call, 0, "lease/revoke", {"ID": number})
        await task


async def revision(server: EtcdSupplier) -> int:
    state = await asyncio.to_thread(server.call, 0, "maintenance/status", {})
    header = state["header"]
    assert isinstance(header, dict)
    return int(header["revision"])


async def revoke_all(server: EtcdSupplier) -> None:
    found = await asyncio.to_thread(server.call, 0, "lease/leases", {})
    leases = found.get("leases", [])
    assert isinstance(leases, list)
    for lease in leases:
        with contextlib.suppress(urllib.error.HTTPError):  # it has ended meanwhile
            await asyncio.to_thread(server.call, 0, "lease/revoke", {"ID": lease["ID"]})


@in_loop
async def test_a_program_whose_entry_was_removed_is_not_let_in(server: EtcdSupplier) -> None:
    async with coterie.connect(server.url()) as ann, coterie.connect(server.url()) as bob:
        held = await ann.lock("removed").acquire()
        assert held is not None
        task = asyncio.create_task(hold(bob, "removed"))
        while await asyncio.to_thread(entries, server, "removed") < 2:  # noqa: ASYNC110 - no events
            await asyncio.sleep(0.01)
        key, end = (base64.b64encode(f"coterie/q/removed{m}".encode()).decode() for m in ":;")
        found = await asyncio.to_thread(
            server.call,
            0,
            "kv/range",
            {"key": key, "range_end": end, "sort_order": "DESCEND", "sort_target": "CREATE"},
        )
        kvs = found["kvs"]
        assert isinstance(kvs, list)
        await asyncio.to_thread(server.call, 0, "kv/deleterange", {"key": kvs[0]["key"]})
        await held.release()
        assert await task > int(kvs[0]["create_revision"]) * TIMES_MAX + TIMES_MAX


@in_loop
async def test_a_join_that_is_carried_out_after_it_was_made_again_and_left_leaves_no_entry(
    server: EtcdSupplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[Callable[[], Awaitable[bytes]]] = []
    call = EtcdChannel.call

    async def delaying(self: EtcdChannel, method: str, request: bytes, limit: float) -> bytes:
        if method == "KV/Txn" and not late:
            late.append(partial(call, self, method, request, limit))
            raise coterie.Unavailable("no answer in time")
        return await call(self, method, request, limit)

    async with coterie.connect(server.url()) as ann:
        monkeypatch.setattr(EtcdChannel, "call", delaying)
        await hold(ann, "late-again")
        while await asyncio.to_thread(entries, server, "late-again"):  # noqa: ASYNC110 - no events
            await asyncio.sleep(0.01)
        await late[0]()
        assert await asyncio.to_thread(entries, server, "late-again") == 0


@in_loop
async def test_a_request_that_comes_late_leaves_no_entry(server: EtcdSupplier) -> None:
    """A join that was given up and left must not be carried out when its bytes arrive after all."""
    proxy = Proxy(server.port)
    await proxy.start()
    try:
        async with (
            coterie.connect(server.url()) as bob,
            coterie.connect(server.url(proxy.port)) as ann,
        ):
            proxy.hold_back()
            with pytest.raises(coterie.AcquireTimeout):
                await hold_in_time(ann, "late")
            proxy.replace()
            async with ann.lock("other"):  # over another connection
                pass
            while proxy.late == 0:
                proxy.deliver()
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            async with bob.lock("late", timeout=PATIENCE_SECONDS):
                pass
            assert await ann.lock("late").acquire(timeout=0) is not None
    finally:
        await proxy.stop()


@in_loop
async def test_a_server_that_is_full_ends_no_hold_and_is_the_reason_of_a_wait(
    tmp_path: Path,
) -> None:
    quota = ("--quota-backend-bytes", "1000000")
    try:
        made = EtcdSupplier("etcd", tmp_path / "server", 1, *quota)
    except ServerMissing as error:
        leave_out(error)
    try:
        await asyncio.to_thread(made.start)
        async with coterie.connect(made.url()) as ann, coterie.connect(made.url()) as bob:
            held = await ann.lock("x").acquire()
            assert held is not None
            task = asyncio.create_task(hold(bob, "x"))
            while not await ann.waiters("x"):  # noqa: ASYNC110 - no events
                await asyncio.sleep(0.01)
            await revoke_all(made)  # so that the holder is challenged, and has to answer
            with pytest.raises(urllib.error.HTTPError):
                await asyncio.to_thread(fill, made)
            with pytest.raises(coterie.Unavailable, match="database space exceeded"):
                await ann.lock("y").acquire(timeout=0.2)
            before = held.expires_at
            while held.valid and held.expires_at < before + made.lease:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
            assert held.valid
            await held.release()
            assert await task > held.token
    finally:
        made.end()


def fill(server: EtcdSupplier) -> None:
    """Write until the server takes no more."""
    value = base64.b64encode(bytes(100_000)).decode()
    for number in itertools.count():
        key = base64.b64encode(f"other/{number}".encode()).decode()
        server.call(0, "kv/put", {"key": key, "value": value})


async def hold_in_time(c: coterie.Coordinator, name: str) -> None:
    async with c.lock(name, timeout=0.1):
        pass


# Users


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdSupplier]:
    """Run a member that knows users, whose tokens expire soon."""
    try:
        made = EtcdSupplier(
            "etcd", tmp_path_factory.mktemp("guarded") / "server", 1, "--auth-token-ttl", "1"
        )
    except ServerMissing as error:
        leave_out(error)
    try:
        made.start()
        run = [str(ENGINES / "bin" / "etcdctl"), "--endpoints", f"127.0.0.1:{made.port}"]
        for words in (
            "user add root:secret",
            "user grant-role root root",
            "user add ann:word",
            "role add locks",
            "role grant-permission locks --prefix=true readwrite coterie/",
            "user grant-role ann locks",
            "user add eve:word",
            "auth enable",
        ):
            subprocess.run([*run, *words.split()], check=True, capture_output=True)
        yield made
    finally:
        made.end()


def as_user(server: EtcdSupplier, user: str) -> str:
    return server.url().replace("://", f"://{user}@")


@in_loop
async def test_a_user_with_rights_to_our_keys_has_locks_beyond_its_token(
    guarded: EtcdSupplier,
) -> None:
    url = as_user(guarded, "ann:word")
    async with coterie.connect(url) as ann, coterie.connect(url) as bob:
        held = await ann.lock("x").acquire()
        assert held is not None
        await asyncio.sleep(3)  # tokens have expired
        task = asyncio.create_task(hold(bob, "x"))
        while not await ann.waiters("x"):  # noqa: ASYNC110 - no events
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert held.valid
        await held.release()
        assert await task > held.token


@pytest.mark.parametrize(
    ("user", "says"),
    [("", "wants a user"), ("ann:wrong@", "refused"), ("eve:word@", "refused")],
)
def test_a_user_without_rights_is_refused_in_a_line(
    guarded: EtcdSupplier, user: str, says: str
) -> None:
    url = guarded.url().replace("://", f"://{user}")
    done = locked(url)
    assert (done.returncode, len(done.stderr.splitlines())) == (78, 1), done.stderr
    assert says in done.stderr


def locked(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COTERIE, "lock", "--url", url, "x", "--", "true"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


# TLS


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EtcdSupplier, Path]]:
    """Run a member with a certificate of its own."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    made = subprocess.run(
        (
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext"
            f" subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
        ).split(),
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("no openssl")
    options = ("--cert-file", str(certificate), "--key-file", str(key))
    try:
        server = EtcdSupplier("etcd", folder / "server", 1, *options)
    except ServerMissing as error:
        leave_out(error)
    try:
        server.members[0].start()
        url = server.url().replace("etcd:", "etcds:") + f"&ca={certificate}"
        wait_for(lambda: locked(url).returncode == 0, server.members[0].log)
        yield server, certificate
    finally:
        server.end()


def test_locks_come_over_tls(secure: tuple[EtcdSupplier, Path]) -> None:
    server, certificate = secure
    url = server.url().replace("etcd:", "etcds:")
    assert locked(f"{url}&ca={certificate}").returncode == 0
    # a certificate that is not known; no TLS at all
    for wrong, status in ((url, 78), (server.url(), 69)):
        done = locked(wrong)
        assert (done.returncode, len(done.stderr.splitlines())) == (status, 1), done.stderr
