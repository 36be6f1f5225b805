"""A program that is killed is followed at once on each server that keeps queues, by one that waits on its machine.

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

from coterie.lab.servers.child import ServerMissing
from tests.cluster.local_cluster import COTERIE, Program
from tests.engines.conformance.suppliers import SUPPLIERS, leave_out

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs pidfd")

FIRST_LEASE, LEASE = "?lease=2", "?lease=600"
KINDS = ["etcd", "zookeeper", "valkey", "postgresql", "mariadb", "nats"]
if os.environ.get("COTERIE_TEST_ENGINES") == "all":
    KINDS.append("s3")  # where each look comes two seconds late
ELSEWHERE = ("unshare", "--time", "--boottime", "100000", "--fork", "--kill-child")

needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="makes namespaces"
)


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with SUPPLIERS[request.param](
            tmp_path_factory.mktemp("engines") / request.param
        ) as supplier:
            server = supplier.url().partition("?")[0]
            # A server that has just been started may be closed for a lease; later it is open, whatever leases come.
            subprocess.run(
                [*COTERIE, "lock", "--url", f"{server}{FIRST_LEASE}", "first", "--", "true"],
                check=True,
            )
            yield server + LEASE
    except ServerMissing as error:
        leave_out(error)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def hold(
    started: list[subprocess.Popen[str]], url: str, lock: str, prefix: tuple[str, ...] = ()
) -> Program:
    program = Program(url, ("hold", lock), prefix)
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


def bury_another(started: list[subprocess.Popen[str]], url: str, lock: str) -> None:
    """Let another killed program be followed: by then one that waits for this lock would have it."""
    other = hold(started, url, f"another {lock}")
    other.read()
    other.process.kill()
    hold(started, url, f"another {lock}").read()


def is_inside(program: Program) -> bool:
    assert program.process.stdout is not None
    return bool(select.select([program.process.stdout.fileno()], [], [], 0)[0])


def test_a_stopped_holder_is_not_dead(url: str, started: list[subprocess.Popen[str]]) -> None:
    holder = hold(started, url, "z")
    holder.read()
    waiter = hold(started, url, "z")
    await_waiter(url, "z")
    holder.process.send_signal(signal.SIGSTOP)
    bury_another(started, url, "z")
    assert not is_inside(waiter)
    holder.process.send_signal(signal.SIGCONT)
    assert holder.rest() == [["valid"], ["released"]]
    waiter.read()


def test_who_wants_no_witness_has_none(url: str, started: list[subprocess.Popen[str]]) -> None:
    holder = hold(started, f"{url}&witness=off", "o")
    holder.read()
    waiter = hold(started, url, "o")
    await_waiter(url, "o")
    holder.process.kill()
    bury_another(started, url, "o")
    assert not is_inside(waiter)


@needs_root
def test_the_end_of_a_program_with_another_clock_is_not_seen(
    url: str, started: list[subprocess.Popen[str]]
) -> None:
    holder = hold(started, url, "e", ELSEWHERE)
    holder.read()
    waiter = hold(started, url, "e")
    await_waiter(url, "e")
    holder.process.kill()
    bury_another(started, url, "e")
    assert not is_inside(waiter)


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
    bury_another(started, url, "j")
    await_waiter(url, "j")
    os.kill(child, signal.SIGKILL)
    waiter.read()
