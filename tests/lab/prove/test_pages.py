"""Every page is proved, says nothing vacuous, and is followed by the code; and every proof can fail."""

from __future__ import annotations

import pytest

from coterie.lab.prove import library
from coterie.lab.prove.bounded import Bounded, find_run, impossible
from coterie.lab.prove.proof import prove
from coterie.lab.prove.verdict import hold_all

OWN = [name for name in library.names() if name not in library.SAME_CODE]
LINKED = [name for name in library.names() if library.find(name).link is not None]
ITEMS = [
    (name, item.name)
    for name in OWN
    for page in [library.find(name).page]
    for item in (*page.axioms, *page.clauses)
    if not item.promised
]
FLAWS = [(name, flaw) for name in OWN for flaw in library.find(name).page.flawed]


@pytest.mark.parametrize("name", OWN)
def test_the_page_is_proved(name: str) -> None:
    proof = prove(library.find(name).page)
    assert [(each.question.place, each.question.clause.name) for each in proof.failed] == []


@pytest.mark.parametrize("name", OWN)
def test_every_step_is_possible_in_some_state_of_the_invariant(name: str) -> None:
    assert impossible(library.find(name).page) == []


@pytest.mark.parametrize("name", LINKED)
def test_the_code_follows_the_page(name: str) -> None:
    entry = library.find(name)
    held = hold_all(entry)
    assert [each.trouble for each in held if each.trouble] == []
    used = set().union(*(each.used for each in held))
    assert used == {action.name for action in entry.page.actions}, "every step was seen"
