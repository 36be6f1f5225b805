"""Elections between nodes: they agree on the highest, whatever ends and returns."""

from __future__ import annotations

import asyncio
import contextlib
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie import ElectionCoordinator
from coterie.cluster.classic.election import ElectionEngine
from coterie.cluster.join import join
from coterie.cluster.membership.config import convert
from coterie.cluster.wire import link
from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.handshake import Caller, Credentials, new_identity
from coterie.cluster.wire.peers import Handlers, Peer
from coterie.locks.internals import engine_of
from tests.cluster.local_cluster import PATIENCE_SECONDS, document
from tests.cluster.virtual_time import passing, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from coterie.cluster.membership.config import Config

ELECTIONS = ["bully", "ring"]
LEASE = 0.5


def configuration(name: str, size: int = 3, folder: Path | None = None) -> Config:
    changes = {} if folder is None else {"data": "data"}
    wish = document(size, algorithm=name, lease=LEASE, **changes)
    return convert(wish) if folder is None else convert(wish, folder)


def joined_to_elect(config: Config, node: str) -> ElectionCoordinator:
    coordinator = join(config, node=node)
    assert isinstance(coordinator, ElectionCoordinator)
    return coordinator


@contextlib.asynccontextmanager
async def joined(config: Config, names: str) -> AsyncIterator[dict[str, ElectionCoordinator]]:
    """Join as these nodes; those that are taken out of the result are closed by the test."""
    members: dict[str, ElectionCoordinator] = {}
    try:
        for name in names:
            members[name] = joined_to_elect(config, name)
            await members[name].open()
        yield members
    finally:
        for member in members.values():
            await member.close()


async def agree(members: dict[str, ElectionCoordinator], leader: str) -> None:
    """Wait until all members follow that node, and see that it stays so."""

    async def follow() -> set[str]:
        return {await member.leader() for member in members.values()}

    while await follow() != {leader}:
        await passing(LEASE / 10)
    await passing(2 * LEASE)
    assert await follow() == {leader}


