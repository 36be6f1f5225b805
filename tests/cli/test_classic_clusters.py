"""`coterie status`, `lock` and `elect` on clusters that run a classic algorithm."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.membership.ports import free_ports
from tests.processes import BOUND_SECONDS, Directory, directory, kill, line, until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path


class Cluster:
    """A cluster file and the commands that use it; all are killed at the end of the test."""

    def __init__(self, commands: Directory, folder: Path, algorithm: str) -> None:
        file = folder / "coterie.toml"
        lines = [f'algorithm = "{algorithm}"', "lease = 1"]
        for name, port in zip("abc", free_ports(3), strict=True):
            lines += [f"[nodes.{name}]", f'address = "127.0.0.1:{port}"']
        file.write_text("\n".join(lines))
        commands.environment |= {"COTERIE_CONFIG": str(file), "COTERIE_URL": f"coterie:{file}"}
        self.run = commands.run
        self.start = commands.start

    def serve(self, *names: str) -> list[subprocess.Popen[str]]:
        return [self.start("serve", "-q", "--node", name) for name in names]

    def state(self) -> dict[str, object]:
        said: dict[str, object] = json.loads(self.run("status", "-o", "json").stdout)
        return said


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with directory(tmp_path / "locks") as commands:
        yield Cluster(commands, tmp_path, request.param)


@pytest.mark.parametrize("cluster", ["bully"], indirect=True)
def test_the_leader_of_an_election_is_shown_and_followed(cluster: Cluster) -> None:
    assert cluster.run("status").returncode == 69
    assert cluster.run("elect", "-l", "x").returncode == 69
    *_, last = cluster.serve("a", "b", "c")
    until(lambda: cluster.state()["leader"] == "c")
    status = cluster.run("status")
    assert (status.returncode, status.stderr.strip()) == (
        0,
        "cluster coterie: bully, healthy, leader c",
    )
    follower = cluster.start("elect", "-l", "x")
    assert line(follower) == "x c"
    kill(last)
    while (said := line(follower)) == "x -":
        pass
    assert said == "x b"
    follower.send_signal(signal.SIGINT)
    assert follower.wait(BOUND_SECONDS) == 130
    degraded = cluster.run("status")
    assert degraded.returncode == 1
    assert "down:" in degraded.stdout
    returned = cluster.start("elect", "--node", "c", "-l", "x")
    assert line(returned) == "x c"


@pytest.mark.parametrize("cluster", ["bully"], indirect=True)
@pytest.mark.parametrize("command", [("lock", "x"), ("elect", "x", "--", "true")])
def test_an_election_has_no_locks(cluster: Cluster, command: tuple[str, ...]) -> None:
    verb, *rest = command
    refused = cluster.run(verb, "--node", "a", *rest)
    assert refused.returncode == 64
    assert refused.stderr.count("\n") == 1
    assert "follow the leader with coterie elect -l NAME" in refused.stderr


@pytest.mark.parametrize("cluster", ["raymond"], indirect=True)
def test_a_command_takes_part_as_a_node_and_its_lock_is_shown(cluster: Cluster) -> None:
    cluster.serve("b", "c")
    holder = cluster.start("lock", "--node", "a", "x")
    assert line(holder).startswith("x ")
    state = json.loads(cluster.run("status", "-o", "json").stdout)
    (lock,) = state["locks"]
    assert lock["name"] == "x"
    assert lock["holders"][0]["owner"].endswith(f":{holder.pid}")
    assert cluster.run("status", "locks").returncode == 0
    assert cluster.run("status", "graph").returncode == 64
    outsider = cluster.run("lock", "x", "--", "true")
    assert outsider.returncode == 64
    assert "take part as one of a, b, c" in outsider.stderr
    assert outsider.stderr.count("\n") == 1
    holder.communicate(timeout=BOUND_SECONDS)
    assert holder.returncode == 0
    again = cluster.run("lock", "--node", "a", "x", "--", "true")
    assert again.returncode == 69
    assert "node 'a' was restarted: raymond does not tolerate restarts" in again.stderr


@pytest.mark.parametrize("url", ["file:", "coterie://127.0.0.1:1"])
def test_a_node_needs_a_cluster_file(tmp_path: Path, url: str) -> None:
    with directory(tmp_path / "locks") as commands:
        refused = commands.run("lock", "--url", url, "--node", "a", "x", "--", "true")
    assert refused.returncode == 64
    assert "--node needs the cluster file" in refused.stderr


@pytest.mark.parametrize("cluster", ["raymond"], indirect=True)
def test_a_recording_in_which_nothing_happens_says_so(cluster: Cluster, tmp_path: Path) -> None:
    to_file = ("--trace", str(tmp_path / "x.jsonl"))
    assert "say where it goes" in cluster.run("record", "1s").stderr
    assert "at most 600 seconds" in cluster.run("record", "1h", *to_file).stderr
    assert "only clusters" in cluster.run("record", "1s", "--url", "file:", *to_file).stderr
    assert cluster.run("record", "10ms", *to_file).returncode == 69
    cluster.serve("a", "b")
    until(lambda: cluster.run("record", "10ms", *to_file).returncode == 1)
    found = cluster.run("record", "10ms", *to_file)
    assert "node c is missing" in found.stderr
    assert "nothing happened at all" in found.stderr
