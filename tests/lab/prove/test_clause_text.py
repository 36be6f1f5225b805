"""Clauses that a reader types: those of a page, and nothing that could do anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.lab.prove import PageError, library
from coterie.lab.prove.clause_text import add_clauses, words_of
from coterie.lab.prove.proof import prove

if TYPE_CHECKING:
    from coterie.lab.prove import Page

ONE_HOLDER = """
def one_owner(p: Process, q: Process) -> Formula:
    '''The coordinator lets in one.'''
    both = holder(p) & holder(q)
    return both >> (p == q)
"""


def page_with(text: str, name: str = "centralized", without: str = "one_holder") -> Page:
    entry = library.find(name)
    page = entry.page.without(without)
    add_clauses(page, text, words_of(entry.page, entry.words))
    return page


def test_a_clause_of_the_reader_takes_the_place_of_one_that_is_left_out() -> None:
    assert not prove(page_with("")).proved
    page = page_with(ONE_HOLDER)
    assert prove(page).proved
    assert page.clauses[-1].why == "The coordinator lets in one."
    assert page.clauses[-1].text == ONE_HOLDER.strip()
    assert len(library.find("centralized").page.clauses) == 6, (
        "the page of the library is as it was"
    )


def test_a_promise_is_marked_and_several_clauses_are_read() -> None:
    page = page_with(
        "@page.safety\ndef a(p: Process): return holder(p) >> ~queued(p)\n\n"
        "@page.invariant\ndef b(p: Process): return some(Process, lambda q: inside(q)) | True"
    )
    assert [(clause.name, clause.promised) for clause in page.clauses[-2:]] == [
        ("a", True),
        ("b", False),
    ]


def test_formulas_of_the_file_are_words_and_its_clauses_and_steps_are_not() -> None:
    entry = library.find("maekawa")
    words = words_of(entry.page, entry.words)
    assert {"older", "inside", "current", "Stamp", "every"} <= words.keys()
    assert words.keys().isdisjoint({"one_owner", "acquire", "page", "PAGE", "Page", "when", "each"})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return grant(p) and inside(p)", "write & | ~ >>"),
        ("return not grant(p)", "write & | ~ >>"),
        ("return grant(p) if inside(p) else holder(p)", "choose(...)"),
        ("return grant(p) >> inside(p) & holder(p)", "put parentheses around what >> connects"),
        ("return p", "p is a Process, where a formula is needed"),
        ("return grant(p, p)", "grant takes 1 things, got 2"),
        ("return grat(p)", "the page has no grat: is it grant?"),
        ("return mutual_exclusion(p, p)", "the page has no mutual_exclusion"),
        ("return grant[p]", "write queued(p), not queued[p]"),
        ("return p is p", "write == for is"),
        ("return p in grant", "there is no in"),
        ("return grant(p) ^ inside(p)", "there is no ^"),
        ("return grant", "grant is no formula"),
        ("return Process(p)", "Process is a sort"),
        ("return p(p)", "p is one thing, and takes none"),
        ("return grant(*p)", "name the things of a relation in their order"),
        ("return grant('p')", "'p' has no place in a clause"),
        ("grant(p)", "it returns nothing"),
        ("for x in p: pass\n    return True", "there are no loops"),
        ("grant = p\n    return True", "grant is a word of the page"),
        ("return " + "~" * 3_000 + "grant(p)", "nested too deeply"),
        # What could do something else than state a formula.
        ("return __import__('os')", "the page has no __import__"),
        ("return grant(p).symbols", "no dots"),
        ("return (lambda x: x)(p)", "only words of the page are called"),
        ("x = lambda y: y\n    return x(x)", "x is one thing, and takes none"),
        ("return [q for q in p]", "ListComp has no place in a clause"),
        ("return 9 ** 9 ** 9", "Pow has no place in a clause"),
        ("import os\n    return True", "Import has no place in a clause"),
    ],
)
def test_a_slip_is_refused_by_one_line_that_names_the_clause(body: str, words: str) -> None:
    with pytest.raises(PageError) as raised:
        page_with(f"def mine(p: Process):\n    {body}\n")
    text = str(raised.value)
    assert words in text
    assert "mine: " in text or words == "nested too deeply"
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def mine(p): return grant(p)", "say of which sort p is"),
        ("def mine(p: Proces): return grant(p)", "the page has no Proces: is it Process?"),
        ("def mine(p: Process = 3): return grant(p)", "give its things plain names"),
        ("def mine(*p: Process): return True", "give its things plain names"),
        ("def mine(grant: Process): return True", "grant is a word of the page"),
        ("def mine(: x", "line 1: "),
        ("mine = 3", "line 1: a clause is a function"),
        ("class Mine: pass", "line 1: a clause is a function"),
        ("@evil\ndef mine(): return True", "write @page.safety, @page.invariant, or neither"),
        ("def a_holder_is_somewhere(): return True", "there is a clause of this name"),
        ("def mine(): return True\ndef mine(): return True", "there is a clause of this name"),
        ("#" * 5_000, "at most 4,000 characters"),
    ],
)
def test_what_is_no_clause_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(PageError) as raised:
        page_with(text)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
