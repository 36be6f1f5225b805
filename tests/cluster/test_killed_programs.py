"""A program that is killed is followed at once, where a process of its machine has seen its end.

The lease is longer than any test may take: what comes sooner has not waited for it. Another machine is
played by a time namespace: start times of processes there cannot be compared with those here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.local_cluster import (
    COTERIE,
    PATIENCE_SECONDS,
    POLL_SECONDS,
    Processes,
    Program,
    processes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.cluster.admin.status import ClusterState

LEASE = 600.0
ELSEWHERE = ("unshare", "--time", "--boottime", "100000", "--fork", "--kill-child")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs pidfd")
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="makes namespaces"
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    with processes(tmp_path, lease=LEASE) as running:
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


def waits(state: ClusterState) -> bool:
    return any(lock.waiters for lock in state.locks)


def is_held(state: ClusterState) -> bool:
    return any(lock.name == "x" and lock.holders + lock.silent for lock in state.locks)


def logs(cluster: Processes, names: str = "abc") -> str:
    return "".join(cluster.log(name) for name in names)


def until_gone(pid: int) -> None:
    """Wait for the end of a process that is no child of ours."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(POLL_SECONDS)


def test_who_waits_follows_a_killed_holder(cluster: Processes) -> None:
    holder = cluster.program("hold", "x")
    _, token = holder.read()
    waiter = cluster.program("hold", "x")
    cluster.wait(waits, "the second to wait")
    holder.process.kill()
    assert int(waiter.read()[1]) > int(token)
    assert f":{holder.process.pid} is dead, as node " in logs(cluster)


def test_who_comes_later_follows_a_killed_holder(cluster: Processes) -> None:
    """As one that a supervisor has started again."""
    holder = cluster.program("hold", "x")
    _, token = holder.read()
    holder.process.kill()
    holder.process.wait()
    assert int(cluster.program("hold", "x").read()[1]) > int(token)


def test_a_killed_waiter_blocks_none_behind_it(cluster: Processes) -> None:
    holder, waiter = cluster.program("hold", "x"), None
    holder.read()
    waiter = cluster.program("hold", "x")
    cluster.wait(waits, "the second to wait")
    waiter.process.kill()
    cluster.wait(lambda state: not waits(state), "the second to be forgotten")
    last = cluster.program("hold", "x")
    cluster.wait(waits, "the last to wait")
    assert holder.rest() == [["valid"], ["released"]]
    last.read()


def test_a_stopped_holder_is_not_dead(cluster: Processes) -> None:
    """Its connections break as well when nodes are started again; and it goes on where it was."""
    holder = cluster.program("hold", "x")
    holder.read()
    holder.process.send_signal(signal.SIGSTOP)
    for name in "abc":
        cluster.stop(name)
        cluster.start(name)
    cluster.wait(lambda state: state.health == 0, "all nodes to vote")
    other = cluster.program("hold", "y")
    other.read()
    other.process.kill()
    cluster.wait(
        lambda state: not any(lock.name == "y" for lock in state.locks), "the other to be buried"
    )
    assert is_held(cluster.state())
    holder.process.send_signal(signal.SIGCONT)
    assert holder.rest() == [["valid"], ["released"]]


def test_a_program_that_ended_while_a_node_was_away_is_found_by_it(cluster: Processes) -> None:
    holder = cluster.program("hold", "x")
    holder.read()
    for name in "abc":
        cluster.stop(name)
    holder.process.kill()
    holder.process.wait()
    cluster.start(*"abc")
    cluster.wait(lambda state: state.health == 0, "all nodes to vote")
    cluster.program("hold", "x").read()


@pytest.mark.parametrize("on_lost", ["kill", "ignore"])
def test_a_job_is_over_when_all_its_processes_are(
    cluster: Processes, started: Started, on_lost: str
) -> None:
    """The command of `coterie lock` outlives it with `--on-lost ignore`; else the guard ends it."""
    job = started.command(
        "lock", "--url", cluster.url, "--on-lost", on_lost, "x", "--", "sh", "-c", "echo $$; exec sleep 600"
    )  # fmt: skip
    assert job.stdout is not None
    child = int(job.stdout.readline())
    waiter = cluster.program("hold", "x")
    cluster.wait(waits, "the second to wait")
    job.kill()
    job.wait()
    if on_lost == "ignore":
        other = cluster.program("hold", "y")  # its end is noticed, and that of the job is not
        other.read()
        other.process.kill()
        cluster.wait(lambda state: len(state.locks) == 1, "the other to be buried")
        assert waits(cluster.state())
        os.kill(child, signal.SIGKILL)
    until_gone(child)
    waiter.read()


