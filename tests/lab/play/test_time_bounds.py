"""Bounds of time on runs by hand: those that the timed explorer finds keep them, impossible ones do not."""

from __future__ import annotations

import pytest

from coterie.catalogue import find
from coterie.lab.explore import check_timed
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Fates, Question
from coterie.lab.play.runs.fork import address_of
from coterie.trace import Header

LAB = Laboratory()
SETTINGS = {"coterie": "singleton", "sigma": "1", "lambda": "1", "t-max": "4"}
FIRST = "fault-tolerant 3 variant=published coterie=singleton sigma=1 lambda=1 t-max=4"
BROKEN = [
    *("acquire 3", "deliver 3 > 1", "acquire 2", "crash 1", "deliver 1 > 3"),
    *("ring 2 T_max-1", "ring 2 T_d-1", "deliver 2 > 3", "ring 2 QUARANTINE"),
]


def fates(moves: list[str], first: str = FIRST) -> Fates:
    return LAB.fates(Question(first, moves))


def words(moves: list[str]) -> dict[str, str]:
    return {text: fate.text for text, fate in fates(moves).moves.items()}


def test_what_no_time_allows_is_marked() -> None:
    assert words([]) == {}
    # The request takes one unit at most, so that it arrives before the timer of four rings.
    assert words(["acquire 2"]) == {
        "ring 2 T_max-1": "outside the bounds of time",
        "drop 2 > 1": "outside the bounds of time",
    }
    # To a process that has crashed nothing needs to arrive.
    assert words(["acquire 2", "crash 1"]) == {}
    late = fates(["acquire 2", "ring 2 T_max-1"])
    assert late.here is not None
    assert late.here.text == "outside the bounds of time"
    assert late.moves == {}


def test_the_published_theorem_is_broken_within_the_bounds_of_time() -> None:
    found = fates(BROKEN)
    assert found.here is not None
    assert found.here.word == "broken"
    assert found.here.text.endswith("are inside together, within the bounds of time")
    # With a grant that takes longer than a message may, the same end is no counterexample.
    late = fates([*(move for move in BROKEN if move != "deliver 1 > 3"), "deliver 1 > 3"])
    assert late.here is not None
    assert late.here.text.endswith("outside the bounds of time")


@pytest.mark.parametrize("entries", [1, 2])
def test_a_counterexample_of_the_timed_explorer_keeps_the_bounds(entries: int) -> None:
    entry = find("fault-tolerant")
    setup = entry.setup(3, "published", SETTINGS)
    header = Header(
        algorithm="fault-tolerant", size=3, variant="published", parameters=SETTINGS, clock="none"
    )
    verdict = check_timed(entry.build(setup), entries=entries, crashes=1, header=header)
    assert verdict.counterexample is not None
    run = address_of(verdict.counterexample)
    for cursor in range(len(run.moves)):
        found = LAB.fates(Question(run.first, run.moves, cursor))
        assert found.here is not None
        assert found.here.text.startswith("within the bounds of time"), run.moves[:cursor]
        assert run.moves[cursor] not in found.moves
    end = LAB.fates(Question(run.first, run.moves))
    assert end.here is not None
    assert end.here.text.endswith("within the bounds of time")


def test_a_long_run_is_not_looked_at() -> None:
    moves = ["acquire 2", "run", "release 2", "run"] * 40
    position = LAB.play(Question(FIRST, moves))
    found = LAB.fates(Question(FIRST, moves))
    assert found.here is None
    assert not hasattr(position, "error")
