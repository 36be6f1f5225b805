"""What becomes of a command when the `coterie lock` or `coterie elect` around it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.processes import (
    BOUND_SECONDS,
    COTERIE,
    Directory,
    children,
    directory,
    is_running,
    kill,
    line,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OBEDIENT = "trap 'echo asked; exit 42' TERM; echo $$; while :; do sleep 0.01; done"
STUBBORN = "trap '' TERM; echo $$; while :; do sleep 0.01; done"

# Watches over a stubborn group for an hour after TERM, but is in a hurry when it is killed.
HURRIED = f"""
import os, signal
from coterie.cli.lock.guard import Guard
guard = Guard(3600.0)
group = os.posix_spawnp("sh", ["sh", "-c", {STUBBORN!r}], os.environ, setpgroup=0)
guard.watch(group)
guard.hurry()
print(group, flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Run three nodes on this machine."""
    command = [*COTERIE, "serve", "--dev", "3", "--port", "0", "--lease", "2s", "-q"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        yield line(server)
        server.terminate()


@pytest.fixture
def cluster(url: str, tmp_path: Path) -> Iterator[Directory]:
    with directory(tmp_path) as opened:
        opened.environment["COTERIE_URL"] = url
        yield opened


@pytest.fixture
def name(tmp_path: Path) -> str:
    """Name a lock of this test alone, so that none waits for what another has left behind."""
    return tmp_path.name


def run(
    cluster: Directory, script: str, *options_and_name: str
) -> tuple[subprocess.Popen[str], int, int]:
    """Run a script that tells its process id; gives the process around it, the script, its guard."""
    process = cluster.start("lock", *options_and_name, "sh", "-c", script)
    command = int(line(process))
    (guard,) = set(children(process)) - {command}
    return process, command, guard


def said(process: subprocess.Popen[str]) -> str:
    """Read what the command has said, which ends when nobody of its group is left."""
    return process.communicate(timeout=BOUND_SECONDS)[0]


@pytest.mark.parametrize("verb", ["lock", "elect"])
def test_if_it_is_killed_the_whole_group_of_the_command_is_asked_to_end(
    cluster: Directory, name: str, verb: str
) -> None:
    script = "sleep 1000 & echo $$ $!; wait"
    process = cluster.start(verb, name, "--", "sh", "-c", script)
    group = [int(pid) for pid in line(process).split()]
    guards = [pid for pid in children(process) if pid not in group]
    assert len(guards) == 1
    kill(process)
    until(lambda: not any(map(is_running, group + guards)))


def test_one_that_does_not_end_is_killed(cluster: Directory, name: str) -> None:
    process, command, guard = run(cluster, STUBBORN, "--kill-after", "100ms", name)
    kill(process)
    until(lambda: not is_running(command))
    until(lambda: not is_running(guard))


@pytest.mark.usefixtures("adopting")
def test_one_that_is_stopped_is_woken_up_to_end(cluster: Directory, name: str) -> None:
    process, command, _ = run(cluster, OBEDIENT, name)
    os.killpg(command, signal.SIGSTOP)
    kill(process)
    assert said(process) == "asked\n"
    until(lambda: not is_running(command))


def test_it_is_killed_without_being_asked_if_told_so(cluster: Directory, name: str) -> None:
    process, command, _ = run(cluster, OBEDIENT, "--on-lost", "kill", name)
    kill(process)
    assert said(process) == ""
    until(lambda: not is_running(command))


def test_there_is_no_guard_if_a_loss_is_to_be_ignored(cluster: Directory, name: str) -> None:
    process = cluster.start("lock", "--on-lost", "ignore", name, "sh", "-c", OBEDIENT)
    command = int(line(process))
    try:
        assert children(process) == [command]
    finally:
        os.killpg(command, signal.SIGKILL)


def test_there_is_no_guard_where_the_command_inherits_the_lock(tmp_path: Path) -> None:
    with directory(tmp_path / "locks") as locks:
        process = locks.start("lock", "a", "sh", "-c", OBEDIENT)
        command = int(line(process))
        try:
            assert children(process) == [command]
        finally:
            os.killpg(command, signal.SIGKILL)


def test_the_next_holder_does_not_meet_a_command_whose_lock_was_left_by_a_killed_one(
    cluster: Directory,
    name: str,
) -> None:
    """However long it may take to end: it is killed before the lease has run out."""
    process, command, _ = run(cluster, STUBBORN, "--kill-after", "1h", name)
    state = f"ps -o stat= {command}; echo inside"
    waiter = cluster.start("lock", name, "--", "sh", "-c", state)
    kill(process)
    first = line(waiter)
    assert first == "inside" or first.startswith("Z"), "two are inside"


def test_a_command_that_is_being_stopped_is_killed_at_once(cluster: Directory) -> None:
    """What is left of the lease by then may be too short for asking it again."""
    process = cluster.python("-c", HURRIED)
    command = int(line(process))
    assert int(line(process)) == command, "the script has begun, and the guard is in a hurry"
    kill(process)
    until(lambda: not is_running(command))


@pytest.mark.parametrize(
    ("script", "status"),
    [("read line; exit 7", 7), ("read line; kill -9 $$", 128 + 9), (OBEDIENT, 42)],
)
def test_a_command_that_ends_leaves_no_guard_and_its_own_status(
    cluster: Directory, name: str, script: str, status: int
) -> None:
    process, _, guard = run(cluster, f"echo $$; {script}", name)
    if script == OBEDIENT:
        line(process)
        process.send_signal(signal.SIGTERM)
    process.communicate("\n", timeout=BOUND_SECONDS)
    assert process.returncode == status
    assert not is_running(guard)


def test_what_a_command_leaves_in_the_background_is_left_alone(
    cluster: Directory, name: str
) -> None:
    outcome = cluster.run("lock", name, "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
    left = int(outcome.stdout)
    try:
        assert cluster.run("lock", name, "true").returncode == 0
        assert is_running(left)
    finally:
        os.kill(left, signal.SIGKILL)


def test_what_cannot_be_started_needs_no_guard(cluster: Directory, name: str) -> None:
    outcome = cluster.run("lock", name, "no-such-program")
    assert (outcome.returncode, outcome.stderr.count("\n")) == (127, 1)


def test_the_command_does_not_suffer_if_the_guard_alone_is_killed(
    cluster: Directory, name: str
) -> None:
    process, _, guard = run(cluster, "echo $$; read line; exit 7", name)
    os.kill(guard, signal.SIGKILL)
    until(lambda: not is_running(guard))
    process.communicate("\n", timeout=BOUND_SECONDS)
    assert process.returncode == 7


def test_signals_that_reach_everybody_do_not_end_the_guard(cluster: Directory, name: str) -> None:
    process, command, guard = run(cluster, OBEDIENT, name)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        os.kill(guard, number)
    kill(process)
    assert said(process) == "asked\n"
    until(lambda: not is_running(command))


def test_without_a_shell_the_command_does_not_run(
    cluster: Directory, name: str, tmp_path: Path
) -> None:
    process = cluster.start(
        "lock", name, sys.executable, "-c", "print('up')", environment={"PATH": str(tmp_path)}
    )
    stdout, stderr = process.communicate(timeout=BOUND_SECONDS)
    assert (process.returncode, stdout) == (69, "")
    assert "which guards the command" in stderr
