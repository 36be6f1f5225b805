"""What Redis and Valkey alone can do to a lock."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import redis

import coterie
from coterie.engines.queue.server import Author
from coterie.engines.queue.url import parse_server_url
from coterie.engines.redis import scripts
from coterie.engines.redis.server import RedisServer
from coterie.lab.servers.child import ServerMissing
from coterie.lab.servers.proxy import Proxy
from coterie.lab.servers.valkey import ValkeySupplier, valkey
from tests.cluster.local_cluster import COTERIE, PATIENCE_SECONDS
from tests.engines.conformance.suppliers import leave_out
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AUTHOR = msgspec.msgpack.encode(Author("nobody", "host:1", 0.0))


@contextlib.contextmanager
def server(folder: Path, *options: str) -> Iterator[ValkeySupplier]:
    try:
        with valkey(folder / "server", *options) as made:
            yield made
    except ServerMissing as error:
        leave_out(error)


def locked(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COTERIE, "lock", "--url", url, "x", "--", "true"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def refused(url: str, status: int, says: str) -> None:
    done = locked(url)
    assert (done.returncode, len(done.stderr.splitlines())) == (status, 1), done.stderr
    assert says in done.stderr


@pytest.mark.parametrize("options", [(), ("--appendonly", "yes")])
@in_loop
async def test_a_restart_lets_no_program_in_before_old_leases_are_over(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Not even one with a shorter lease that is the first to come."""
    with server(tmp_path, *options) as made:
        async with coterie.connect(made.url()) as ann, coterie.connect(made.url()) as bob:
            held = await ann.lock("x").acquire()
            assert held is not None
            async with bob.lock("other", lease=0.5):
                pass
            await asyncio.to_thread(made.kill)
            await asyncio.to_thread(made.start)
            async with bob.lock("x", lease=0.5) as other:
                assert not held.valid
                assert other.token > held.token
            with pytest.raises(coterie.LockLost):
                await held.release()


