"""Frames of an older connection that arrive after a newer one of the same program has been used.

Two things stand in their way. The node closes the older connection when it admits the newer one,
and what has been read from it nevertheless has a sequence number that the session has passed.
"""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.algorithms.mutex.quorum.leased.sessions import Downlink
from coterie.cluster.voter.host import VoterHost
from coterie.lab.servers.proxy import DOWN, UP
from tests.cluster.proxy import Network, Program, network
from tests.cluster.test_bad_links import LEASE, forgotten, seen
from tests.cluster.virtual_time import passing, run
from tests.harness import broken_class

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

CLOSING = 'before.close("its owner has opened another one")'
PROGRAMS = 3
ENTRIES = 30


def open_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nodes read on from connections that were replaced."""
    monkeypatch.setattr(VoterHost, "admit", broken_class(VoterHost, CLOSING, "pass").admit)


def forget_the_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sessions take every frame as a new one."""
    careless = broken_class(Downlink, "if seq != self.delivered + 1:", "if seq < 0:")
    monkeypatch.setattr(Downlink, "takes", careless.takes)


def behind_proxies(
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    programs: int,
    test: Callable[..., Awaitable[None]],
) -> None:
    async def main() -> None:
        async with network(size, lease=LEASE) as made:
            await test(made, *[await made.program() for _ in range(programs)])

    run(monkeypatch, main)


async def a_late_request(made: Network, late: Program, other: Program) -> None:
    """A request is made, granted and withdrawn over a newer connection, then it comes once more."""
    (node,), (proxy,) = made.nodes, late.proxies
    async with late.coordinator.lock("before"):
        pass  # so that the session stands
    proxy.hold_back()
    asking = asyncio.ensure_future(late.coordinator.lock("x").acquire())
    await seen(lambda: late.host.sent["Data"] > 1)
    proxy.replace()
    held = await asking
    assert held
    assert proxy.connections > 1
    await held.release()
    async with other.coordinator.lock("x", timeout=LEASE):
        pass
    got = node.voting.received["Data"]
    proxy.deliver()
    await seen(lambda: proxy.late)
    await passing(LEASE)
    came = node.voting.received["Data"] > got
    assert came == (VoterHost.admit.__module__ != "coterie.cluster.voter.host"), (
        "unless the door is open"
    )
    async with late.coordinator.lock("x", timeout=LEASE) as again:
        assert again.token > held.token
    async with other.coordinator.lock("x", timeout=LEASE) as last:
        assert last.token > again.token


def test_a_request_that_arrives_after_its_release_is_not_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    behind_proxies(monkeypatch, 1, 2, a_late_request)


def test_the_sequence_alone_keeps_a_late_request_out(monkeypatch: pytest.MonkeyPatch) -> None:
    open_the_door(monkeypatch)
    behind_proxies(monkeypatch, 1, 2, a_late_request)


def test_without_either_a_late_request_is_granted_to_nobody_who_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_the_door(monkeypatch)
    forget_the_sequence(monkeypatch)
    with pytest.raises(coterie.AcquireTimeout):
        behind_proxies(monkeypatch, 1, 2, a_late_request)


class Register:
    """What is to be kept from lost updates, and the tokens it has seen."""

    def __init__(self) -> None:
        self.value = 0
        self.tokens: list[int] = []

    async def count(self, program: Program, dice: Random) -> None:
        entries = ENTRIES
        while entries:
            with contextlib.suppress(coterie.LockLost, coterie.NoQuorum):
                async with program.coordinator.lock("x") as held:
                    read = self.value
                    await passing(dice.uniform(0, 0.01))
                    self.value = read + 1
                    self.tokens.append(held.token)
                    entries -= 1


async def reorder(program: Program, dice: Random) -> None:
    """Replace connections under load, and let their last bytes come when the next ones are used."""
    while True:
        proxy = dice.choice(program.proxies)
        proxy.hold_back()
        await passing(dice.uniform(0.002, 0.02))
        connections = proxy.connections
        proxy.replace()
        await seen(lambda: proxy.connections > connections)  # noqa: B023 - awaited in this turn
        await passing(dice.uniform(0.01, 0.05))
        proxy.deliver()


async def under_load(made: Network, *programs: Program) -> None:
    dice = Random(1)  # sockets do not obey it, so no run is like another
    for program in programs:
        for proxy in program.proxies:
            proxy.delay = {UP: 0.002, DOWN: 0.002}
    register = Register()
    reordering = [asyncio.ensure_future(reorder(program, dice)) for program in programs]
    async with asyncio.timeout(60 * LEASE):
        await asyncio.gather(*(register.count(program, dice) for program in programs * 2))
    for task in reordering:
        task.cancel()
    assert register.value == 2 * PROGRAMS * ENTRIES
    assert register.tokens == sorted(set(register.tokens))
    assert all(any(proxy.late for proxy in program.proxies) for program in programs)
    for program in programs:
        for proxy in program.proxies:
            proxy.deliver()
    await forgotten(made, programs)


def test_exclusion_and_tokens_hold_while_connections_overtake_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    behind_proxies(monkeypatch, 3, PROGRAMS, under_load)


def test_they_hold_by_the_sequence_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    open_the_door(monkeypatch)
    behind_proxies(monkeypatch, 3, PROGRAMS, under_load)
