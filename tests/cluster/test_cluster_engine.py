"""Locks of a cluster, as the tasks of programs see them; nodes and programs share this process."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie import locks
from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.membership.config import convert
from coterie.cluster.node import Node
from coterie.cluster.wire.link import Link
from coterie.locks.internals import engine_of
from tests.cluster.local_cluster import LEASE, document, running, started_again, until, url_of
from tests.cluster.virtual_time import run, sleep_through

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from coterie.cluster.client.engine import ClusterGroup
    from coterie.cluster.client.participant import ParticipantHost

pytestmark = pytest.mark.usefixtures("open_and_guarded")


class World:
    """A running cluster and some programs connected to it."""

    def __init__(self, nodes: list[Node], programs: list[locks.Coordinator]) -> None:
        self.nodes = nodes
        self.programs = programs

    def group(self, program: int = 0) -> ClusterGroup:
        engine = engine_of(self.programs[program])
        assert isinstance(engine, ClusterEngine)
        return engine.group

    def host(self, program: int = 0) -> ParticipantHost:
        return self.group(program).supply

    async def linked(self, program: int, links: int) -> None:
        """Wait until a program has that many links."""
        host = self.host(program)
        await until(lambda: len(host.reachable()) == links, f"{links} links")


@contextlib.asynccontextmanager
async def world(programs: int = 1, size: int = 3, **changes: Any) -> AsyncIterator[World]:
    config = convert(document(size, **changes))
    async with contextlib.AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(running(config))
        opened = [
            await stack.enter_async_context(locks.connect(url_of(config))) for _ in range(programs)
        ]
        made = World(nodes, opened)
        for program in range(programs):
            await made.linked(program, size)
        yield made


def in_world(
    test: Callable[[World], Awaitable[None]],
    programs: int = 1,
    virtual: pytest.MonkeyPatch | None = None,
    **changes: Any,
) -> None:
    """Run a test with a cluster; in `virtual` time if leases have to run out."""

    async def main() -> None:
        async with asyncio.timeout(20), world(programs, **changes) as made:
            await test(made)

    if virtual is None:
        asyncio.run(main())
    else:
        run(virtual, main)


def test_a_fresh_lock_costs_one_request_and_one_grant_per_voter() -> None:
    async def test(made: World) -> None:
        async with made.programs[0].lock("x"):
            sent, received = made.host().sent, made.host().received
            assert sent == {"Data": 3}
            await until(lambda: received["Reply"] == 3, "the grants of all")

    in_world(test)


def test_a_lock_that_nobody_else_wants_is_taken_again_without_a_message() -> None:
    async def test(made: World) -> None:
        lock = made.programs[0].lock("x")
        tokens = []
        for _ in range(5):
            async with lock as held:
                tokens.append(held.token)
        assert tokens == list(range(tokens[0], tokens[0] + 5)), "each has a token of its own"
        assert made.host().sent["Data"] == 3

    in_world(test)


def test_tasks_of_one_process_are_served_in_the_order_in_which_they_asked() -> None:
    async def test(made: World) -> None:
        order: list[int] = []

        async def enter(number: int) -> None:
            async with made.programs[0].lock("x") as held:
                assert held.valid
                order.append(number)
                await asyncio.sleep(0)

        async with made.programs[0].lock("x"):
            tasks = [asyncio.ensure_future(enter(number)) for number in range(5)]
            waiters = made.programs[0].waiters
            while len(await waiters("x")) < 5:
                pass
        await asyncio.gather(*tasks)
        assert order == [0, 1, 2, 3, 4]

    in_world(test)


def test_tasks_of_one_process_do_not_keep_a_lock_that_another_process_wants() -> None:
    async def test(made: World) -> None:
        entered: list[int] = []

        async def enter(program: int, entries: int) -> None:
            for _ in range(entries):
                async with made.programs[program].lock("x"):
                    entered.append(program)
                    await asyncio.sleep(0.002)

        many = [enter(0, 8) for _ in range(4)]
        await asyncio.gather(*many, enter(1, 5))
        assert entered.index(1) < 16, "half of the others' turns at most, and not all of them"
        assert entered.count(1) == 5

    in_world(test, programs=2)


def test_tokens_grow_over_all_programs_and_nobody_is_inside_with_another() -> None:
    async def test(made: World) -> None:
        tokens: list[int] = []
        inside = 0

        async def enter(program: int) -> None:
            nonlocal inside
            for _ in range(10):
                async with made.programs[program].lock("x") as held:
                    inside += 1
                    assert inside == 1
                    tokens.append(held.token)
                    await asyncio.sleep(0)
                    inside -= 1

        await asyncio.gather(*(enter(program) for program in range(4) for _ in range(2)))
        assert len(tokens) == 80
        assert tokens == sorted(set(tokens))

    in_world(test, programs=4)


def test_locks_go_on_over_connections_that_break_all_the_time() -> None:
    async def test(made: World) -> None:
        tokens: list[int] = []
        inside = 0
        dice = random.Random(1)
        cuts = 0

        def cut(program: int) -> int:
            line = made.host(program).links[dice.randint(1, 3)]
            assert isinstance(line, Link)
            if not line.is_up:
                return 0
            line.abort("cut by the test")
            return 1

        async def enter(program: int) -> None:
            nonlocal inside, cuts
            for _ in range(15):
                async with made.programs[program].lock("x") as held:
                    inside += 1
                    assert inside == 1
                    tokens.append(held.token)
                    cuts += cut(dice.randrange(3))
                    await asyncio.sleep(0.001)
                    inside -= 1

        await asyncio.gather(*(enter(program) for program in range(3)))
        assert tokens == sorted(set(tokens))
        assert len(tokens) == 45
        assert cuts > 20

    in_world(test, programs=3)


def test_a_try_fails_at_once_if_somebody_holds_the_lock_and_leaves_nothing_behind() -> None:
    async def test(made: World) -> None:
        one, other = made.programs
        async with one.lock("x"):
            assert await other.lock("x").acquire(blocking=False) is None
        assert not made.host(1).participant.bids
        assert await other.waiters("x") == []

    in_world(test, programs=2)


def test_a_try_succeeds_if_another_process_only_keeps_the_lock() -> None:
    async def test(made: World) -> None:
        one, other = made.programs
        async with one.lock("x"):
            pass
        assert "x" in made.host(0).participant.cached
        held = await other.lock("x").acquire(blocking=False)
        assert held
        await held.release()

    in_world(test, programs=2)


def test_holders_and_waiters_are_named() -> None:
    async def test(made: World) -> None:
        one, other = made.programs
        assert await one.holders("x") == []
        async with one.lock("x") as held:
            waiting = asyncio.ensure_future(other.lock("x").acquire())
            await until(lambda: made.nodes[0].voting.voter.ballots["x"].queue, "the other")
            (holder,) = await other.holders("x")
            assert holder.token == held.token
            (waiter,) = await one.waiters("x")
            assert waiter.token is None
            assert waiter.since >= holder.since
        assert await waiting
        assert [party.token for party in await one.holders("x")] != [held.token]

    in_world(test, programs=2)


def test_a_leader_can_be_followed() -> None:
    async def test(made: World) -> None:
        one, other = made.programs
        leaders = other.observe("leader")
        assert await anext(leaders) is None
        async with one.elect("leader") as term:
            leader = await anext(leaders)
            assert leader is not None
            assert leader.token == term.token
        assert await anext(leaders) is None
        await leaders.aclose()

    in_world(test, programs=2)


def test_a_cancelled_wait_leaves_no_request_behind() -> None:
    async def test(made: World) -> None:
        one, other = made.programs
        async with one.lock("x"):
            waiting = asyncio.ensure_future(other.lock("x").acquire())
            ballots = made.nodes[0].voting.voter.ballots
            await until(lambda: ballots["x"].queue, "the request to arrive")
            waiting.cancel()
            await until(lambda: not ballots["x"].queue, "the request to be withdrawn")

    in_world(test, programs=2)


def test_many_names_used_once_leave_nothing_behind() -> None:
    async def test(made: World) -> None:
        for number in range(1500):
            async with made.programs[0].lock(f"name/{number}"):
                pass
        assert not made.group().queues
        kept = made.host().membership.settings.cached_max
        assert len(made.host().participant.bids) <= kept
        await until(lambda: len(made.nodes[0].voting.voter.ballots) <= kept, "voters to forget")

    in_world(test)


def test_a_program_that_closes_frees_everything_at_once() -> None:
    async def test(made: World) -> None:
        one, other = made.programs
        held = await one.lock("x").acquire()
        assert held
        waiting = asyncio.ensure_future(other.lock("x").acquire())
        await until(lambda: made.nodes[0].voting.voter.ballots["x"].queue, "the other")
        await one.close()
        assert held.lost.is_set()
        assert await waiting
        assert [len(node.voting.voter.sessions) for node in made.nodes] == [1, 1, 1]
        assert [node.voting.expired for node in made.nodes] == [0, 0, 0]

    in_world(test, programs=2)


def test_a_restarted_node_is_joined_again_and_the_hold_goes_on() -> None:
    async def test(made: World) -> None:
        async with made.programs[0].lock("x") as held:
            await made.nodes[1].stop()
            await made.linked(0, 2)
            await started_again(made.nodes, 1)
            await made.linked(0, 3)
            assert held.valid

    in_world(test)


def test_a_hold_outlives_a_voter_that_stays_away_for_longer_than_a_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(made: World) -> None:
        async with made.programs[0].lock("x") as held:
            await made.nodes[0].stop()
            uplink = made.host().participant.sessions.uplink(1)
            await until(lambda: uplink.silent, "the lease of that voter to end")
            assert held.valid, "the other two support the token, however far apart they started"

    in_world(test, virtual=monkeypatch)


def test_without_a_quorum_a_wait_fails_with_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(made: World) -> None:
        for node in made.nodes[:2]:
            await node.stop()
        await made.linked(0, 1)
        with pytest.raises(
            coterie.NoQuorum, match=r"cluster 'test' can be reached \(a: connection refused at 127"
        ):
            await made.programs[0].lock("x").acquire()
        with pytest.raises(coterie.NoQuorum):
            await made.programs[0].lock("y").acquire(blocking=False)
        with pytest.raises(coterie.NoQuorum):
            await made.programs[0].lock("z").acquire(timeout=0.1)  # much less than a lease
        with pytest.raises(coterie.NoQuorum):
            await made.programs[0].holders("x")

    in_world(test, virtual=monkeypatch)


def test_a_claim_that_is_cut_off_gets_a_lease_after_its_loop_was_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The nodes have come back meanwhile, but how was it to know?"""

    async def test(made: World) -> None:
        for node in made.nodes[:2]:
            await node.stop()
        await made.linked(0, 1)
        waits = asyncio.ensure_future(made.programs[0].lock("x").acquire())
        await asyncio.sleep(LEASE / 2)
        for place in (0, 1):
            await started_again(made.nodes, place)
        sleep_through(3 * LEASE)
        assert await waits

    in_world(test, virtual=monkeypatch)


