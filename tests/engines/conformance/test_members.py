"""Members of a group on every engine: who joins, leaves and dies, as the others see it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

import coterie
import coterie.sync
from tests.engines.conformance.test_conformance import programs, waiting
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from coterie import Party
    from coterie.lab.servers.supplier import Supplier
    from tests.engines.conformance.users import Users


def notes(parties: list[Party]) -> list[str]:
    return [party.note for party in parties]


async def seen(me: coterie.GroupMember, wanted: list[str]) -> list[Party]:
    """Watch until the members have these notes."""
    async with contextlib.aclosing(me.watch()) as changes:
        async for parties in changes:
            if notes(parties) == wanted:
                return parties
    raise AssertionError("it follows without an end")


@in_loop
async def test_all_see_who_joins_and_who_leaves(supplier: Supplier, name: str) -> None:
    async with programs(supplier, 2) as (ann, bob), ann.members(name, note="a") as me:
        assert notes(await me.parties()) == ["a"]
        async with bob.members(name, note="b") as other:
            for each in (me, other):
                first, second = await seen(each, ["a", "b"])
                assert first.since <= second.since
                assert first.shared
            assert other.held.token > 0
            assert other.name == name
        assert [party.note for party in await seen(me, ["a"])] == ["a"]


@in_loop
async def test_tasks_of_one_program_are_members_of_their_own(supplier: Supplier, name: str) -> None:
    async with programs(supplier, 2) as (ann, bob), ann.members(name, note="1") as me:

        async def join() -> None:
            async with ann.members(name, note="2"), bob.members(name, note="3"):
                assert sorted(notes(await me.parties())) == ["1", "2", "3"]

        await asyncio.create_task(join())
        await seen(me, ["1"])


@in_loop
async def test_one_that_was_killed_is_gone_when_its_lock_is(
    supplier: Supplier, users: Users, name: str
) -> None:
    (user,) = await asyncio.to_thread(users.start, 1)
    async with programs(supplier, 1) as (c,), c.members(name, note="here") as me:
        await asyncio.to_thread(user.do, "join", name, "there")
        await seen(me, ["here", "there"])
        user.process.kill()
        await seen(me, ["here"])


@in_loop
async def test_who_takes_the_lock_alone_waits_for_all_to_leave(
    supplier: Supplier, name: str
) -> None:
    async with programs(supplier, 3) as (ann, bob, eve):
        inside = asyncio.Event()

        async def close() -> None:
            async with bob.lock(name):
                inside.set()
                with pytest.raises(coterie.AcquireTimeout):
                    async with eve.members(name, timeout=0):
                        raise AssertionError("nobody joins")

        async with ann.members(name):
            closing = asyncio.create_task(close())
            await waiting(eve, name, 1)
            assert not inside.is_set()
        await closing


def test_threads_do_the_same(supplier: Supplier, name: str) -> None:
    with coterie.sync.connect(supplier.url()) as c, c.members(name, note="me") as me:
        assert notes(me.parties()) == ["me"]
        assert notes(next(me.watch())) == ["me"]
        assert me.held.valid
        with (
            pytest.raises(coterie.MisuseError, match="is held by this task already"),
            c.members(name),
        ):
            pass
