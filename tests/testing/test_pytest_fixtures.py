"""The fixtures for tests of other programs, and the cluster behind one of them."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie import MisuseError, NoQuorum, UsageError
from coterie.testing import LocalCluster

if TYPE_CHECKING:
    from pathlib import Path

USERS_TESTS = """
import coterie


def nightly() -> str:
    with coterie.sync.connect() as c, c.lock("nightly", timeout=0) as held:
        return c.url


def test_on_files(coterie_file):
    assert nightly() == coterie_file


def test_on_a_cluster(coterie_cluster):
    coterie_cluster.stop("n1")
    assert nightly() == coterie_cluster.url
"""


def test_pytest_finds_the_fixtures_by_itself(tmp_path: Path) -> None:
    assert [each.value for each in entry_points(group="pytest11", name="coterie")] == [
        "coterie.testing.plugin"
    ]
    file = tmp_path / "test_nightly.py"
    file.write_text(USERS_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_a_cluster_grants_while_most_of_its_nodes_run() -> None:
    with LocalCluster(lease=0.5) as cluster, coterie.sync.connect(cluster.url) as c:
        first = cluster.nodes[0]
        cluster.stop(first)
        with c.lock("a", timeout=10) as held:
            token = held.token
        cluster.stop(cluster.nodes[1])
        with pytest.raises(NoQuorum):
            c.lock("b", timeout=0.1).acquire()
        cluster.start(first)
        with c.lock("a", timeout=10) as held:
            assert held.token > token


def test_mistakes_are_said() -> None:
    with pytest.raises(UsageError, match="at least 1 node, got 0"):
        LocalCluster(0)
    cluster = LocalCluster(1)
    with pytest.raises(MisuseError, match="does not run"):
        cluster.start("n1")
    with cluster:
        with pytest.raises(UsageError, match="no node 'n2'; choose from: n1"):
            cluster.stop("n2")
        cluster.stop("n1")
        cluster.stop("n1")
