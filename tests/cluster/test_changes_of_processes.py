"""Changes of the voters where nodes, programs and the command are processes, killed and stopped."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie.errors import Unavailable
from tests.cluster.local_cluster import PATIENCE_SECONDS, Processes, Program, processes, url_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from coterie.cluster.admin.status import ClusterState

pytestmark = pytest.mark.usefixtures("open_and_guarded")

PLANNED = "failures borne"  # what the command says before it begins, and whenever a step is decided
DECIDED = "is decided"
PAUSE_SECONDS = 0.02  # between two entries of a program, so that a change has a core to run on


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    with processes(tmp_path) as running:
        running.wait_for_number(1)
        yield running


class Load:
    """Programs that take one lock in turns and note its tokens; none of them bears a loss."""

    def __init__(self, cluster: Processes) -> None:
        self.path = cluster.folder / "tokens"
        self.programs = [self.start(cluster) for _ in range(2)]

    def start(self, cluster: Processes) -> Program:
        """Start one of them."""
        program = cluster.program("turns", "busy", str(self.path), str(PAUSE_SECONDS))
        assert program.read() == ["going"]
        return program

    def end(self) -> None:
        """Let them end, and look at the tokens."""
        for program in self.programs:
            assert program.rest()[0][0] == "entries"
        tokens = [int(line) for line in self.path.read_text().split()]
        assert tokens == sorted(set(tokens))


def line_up(cluster: Processes, lock: str, count: int) -> list[Program]:
    """Start programs that want one lock; each waits before the next one comes."""
    programs: list[Program] = []
    for place in range(count):
        programs.append(cluster.program("hold", lock))
        if place == 0:
            programs[0].read()
            continue
        cluster.wait(lambda state: waiters(state, lock) == place, "a program to wait")  # noqa: B023
    return programs


def waiters(state: ClusterState, lock: str) -> int:
    return max((len(each.waiters) for each in state.locks if each.name == lock), default=0)


def check_order(programs: list[Program]) -> None:
    """The first has its lock still, and the others get it in the order in which they came."""
    for place, program in enumerate(programs):
        if place > 0:
            assert program.read()[0] == "held"
        assert program.rest() == [["valid"], ["released"]]


def vote(cluster: Processes, names: str) -> None:
    """Wait until these are the voters, all of them vote, and all programs are there."""
    cluster.wait(
        lambda state: [node.name for node in state.nodes] == list(names) and state.health == 0,
        f"{names} to vote",
    )


def interrupt(change: subprocess.Popen[str], said: str, times: int = 1) -> None:
    """Kill a command as soon as it has said something so often."""
    assert change.stderr is not None
    for line in change.stderr:
        times -= said in line
        if times == 0:
            break
    change.kill()
    change.wait(PATIENCE_SECONDS)


def replaced(cluster: Processes, old: str, new: str) -> None:
    """Finish what was begun; if nothing was, begin once more."""
    cluster.change("finish")
    if old in {voter.name for voter in cluster.standing().voters}:
        cluster.change("replace", old, new)


def test_each_node_is_replaced_under_load_while_nodes_programs_and_the_command_are_killed(
    cluster: Processes,
) -> None:
    line, load = line_up(cluster, "held", 3), Load(cluster)
    victim = load.start(cluster)

    (new,) = cluster.join("d")
    interrupt(cluster.begin("replace", "a", new), PLANNED)
    replaced(cluster, "a", new)
    cluster.kill("a")
    vote(cluster, "bcd")
    victim.process.kill()

    (new,) = cluster.join("e")
    interrupt(cluster.begin("replace", "b", new), DECIDED)
    cluster.kill("d")
    replaced(cluster, "b", new)
    cluster.kill("b")
    cluster.start("d")
    vote(cluster, "cde")

    (new,) = cluster.join("f")
    interrupt(cluster.begin("replace", "c", new), DECIDED, 2)
    replaced(cluster, "c", new)
    cluster.kill("c")
    vote(cluster, "def")
    load.end()
    check_order(line)


def test_all_nodes_at_once_cost_no_hold_but_that_of_a_program_which_was_stopped(
    cluster: Processes,
) -> None:
    line, load = line_up(cluster, "held", 1), Load(cluster)
    stopped, following = line_up(cluster, "other", 2)
    os.kill(stopped.process.pid, signal.SIGSTOP)
    cluster.change("add", *cluster.join("d", "e", "f"))
    cluster.kill("e")
    cluster.start("e")
    cluster.wait_for_node("e")
    cluster.change("remove", "a", "b", "c", "--yes")
    os.kill(stopped.process.pid, signal.SIGCONT)
    assert stopped.read() == ["lost"]
    assert following.read()[0] == "held"
    for name in "abc":
        cluster.kill(name)
    vote(cluster, "def")
    load.end()
    check_order(line)
    assert following.rest() == [["valid"], ["released"]]

    cluster.start("a")  # with its old disk
    late = cluster.program("hold", "held", url=url_of(cluster.config))
    assert late.read()[0] == "held", "the removed node has shown it the way"
    status = msgspec.json.decode(cluster.change("status", "-o", "json"))
    assert [voter["name"] for voter in status["voters"]] == ["d", "e", "f"]
    assert [spare["name"] for spare in status["spares"]] == ["a"]


def test_an_empty_disk_under_an_old_name_has_no_vote_until_it_replaces_the_lost_one(
    cluster: Processes,
) -> None:
    cluster.kill("b")
    shutil.rmtree(cluster.folder / "data" / "b")
    cluster.start("b")
    cluster.wait(lambda state: not state.nodes[1].trouble, "b to answer")
    status, out, advice = cluster.command("status")
    assert status == 1
    assert "spare: another disk than the voter's" in out
    assert "coterie cluster replace b" in advice

    async def lock() -> int:
        async with coterie.connect(cluster.url) as coordinator, coordinator.lock("x") as held:
            return held.token

    before = asyncio.run(lock())
    cluster.signal("c", signal.SIGSTOP)
    with pytest.raises(coterie.NoQuorum, match="coterie cluster replace b"):
        asyncio.run(lock())
    cluster.signal("c", signal.SIGCONT)
    line = line_up(cluster, "held", 1)
    cluster.change("replace", "b")
    vote(cluster, "acb")
    cluster.kill("a")
    assert asyncio.run(lock()) > before, "b has a vote"
    check_order(line)


def test_longer_and_shorter_leases_keep_what_is_held_while_nodes_are_killed(
    cluster: Processes,
) -> None:
    line, load = line_up(cluster, "held", 1), Load(cluster)
    cluster.kill("b")
    cluster.change("set", "lease=2s")
    cluster.start("b")
    vote(cluster, "abc")
    cluster.kill("c")
    cluster.change("set", "lease=0.5s")
    cluster.start("c")
    vote(cluster, "abc")
    load.end()
    check_order(line)


def test_a_full_disk_ends_its_node_and_no_change(cluster: Processes) -> None:
    line = line_up(cluster, "held", 1)
    (new,) = cluster.join("d")
    cluster.fill_disk("b")
    cluster.change("replace", "a", new)
    ended = cluster.ended("b")
    assert ended == Unavailable.exit_status, "also where its log is on the same disk"
    cluster.start("b")
    vote(cluster, "bcd")
    assert {
        voter.condition.configuration.number
        for voter in cluster.standing().voters
        if voter.condition and voter.condition.configuration
    } == {3}
    check_order(line)
