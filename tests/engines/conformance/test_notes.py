"""Notes of holds on every engine: there as long as the hold, for everyone to read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import coterie
import coterie.sync
from tests.engines.conformance.test_conformance import programs, waiting
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from coterie.lab.servers.supplier import Supplier


async def notes(c: coterie.Coordinator, name: str) -> list[str]:
    return sorted(party.note for party in await c.holders(name))


@in_loop
async def test_a_note_is_read_by_others_and_ends_with_its_hold(
    supplier: Supplier, name: str
) -> None:
    async with programs(supplier, 2) as (ann, bob):
        for note in (
            "http://10.0.0.7:8000",
            "",
            "\u00e4 \u4e16 {}",
            "x" * 255,
        ):  # also where the lock is kept
            async with ann.lock(name, note=note):
                assert await notes(bob, name) == [note]
                assert await notes(ann, name) == [note]
        async with bob.lock(name):
            assert await notes(ann, name) == [""]


@in_loop
async def test_one_that_waits_shows_its_note_when_it_holds(supplier: Supplier, name: str) -> None:
    async with programs(supplier, 3) as (ann, bob, eve):
        async with ann.lock(name, note="first"):

            async def follow() -> None:
                async with bob.lock(name, note="second"):
                    assert await notes(eve, name) == ["second"]

            task = asyncio.create_task(follow())
            await waiting(eve, name, 1)
            assert [party.note for party in await eve.waiters(name)] == [""]
            assert await notes(eve, name) == ["first"]
        await task


@in_loop
async def test_each_that_shares_has_its_own(supplier: Supplier, name: str) -> None:
    async with (
        programs(supplier, 2) as (ann, bob),
        ann.lock(name, shared=True, note="a1"),
        bob.lock(name, shared=True, note="b"),
    ):

        async def share() -> None:
            async with ann.lock(name, shared=True):
                assert await notes(bob, name) == ["", "a1", "b"]

        await asyncio.create_task(share())
        assert await notes(bob, name) == ["a1", "b"]


@in_loop
async def test_a_leader_says_where_it_is(supplier: Supplier, name: str) -> None:
    async with programs(supplier, 2) as (ann, bob):
        leaders = bob.observe(name)
        assert await anext(leaders) is None
        for note in ("http://one", "http://two"):
            async with ann.elect(name, note=note):
                leader = await anext(leaders)
                assert leader is not None
                assert leader.note == note
            assert await anext(leaders) is None
        await leaders.aclose()


def test_threads_do_the_same(supplier: Supplier, name: str) -> None:
    with coterie.sync.connect(supplier.url()) as c:
        with c.lock(name, note="here"):
            assert [party.note for party in c.holders(name)] == ["here"]
        with c.elect(name, note="there"):
            leader = next(c.observe(name))
            assert leader is not None
            assert leader.note == "there"
        with c.lock(name):
            assert [party.note for party in c.holders(name)] == [""]
