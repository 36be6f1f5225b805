"""A program that is killed is followed at once, where a process of its machine has seen its end.

The lease is longer than any test may take: what comes sooner has not waited for it. Another machine is
played by a time namespace: start times of processes there cannot be compared with those here.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.membership.ports import free_ports
from coterie.testing.nodes import write_document
from tests.cluster.local_cluster import (
    COTERIE,
    PATIENCE_SECONDS,
    POLL_SECONDS,
    Processes,
    Program,
    processes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie.cluster.admin.status import ClusterState
    from coterie.locks.engine import LockState

LEASE = 600.0
ELSEWHERE = ("unshare", "--time", "--boottime", "100000", "--fork", "--kill-child")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs pidfd")
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="makes namespaces"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with processes(tmp_path_factory.mktemp("cluster"), lease=LEASE) as running:
        yield running


class Started:
    """Programs and commands of a test, which are killed at its end."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def program(self, url: str, *arguments: str, elsewhere: bool = False) -> Program:
        program = Program(url, arguments, ELSEWHERE if elsewhere else ())
        self._processes.append(program.process)
        return program

    def command(self, *arguments: str, elsewhere: bool = False) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [*(ELSEWHERE if elsewhere else ()), *COTERIE, *arguments]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._processes.append(process)
        return process

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture
def started() -> Iterator[Started]:
    made = Started()
    yield made
    made.end()


@pytest.fixture
def lock(request: pytest.FixtureRequest) -> str:
    """Name a lock that no other test uses."""
    return str(request.node.name)


def locks_of(state: ClusterState, name: str) -> list[LockState]:
    return [each for each in state.locks if each.name == name]


def is_waited_for(name: str) -> Callable[[ClusterState], bool]:
    return lambda state: any(each.waiters for each in locks_of(state, name))


def is_free(name: str) -> Callable[[ClusterState], bool]:
    return lambda state: not locks_of(state, name)


def bury_another(cluster: Processes, started: Started, lock: str) -> None:
    """Kill a program, and wait until all nodes that know it have heard of its end."""
    other = started.program(cluster.url, "hold", f"{lock} other")
    other.read()
    other.process.kill()
    cluster.wait(is_free(f"{lock} other"), "the other to be buried")


def missing(state: ClusterState) -> list[str]:
    """List the programs that have a session with a node and are not connected to it."""
    reports = [node.report for node in state.nodes if node.report]
    sessions = [each for report in reports for each in report.sessions]
    return [each.label for each in sessions if not each.connected]


def logs(cluster: Processes, names: str = "abc") -> str:
    return "".join(cluster.log(name) for name in names)


