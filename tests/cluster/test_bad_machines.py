"""Machines that fail in other ways than by dying once: storms of restarts, disks, cut networks."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import coterie
from coterie.cluster.admin.status import HEALTHY
from coterie.errors import ConfigError, Unavailable
from tests.cluster.local_cluster import COTERIE, PATIENCE_SECONDS, Processes, processes

STORMS = 2


def tokens_of(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]


def wait_for_another(cluster: Processes, log: Path) -> None:
    entries = len(tokens_of(log))
    cluster.wait(lambda _: len(tokens_of(log)) > entries, "another entry")


def test_nodes_killed_again_and_again_repeat_no_token(tmp_path: Path) -> None:
    """Holds are lost, since no quorum remembers them; numbers are not, and all goes on afterwards."""
    log = tmp_path / "tokens"
    with processes(tmp_path) as cluster:
        programs = [cluster.program("persist", "x", str(log)) for _ in range(2)]
        for program in programs:
            program.read()
        for _ in range(STORMS):
            for name in "abc":
                cluster.kill(name)
                cluster.start(name)
            cluster.wait(lambda state: state.health == HEALTHY, "all to vote again")
            wait_for_another(cluster, log)
        for program in programs:
            program.rest()
    tokens = tokens_of(log)
    assert tokens == sorted(set(tokens))


def test_two_processes_cannot_be_one_node(tmp_path: Path) -> None:
    with processes(tmp_path) as cluster:
        twin = cluster.run("--node", "a")
        assert twin.returncode == ConfigError.exit_status
        assert "another process runs a node on" in twin.stderr
        apart = cluster.run("--node", "a", "--data", str(tmp_path / "elsewhere"))
        assert apart.returncode == Unavailable.exit_status
        assert "address already in use" in apart.stderr
        assert cluster.state().health == HEALTHY, "the one that was there goes on"


def test_a_torn_bound_keeps_a_node_from_voting(tmp_path: Path) -> None:
    with processes(tmp_path) as cluster:
        first = cluster.program("hold", "x")
        _, token = first.read()
        first.rest()
        cluster.kill("a")
        bound = tmp_path / "data" / "a" / "bound"
        bound.write_bytes(bound.read_bytes()[:-12])
        torn = cluster.run("--node", "a")
        assert torn.returncode == ConfigError.exit_status
        assert "is damaged" in torn.stderr
        second = cluster.program("hold", "x")
        assert int(second.read()[1]) > int(token), "the others are a quorum"


def in_a_namespace(*what: str) -> bool:
    """Tell whether this machine lets us make namespaces of our own."""
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run(["unshare", "-rmn", *what], capture_output=True, check=False)
    return done.returncode == 0


def on_a_small_disk(folder: Path, before: str) -> list[str]:
    """Return the command that starts a node, after another one, with a disk of 64 kilobytes."""
    data = folder / "data"
    data.mkdir()
    serve = [*COTERIE, "serve", "--config", str(folder / "coterie.toml"), "--new-cluster"]
    script = f'mount -t tmpfs -o size=64k tmpfs {data}; mkdir {data}/a; {before}; exec "$@"'
    return ["unshare", "-rm", "sh", "-c", script, "sh", *serve]


@pytest.mark.skipif(not in_a_namespace("true"), reason="namespaces are not permitted here")
def test_a_node_does_not_start_on_a_full_disk(tmp_path: Path) -> None:
    """It could not even write down which disk this is."""
    Processes(tmp_path, 1)
    fills = f"head -c 128k /dev/zero > {tmp_path}/data/full 2>/dev/null"
    done = subprocess.run(
        on_a_small_disk(tmp_path, fills),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == Unavailable.exit_status
    assert f"the data directory {tmp_path}/data/a: No space left on device" in done.stderr


@pytest.mark.skipif(not in_a_namespace("true"), reason="namespaces are not permitted here")
def test_a_full_disk_stops_a_node_before_it_gives_a_vote(tmp_path: Path) -> None:
    """The data directory is on a disk of 64 kilobytes, all of them used when the node runs."""
    cluster = Processes(tmp_path, 1)
    data, full = tmp_path / "data", tmp_path / "full"
    waits = f"while [ ! -e {full} ]; do sleep 0.05; done"
    fills = f"(({waits}; head -c 128k /dev/zero > {data}/full; rm {full}) 2>/dev/null &)"
    command = on_a_small_disk(tmp_path, fills)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as node:
        try:
            cluster.wait(lambda state: state.health == HEALTHY, "the node to vote")
            full.touch()
            cluster.wait(lambda _: not full.exists(), "the disk to be full")

            async def lock() -> None:
                async with coterie.connect(cluster.url) as coordinator:
                    with pytest.raises(coterie.NoQuorum):
                        await coordinator.lock("x").acquire()

            asyncio.run(lock())
            _, talk = node.communicate(timeout=PATIENCE_SECONDS)
        finally:
            node.kill()
    assert node.returncode == Unavailable.exit_status
    assert "votes no more: it cannot save its bound" in talk
    assert "No space left on device" in talk


NETWORK = in_a_namespace("ip", "link", "add", "bridge", "type", "bridge")


@pytest.mark.skipif(not NETWORK, reason="networks of our own are not permitted here")
def test_a_holder_whose_network_is_cut_loses_the_lock_to_the_next_one() -> None:
    """Five hosts in namespaces on a bridge; cables are pulled, and no packet says so."""
    script = str(Path(__file__).with_name("network_program.py"))
    command = ["unshare", "-rmn", sys.executable, script]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=3 * PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "the first holds",
        "the second holds with a larger token, and the first has lost",
        "without a majority the second has lost, and a third finds no quorum",
        "with the cables back a fourth holds with a larger token",
    ]
