"""Pictures of counterexamples: two states, things as circles, what holds of pairs as arrows."""

from __future__ import annotations

import pytest

from coterie.lab.prove import library
from coterie.lab.prove.bounded import Bounded
from coterie.lab.prove.picture import draw, draw_states
from coterie.lab.prove.proof import questions


@pytest.mark.parametrize(
    ("name", "without", "clause", "circles", "words"),
    [
        ("centralized", "one_holder", "mutual_exclusion", 2, {"p1", "p2", "no longer grant"}),
        ("centralized", "a_request_is_not_lost", "no_deadlock", 2, {"p1", "waiting"}),
        # In two rows: stamps, and the arbiters that they are in pairs with.
        ("maekawa", "one_owner", "mutual_exclusion", 4, {"s1", "s2", "a1", "a2", "locked"}),
        ("ricart-agrawala", "a_permission_counts", "mutual_exclusion", 2, {"no longer reply"}),
    ],
)
def test_a_state_before_and_one_after(
    name: str, without: str, clause: str, circles: int, words: set[str]
) -> None:
    page = library.find(name).page.without(without)
    asked = [question for question in questions(page) if question.clause.name == clause]
    bounded = Bounded(page, 2)
    found = next(shown for each in asked if (shown := bounded.refute(each)) is not None)
    drawn = draw_states(found)
    assert len(drawn) == (1 if clause == "no_deadlock" else 2)
    assert [text.count("<circle") for text in drawn] == [circles] * len(drawn)
    assert [word for word in words if f">{word}</text>" not in "".join(drawn)] == []
    assert draw(found).count("<circle") == circles * len(drawn)
