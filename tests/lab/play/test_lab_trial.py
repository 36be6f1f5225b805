"""Runs in virtual time for pages: bounded, the same for the same question, and forked at any event."""

from __future__ import annotations

import shlex

import msgspec
import pytest

from coterie.catalogue import algorithms
from coterie.cli import run
from coterie.errors import CoterieError, UsageError
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.play.trials.measure import MeasureQuestion, measure
from coterie.lab.play.trials.trial import (
    EVENTS_MAX,
    ForkQuestion,
    TrialAnswer,
    TrialQuestion,
    Trials,
)


def simulated(first: str, **choices: object) -> TrialAnswer:
    return Trials().run(msgspec.structs.replace(TrialQuestion(first), **choices))


@pytest.mark.parametrize("name", list(algorithms()))
def test_every_algorithm_is_simulated_and_drawn(name: str) -> None:
    answer = simulated(f"{name} 4", faults=[])
    assert answer.succeeded, answer.outcome
    columns = answer.columns
    assert columns.events.time == sorted(columns.events.time)
    assert columns.messages.sent == sorted(columns.messages.sent)
    assert sum(answer.figures.messages_by_kind.values()) == len(columns.messages.sent)
    kinds = {columns.texts[text] for text in columns.stays.text}
    assert "inside" in kinds or "leads" in kinds


def test_a_question_decides_everything() -> None:
    first, second = (msgspec.json.encode(simulated("maekawa 5", seed=3)) for _ in range(2))
    assert first == second
    assert msgspec.json.encode(simulated("maekawa 5", seed=4)) != first


@pytest.mark.parametrize("first", ["maekawa 4", "token-ring 4", "bully 4"])
def test_a_run_is_forked_into_a_play_at_each_of_its_events(first: str) -> None:
    faults = ["crash 4 @ 2"] if first.startswith("bully") else []
    trial = TrialQuestion(first, entries=1, faults=faults)
    trials, laboratory = Trials(), Laboratory()
    answer = trials.run(trial)
    for record in answer.columns.events.record:
        forked = trials.fork(ForkQuestion(trial, record + 1))
        opened = laboratory.open(forked.address)
        position = laboratory.play(Question(opened.first, opened.moves, opened.cursor))
        assert position.refusal is None


def test_algorithms_meet_the_same_requests_at_the_same_moments() -> None:
    asked = []
    for name in ("maekawa", "ricart-agrawala", "token-ring"):
        columns = simulated(f"{name} 5", workload="poisson", rate=0.05, seed=2).columns
        events, call = columns.events, columns.texts.index("acquire")
        rows = zip(events.time, events.process, events.text, strict=True)
        asked.append([(time, process) for time, process, text in rows if text == call])
    assert len(asked[0]) > 5
    assert asked[0] == asked[1] == asked[2]


def test_a_run_that_fails_explains_itself() -> None:
    stuck = simulated("maekawa 3 variant=basic", latency="1")
    assert not stuck.succeeded
    assert any("flawed" in said for said in stuck.outcome)
    crashed = simulated("lamport 5", faults=["crash 2 @ 3"])
    assert not crashed.succeeded
    assert "Down: process 2 since 3." in crashed.outcome
    assert "lamport does not tolerate a crash, and there was one." in crashed.outcome


def test_a_long_run_is_cut_and_says_so() -> None:
    answer = simulated("lamport 20", entries=1000)
    assert answer.stopped == "event limit"
    assert f"Cut after {EVENTS_MAX:,} events" in answer.outcome[0]
    assert "on a command line it goes on" in answer.outcome[0]


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"first": "nonsense 3"}, "unknown algorithm"),
        ({"first": "maekawa 65"}, "1 to 64 processes"),
        ({"first": "maekawa 0"}, "1 to 64 processes"),
        ({"entries": 0}, "entries must be between"),
        ({"workload": "often"}, "unknown workload"),
        ({"workload": "poisson", "rate": 0.0}, "the rate must be positive"),
        ({"latency": "soon"}, "bad latency"),
        ({"loss": 2.0}, "probability"),
        ({"faults": ["explode 3"]}, "explode"),
        ({"faults": ["crash 9 @ 1"]}, "process 9"),
        ({"faults": ["crash 1 @ 1"] * 51}, "at most 50 faults"),
    ],
)
def test_what_cannot_be_run_is_refused_in_words(choices: dict[str, object], said: str) -> None:
    with pytest.raises(CoterieError, match=said):
        simulated(**{"first": "maekawa 3", **choices})  # type: ignore[arg-type]


def test_a_large_run_is_looked_at_but_not_played_by_hand() -> None:
    trial = TrialQuestion("raymond 12", entries=1)
    with pytest.raises(Refusal, match="at most 9 processes"):
        Trials().fork(ForkQuestion(trial, 5))


def test_the_command_line_runs_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    answer = simulated("maekawa 5 coterie=majority", workload="poisson", rate=0.5, seed=7)
    assert run(shlex.split(answer.command)[1:]) == 0
    assert f"{answer.figures.messages:,} (" in capsys.readouterr().out


def test_the_command_line_stays_inside_as_long(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a flawed variant it would stay for 1 unless it is told: two inside at once are noticed then."""
    answer = simulated("maekawa 3 variant=basic", hold="0", workload="poisson", rate=0.01)
    assert answer.figures.entries
    run([*shlex.split(answer.command)[1:], "--output", "json"])
    assert msgspec.json.decode(capsys.readouterr().out)["time"] == answer.time


def test_costs_are_measured_beside_their_formulas() -> None:
    measured = measure(MeasureQuestion("ricart-agrawala 5"))
    idle = measured.costs[0]
    assert (idle.measured, idle.formula, idle.agrees) == (8.0, "2(N - 1)", True)
    for first in ("maekawa 3 variant=basic", "lamport 40"):
        with pytest.raises(UsageError):
            measure(MeasureQuestion(first))
