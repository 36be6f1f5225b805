"""Checks for pages: the verdict of the explorer, and a counterexample that can be played."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from coterie.cli import run
from coterie.errors import CoterieError, UsageError
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.refusal import Superseded
from coterie.lab.play.trials.verdict import CheckAnswer, CheckQuestion, run_check

if TYPE_CHECKING:
    from coterie.lab.explore import Progress


def checked(first: str, bound: Bound | None = None) -> CheckAnswer:
    return run_check(CheckQuestion(first, bound or Bound()), lambda _: None)


def test_a_sound_algorithm_is_verified() -> None:
    answer = checked("ricart-agrawala 3")
    assert (answer.verdict, answer.states, answer.counterexample) == ("verified", 2822, None)
    assert "Seen on the way: contention." in answer.notes


def test_a_counterexample_is_played_to_its_violation() -> None:
    answer = checked("maekawa 3 variant=survey")
    found = answer.counterexample
    assert answer.verdict == "violated"
    assert found is not None
    assert found.address is not None
    laboratory = Laboratory()
    opened = laboratory.open(found.address)
    assert len(opened.moves) == found.moves == 7
    fates = laboratory.fates(Question(opened.first, opened.moves))
    assert fates.here is not None
    assert fates.here.word == "broken"


def test_an_algorithm_with_a_clock_is_explored_tick_by_tick() -> None:
    answer = checked("fault-tolerant 3 variant=published coterie=singleton", Bound(crashes=1))
    assert answer.verdict == "violated"
    assert answer.counterexample is not None


@pytest.mark.parametrize(
    ("first", "bound"),
    [
        ("fault-tolerant 2 coterie=singleton", Bound(losses=1)),
        ("fault-tolerant 2 coterie=singleton", Bound(duplicates=1)),
        ("fault-tolerant 2 coterie=singleton", Bound(suspicions=1)),
        ("fault-tolerant 2 coterie=singleton channel=unordered", Bound()),
    ],
)
def test_what_a_search_with_a_clock_does_not_look_at_is_refused(first: str, bound: Bound) -> None:
    """It would be called verified though it was never searched."""
    with pytest.raises(UsageError, match="has no meaning for an algorithm that needs a clock"):
        checked(first, bound)


@pytest.mark.parametrize(
    ("first", "bound"),
    [("nonsense 3", Bound()), ("maekawa 3", Bound(entries=99)), ("maekawa 400", Bound())],
)
def test_what_cannot_be_checked_is_refused(first: str, bound: Bound) -> None:
    with pytest.raises(CoterieError):
        checked(first, bound)


def test_a_search_ends_when_its_page_is_gone() -> None:
    told: list[Progress] = []

    def progress(so_far: Progress) -> None:
        told.append(so_far)
        raise Superseded

    with pytest.raises(Superseded):
        run_check(CheckQuestion("lamport 4", Bound(entries=2)), progress)
    assert len(told) == 1


def test_the_command_line_checks_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    answer = checked("token-ring 3", Bound(losses=1))
    assert run(shlex.split(answer.command)[1:]) == (1 if answer.verdict == "violated" else 0)
    assert f"{answer.states:,} states" in capsys.readouterr().out


def test_a_violation_is_found_from_the_start_without_the_whole_graph() -> None:
    question = Question("maekawa 3 variant=survey")
    way, fates = Laboratory().way(question), Laboratory().fates(question)
    assert way.moves is not None
    assert len(way.moves) == 7
    assert way.searched.states < fates.searched.states


def test_a_search_for_a_violation_that_is_superseded_says_so() -> None:
    question = Question("lamport 4", bound=Bound(entries=2), budget_ms=10_000)
    with pytest.raises(Superseded):
        Laboratory(10_000).way(question, lambda: True)
