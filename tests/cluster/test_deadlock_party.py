"""The detectors of the literature over real sockets: the same processes as in the simulator."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.algorithms.deadlock.condition import all_of, any_of
from coterie.algorithms.deadlock.detectors.party import STEP, ScriptStep
from coterie.algorithms.deadlock.detectors.trial import Deadlocked
from coterie.catalogue import find
from coterie.cluster.classic import node as classic
from coterie.cluster.membership.config import convert
from tests.algorithms.deadlock.systems import DETECTORS, build, left_waiting
from tests.cluster.local_cluster import document, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coterie.algorithms.deadlock.condition import Condition
    from coterie.errors import Unavailable
    from coterie.process import Event, Process

SYSTEM = "system"  # the letters of nodes name what they are about


@contextlib.asynccontextmanager
async def nodes(
    processes: list[Process[Any]], heard: list[Event], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[classic.Classic]]:
    """Run each process at a node of its own."""
    entry = msgspec.structs.replace(
        find("lamport"), process=type(processes[0]), build=lambda _: processes
    )
    setup = entry.setup(len(processes))
    monkeypatch.setattr(classic, "choose", lambda *_: (entry, setup))
    config = convert(document(len(processes), algorithm="lamport"))
    async with contextlib.AsyncExitStack() as stack:
        made = []
        for member in config.membership.members:
            program = classic.Program(
                event=lambda _, event: heard.append(event), failure=heard_of_failure
            )
            node = classic.Classic(config, member.name, program)
            await node.start()
            stack.push_async_callback(node.stop)
            made.append(node)
        yield made


def heard_of_failure(failure: Unavailable) -> None:
    raise failure


def victims(
    detector: str, waits: list[Condition[int] | None], monkeypatch: pytest.MonkeyPatch
) -> list[Deadlocked]:
    """Let processes wait for each other until nobody waits; give who was told to give way."""
    heard: list[Event] = []
    scripts = [() if condition is None else (ScriptStep(600.0, condition),) for condition in waits]
    processes = build(detector, scripts)

    async def main() -> None:
        async with asyncio.timeout(20), nodes(processes, heard, monkeypatch) as made:
            await until(lambda: all(node.is_ready for node in made), "all to meet")
            made[0].process(SYSTEM)
            await until(lambda: all(SYSTEM in node.processes for node in made), "all to begin")
            for node, script in zip(made, scripts, strict=False):
                if script:  # its time has come, for all in the same turn
                    running = node.processes[SYSTEM]
                    running.host.step(running.seat.ring, STEP)
            assert left_waiting(processes)
            await until(lambda: not left_waiting(processes), "all to go on")

    asyncio.run(main())
    return [event for event in heard if isinstance(event, Deadlocked)]


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_ring_takes_one_victim(detector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (deadlock,) = victims(detector, [all_of(2), all_of(3), all_of(1)], monkeypatch)
    assert sorted(process for process, _ in deadlock.members) == [1, 2, 3]


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_cycle_with_an_escape_takes_none(detector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not victims(detector, [any_of(2, 3), all_of(1), None], monkeypatch)
