"""What values promise on every engine that keeps them, on a real server of each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import coterie
import coterie.sync
from coterie.lab.servers.supplier import FAILS_OVER, RESTARTS, VALUES
from coterie.locks.internals import engine_of
from coterie.locks.value import DATA_BYTES_MAX, ValueEngine
from tests.engines.conformance.test_conformance import need, programs
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from coterie import Value
    from coterie.lab.servers.supplier import Supplier


def data_of(value: Value | None) -> bytes | None:
    return None if value is None else value.data


@in_loop
async def test_the_next_holder_reads_what_was_written(supplier: Supplier, name: str) -> None:
    need(supplier, VALUES)
    async with programs(supplier, 2) as (ann, bob):
        async with ann.lock(name) as held:
            assert await held.read() is None
            await held.write(b"row 1")
            await held.write(b"row 2")
            written = await held.read()
            assert written is not None
            assert written.version == (held.token, 2)
        async with bob.lock(name) as held:
            found = await held.read()
            assert found is not None
            assert (found.data, found.version) == (b"row 2", written.version)
            assert found.by.rpartition(":")[2].isdigit()
            assert abs(found.written - written.written) < 1e-3
            assert not found.doubtful
            await held.write(b"row 3")
        for c in (ann, bob):
            assert data_of(await c.read(name)) == b"row 3"


@in_loop
async def test_a_program_that_takes_its_lock_again_writes_on(supplier: Supplier, name: str) -> None:
    need(supplier, VALUES)
    async with programs(supplier, 1) as (c,):
        for number in range(20):
            async with c.lock(name) as held:
                assert data_of(await held.read()) == (b"%d" % (number - 1) if number else None)
                await held.write(b"%d" % number)


@in_loop
async def test_a_value_is_empty_or_large_and_holds_any_bytes(supplier: Supplier, name: str) -> None:
    need(supplier, VALUES)
    async with programs(supplier, 2) as (ann, bob):
        for data in (b"", bytes(range(256)) * 256, b"\0\xff\n'\"", b"end"):
            assert len(data) <= DATA_BYTES_MAX
            async with ann.lock(name) as held:
                await held.write(data)
            async with bob.lock(name) as held:
                assert data_of(await held.read()) == data


@in_loop
async def test_a_value_that_was_deleted_is_gone_and_can_be_written_again(
    supplier: Supplier, name: str
) -> None:
    need(supplier, VALUES)
    async with programs(supplier, 2) as (ann, bob):
        async with ann.lock(name) as held:
            await held.delete()
            await held.write(b"1")
            await held.delete()
        assert await bob.read(name) is None
        async with bob.lock(name) as held:
            assert await held.read() is None
            await held.write(b"2")
        assert data_of(await ann.read(name)) == b"2"


@in_loop
async def test_names_are_apart(supplier: Supplier, name: str) -> None:
    need(supplier, VALUES)
    kin = ["", ":", ":v", "%3A", "/x", " &", "*", "{1}", "\u00fc", "=", "."]
    async with programs(supplier, 2) as (ann, bob):
        for end in kin:
            async with ann.lock(name + end) as held:
                await held.write(end.encode())
        for end in kin:
            assert data_of(await bob.read(name + end)) == end.encode()
        engine = engine_of(bob)
        assert isinstance(engine, ValueEngine)
        everything = await engine.all_values()
        assert {name + end for end in kin} <= set(everything)
        assert data_of(everything[name + "\u00fc"]) == "\u00fc".encode()


@in_loop
async def test_those_that_share_read_and_do_not_write(supplier: Supplier, name: str) -> None:
    need(supplier, VALUES)
    async with programs(supplier, 2) as (ann, bob):
        async with ann.lock(name) as held:
            await held.write(b"1")
        async with ann.lock(name, shared=True) as one, bob.lock(name, shared=True) as other:
            for held in (one, other):
                assert data_of(await held.read()) == b"1"
                with pytest.raises(coterie.UsageError, match="only who has it alone writes"):
                    await held.write(b"2")


@in_loop
async def test_who_watches_sees_the_present_one_and_each_that_stays(
    supplier: Supplier, name: str
) -> None:
    need(supplier, VALUES)
    async with programs(supplier, 2) as (ann, bob):
        changes = bob.watch(name)
        assert await anext(changes) is None
        async with ann.lock(name) as held:
            for data in (b"1", b"2"):
                await held.write(data)
                assert data_of(await anext(changes)) == data
            await held.delete()
            assert await anext(changes) is None
        await changes.aclose()


def test_threads_do_the_same(supplier: Supplier, name: str) -> None:
    need(supplier, VALUES)
    with coterie.sync.connect(supplier.url()) as c:
        changes = c.watch(name)
        assert next(changes) is None
        with c.lock(name) as held:
            assert held.read() is None
            held.write(b"1")
            assert data_of(held.read()) == b"1"
            assert data_of(next(changes)) == b"1"
            assert data_of(c.read(name)) == b"1"
            held.delete()
            assert held.read() is None


@in_loop
async def test_writers_and_readers_at_once_never_go_back(supplier: Supplier, name: str) -> None:
    need(supplier, VALUES)
    stop = asyncio.Event()

    async def read(c: coterie.Coordinator) -> int:
        seen, looks = (0, 0), 0
        while not stop.is_set():
            value = await c.read(name)
            if value is not None:
                assert value.version >= seen
                assert value.data.startswith(b"%d-" % value.version.token)
                seen, looks = value.version, looks + 1
            await asyncio.sleep(0)
        return looks

    async def write(c: coterie.Coordinator) -> None:
        for _ in range(10):
            async with c.lock(name) as held:
                before = await held.read()
                assert before is None or before.version < (held.token, 1)
                for number in range(3):
                    await held.write(b"%d-%d" % (held.token, number) + bytes(number * 5000))

    async with programs(supplier, 3) as (ann, bob, eve):
        reading = asyncio.create_task(read(eve))
        await asyncio.gather(write(ann), write(bob))
        stop.set()
        assert await reading > 0


@in_loop
async def test_what_was_acknowledged_survives_a_crash_of_the_server(
    supplier: Supplier, name: str
) -> None:
    need(supplier, VALUES)
    if supplier.name == "valkey" or not {RESTARTS, FAILS_OVER} & supplier.can:
        pytest.skip(f"{supplier.name}: has no disk, or no server")
    async with programs(supplier, 1) as (c,), c.lock(name) as held:
        await held.write(b"1")
        await held.write(b"2")
    supplier.kill()
    supplier.start()
    async with programs(supplier, 1) as (c,), c.lock(name) as held:
        found = await held.read()
        assert found is not None
        assert (found.data, found.doubtful) == (b"2", False)


@in_loop
async def test_an_engine_that_keeps_none_says_so(supplier: Supplier, name: str) -> None:
    if VALUES in supplier.can:
        pytest.skip(f"{supplier.name} keeps values")
    async with programs(supplier, 1) as (c,), c.lock(name) as held:
        for call in (held.read(), held.write(b""), held.delete(), c.read(name)):
            with pytest.raises(coterie.UsageError, match="keeps no values"):
                await call