@in_loop
async def test_a_cancelled_wait_keeps_the_line(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        async with coterie.connect(made.url()) as ann, coterie.connect(made.url()) as bob:
            held = await ann.lock("x").acquire()
            assert held is not None
            before = connections(made)
            for turns in range(30):
                task = asyncio.create_task(bob.lock("x").acquire())
                await asyncio.sleep(turns * 0.0003)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await held.release()
            async with bob.lock("x"):
                pass
            assert connections(made) - before == 1  # that of the question


@in_loop
async def test_a_wait_with_nothing_under_way_goes_on_in_the_next_session(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        made.lease = 1.0
        proxy = Proxy(made.port)
        await proxy.start()
        async with (
            coterie.connect(made.url()) as bob,
            coterie.connect(made.url(proxy.port)) as ann,
        ):
            blocking = await bob.lock("x").acquire()
            held = await ann.lock("y").acquire()
            assert blocking is not None
            assert held is not None
            wait = asyncio.create_task(ann.lock("x").acquire())
            while not await bob.waiters("x"):  # noqa: ASYNC110 - of other programs there are no events
                await asyncio.sleep(0.01)
            proxy.stall()
            await held.lost
            proxy.resume()
            await blocking.release()
            assert await wait
        await proxy.stop()


@in_loop
async def test_an_entry_that_no_task_knows_is_removed_by_its_program(tmp_path: Path) -> None:
    """Such as one of a join that was carried out after its sender had given it up."""
    with server(tmp_path) as made:
        made.lease = 1.0
        client = redis.Redis(port=made.port)
        async with coterie.connect(made.url()) as ann, coterie.connect(made.url()) as bob:
            async with ann.lock("y"):
                (session,) = {line[0][0].split(b".")[1].decode() for line in lines(client, "y")}
            words = (session, 1, "x", f"x.{session}.999", AUTHOR, "", "")
            client.eval(scripts.JOIN.text, 0, *words)
            assert lines(client, "x")
            async with bob.lock("x"):
                pass


@in_loop
async def test_two_that_renew_one_session_are_noticed(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        made.lease = 1.0
        client = redis.Redis(port=made.port)
        async with coterie.connect(made.url()) as ann:
            held = await ann.lock("x").acquire()
            assert held is not None
            ((member, *_),) = lines(client, "x")[0]
            for _ in range(2):
                client.eval(scripts.RENEW.text, 0, member.split(b".")[1], 1)
            await held.lost
            with pytest.raises(coterie.LockLost, match="a copy of this one"):
                await held.release()


def lines(client: redis.Redis, lock: str) -> list[Any]:
    """Return the queue of a lock, in a list; nothing if there is none."""
    return [line for _, line in client.eval(scripts.LINES.text, 0, lock)]


def connections(made: ValkeySupplier) -> int:
    (line,) = [
        line
        for line in made.say("INFO stats").splitlines()
        if line.startswith("total_connections_received:")
    ]
    return int(line.partition(":")[2])


def test_a_server_that_cannot_keep_locks_is_refused(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        made.say("CONFIG SET maxmemory 100mb", "CONFIG SET maxmemory-policy allkeys-lru")
        refused(made.url(), 78, "may evict locks")
        made.say("CONFIG SET maxmemory 0")
        made.say("REPLICAOF 127.0.0.1 1")
        refused(made.url(), 78, "it is a replica")
        made.say("REPLICAOF NO ONE")
        assert locked(made.url()).returncode == 0


@pytest.mark.parametrize(
    ("trouble", "mended", "says"),
    [
        ("min-replicas-to-write 1", "min-replicas-to-write 0", "Not enough good replicas"),
        ("maxmemory 1", "maxmemory 0", "used memory"),
    ],
)
@in_loop
async def test_a_trouble_that_passes_is_waited_for(
    tmp_path: Path, trouble: str, mended: str, says: str
) -> None:
    with server(tmp_path) as made:
        async with coterie.connect(made.url()) as c:
            made.say(f"CONFIG SET {trouble}")
            task = asyncio.create_task(c.lock("x").acquire())
            with pytest.raises(coterie.Unavailable, match=says):
                await c.lock("y").acquire(timeout=0.1)
            made.say(f"CONFIG SET {mended}")
            assert await task


@in_loop
async def test_a_disk_that_takes_no_snapshot_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    with server(tmp_path, "--save", "3600 1", "--dir", str(folder)) as made:
        async with coterie.connect(made.url()) as c:
            folder.rmdir()
            while "rdb_last_bgsave_status:err" not in made.say("INFO persistence"):
                made.say("BGSAVE")
            assert "MISCONF" in made.say("SET other 1")
            task = asyncio.create_task(c.lock("x").acquire())
            with pytest.raises(coterie.Unavailable):
                await c.lock("y").acquire(timeout=0.2)
            made.say("CONFIG SET stop-writes-on-bgsave-error no")
            assert await task


@in_loop
async def test_a_script_of_others_that_takes_long_is_waited_for(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        made.say("CONFIG SET lua-time-limit 1")
        client = redis.Redis(port=made.port)
        async with coterie.connect(made.url()) as c:
            other = asyncio.create_task(asyncio.to_thread(never_ends, client))
            while "BUSY" not in made.say("PING"):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
            task = asyncio.create_task(c.lock("x").acquire())
            try:
                with pytest.raises(coterie.Unavailable, match="busy running a script"):
                    await c.lock("y").acquire(timeout=0.2)
            finally:
                made.say("SCRIPT KILL")
            await other
            assert await task


def never_ends(client: redis.Redis) -> None:
    with contextlib.suppress(redis.ResponseError):
        client.eval("while true do end", 0)


@in_loop
async def test_a_server_whose_memory_is_full_ends_no_hold(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        made.lease = 0.6
        async with coterie.connect(made.url()) as ann, coterie.connect(made.url()) as bob:
            held = await ann.lock("x").acquire()
            assert held is not None
            task = asyncio.create_task(bob.lock("x").acquire())
            while not await ann.waiters("x"):  # noqa: ASYNC110 - of other programs there are no events
                await asyncio.sleep(0.01)
            made.say("CONFIG SET maxmemory 1")
            until = held.expires_at + 2 * made.lease
            while held.valid and held.expires_at < until:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
            assert held.valid
            await held.release()
            assert await task


@pytest.mark.parametrize(
    "said",
    [
        "BUSY Redis is busy running a script.",
        "ERR Error running script (call to f_0): @user_script:12: @user_script: 12: -OOM command not allowed",
        "ERR Error running script (call to f_0): @user_script:12: @user_script: 12: -READONLY You can't write",
    ],
)
def test_troubles_that_pass_are_known_by_what_versions_before_7_say(said: str) -> None:
    url = parse_server_url("redis://one", port=6379)
    assert isinstance(RedisServer(url).error(redis.ResponseError(said)), coterie.Unavailable)


def test_a_password_that_is_wrong_is_said(tmp_path: Path) -> None:
    with server(tmp_path, "--requirepass", "word") as made:
        refused(made.url(), 78, "refused")
        refused(made.url().replace("://", "://:wrong@"), 78, "refused")
        assert locked(made.url().replace("://", "://:word@")).returncode == 0


@in_loop
async def test_a_server_that_is_too_old_or_no_server_of_this_kind_is_refused() -> None:
    old = b"redis_version:5.0.9\r\nrun_id:abc\r\n"
    answers = {
        b"$%d\r\n%s\r\n" % (len(old), old): coterie.ConfigError,
        b"HTTP/1.1 400 Bad Request\r\n\r\n": coterie.CoterieError,
    }
    for answer, kind in answers.items():

        async def reply(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes = answer
        ) -> None:
            with contextlib.suppress(OSError):
                while data := await reader.read(4096):
                    for _ in range(data.count(b"*")):
                        writer.write(answer if b"INFO" in data else b"+OK\r\n")
            writer.close()

        listening = await asyncio.start_server(reply, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        async with listening:
            with pytest.raises(kind):
                await coterie.connect(f"redis://127.0.0.1:{port}").open()


@in_loop
async def test_a_value_from_before_a_restart_is_doubtful_until_it_is_written_again(
    tmp_path: Path,
) -> None:
    with server(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as made:
        async with coterie.connect(made.url()) as c, c.lock("x") as held:
            await held.write(b"1")
        made.kill()
        made.start()
        async with coterie.connect(made.url()) as c, c.lock("x") as held:
            found = await held.read()
            assert found is not None
            assert (found.data, found.doubtful) == (b"1", True)
            await held.write(b"2")
            found = await c.read("x")
            assert found is not None
            assert (found.data, found.doubtful) == (b"2", False)


@in_loop
async def test_a_value_that_was_deleted_leaves_no_key(tmp_path: Path) -> None:
    with server(tmp_path) as made:
        async with coterie.connect(made.url()) as c, c.lock("x") as held:
            await held.write(b"1")
            keys = made.say("keys *:v:*")
            assert "{coterie}:2:v:x" in keys
            await held.delete()
            assert made.say("keys *:v:*").startswith("*0")
