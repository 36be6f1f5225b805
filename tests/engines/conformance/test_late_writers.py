"""A write of a hold that is over is refused by the server itself: of a program that is stopped, killed, or cut off."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import asyncpg
import pymysql
import pytest
from kazoo.client import KazooClient

import coterie
from coterie.lab.servers.supplier import LEASED, VALUES
from tests.engines.conformance.test_broken_links import before
from tests.engines.conformance.test_conformance import need, programs, taken
from tests.engines.conformance.test_values import data_of
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from coterie.lab.servers.supplier import Supplier
    from tests.engines.conformance.users import Users

LOOKS = 20  # for a write that has arrived by then


async def stays(c: coterie.Coordinator, name: str, data: bytes) -> bool:
    """Return True if nothing is written in the time in which a request that has arrived is carried out."""
    for _ in range(LOOKS):
        if data_of(await c.read(name)) != data:
            return False
        await asyncio.sleep(0.01)
    return True


@in_loop
async def test_a_write_that_arrives_late_does_nothing(supplier: Supplier, name: str) -> None:
    """Also if the next holder has only read."""
    need(supplier, VALUES)
    async with (
        before(supplier) as proxy,
        coterie.connect(supplier.url(proxy.port)) as cut_off,
        coterie.connect(supplier.url()) as c,
    ):
        held = await taken(cut_off, name)
        await held.write(b"1")
        proxy.hold_back()
        proxy.refuses = True  # or the session would go on over another connection
        writing = asyncio.create_task(held.write(b"late"))
        async with c.lock(name) as own:
            assert data_of(await own.read()) == b"1"
            proxy.deliver()
            with pytest.raises((coterie.LockLost, coterie.Unavailable)):
                await writing
            assert await stays(c, name, b"1")
            await own.write(b"2")
        assert await stays(c, name, b"2")


@in_loop
async def test_a_program_that_was_stopped_as_it_wrote_is_refused(
    supplier: Supplier, users: Users, name: str
) -> None:
    """It goes on with the very request, before it looks whether it holds the lock."""
    need(supplier, VALUES)
    need(supplier, LEASED)
    (user,) = await asyncio.to_thread(users.start, 1)
    async with programs(supplier, 1) as (c,):
        await asyncio.to_thread(user.do, "take", name)
        await asyncio.to_thread(user.do, "write", name, "1")
        user.tell("stop", name, "late")
        async with c.lock(name) as own:
            assert data_of(await own.read()) == b"1"
            user.process.send_signal(signal.SIGCONT)
            assert await asyncio.to_thread(user.hear) == {"written": False}
            assert await stays(c, name, b"1")


@in_loop
async def test_what_a_killed_program_was_about_to_write_is_there_or_never(
    supplier: Supplier, users: Users, name: str
) -> None:
    need(supplier, VALUES)
    (user,) = await asyncio.to_thread(users.start, 1)
    async with programs(supplier, 1) as (c,):
        await asyncio.to_thread(user.do, "take", name)
        await asyncio.to_thread(user.do, "write", name, "0")
        user.tell("count", name)
        for _ in range(3):
            await asyncio.to_thread(user.hear)
        user.process.kill()
        async with c.lock(name) as own:
            found = data_of(await own.read())
            assert found is not None
            assert await stays(c, name, found)
        told = user.process.communicate()[0].splitlines()
        last = json.loads(told[-1])["written"] if told else 3
        assert int(found) in (last, last + 1)


def by_etcd(supplier: Any, name: str) -> None:
    key = f"coterie/q/{name}:".encode()
    end = key[:-1] + bytes([key[-1] + 1])
    body = {
        part: base64.b64encode(each).decode() for part, each in (("key", key), ("range_end", end))
    }
    assert supplier.call(0, "kv/deleterange", body)["deleted"] == "1"


def by_valkey(supplier: Any, name: str) -> None:
    assert supplier.say(f"zremrangebyrank {{coterie}}:2:q:{name} 0 -1") == ":1\r\n"


def by_zookeeper(supplier: Any, name: str) -> None:
    client = KazooClient(f"127.0.0.1:{supplier.port}")
    client.start()
    (entry,) = client.get_children(f"/coterie/q/{name}")
    client.delete(f"/coterie/q/{name}/{entry}")
    client.stop()
    client.close()


def by_postgresql(supplier: Any, name: str) -> None:
    async def remove() -> None:
        connection = await asyncpg.connect(supplier.url().partition("?")[0])
        done = await connection.execute("delete from coterie.line where lock = $1", name)
        assert done == "DELETE 1"
        await connection.close()

    asyncio.run(remove())


def by_mariadb(supplier: Any, name: str) -> None:
    url = urlsplit(supplier.url())
    connection = pymysql.connect(
        host=url.hostname,
        port=url.port,
        user=url.username,
        password=unquote(url.password or ""),
        database=url.path[1:] or "coterie",
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        assert cursor.execute("delete from coterie_entry where lock_name = %s", [name]) == 1


REMOVE = {
    "etcd": by_etcd,
    "valkey": by_valkey,
    "zookeeper": by_zookeeper,
    "postgresql": by_postgresql,
    "mariadb": by_mariadb,
}


@in_loop
async def test_a_write_needs_the_entry_of_its_hold(supplier: Supplier, name: str) -> None:
    """It is refused also while the session lives, and nothing but the server knows of it."""
    if supplier.name not in REMOVE:
        pytest.skip(f"{supplier.name}: has no entries, or the same as another one")
    async with programs(supplier, 2) as (ann, bob):
        held = await taken(ann, name)
        await held.write(b"1")
        await asyncio.to_thread(REMOVE[supplier.name], supplier, name)
        for call in (held.write(b"2"), held.delete()):
            with pytest.raises(coterie.LockLost, match="refuses to write its value"):
                await call
        assert data_of(await bob.read(name)) == b"1"
        await held.release()
