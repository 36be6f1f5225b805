"""Programs whose links delay, stall in one direction, or break: through proxies, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.lab.servers.proxy import DOWN, UP
from tests.cluster.proxy import Network, Program, network
from tests.cluster.virtual_time import Clock, owning, passing, run, sleep_through

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

LEASE = 1.0
EXPIRY = LEASE * 1.005 / 0.995 + 0.25  # at the voters


def through_proxies(
    monkeypatch: pytest.MonkeyPatch, programs: int, test: Callable[..., Awaitable[None]]
) -> None:
    async def main() -> None:
        async with network(lease=LEASE) as made:
            await test(made, *[await made.program() for _ in range(programs)])

    run(monkeypatch, main)


def asked(made: Network, lock: str) -> bool:
    return all(lock in node.voting.voter.ballots for node in made.nodes)


async def insist(program: Program, body: Callable[[], Awaitable[object]]) -> None:
    """Try again for as long as it takes to get through the body with the lock."""
    while True:
        try:
            async with program.coordinator.lock("x") as held:
                await body()
                held.ensure()
                return
        except (coterie.LockLost, coterie.NoQuorum):
            await passing(0.01)


async def seen(condition: Callable[[], object]) -> None:
    """Wait for a condition, in virtual time."""
    async with asyncio.timeout(20 * LEASE):
        while not condition():
            await passing(0.001)


def test_a_program_whose_loop_was_blocked_for_longer_than_a_lease_does_not_blame_the_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(_: Network, program: Program) -> None:
        assert await program.coordinator.lock("x").acquire()
        for proxy in program.proxies:
            proxy.stall()  # what the nodes have said meanwhile is not read at once
        sleep_through(3 * LEASE)
        with pytest.raises(coterie.NoQuorum) as caught:
            await program.coordinator.lock("y", timeout=0.1).acquire()
        assert "the event loop of this program did not run for 2." in str(caught.value)
        assert "longer than the lease of 1 s" in str(caught.value)
        assert "nodes do not answer" not in str(caught.value)

    through_proxies(monkeypatch, 1, test)


def test_grants_that_come_after_the_lease_let_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """What etcd's lock once did: it returned with a lease that was over, while another was inside.

    The machine is suspended while the grant is on its way, and its clock has counted the time. One
    voter is a quorum, so one grant is all that it takes.
    """

    async def main() -> None:
        async with network(1, lease=LEASE) as made:
            other = await made.program()
            with owning(Clock()) as suspended:
                late = await made.program()
                for proxy in late.proxies:
                    proxy.stall(DOWN)
                waiting = asyncio.ensure_future(late.coordinator.lock("x").acquire())
            await seen(lambda: asked(made, "x"))
            suspended.run(0)
            async with other.coordinator.lock("x") as held:
                suspended.run(1)
                suspended.jump(EXPIRY + 0.1)
                for proxy in late.proxies:
                    proxy.resume()
                await seen(lambda: late.host.received["Reply"])
                await passing(0.01)
                assert held.valid
                assert not waiting.done()
            entered = await waiting
            assert entered
            assert entered.valid
            assert entered.token > held.token

    run(monkeypatch, main)


def test_answers_that_always_come_after_the_lease_never_make_a_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(_: Network, late: Program) -> None:
        for proxy in late.proxies:
            proxy.delay[DOWN] = 1.2 * LEASE
        with pytest.raises(coterie.NoQuorum):
            await late.coordinator.lock("x").acquire()
        for proxy in late.proxies:
            proxy.delay[DOWN] = 0.0
        await insist(late, partial(passing, 0))

    through_proxies(monkeypatch, 1, test)


@pytest.mark.parametrize("direction", [UP, DOWN])
@pytest.mark.parametrize("voters", [(0, 1), (0, 1, 2)])
def test_who_is_half_cut_off_parks_and_hinders_nobody(
    direction: str, voters: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its older request lies with the voters, and the votes that it has go back by themselves."""

    async def test(made: Network, cut: Program, other: Program) -> None:
        async with other.coordinator.lock("x"):
            over = asyncio.Event()
            waiting = asyncio.ensure_future(insist(cut, over.wait))
            await seen(lambda: all(node.voting.voter.ballots["x"].queue for node in made.nodes))
            for voter in voters:
                cut.proxies[voter].stall(direction)
        began = asyncio.get_running_loop().time()
        async with other.coordinator.lock("x"):
            took = asyncio.get_running_loop().time() - began
        assert took < LEASE + EXPIRY, "a lease until it parks, and an expiry at half-cut voters"
        for proxy in cut.proxies:
            proxy.resume()
        over.set()
        await waiting

    through_proxies(monkeypatch, 2, test)


