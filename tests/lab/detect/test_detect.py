"""The detectors of deadlocks as the command runs them: what they find, miss and cost."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of, some_of
from coterie.algorithms.deadlock.graph_file import parse_graph
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.cli import run
from coterie.errors import UsageError
from coterie.lab.detect.systems import DETECTORS
from coterie.lab.detect.trials import OF_RANDOM_SYSTEMS, detect, detection_costs

if TYPE_CHECKING:
    from collections.abc import Iterator

GRAPHS = Path(__file__).parents[3] / "docs" / "graphs"
COMPLETE = ("diffusing", "central", "hierarchical")


def graph_of(name: str) -> Graph[str]:
    return parse_graph((GRAPHS / f"{name}.json").read_text(encoding="utf-8"))


def random_graphs() -> Iterator[Graph[str]]:
    """Draw graphs of five names, some of which run."""
    for seed in range(40):
        random = Random(seed)
        names = "abcde"[: random.randint(2, 5)]
        waits: dict[str, Condition[str]] = {}
        for name in names:
            others = [other for other in names if other != name]
            chosen = random.sample(others, random.randint(0, len(others)))
            if chosen:
                kind = random.choice((all_of, any_of))
                waits[name] = kind(*chosen)
        yield Graph(waits)


@pytest.mark.slow
@pytest.mark.parametrize("detector", COMPLETE)
def test_all_deadlocks_are_broken_and_nothing_else(detector: str) -> None:
    deadlocks = 0
    for graph in random_graphs():
        stuck = graph.deadlocked()
        for seed in range(3):
            found = detect(graph, detector, seed)
            assert found.left == ()
            assert bool(found.victims) is bool(stuck)
            assert set(found.victims) <= set(stuck)
        deadlocks += bool(stuck)
    assert 5 < deadlocks < 35


@pytest.mark.parametrize("seed", range(5))
def test_the_rules_of_the_survey_miss_a_graph_whenever_messages_come(seed: int) -> None:
    found = detect(graph_of("missed"), "survey", seed)
    assert (found.victims, found.left) == ((), ("P1", "P2", "P3", "P4"))
    assert detect(graph_of("missed"), "diffusing", seed).left == ()


def test_a_graph_without_processes_has_no_deadlock() -> None:
    assert detect(Graph({}), "diffusing").victims == ()


def test_a_lock_is_no_victim() -> None:
    """The youngest of the file would be a lock."""
    for detector in DETECTORS:
        assert set(detect(graph_of("crossed"), detector).victims) <= {"ann", "bob", "carol"}


def test_a_condition_that_the_survey_does_not_know_is_refused_and_not_run() -> None:
    found = detect(Graph({"a": some_of(2, "b", "c", "d")}), "survey")
    assert found.refused is not None
    assert "AND edges and OR groups" in found.refused


def test_to_search_from_time_to_time_costs_less_and_takes_longer() -> None:
    at_once = detection_costs("diffusing", 10, 9)
    later = detection_costs("diffusing", 10, 9, period=50)
    assert at_once.waits == later.waits == 9 * 10 * 5
    assert later.messages_per_wait < at_once.messages_per_wait / 2
    assert at_once.victims_waited is not None
    assert later.victims_waited is not None
    assert later.victims_waited > 50 > at_once.victims_waited


def test_a_coordinator_bears_more_than_any_process_without_one() -> None:
    costs = {detector: detection_costs(detector, 20, 3) for detector in OF_RANDOM_SYSTEMS}
    assert costs["diffusing"].busiest < costs["hierarchical"].busiest < costs["central"].busiest
    assert costs["central"].messages_per_wait < costs["diffusing"].messages_per_wait


def test_the_command_shows_what_was_missed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["detect", str(GRAPHS / "missed.json")]) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:5]]
    assert [row[0] for row in rows] == list(DETECTORS)
    assert rows[0][1:3] == ["P4", "none"]
    assert rows[3][1:6] == ["none", "P1,", "P2,", "P3,", "P4"]
    assert run(["detect", str(GRAPHS / "or-cycle.json"), "-o", "json"]) == 0
    assert all(each["victims"] == [] for each in json.loads(capsys.readouterr().out))


def test_the_command_compares_in_random_systems(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["detect", "-N", "5", "--seeds", "2", "--period", "7"]) == 0
    rows = capsys.readouterr().out.splitlines()[1:5]
    assert [row.split("  ")[0] for row in rows] == [*OF_RANDOM_SYSTEMS, "diffusing"]
    assert "every 7" in rows[3]
    assert run(["detect", "-N", "5", "--seeds", "1", "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-N", "3"], "4 processes at least"),
        (["--period", "0"], "--period"),
        ([str(GRAPHS / "missed.json"), "--period", "1"], "leave out FILE"),
        ([str(GRAPHS / ".." / "deadlock.md")], "deadlock.md: not JSON"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    assert run(["detect", *options]) == UsageError.exit_status
    assert text in capsys.readouterr().err