def until_gone(pid: int) -> None:
    """Wait for the end of a process that is no child of ours."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(POLL_SECONDS)


def test_who_waits_follows_a_killed_holder(cluster: Processes, started: Started, lock: str) -> None:
    holder = started.program(cluster.url, "hold", lock)
    _, token = holder.read()
    waiter = started.program(cluster.url, "hold", lock)
    cluster.wait(is_waited_for(lock), "the second to wait")
    holder.process.kill()
    assert int(waiter.read()[1]) > int(token)
    assert f":{holder.process.pid} is dead, as node " in logs(cluster)
    status = subprocess.run(
        [*COTERIE, "status", "--url", cluster.url], capture_output=True, text=True, check=True
    )
    assert re.search(
        rf":{holder.process.pid} died \d+ s ago, as node [abc] has seen", status.stderr
    )


def test_who_comes_later_follows_a_killed_holder(
    cluster: Processes, started: Started, lock: str
) -> None:
    """As one that a supervisor has started again."""
    holder = started.program(cluster.url, "hold", lock)
    _, token = holder.read()
    holder.process.kill()
    holder.process.wait()
    assert int(started.program(cluster.url, "hold", lock).read()[1]) > int(token)


def test_a_killed_waiter_blocks_none_behind_it(
    cluster: Processes, started: Started, lock: str
) -> None:
    holder = started.program(cluster.url, "hold", lock)
    holder.read()
    waiter = started.program(cluster.url, "hold", lock)
    cluster.wait(is_waited_for(lock), "the second to wait")
    waiter.process.kill()
    words = f":{waiter.process.pid} is dead"
    cluster.wait(lambda _: words in logs(cluster), "the second to be buried")
    last = started.program(cluster.url, "hold", lock)
    cluster.wait(is_waited_for(lock), "the last to wait")
    assert holder.rest() == [["valid"], ["released"]]
    last.read()


@pytest.mark.parametrize("on_lost", ["kill", "ignore"])
def test_a_job_is_over_when_all_its_processes_are(
    cluster: Processes, started: Started, lock: str, on_lost: str
) -> None:
    """The command of `coterie lock` outlives it with `--on-lost ignore`; else the guard ends it."""
    work = ("sh", "-c", "echo $$; exec sleep 600")
    job = started.command("lock", "--url", cluster.url, "--on-lost", on_lost, lock, "--", *work)
    assert job.stdout is not None
    child = int(job.stdout.readline())
    waiter = started.program(cluster.url, "hold", lock)
    cluster.wait(is_waited_for(lock), "the second to wait")
    job.kill()
    job.wait()
    if on_lost == "ignore":
        bury_another(cluster, started, lock)
        assert is_waited_for(lock)(cluster.state())
        os.kill(child, signal.SIGKILL)
    until_gone(child)
    waiter.read()


def test_a_command_that_is_killed_while_it_waits_is_not_followed_before_its_lease_is_over(
    cluster: Processes, started: Started, lock: str
) -> None:
    """Its processes are not known before it has its child, so nothing proves its end."""
    holder = started.program(cluster.url, "hold", lock)
    holder.read()
    job = started.command("lock", "--url", cluster.url, lock, "--", "echo", "has it")
    cluster.wait(is_waited_for(lock), "the command to wait")
    job.kill()
    job.wait()
    bury_another(cluster, started, lock)
    assert f":{job.pid}" in "".join(missing(cluster.state()))


def test_who_wants_no_witness_has_none(cluster: Processes, started: Started, lock: str) -> None:
    holder = started.program(f"{cluster.url}?witness=off", "hold", lock)
    holder.read()
    started.program(cluster.url, "hold", lock)
    cluster.wait(is_waited_for(lock), "the second to wait")
    holder.process.kill()
    bury_another(cluster, started, lock)
    assert is_waited_for(lock)(cluster.state())


# On another machine than the nodes


@needs_root
def test_a_program_beside_it_sees_the_end_where_no_node_is(
    cluster: Processes, started: Started, lock: str
) -> None:
    holder = started.program(cluster.url, "hold", lock, elsewhere=True)
    holder.read()
    waiter = started.program(cluster.url, "hold", lock, elsewhere=True)
    cluster.wait(is_waited_for(lock), "the second to wait")
    (label,) = [party.owner for each in locks_of(cluster.state(), lock) for party in each.holders]
    holder.process.kill()
    waiter.read()
    assert f"program {label} is dead, as " in logs(cluster)
    assert f"program {label} is dead, as node " not in logs(cluster)


@needs_root
def test_one_that_comes_later_sees_the_end_where_no_node_is(
    cluster: Processes, started: Started, lock: str
) -> None:
    holder = started.program(cluster.url, "hold", lock, elsewhere=True)
    holder.read()
    here = started.program(cluster.url, "hold", lock)
    cluster.wait(is_waited_for(lock), "the second to wait")
    holder.process.kill()
    holder.process.wait()
    started.program(cluster.url, "hold", f"{lock} other", elsewhere=True).read()
    here.read()


@needs_root
def test_a_command_that_waits_sees_the_end_where_no_node_is(
    cluster: Processes, started: Started, lock: str
) -> None:
    holder = started.program(cluster.url, "hold", lock, elsewhere=True)
    holder.read()
    job = started.command(
        "lock", "--url", cluster.url, lock, "--", "echo", "has it", elsewhere=True
    )
    cluster.wait(is_waited_for(lock), "the command to wait")
    holder.process.kill()
    assert job.stdout is not None
    assert job.stdout.readline() == "has it\n"


@needs_root
def test_with_an_operator_secret_only_nodes_are_believed(
    tmp_path: Path, started: Started, lock: str
) -> None:
    """Two nodes are on another machine than the programs; the third is with them."""
    secret = tmp_path / "operators"
    secret.write_text("known to nodes and operators alone")
    cluster = Processes(tmp_path, lease=LEASE)
    file = tmp_path / "coterie.toml"
    file.write_text(f'operator-secret-file = "{secret}"\n{file.read_text()}')
    try:
        cluster.start("a", "b", new=True)
        near = started.command(
            "serve", "--config", str(file), "--node", "c", "--new-cluster", elsewhere=True
        )
        cluster.wait(lambda state: state.health == 0, "all nodes to vote")
        holder = started.program(cluster.url, "hold", lock, elsewhere=True)
        holder.read()
        second = started.program(cluster.url, "hold", lock, elsewhere=True)
        cluster.wait(is_waited_for(lock), "the second to wait")
        holder.process.kill()
        second.read()
        assert " is dead, as node c has seen" in logs(cluster, "ab")
        near.kill()
        near.wait()
        started.program(cluster.url, "hold", lock, elsewhere=True)
        cluster.wait(is_waited_for(lock), "the last to wait")
        second.process.kill()
        cluster.wait(missing, "its connections to be closed")
        started.program(cluster.url, "hold", f"{lock} other", elsewhere=True).read()
        assert is_waited_for(lock)(cluster.state())
    finally:
        cluster.end()


@needs_root
def test_nodes_that_were_renumbered_ask_each_other(
    tmp_path: Path, started: Started, lock: str
) -> None:
    """They asked where the others were on record, and a lease had to pass."""
    secret = tmp_path / "operators"
    secret.write_text("known to nodes and operators alone")
    cluster = Processes(tmp_path, lease=LEASE)
    cluster.document["operator-secret-file"] = str(secret)
    file = write_document(cluster.document, tmp_path)
    serve = ("serve", "--config", str(file), "--node", "c")
    try:
        cluster.start("a", "b", new=True)
        third = started.command(*serve, "--new-cluster", elsewhere=True)
        cluster.wait_for_number(1)
        for name in "ab":
            cluster.stop(name)
        third.kill()
        third.wait()
        new = {name: f"127.0.0.1:{port}" for name, port in zip("abc", free_ports(3), strict=True)}
        for name, address in new.items():
            cluster.document["nodes"][name] = {"address": address}
        write_document(cluster.document, tmp_path)
        cluster.url = cluster.url.replace(
            cluster.url.removeprefix("coterie://").partition("?")[0], ",".join(new.values())
        )
        cluster.start("a", "b")
        started.command(*serve, elsewhere=True)  # it abstains, and is a witness all the same
        cluster.wait(lambda state: all(node.report for node in state.nodes), "all nodes to answer")
        holder = started.program(cluster.url, "hold", lock, elsewhere=True)
        holder.read()
        second = started.program(cluster.url, "hold", lock, elsewhere=True)
        cluster.wait(is_waited_for(lock), "the second to wait")
        holder.process.kill()
        second.read()
        assert " is dead, as node c has seen" in logs(cluster, "ab")
    finally:
        cluster.end()


# Nodes that were away


def test_nodes_that_were_away_find_who_has_ended_and_not_who_is_stopped(
    tmp_path: Path, started: Started
) -> None:
    """The connections of both are gone, and neither answers."""
    with processes(tmp_path, lease=LEASE) as cluster:
        stopped = started.program(cluster.url, "hold", "x")
        stopped.read()
        killed = started.program(cluster.url, "hold", "y")
        killed.read()
        stopped.process.send_signal(signal.SIGSTOP)
        for name in "abc":
            cluster.stop(name)
        killed.process.kill()
        killed.process.wait()
        cluster.start(*"abc")
        cluster.wait(all_vote, "all nodes to vote")
        started.program(cluster.url, "hold", "y").read()
        assert locks_of(cluster.state(), "x")
        stopped.process.send_signal(signal.SIGCONT)
        assert stopped.rest() == [["valid"], ["released"]]


def all_vote(state: ClusterState) -> bool:
    return all(node.report and not node.report.abstains_seconds for node in state.nodes)
