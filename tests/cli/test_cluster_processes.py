"""Nodes that join, and changes that are interrupted, as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from coterie.cli import run
from tests.cluster.changed_cluster import Joined
from tests.cluster.local_cluster import COTERIE, PATIENCE_SECONDS, Processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path, 1)
    made.start("a", new=True)
    made.wait(lambda state: state.number == 1, "configuration 1")
    yield made
    made.end()


@pytest.fixture
def joined(cluster: Processes) -> Iterator[Joined]:
    made = Joined(cluster, "d")
    yield made
    made.kill()


def state_of(url: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    run(["cluster", "status", "--url", url, "-o", "json"])
    state: dict[str, object] = json.loads(capsys.readouterr().out)
    return state


def test_a_node_takes_the_place_of_another_and_goes_on_without_it(
    cluster: Processes, joined: Joined, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cluster", "replace", "a", f"d={joined.address}", "--url", cluster.url]) == 0
    cluster.kill("a")
    joined.start_again()
    url = f"coterie://{joined.address}"
    assert run(["lock", "--url", url, "x", "true"]) == 0
    # That the numbers before are finished may be on no disk yet, and can be found out without a.
    assert run(["cluster", "finish", "--url", url]) == 0
    state = state_of(url, capsys)
    assert (state["number"], state["state"]) == (3, "settled")


def test_an_interrupted_change_says_how_to_go_on(
    cluster: Processes, joined: Joined, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new node stands still after it was asked, so the change waits in its joint step."""
    hold = subprocess.Popen(
        [*COTERIE, "lock", "held"],
        env=os.environ | {"COTERIE_URL": cluster.url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert hold.stdout is not None
    assert hold.stdout.readline().startswith("held ")
    command = [*COTERIE, "cluster", "replace", "a", f"d={joined.address}", "--url", cluster.url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as change:
        assert change.stderr is not None
        for line in change.stderr:
            if "failures borne" in line:  # the plan is shown, and the first step is next
                joined.signal(signal.SIGSTOP)
            if "(joint) is decided" in line:
                break
        change.send_signal(signal.SIGINT)
        said = change.stderr.read()
        assert change.wait(PATIENCE_SECONDS) == 130
    assert "waiting for d" in said or "waiting for an answer of d" in said
    assert "go on with coterie cluster finish, or take it back with coterie cluster abort" in said
    assert state_of(cluster.url, capsys)["state"] == "joint"
    assert run(["cluster", "abort", "--url", cluster.url]) == 0
    assert capsys.readouterr().out == "configuration 3: a; d may be switched off\n"
    _, _ = hold.communicate(timeout=PATIENCE_SECONDS)
    assert hold.returncode == 0