@pytest.mark.parametrize("name", ELECTIONS)
def test_the_others_agree_when_the_leader_ends_and_again_when_it_returns(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    config = configuration(name)

    async def main() -> None:
        async with joined(config, "abc") as members:
            await agree(members, "c")
            await members.pop("c").close()
            await passing(3 * LEASE)
            await agree(members, "b")
            members["c"] = joined_to_elect(config, "c")
            await members["c"].open()
            await agree(members, "c")

    run(monkeypatch, main)


@pytest.mark.parametrize("name", ELECTIONS)
def test_a_leader_that_is_back_before_it_was_missed_leads_again(
    monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path
) -> None:
    config = configuration(name, folder=tmp_path)

    async def main() -> None:
        async with joined(config, "abc") as members:
            await agree(members, "c")
            for returning in "cba":
                await members.pop(returning).close()
                members[returning] = joined_to_elect(config, returning)
                await members[returning].open()
                await passing(LEASE / 2)
                await agree(members, "c")

    run(monkeypatch, main)


@pytest.mark.parametrize("name", ELECTIONS)
def test_nodes_that_were_never_there_are_not_waited_for_longer_than_a_lease(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    config = configuration(name, 5)

    async def main() -> None:
        async with joined(config, "ab") as members:
            await agree(members, "b")
            members["d"] = joined_to_elect(config, "d")
            await members["d"].open()
            await agree(members, "d")

    run(monkeypatch, main)


@pytest.mark.parametrize("name", ELECTIONS)
def test_a_leader_that_was_cut_off_leads_again_when_it_can_be_reached(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Both sides have had a leader: the detector was wrong, and all find out again."""
    config = configuration(name)
    is_cut = False
    dial = link.dial

    async def dial_unless_cut(*arguments: Any) -> Connection:
        if is_cut:
            raise OSError("cut")
        return await dial(*arguments)

    monkeypatch.setattr(link, "dial", dial_unless_cut)

    async def main() -> None:
        nonlocal is_cut
        async with joined(config, "abc") as members:
            await agree(members, "c")
            is_cut = True
            for member in members.values():
                engine = engine_of(member)
                assert isinstance(engine, ElectionEngine)
                for peer in engine.node.peers:
                    peer.abort("cut by the test")
            await passing(5 * LEASE)
            leaders = [await member.leader() for member in members.values()]
            assert leaders == ["a", "b", "c"], "each alone"
            is_cut = False
            await agree(members, "c")

    run(monkeypatch, main)


def test_a_node_that_returns_and_ends_before_it_is_reached_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = configuration("bully")
    lost: list[int] = []

    async def main() -> None:
        handlers = Handlers(
            letter=lambda peer, letter: None,
            lost=lost.append,
            met=lambda peer: None,
            restarted=lambda peer, incarnation: None,
            refused=lambda reason: None,
        )
        credentials = Credentials("test", "")
        peer = Peer(
            config.local_node("a"),
            2,
            lambda node: Caller(credentials, "peer", new_identity("a"), node),
            handlers,
        )
        for incarnation in (1, 2):  # it calls us, and we have no connection to it
            caller = Caller(credentials, "peer", new_identity("b"), None, incarnation=incarnation)
            peer.admit(Connection(), caller.hello)
        await passing(2 * LEASE)

    run(monkeypatch, main)
    assert lost == [2]


def test_what_is_no_election_is_refused_with_what_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with joined(configuration("bully", 1), "a") as members:
            member = members["a"]
            assert await member.leader() == "a"
            for call in (
                member.lock("x").acquire(),
                member.elect("x").acquire(),
                member.lock_all("x", "y").acquire(),
                member.semaphore("x", 2).acquire(),
                member.holders("x"),
                member.waiters("x"),
            ):
                with pytest.raises(coterie.UsageError, match=r"use leader\(\) or leaders\(\)"):
                    await call
            with pytest.raises(coterie.UsageError, match=r"use leader\(\) or leaders\(\)"):
                member.observe("x")

    run(monkeypatch, main)


def test_only_an_election_has_a_leader_among_its_nodes() -> None:
    for algorithm in ({"algorithm": "lamport"}, {}):
        member = join(convert(document(1, **algorithm)), node="a")
        assert not hasattr(member, "leader")
        assert not hasattr(member, "leaders")


def test_closing_ends_those_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with joined(configuration("ring", 2), "a") as members:
            member = members["a"]
            waiting = asyncio.ensure_future(member.leader())
            await passing(0)
            assert not waiting.done(), "node b may be there"
            await member.close()
            with pytest.raises(coterie.MisuseError, match="is not open"):
                await waiting

    run(monkeypatch, main)


class Nodes:
    """Nodes of an election, as processes."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = folder / "coterie.toml"
        lines = [f'algorithm = "{name}"', "lease = 1"]
        for node, settings in document(3)["nodes"].items():
            lines += [f"[nodes.{node}]", f'address = "{settings["address"]}"']
        self._file.write_text("\n".join(lines))
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._hung: set[str] = set()  # these may have followed one leader all the time

    def start(self, *names: str) -> None:
        script = str(Path(__file__).with_name("election_program.py"))
        for name in names:
            self._running[name] = subprocess.Popen(
                [sys.executable, script, str(self._file), name], stdout=subprocess.PIPE, text=True
            )

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.communicate()

    def hang(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGSTOP)
        self._hung.add(name)

    def wake(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGCONT)

    def agree(self, leader: str) -> None:
        """Wait until all that run and did not hang have said that they follow that node."""
        for name, process in self._running.items():
            if name in self._hung:
                continue
            said = ""
            while said != leader:
                assert process.stdout is not None
                ready, _, _ = select.select([process.stdout], [], [], PATIENCE_SECONDS)
                assert ready, f"node {name} says no more after {said!r}"
                said = process.stdout.readline().strip()
                assert said, f"node {name} has ended"

    def end(self) -> None:
        for name in list(self._running):
            self.kill(name)


@pytest.fixture(params=ELECTIONS)
def nodes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Nodes]:
    started = Nodes(tmp_path, request.param)
    try:
        yield started
    finally:
        started.end()


def test_processes_agree_on_the_next_leader_when_one_is_killed(nodes: Nodes) -> None:
    nodes.start("a", "b", "c")
    nodes.agree("c")
    nodes.kill("c")
    nodes.agree("b")
    nodes.start("c")
    nodes.agree("c")
    nodes.kill("c")
    nodes.kill("b")
    nodes.agree("a")


def test_processes_agree_on_the_next_leader_when_one_hangs(nodes: Nodes) -> None:
    """It closes no connection; so it is missed since it gives no sign of life for a lease."""
    nodes.start("a", "b", "c")
    nodes.agree("c")
    nodes.hang("c")
    nodes.agree("b")
    nodes.wake("c")
    nodes.agree("c")
