"""A program that is killed is followed at once on etcd and ZooKeeper, by one that waits on its machine.

The lease is as long as the server allows, and longer than a test may take.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cluster.local_cluster import COTERIE, Program
from tests.engines.conformance.suppliers import SUPPLIERS, Missing, leave_out

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs pidfd")

LEASE = "?lease=600"


@pytest.fixture(scope="module", params=["etcd", "zookeeper"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with SUPPLIERS[request.param](tmp_path_factory.mktemp(request.param)) as supplier:
            yield supplier.url().partition("?")[0] + LEASE
    except Missing as error:
        leave_out(error)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def hold(started: list[subprocess.Popen[str]], url: str, lock: str) -> Program:
    program = Program(url, ("hold", lock))
    started.append(program.process)
    return program


def await_waiter(url: str, lock: str) -> None:
    """Look until a program waits for a lock; each look is a command."""
    while True:
        looked = subprocess.run(
            [*COTERIE, "status", "waiters", "--url", url],
            capture_output=True,
            text=True,
            check=True,
        )
        if lock in looked.stdout:
            return


def test_who_waits_follows_a_killed_holder(url: str, started: list[subprocess.Popen[str]]) -> None:
    holder = hold(started, url, "x")
    _, token = holder.read()
    waiter = hold(started, url, "x")
    await_waiter(url, "x")
    holder.process.kill()
    assert int(waiter.read()[1]) > int(token)


def test_who_comes_later_follows_two_that_were_killed(
    url: str, started: list[subprocess.Popen[str]]
) -> None:
    holder = hold(started, url, "y")
    _, token = holder.read()
    waiter = hold(started, url, "y")
    await_waiter(url, "y")
    os.kill(waiter.process.pid, signal.SIGKILL)
    holder.process.kill()
    assert int(hold(started, url, "y").read()[1]) > int(token)


def test_a_stopped_holder_is_not_dead(url: str, started: list[subprocess.Popen[str]]) -> None:
    holder = hold(started, url, "z")
    holder.read()
    waiter = hold(started, url, "z")
    await_waiter(url, "z")
    holder.process.send_signal(signal.SIGSTOP)
    other = hold(started, url, "another z")
    other.read()
    other.process.kill()
    hold(started, url, "another z").read()
    assert waiter.process.stdout is not None
    ready, _, _ = select.select([waiter.process.stdout.fileno()], [], [], 0)
    assert not ready, "it waits"
    holder.process.send_signal(signal.SIGCONT)
    assert holder.rest() == [["valid"], ["released"]]
    waiter.read()


def test_a_job_is_over_when_all_its_processes_are(
    url: str, started: list[subprocess.Popen[str]]
) -> None:
    work = ("sh", "-c", "echo $$; exec sleep 600")
    job = subprocess.Popen(
        [*COTERIE, "lock", "--url", url, "--on-lost", "ignore", "j", "--", *work],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    started.append(job)
    assert job.stdout is not None
    child = int(job.stdout.readline())
    waiter = hold(started, url, "j")
    await_waiter(url, "j")
    job.kill()
    job.wait()
    other = hold(started, url, "another j")
    other.read()
    other.process.kill()
    hold(started, url, "another j").read()
    await_waiter(url, "j")
    os.kill(child, signal.SIGKILL)
    waiter.read()
