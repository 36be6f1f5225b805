"""The detectors as an algorithm: explored in every interleaving, simulated, and refused where they do not fit."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from coterie.algorithms.deadlock.detectors import central
from coterie.algorithms.deadlock.detectors.detector import Detector
from coterie.catalogue import load
from coterie.cli import run
from coterie.errors import UsageError
from coterie.lab.detect.entry import parse_waits, victims
from coterie.lab.explore import check

if TYPE_CHECKING:
    from coterie.lab.explore import Verdict

MISSED = "1>4 2>3 3>2|4 4>1|3"  # by the rules of the survey
BESIDE = "1>2 2>3 3>1 4>1&2"  # one waits for a deadlock, and is in none


def explored(variant: str, size: int, waits: str = "ring") -> Verdict:
    entry = load("coterie.lab.detect.entry:ALGORITHM")
    return check(entry.build(entry.setup(size, variant, {"waits": waits})))


@pytest.mark.parametrize(
    ("variant", "size", "waits", "states", "transitions"),
    [
        ("diffusing", 2, "ring", 1_116, 4_072),
        ("central", 6, "ring", 16_896, 92_960),
        ("hierarchical", 6, "ring", 1_720, 7_364),
        ("survey", 3, "ring", 12_296, 58_608),
        ("central", 5, BESIDE, 8_960, 46_308),
        ("central", 5, MISSED, 30_400, 181_140),
        pytest.param("diffusing", 3, "ring", 510_992, 3_362_656, marks=pytest.mark.slow),
    ],
)
def test_every_deadlock_is_found_and_nobody_else_gives_way(
    variant: str, size: int, waits: str, states: int, transitions: int
) -> None:
    verdict = explored(variant, size, waits)
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (states, transitions)


def test_where_no_deadlock_is_nothing_is_shown() -> None:
    assert explored("central", 4, "1>2 2>3").verdict == "vacuous"
    assert explored("diffusing", 3, "1>2|3 2>1").verdict == "vacuous"


def test_random_graphs_are_judged_as_the_graph_says() -> None:
    chance = Random(1987)
    shown = 0
    for _ in range(8):
        waits = " ".join(
            f"{me}>{chance.choice(conditions.split())}"
            for me, conditions in {1: "2 3 2|3 2&3", 2: "1 3 1|3 1&3", 3: "1 2 1|2 1&2"}.items()
        )
        verdict = explored("central", 4, waits).verdict
        expected = "verified" if victims(parse_waits(waits, 3)) else "vacuous"
        assert verdict == expected, waits
        shown += expected == "verified"
    assert shown > 2


def test_a_false_victim_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(central, "choose_victim", lambda _, members: min(members))
    verdict = explored("central", 4)
    assert verdict.verdict == "violated"
    assert verdict.reason.startswith("a process gives way that need not")


def test_a_deadlock_that_nobody_breaks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Detector, "judge", lambda *_: None)
    assert explored("central", 4).verdict == "violated"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1>2 2>1 1>2", "waits twice"),
        ("1>1", "wait for others"),
        ("1>2|2", "each once"),
        ("1>2|3&4", "expected waits"),
        ("", "expected waits"),
        ("1-2", "expected waits"),
    ],
)
def test_waits_that_make_no_sense_are_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_waits(text, 3)


def test_a_number_of_processes_that_does_not_fit_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = "coterie.lab.detect.entry:ALGORITHM"
    assert run(["check", own, "-N", "4", "--variant", "central", "--waits", MISSED]) == 78
    assert "choose -N 5 with central" in capsys.readouterr().err
    assert run(["check", own, "-N", "5", "--variant", "hierarchical"]) == 78
    assert "choose -N from 4" in capsys.readouterr().err


def test_a_run_counts_messages_and_costs_of_entries_are_not_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["simulate", "coterie.lab.detect.entry:ALGORITHM", "-N", "4"]) == 0
    assert "Probe" in capsys.readouterr().out
    assert run(["compare", "coterie.lab.detect.entry:ALGORITHM", "-N", "4"]) == 64
    assert "neither a mutex nor an election" in capsys.readouterr().err


def test_what_waits_for_calls_is_not_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "examples/paxos.py", "-N", "3"]) == 64
    assert "waits for calls of its users (propose)" in capsys.readouterr().err
