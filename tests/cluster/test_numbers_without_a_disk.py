"""Tokens of nodes that have no disk, or a new one: the time of day, and what the others know."""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie import system
from coterie.cluster.admin.status import NO_QUORUM, ClusterState, inspect
from coterie.cluster.membership.abstention import no_votes
from coterie.cluster.membership.config import convert
from coterie.cluster.node import Node
from coterie.cluster.runtime import clock
from coterie.cluster.url import make_visit
from coterie.cluster.voter.metrics import node_metrics
from coterie.cluster.voter.report import abstention
from coterie.cluster.wire.voter_frames import Abstention
from tests.cluster.local_cluster import document, running, started_again, until, url_of
from tests.cluster.virtual_time import passing, run

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.cluster.membership.config import Config

LEASE = 1.0
_away: ContextVar[float] = ContextVar("away", default=0.0)


@pytest.fixture(autouse=True)
def _times_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whoever is started while `_away` is set read another time of day."""
    monkeypatch.setattr(system, "wall", lambda: time.time() + _away.get())


def locked_by(seconds: float, changes: dict[str, str], folder: Path) -> int:
    """Take a lock by a program whose time of day is so far away."""
    config = convert(document(3, lease=LEASE, **changes), folder)

    async def main() -> int:
        async with running(config):
            _away.set(seconds)
            async with coterie.connect(url_of(config)) as c, c.lock("x") as held:
                return held.token

    return asyncio.run(main())


@pytest.mark.parametrize("seconds", [-0.2, 0.0, 0.2])
def test_a_time_of_day_within_the_bound_is_let_in(seconds: float, tmp_path: Path) -> None:
    assert locked_by(seconds, {}, tmp_path)


@pytest.mark.parametrize("seconds", [-30.0, 30.0])
def test_nodes_without_a_disk_are_refused_by_programs_with_another_time_of_day(
    seconds: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(coterie.NoQuorum, match=r"its time of day is 30\.\d s away from ours"):
        locked_by(seconds, {}, tmp_path)
    assert "at most 0.25 s are allowed then" in caplog.text


@pytest.mark.parametrize("seconds", [-30.0, 30.0])
def test_with_a_disk_the_time_of_day_does_not_matter(seconds: float, tmp_path: Path) -> None:
    assert locked_by(seconds, {"data": "data"}, tmp_path)


@pytest.mark.parametrize("lease", [0.1, 1.0, 10.0, 100.0])
def test_numbers_do_not_run_away_from_the_time_of_day(lease: float) -> None:
    """A restart puts them two errors and an interval ahead, and takes an abstention of its own."""
    settings = convert(document(1, lease=lease)).membership.settings
    ahead = 2 * clock.error_borne(lease) + settings.interval / clock.NUMBERS_PER_SECOND
    assert ahead < settings.expiry


def test_a_node_with_a_new_disk_asks_the_others_before_it_votes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock is wrong, too: it has been set back to a time before all tokens were given."""
    config = convert(document(3, lease=LEASE, data="data"), tmp_path)
    settings = config.membership.settings

    async def main() -> None:
        async with running(config) as nodes:
            async with coterie.connect(url_of(config)) as c, c.lock("x") as held:
                used = held.token
            first, _, third = nodes
            await first.stop()
            await third.stop()
            shutil.rmtree(tmp_path / "data" / "a")
            _away.set(-86_400.0)
            returned = Node(config, "a")
            await returned.start()
            try:
                await passing(3 * settings.expiry)
                assert returned.voting.voter.abstains(), "only one of two others has answered"
                await started_again(nodes, 2)
                await until(lambda: not returned.voting.voter.abstains(), "the node to vote")
                assert returned.voting.voter.floor >= used
            finally:
                await returned.stop()

    run(monkeypatch, main)


async def two_of_three_nodes_for_the_first_time(config: Config) -> list[Node]:
    nodes = [Node(config, name) for name in "ab"]
    for node in nodes:
        await node.start()
    await until(lambda: all(node.voting.awaited == ["c"] for node in nodes), "them to meet")
    return nodes


def test_a_claim_fails_after_a_lease_if_no_quorum_votes_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first start two of three nodes are up, and each has to hear from the third one."""
    config = convert(document(3, lease=LEASE, data="data"), tmp_path)

    async def main() -> str:
        nodes = await two_of_three_nodes_for_the_first_time(config)
        try:
            async with coterie.connect(url_of(config)) as c:
                began = system.now()
                with pytest.raises(coterie.NoQuorum) as caught:
                    await c.lock("x").acquire()
                assert LEASE <= system.now() - began < 1.5 * LEASE
                with pytest.raises(coterie.NoQuorum, match="votes"):
                    await c.lock("x", timeout=LEASE / 2).acquire()
                with pytest.raises(coterie.NoQuorum, match="votes"):
                    await c.lock("x", timeout=0).acquire()
                return str(caught.value)
        finally:
            for node in nodes:
                await node.stop()

    reason = run(monkeypatch, main)
    assert "no quorum of cluster 'test' votes (a abstains: its data directory is empty" in reason
    assert "b abstains: its data directory is empty, and it has to hear from c first" in reason
    assert "c: connection refused at 127.0.0.1:" in reason
    assert "start the nodes that are missing" in reason
    assert "coterie serve --new-cluster" in reason


def test_a_claim_waits_for_nodes_that_abstain_for_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them were killed together, and are back: then it passes by itself."""
    config = convert(document(3, lease=LEASE, data="data"), tmp_path)

    async def main() -> None:
        async with running(config), coterie.connect(url_of(config)) as c, c.lock("x"):
            pass
        for name in "abc":
            (tmp_path / "data" / name / "memory").unlink()
        nodes = [Node(config, name) for name in "abc"]
        for node in nodes:
            await node.start()
        try:
            async with coterie.connect(url_of(config)) as c:
                with pytest.raises(
                    coterie.NoQuorum, match=r"a abstains for \d\.\d s: it has just started"
                ):
                    await c.lock("x", timeout=LEASE / 2).acquire()
                async with c.lock("x") as held:
                    assert held.valid
        finally:
            for node in nodes:
                await node.stop()

    run(monkeypatch, main)