# Elsewhere


@needs_root
def test_a_program_beside_it_sees_the_end_where_no_node_is(
    cluster: Processes, started: Started
) -> None:
    holder = started.program(cluster.url, "hold", "x", elsewhere=True)
    holder.read()
    waiter = started.program(cluster.url, "hold", "x", elsewhere=True)
    cluster.wait(waits, "the second to wait")
    holder.process.kill()
    waiter.read()
    assert " is dead, as node " not in logs(cluster)
    assert " is dead, as " in logs(cluster)


@needs_root
def test_one_that_comes_later_sees_the_end_where_no_node_is(
    cluster: Processes, started: Started
) -> None:
    holder = started.program(cluster.url, "hold", "x", elsewhere=True)
    holder.read()
    here = cluster.program("hold", "x")
    cluster.wait(waits, "the second to wait")
    holder.process.kill()
    holder.process.wait()
    started.program(cluster.url, "hold", "y", elsewhere=True).read()
    here.read()


@needs_root
def test_a_waiting_command_sees_the_end_where_no_node_is(
    cluster: Processes, started: Started
) -> None:
    holder = started.program(cluster.url, "hold", "x", elsewhere=True)
    holder.read()
    job = started.command("lock", "--url", cluster.url, "x", "--", "echo", "has it", elsewhere=True)
    cluster.wait(waits, "the command to wait")
    holder.process.kill()
    assert job.stdout is not None
    assert job.stdout.readline() == "has it\n"


@needs_root
def test_with_an_operator_secret_only_nodes_are_believed(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes are on another machine than the programs; the third is with them."""
    secret = tmp_path / "operators"
    secret.write_text("known to nodes and operators alone")
    monkeypatch.setenv("COTERIE_OPERATOR_SECRET_FILE", str(secret))
    cluster = Processes(tmp_path, lease=LEASE)
    try:
        cluster.start("a", "b", new=True)
        serve = ("serve", "--config", str(tmp_path / "coterie.toml"), "--new-cluster", "c")
        near = started.command(*serve, elsewhere=True)
        cluster.wait(lambda state: state.health == 0, "all nodes to vote")
        monkeypatch.delenv("COTERIE_OPERATOR_SECRET_FILE")
        holder = started.program(cluster.url, "hold", "x", elsewhere=True)
        holder.read()
        waiter = started.program(cluster.url, "hold", "x", elsewhere=True)
        cluster.wait(waits, "the second to wait")
        holder.process.kill()
        waiter.read()
        assert " is dead, as node c has seen" in logs(cluster, "ab")
        near.kill()
        near.wait()
        last = started.program(cluster.url, "hold", "x", elsewhere=True)
        cluster.wait(waits, "the last to wait")
        pid = waiter.process.pid
        waiter.process.kill()
        waiter.process.wait()
        cluster.wait(
            lambda state: any(
                not each.connected and each.label.endswith(f":{pid}") or not each.connected
                for node in state.nodes
                if node.report
                for each in node.report.sessions
            ),
            "its connections to be closed",
        )
        assert waits(cluster.state())
        assert last.process.poll() is None
    finally:
        cluster.end()


# Switched off


def test_who_wants_no_witness_has_none(cluster: Processes, started: Started) -> None:
    holder = started.program(f"{cluster.url}?witness=off", "hold", "x")
    holder.read()
    waiter = cluster.program("hold", "x")
    cluster.wait(waits, "the second to wait")
    holder.process.kill()
    other = cluster.program("hold", "y")
    other.read()
    other.process.kill()
    cluster.wait(lambda state: len(state.locks) == 1, "the other to be buried")
    assert waits(cluster.state())
    assert waiter.process.poll() is None