def test_partitions_that_overlap_leave_everybody_a_quorum_and_one_holder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One reaches the first two voters, the other the last two, and neither hears of the other."""

    async def test(_: Network, one: Program, other: Program) -> None:
        one.proxies[2].cut()
        other.proxies[0].cut()
        tokens: list[int] = []
        inside = 0

        async def work(program: Program) -> None:
            nonlocal inside
            for _ in range(20):
                async with program.coordinator.lock("x") as held:
                    inside += 1
                    assert inside == 1
                    tokens.append(held.token)
                    await passing(0.01)
                    inside -= 1

        await asyncio.gather(work(one), work(other))
        assert tokens == sorted(set(tokens))
        assert len(tokens) == 40

    through_proxies(monkeypatch, 2, test)


def test_a_hold_outlives_a_voter_that_hears_but_is_not_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(_: Network, program: Program) -> None:
        async with program.coordinator.lock("x") as held:
            program.proxies[0].stall(DOWN)
            await passing(5 * LEASE)
            assert held.valid
            program.proxies[0].resume()
            program.proxies[1].stall(UP)
            await passing(5 * LEASE)
            assert held.valid

    through_proxies(monkeypatch, 1, test)


@pytest.mark.parametrize("policy", ["all", "quorum"])
def test_the_loss_of_a_voter_delays_nobody_for_longer_than_a_hedge(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hedge is how long a silent voter is trusted; the hand-off under way may wait for it once."""
    hedge = LEASE / 5

    async def main() -> float:
        async with network(lease=LEASE, hedge=hedge, policy=policy) as made:
            programs = [await made.program() for _ in range(3)]
            loop = asyncio.get_running_loop()
            entries: list[float] = []

            async def work(program: Program) -> None:
                while True:
                    async with program.coordinator.lock("x"):
                        entries.append(loop.time())
                        await passing(0.01)

            working = [asyncio.ensure_future(work(program)) for program in programs]
            await seen(lambda: len(entries) > 10)
            for program in programs:
                program.proxies[1].stall()
            await passing(10 * LEASE)
            assert not any(task.done() for task in working)
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            entries.append(loop.time())
            return max(after - before for before, after in pairwise(entries))

    assert run(monkeypatch, main) < hedge + 0.02, "one hedge, and the work of the one before"


def test_a_holder_cut_off_is_told_before_the_next_one_enters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(_: Network, cut: Program, other: Program) -> None:
        order: list[str] = []

        async def hold() -> None:
            try:
                async with cut.coordinator.lock("x"):
                    order.append("first")
                    await asyncio.Event().wait()
            except coterie.LockLost:
                order.append("told")

        holding = asyncio.ensure_future(hold())
        await seen(lambda: order)
        for proxy in cut.proxies:
            proxy.stall()
        async with other.coordinator.lock("x"):
            order.append("second")
        await holding
        assert order == ["first", "told", "second"]

    through_proxies(monkeypatch, 2, test)


def test_every_request_has_its_effect_once_over_connections_that_break_under_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bytes are under way whenever a connection breaks, so frames are lost and sent again."""

    async def test(made: Network, *programs: Program) -> None:
        dice = Random(1)
        proxies = [proxy for program in programs for proxy in program.proxies]
        for proxy in proxies:
            proxy.delay = {UP: 0.003, DOWN: 0.003}
        register = 0
        tokens: list[int] = []

        async def work(program: Program, entries: int) -> None:
            nonlocal register
            while entries:
                with contextlib.suppress(coterie.LockLost, coterie.NoQuorum):
                    async with program.coordinator.lock("x") as held:
                        read = register
                        await passing(dice.uniform(0, 0.01))
                        register = read + 1
                        tokens.append(held.token)
                        entries -= 1

        async def sever() -> None:
            while True:
                await passing(dice.uniform(0, 0.03))
                dice.choice(proxies).sever()

        severing = asyncio.ensure_future(sever())
        await asyncio.gather(*(work(program, 8) for program in programs for _ in range(2)))
        severing.cancel()
        assert register == 16 * len(programs)
        assert tokens == sorted(set(tokens))
        assert sum(proxy.connections for proxy in proxies) > 20, "connections broke all the time"
        await forgotten(made, programs)

    through_proxies(monkeypatch, 3, test)


async def forgotten(made: Network, programs: Iterable[Program]) -> None:
    """Nothing stays behind at voters when all programs have ended in good order."""
    await passing(LEASE)
    for program in programs:
        await program.coordinator.close()
    await seen(lambda: not any(node.voting.voter.ballots for node in made.nodes))
