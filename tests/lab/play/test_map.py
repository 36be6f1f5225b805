"""A map of everything: what is played on it is what is played here."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
import pytest

from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.refusal import Refusal

if TYPE_CHECKING:
    from coterie.lab.play.exploration.map import Map

ENOUGH = 600_000


def map_of(first: str, bound: Bound) -> Map:
    return Laboratory(ENOUGH).map(Question(first, bound=bound, budget_ms=ENOUGH))


@pytest.mark.parametrize(
    ("first", "bound"),
    [
        ("maekawa 3 variant=basic", Bound()),
        ("maekawa 2", Bound(crashes=1)),
        ("ricart-agrawala 2", Bound(1, losses=1, duplicates=1)),
        ("lamport 2", Bound(2, losses=1)),
        ("bully 2", Bound(1, crashes=1, suspicions=1)),
    ],
    ids=str,
)
def test_a_walk_on_the_map_is_a_run(first: str, bound: Bound) -> None:
    drawn = map_of(first, bound)
    assert 0 < len(drawn.states) <= drawn.searched.states  # without those where two are inside
    lab = Laboratory(ENOUGH)
    chance = random.Random(first)
    for _ in range(2):
        moves: list[str] = []
        place = 0
        while place >= 0 and len(moves) < 16:
            state = drawn.states[place]
            question = Question(first, moves, bound=bound, budget_ms=ENOUGH)
            here, fates = lab.play(question), lab.fates(question)
            assert here.refusal is None
            shown = [msgspec.structs.replace(each, changed=[]) for each in here.states]
            down = {each.process for each in shown if each.phase == "crashed"}
            shown = [
                msgspec.structs.replace(each, fields={}) if each.process in down else each
                for each in shown
            ]
            assert [drawn.processes[number] for number in state.processes] == shown
            under_way = [
                (x.sender, x.receiver, x.label) for x in here.transit if x.receiver not in down
            ]
            assert sorted(drawn.messages[number] for number in state.transit) == sorted(under_way)
            assert fates.here == drawn.fates[state.fate]
            if not state.moves:
                break
            command, place = chance.choice(state.moves)
            moves = [*moves, drawn.commands[command]]


def test_a_map_is_small_enough_to_be_a_file() -> None:
    drawn = map_of("maekawa 3 variant=basic", Bound())
    assert len(drawn.states) == 306
    assert len(msgspec.json.encode(drawn)) < 60_000


def test_what_is_too_large_for_a_map_is_refused() -> None:
    lab = Laboratory(ENOUGH)
    for first in ("ricart-agrawala 4", "fault-tolerant 3", "nothing 3"):
        with pytest.raises(Refusal):
            lab.map(Question(first, budget_ms=200))