def test_status_says_that_no_quorum_votes_and_so_do_the_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = convert(document(3, lease=LEASE, data="data"), tmp_path)

    async def main() -> tuple[ClusterState, str]:
        nodes = await two_of_three_nodes_for_the_first_time(config)
        try:
            state = await inspect(make_visit(url_of(config)), locks=False)
            return state, node_metrics(nodes[0].voting)
        finally:
            for node in nodes:
                await node.stop()

    state, metrics = run(monkeypatch, main)
    assert state.health == NO_QUORUM
    assert state.reason.startswith("no quorum votes: a abstains: its data directory is empty, and")
    assert "c: " in state.reason
    assert "coterie serve --new-cluster" in state.reason
    document_ = msgspec.json.decode(msgspec.json.encode(state))
    assert document_["reason"] == state.reason
    report = document_["nodes"][0]["report"]
    assert report["abstains_because"].endswith("it has to hear from c first")
    assert 'coterie_voter_abstains{reason="empty data directory"} 1' in metrics
    assert 'coterie_voter_abstains{reason="restart"} 0' in metrics


def test_a_lone_node_with_a_new_disk_waits_for_the_word_of_its_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been one of several voters, which its file does not name."""
    config = convert(document(1, lease=LEASE, data="data"), tmp_path)

    async def main() -> None:
        node = Node(config, "a")
        await node.start()
        await passing(2 * config.membership.settings.expiry)
        assert node.voting.voter.abstains()
        assert "no other node of its file" in abstention(node.voting).reason
        await node.stop()
        node = Node(config, "a", new_cluster=True)
        await node.start()
        assert not node.voting.voter.abstains()
        await node.stop()

    run(monkeypatch, main)


def test_the_word_of_an_operator_outlives_a_start_that_was_killed_before_it_gave_a_vote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = convert(document(1, lease=LEASE, data="data"), tmp_path)

    async def main() -> None:
        for new in (True, False):
            node = Node(config, "a", new_cluster=new)
            await node.start()
            assert not node.voting.recovers
            assert not node.voting.voter.abstains()
            assert node.voting.voter.number == 0
            await node.stop()
            (tmp_path / "data" / "a" / "memory").unlink()

    run(monkeypatch, main)


def test_a_node_that_ends_before_it_has_heard_the_others_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = convert(document(3, lease=LEASE, data="data"), tmp_path)

    async def main() -> None:
        for _ in range(2):
            node = Node(config, "a")
            await node.start()
            assert node.voting.recovers
            await passing(0.01)
            await node.stop()

    run(monkeypatch, main)


async def locked_and_killed(config: Config, folder: Path) -> None:
    """Take a lock by number 0, and let all nodes end as a crash ends them."""
    nodes = [Node(config, name, new_cluster=True) for name in "abc"]
    for node in nodes:
        await node.start()
    try:
        async with coterie.connect(url_of(config)) as c, c.lock("x"):
            assert {node.voting.voter.number for node in nodes} == {0}
    finally:
        for node in nodes:
            await node.stop()
    for name in "abc":
        (folder / "data" / name / "memory").unlink()


@pytest.mark.parametrize("lost", ["", "a"])
def test_a_shorter_lease_in_the_file_does_not_shorten_the_abstention_after_a_longer_one(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holds by the longer one may last; a node that has lost its disk hears of it from the others."""
    changes = {"data": "data", "nodes": document(3)["nodes"]}
    longer = convert(document(3, lease=20 * LEASE, **changes), tmp_path)
    shorter = convert(document(3, lease=LEASE, **changes), tmp_path)

    async def main() -> None:
        await locked_and_killed(longer, tmp_path)
        if lost:
            shutil.rmtree(tmp_path / "data" / lost)
        nodes = [Node(shorter, name) for name in "abc"]
        for node in nodes:
            await node.start()
        try:
            await until(lambda: not any(node.voting.recovers for node in nodes), "recovery")
            await passing(3 * shorter.membership.settings.expiry)
            assert all(node.voting.voter.abstains() for node in nodes)
            await passing(longer.membership.settings.expiry)
            await until(lambda: not any(node.voting.voter.abstains() for node in nodes), "votes")
        finally:
            for node in nodes:
                await node.stop()

    run(monkeypatch, main)


def test_nobody_is_told_to_make_a_new_cluster_of_one_that_is_formed() -> None:
    empty = {"a": Abstention(math.inf, "its data directory is empty")}
    assert "--new-cluster" in no_votes(empty, [], formed=False)
    told = no_votes(empty, ["b: connection refused"], formed=True)
    assert "--new-cluster" not in told
    assert told.endswith("start the nodes that are missing, and each with its own data directory")