@pytest.mark.parametrize(
    ("size", "changes"),
    [(1, {}), (4, {"coterie": "grid"}), (7, {"coterie": "plane"}), (5, {"policy": "quorum"})],
)
def test_any_coterie_serves(size: int, changes: dict[str, Any]) -> None:
    async def test(made: World) -> None:
        async with made.programs[0].lock("x") as first:
            pass
        async with made.programs[1].lock("x") as second:
            assert second.token > first.token

    in_world(test, programs=2, size=size, **changes)


def test_no_cluster_at_the_url_is_said_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.cluster.membership.discovery.DISCOVERY_SECONDS_MAX", 0.2)
    config = convert(document(2))

    async def main() -> None:
        with pytest.raises(coterie.Unavailable, match=r"connection refused at 127\.0\.0\.1:\d+$"):
            async with locks.connect(url_of(config)):
                pass

    asyncio.run(main())


def test_a_program_knows_within_a_moment_that_all_nodes_have_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = convert(document(3, lease=60.0))

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for member in config.membership.members:
                node = Node(config, member.name)
                await node.start()
                stack.push_async_callback(node.stop)
            async with locks.connect(url_of(config)) as c:
                asking = asyncio.ensure_future(c.lock("x").acquire())
                await asyncio.sleep(1.0)
                assert re.search(
                    r"no quorum of cluster 'test' votes \(a abstains for [56]\d\.\d s: it has just started",
                    str(engine_of(c).obstacle("x")),
                )
                held = await asking
                assert engine_of(c).obstacle("x") is None
                assert held is not None
                await held.release()

    run(monkeypatch, main)
