"""Deadlocks among real processes, as their users and `coterie status graph` see them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any
from xml.dom import minidom

import pytest

from coterie.cli import run
from tests.cluster.local_cluster import COTERIE, PATIENCE_SECONDS, Program

if TYPE_CHECKING:
    from collections.abc import Iterator

OFF = "?deadlock-detection=off"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Run three nodes on this machine."""
    command = [*COTERIE, "serve", "--dev", "3", "--port", "0", "--lease", "2s", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        yield server.stdout.readline().decode().strip()
        server.terminate()


@contextlib.contextmanager
def crossed(url: str, first: str, second: str) -> Iterator[list[Program]]:
    """Let two programs hold a lock each and want the other's."""
    programs = [Program(url, ("cross", first, second)), Program(url, ("cross", second, first))]
    try:
        for program in programs:
            assert program.read()[0] == "held"
        for program in programs:
            program.write("go on")
            assert program.read()[0] == "wants"
        yield programs
    finally:
        for program in programs:
            program.process.kill()
            program.process.communicate()


def test_nobody_waits_in_an_idle_cluster(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "graph", "--url", url]) == 0
    assert "no deadlock" in capsys.readouterr().out


def test_of_two_programs_one_gives_way_and_the_other_goes_on(url: str) -> None:
    with crossed(url, "a", "b") as programs:
        said = [" ".join(program.read()) for program in programs]
        assert sorted(words.split()[0] for words in said) == ["deadlock", "had"]
        (message,) = [words for words in said if words.startswith("deadlock")]
        for program in programs:
            assert f":{program.process.pid} " in message
        for program in programs:
            assert program.rest() == []


@pytest.mark.parametrize(("options", "status"), [([], 75), (["-E", "7"], 7)])
def test_a_command_that_gives_way_says_so_in_one_line_and_with_its_status(
    options: list[str], status: int, url: str
) -> None:
    """The other program detects nothing, so it cannot be the one."""
    program = Program(url + OFF, ("cross", "y", "x"))
    try:
        assert program.read()[0] == "held"
        environment = os.environ | {"COTERIE_URL": url}
        with subprocess.Popen(
            [*COTERIE, "lock", *options, "--also", "y", "x", "--", "echo", "never"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as command:
            wait_for(url, lambda facts: "y" in facts["graph"])
            program.write("go on")
            out, err = command.communicate(timeout=PATIENCE_SECONDS)
        assert command.returncode == status
        assert out == ""
        assert err.startswith(
            "coterie: lock 'y' can never be granted: a deadlock (cycle) in which "
        )
        assert err.count("\n") == 1
        assert program.rest() == [["wants", "x"], ["had", "x"]]
    finally:
        program.process.kill()
        program.process.communicate()


def wait_for(url: str, condition: Any) -> dict[str, Any]:
    """Look at the graph until something shows in it."""
    environment = os.environ | {"COTERIE_URL": url}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        assert time.monotonic() < deadline, "it does not show"
        command = [*COTERIE, "status", "graph", "-o", "json"]
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, check=False
        )
        facts: dict[str, Any] = json.loads(done.stdout)
        if condition(facts):
            return facts


def test_the_graph_shows_who_waits_for_whom_with_the_cycle_marked(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with crossed(url + OFF, "left", "right") as programs:
        facts = wait_for(url, lambda facts: facts["deadlocked"])
        owners = {name for name in facts["deadlocked"] if ":" in name}
        assert {int(name.partition(":")[2]) for name in owners} == {
            program.process.pid for program in programs
        }
        assert {frozenset(core) for core in facts["cores"]} == {
            frozenset(owners | {"left", "right"})
        }

        assert run(["status", "graph", "--url", url]) == 1
        table = capsys.readouterr().out
        assert table.count("deadlocked") >= 4
        assert "in a cycle of 4" in table

        assert run(["status", "graph", "--url", url, "-o", "svg"]) == 1
        picture = minidom.parseString(capsys.readouterr().out)  # noqa: S318 - our own
        assert len(picture.getElementsByTagName("rect")) >= 4

        assert run(["status", "graph", "--url", url, "-o", "dot"]) == 1
        assert capsys.readouterr().out.count("color=") == 8, "four nodes and four edges"


def test_a_circle_opens_by_itself_when_a_member_has_died(url: str) -> None:
    """Nobody detects here, so it is the end of the lease that does it."""
    with crossed(url + OFF, "p", "q") as programs:
        assert wait_for(url, lambda facts: len(facts["deadlocked"]) == 4)["cores"]
        programs[0].process.kill()
        assert programs[1].read() == ["had", "p"]
        assert wait_for(url, lambda facts: not facts["deadlocked"])["cores"] == []


@pytest.mark.parametrize(
    "arguments", [["nodes", "-o", "svg"], ["graph", "-o", "dot", "--watch"]], ids=" ".join
)
def test_only_the_graph_is_drawn_and_only_once(
    url: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", *arguments, "--url", url]) == 64
    assert "draws the graph, once" in capsys.readouterr().err
