"""Nodes and programs as processes on loopback, killed, stopped and restarted."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.admin.status import DEGRADED, HEALTHY, ClusterState
from tests.cluster.local_cluster import LEASE, Processes, processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    with processes(tmp_path) as running:
        yield running


def tokens_of(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]


def waiters(state: ClusterState, lock: str) -> int:
    return sum(len(each.waiters) for each in state.locks if each.name == lock)


def all_back(state: ClusterState) -> bool:
    """Tell whether all nodes vote, and each has a session with the program that holds a lock.

    Who takes a lock again and again may do so without the third vote.
    """
    sessions = [len(node.report.sessions) if node.report else 0 for node in state.nodes]
    return state.health == HEALTHY and min(sessions) > 0


def up(state: ClusterState) -> float:
    report = state.nodes[0].report
    return report.up_seconds if report else 0.0


def test_a_lock_goes_from_one_program_to_the_next_with_a_larger_token(cluster: Processes) -> None:
    first = cluster.program("hold", "x")
    _, token = first.read()
    second = cluster.program("hold", "x")
    state = cluster.wait(lambda state: waiters(state, "x"), "the second program to wait")
    (lock,) = state.locks
    assert [party.token for party in lock.holders] == [int(token)]
    assert lock.holders[0].owner.endswith(f":{first.process.pid}")
    assert lock.waiters[0].owner.endswith(f":{second.process.pid}")
    assert first.rest() == [["valid"], ["released"]]
    assert int(second.read()[1]) > int(token)


def test_killing_a_voter_does_not_interrupt_anybody(cluster: Processes, tmp_path: Path) -> None:
    log = tmp_path / "tokens"
    holder = cluster.program("hold", "y")
    holder.read()
    busy = [cluster.program("turns", "x", str(log)) for _ in range(2)]
    for program in busy:
        program.read()
    cluster.kill("b")
    killed = cluster.wait(lambda state: state.health == DEGRADED, "the loss to be seen")
    entries = len(tokens_of(log))
    cluster.wait(lambda state: up(state) > up(killed) + 2 * LEASE, "more than a lease to pass")
    assert len(tokens_of(log)) > entries, "they go on; `test_bad_links` says how soon"
    for program in busy:
        assert program.rest()[0][0] == "entries"
    assert holder.rest() == [["valid"], ["released"]]
    tokens = tokens_of(log)
    assert tokens == sorted(set(tokens))


def test_the_lock_of_a_killed_holder_moves_on_after_its_lease(cluster: Processes) -> None:
    holder = cluster.program("hold", "x")
    _, token = holder.read()
    waiting = cluster.program("hold", "x")
    cluster.wait(lambda state: waiters(state, "x"), "somebody to wait")
    holder.process.kill()
    assert int(waiting.read()[1]) > int(token)


def test_a_holder_stopped_past_its_lease_finds_the_lock_lost_and_its_token_too_small(
    cluster: Processes,
) -> None:
    holder = cluster.program("hold", "x")
    _, token = holder.read()
    waiting = cluster.program("hold", "x")
    cluster.wait(lambda state: waiters(state, "x"), "somebody to wait")
    os.kill(holder.process.pid, signal.SIGSTOP)
    _, newer = waiting.read()
    os.kill(holder.process.pid, signal.SIGCONT)
    assert holder.read() == ["lost"], "the body is cancelled, nobody has to ask"
    assert int(newer) > int(token), "so a resource that compares refuses the one that was stopped"
    assert waiting.rest() == [["valid"], ["released"]]


def test_without_a_quorum_locking_fails_and_works_again_when_nodes_return(
    cluster: Processes,
) -> None:
    before = cluster.program("hold", "x")
    _, token = before.read()
    cluster.kill("a")
    cluster.kill("b")
    assert before.read() == ["lost"]

    async def lock() -> int:
        async with coterie.connect(cluster.url) as coordinator, coordinator.lock("x") as held:
            return held.token

    with pytest.raises(coterie.NoQuorum, match="no quorum of cluster 'test'"):
        asyncio.run(lock())
    cluster.start("a", "b")
    cluster.wait(lambda state: state.health == HEALTHY, "the end of the abstention")
    assert asyncio.run(lock()) > int(token)


@pytest.mark.usefixtures("open_and_guarded")
def test_a_rolling_restart_under_load_loses_no_lock_and_repeats_no_token(
    cluster: Processes, tmp_path: Path
) -> None:
    log = tmp_path / "tokens"
    holder = cluster.program("hold", "y")
    holder.read()
    busy = [cluster.program("turns", "x", str(log)) for _ in range(2)]
    for program in busy:
        program.read()
    for name in "abc":
        cluster.stop(name)
        cluster.start(name)
        cluster.wait(all_back, f"{name} to vote again")
    for program in busy:
        program.rest()
    assert holder.rest() == [["valid"], ["released"]]
    tokens = tokens_of(log)
    assert tokens == sorted(set(tokens))


@pytest.mark.usefixtures("open_and_guarded")
def test_nodes_killed_one_after_the_other_lose_no_lock_if_each_has_its_abstention(
    cluster: Processes, tmp_path: Path
) -> None:
    log = tmp_path / "tokens"
    holder = cluster.program("hold", "y")
    holder.read()
    busy = cluster.program("turns", "x", str(log))
    busy.read()
    for name in "abc":
        cluster.kill(name)
        cluster.start(name)
        cluster.wait(all_back, f"{name} to vote again")
    busy.rest()
    assert holder.rest() == [["valid"], ["released"]]
    tokens = tokens_of(log)
    assert tokens == sorted(set(tokens))


def test_a_voter_that_is_stopped_for_more_than_a_lease_harms_nobody(cluster: Processes) -> None:
    holder = cluster.program("hold", "y")
    holder.read()
    before = cluster.state()
    cluster.signal("b", signal.SIGSTOP)
    cluster.wait(lambda state: up(state) > up(before) + 2 * LEASE, "more than a lease to pass")

    async def lock() -> int:
        async with coterie.connect(cluster.url) as coordinator, coordinator.lock("x") as held:
            return held.token

    token = asyncio.run(lock())
    cluster.signal("b", signal.SIGCONT)
    cluster.wait(lambda state: state.health == HEALTHY, "the stopped voter to be back")
    assert asyncio.run(lock()) > token
    assert holder.rest() == [["valid"], ["released"]]
