"""The language: slips are refused by one line that names the clause, and one text has three readings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.lab.prove import (
    Int,
    Ordered,
    Page,
    PageError,
    Thing,
    become,
    choose,
    each,
    every,
    later,
    none,
    some,
    when,
)
from coterie.lab.prove.bounded import find_run, first_counterexample, impossible
from coterie.lab.prove.plain import PlainPage
from coterie.lab.prove.proof import START, prove

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.prove.terms import Formula


class Cat(Thing):
    pass


class Age(Ordered):
    pass


def new_page() -> Any:
    page: Any = Page("cats")
    page.asleep = page.relation("asleep", Cat)
    page.owner = page.relation("owner", Cat, fixed=True)
    page.age = page.function("age", Cat, to=Age)
    page.number = page.function("number", Cat, to=Int)
    return page


page = new_page()


def both_by_a_word(c: Cat) -> Any:
    return page.asleep(c) and page.owner(c)


def negated_by_a_word(c: Cat) -> Any:
    return not page.asleep(c)


def chosen_by_a_word(c: Cat) -> Any:
    return page.asleep(c) if page.owner(c) else page.owner(c)


def in_a_chain(c: Cat, d: Cat, e: Cat) -> Any:
    return page.age(c) < page.age(d) < page.age(e)


def without_a_sort(c) -> Any:  # type: ignore[no-untyped-def]  # noqa: ANN001
    return page.asleep(c)


def of_two_sorts(c: Cat, a: Age) -> Formula:
    return c == a


def ordered_by_nothing(c: Cat, d: Cat) -> Any:
    return c < d


def no_formula(c: Cat) -> Any:
    return page.age(c)


def an_implication_without_parentheses(c: Cat) -> Any:
    return page.asleep(c) >> page.owner(c) & page.asleep(c)


def an_implication_beside_an_equation(c: Cat) -> Any:
    return page.asleep(c) >> page.owner(c) == page.asleep(c)


def assigns_in_a_clause(c: Cat) -> Any:
    page.asleep[c] = True
    return page.asleep(c)


def guards_a_clause(c: Cat) -> Any:
    when(page.asleep(c))
    return page.asleep(c)


def of_another_sort(a: Age) -> Any:
    return page.asleep(a)


def of_too_many(c: Cat) -> Any:
    return page.asleep(c, c)


def of_sorts_that_do_not_fit() -> Formula:
    return every(Cat, Age, lambda c: page.asleep(c))  # noqa: PLW0108 - its one parameter


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (both_by_a_word, "write & | ~ >>"),
        (negated_by_a_word, "write & | ~ >>"),
        (chosen_by_a_word, "choose(...)"),
        (in_a_chain, "a < b < c"),
        (without_a_sort, "say of which sort c is"),
        (of_two_sorts, "c is a Cat and a a Age: they cannot be compared"),
        (ordered_by_nothing, "c is a Cat, which has no order"),
        (no_formula, "age(c) is a Age, where a formula is needed"),
        (an_implication_without_parentheses, "put parentheses around what >> connects"),
        (an_implication_beside_an_equation, "a >> b == c means (a >> b) == c"),
        (assigns_in_a_clause, "asleep[...] = ... stands outside of an action"),
        (guards_a_clause, "when(...) stands outside of an action"),
        (of_another_sort, "asleep: a is a Age, where a Cat is needed"),
        (of_too_many, "asleep takes 1 things, got 2"),
        (of_sorts_that_do_not_fit, "2 sorts for 1 things: c"),
    ],
)
def test_a_slip_is_refused_by_one_line_that_names_the_clause(
    rule: Callable[..., Any], words: str
) -> None:
    with pytest.raises(PageError) as raised:
        page.invariant(rule)
    text = str(raised.value)
    assert text.startswith(f"cats, {rule.__name__}: ")
    assert words in text
    assert "\n" not in text


def test_an_implication_in_parentheses_is_read_as_it_looks() -> None:
    @page.theorem  # type: ignore[untyped-decorator]
    def either_way(c: Cat) -> Any:
        return (page.asleep(c) >> page.owner(c)) & (page.asleep(c) >> page.owner(c))


def changes_what_is_fixed(c: Cat) -> None:
    page.owner[c] = True


def changes_too_many(c: Cat) -> None:
    page.asleep[c, c] = True


def changes_to_a_number(c: Cat) -> None:
    page.asleep[c] = 1


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (changes_what_is_fixed, "owner is fixed"),
        (changes_too_many, "asleep takes 1 things, got 2"),
        (changes_to_a_number, "1 is no formula"),
    ],
)
def test_a_slip_in_an_action_names_the_action(rule: Callable[..., Any], words: str) -> None:
    with pytest.raises(PageError, match=f"cats, {rule.__name__}: .*{words}"):
        page.action(rule)


def test_an_assignment_or_a_guard_outside_of_an_action_is_refused() -> None:
    cat = Cat("var", (), "c")
    with pytest.raises(PageError, match=r"asleep\[...\] = ... stands outside of an action"):
        page.asleep[cat] = True
    with pytest.raises(PageError, match="stands outside of an action"):
        when(page.asleep(cat))


def test_a_page_without_a_promise_is_refused() -> None:
    with pytest.raises(PageError, match="cats promises nothing: mark what users want"):
        prove(new_page())


def test_two_symbols_of_one_name_are_refused() -> None:
    with pytest.raises(PageError, match="cats: two symbols are called asleep"):
        page.relation("asleep", Cat)


def test_an_unknown_clause_cannot_be_left_out() -> None:
    with pytest.raises(PageError, match="counter has no clause or axiom 'nix': there are"):
        counter.without("nix")


# One text, three readings: a counter that skips 3, with a queue of cats.

counter = Page("counter")
total = counter.variable("total", Int)
waits = counter.relation("waits", Cat)


@counter.start
def it_begins_at_nought(c: Cat) -> Formula:
    return (total == 0) & ~waits(c)


@counter.action
def count(c: Cat) -> None:
    when(~waits(c))
    waits[c] = True
    become(total, choose(total == 2, total + 2, total + 1))


@counter.action
def forget() -> None:
    when(none(Cat, lambda c: ~waits(c)), total < 10)
    waits[each] = lambda c: False
    become(total, later(total, total - 1))


@counter.safety
def never_three() -> Formula:
    return total != 3


@counter.safety
def never_below_nought() -> Formula:
    return total >= 0


wrong = counter.flaw("stops-nowhere")


@wrong.instead_of(count)
def count_by_one(c: Cat) -> None:
    when(~waits(c))
    waits[c] = True
    become(total, total + 1)


def test_for_any_number_it_is_proved() -> None:
    assert prove(counter).proved
    assert impossible(counter) == []


def test_for_a_few_it_shows_a_state_and_a_run() -> None:
    found = first_counterexample(prove(wrong))
    assert found is not None
    assert found.question.clause.name == "never_three"
    assert found.step.startswith("count(c = c")  # any of those that wait
    assert "total = 3" in found.changes()
    run = find_run(wrong, depth=8)
    assert run.broken is not None
    assert [step.partition("(")[0] for step in run.steps] == ["count", "count", "forget", "count"]


def test_a_start_that_cannot_be_and_a_step_that_never_happens_are_named() -> None:
    vacuous = counter.flaw("vacuous")

    @vacuous.invariant
    def all_wait(c: Cat) -> Formula:
        return waits(c)

    assert impossible(vacuous) == ["count"]

    @vacuous.start
    def one_waits() -> Formula:
        return some(Cat, waits)

    assert impossible(vacuous) == [START, "count"]
    assert impossible(counter) == [], "a copy is its own"


def test_on_plain_values_it_makes_the_same_steps() -> None:
    plain = PlainPage(counter, {"Cat": ["tom", "kit"]}, {})
    first = {"total": {(): 2}, "waits": {("kit",)}}
    assert plain.broken({"total": {(): 3}, "waits": set()}) == ["never_three"]
    moves = list(plain.moves(first, plain.things(first), lambda name, args: True))
    assert [(move.name, move.args) for move in moves] == [("count", ("tom",))]
    after = {"total": {(): 4}, "waits": {("tom",), ("kit",)}}
    assert moves[0].after == after
    assert first == {"total": {(): 2}, "waits": {("kit",)}}, "the state before is left as it was"
    path = plain.path(first, {"total": {(): 4}, "waits": set()}, lambda name, args: True, 2)
    assert path is not None
    assert [move.name for move in path] == ["count", "forget"]


def test_what_a_state_leaves_out_must_not_be_read() -> None:
    plain = PlainPage(counter, {"Cat": ["tom"]}, {})
    assert plain.broken({"total": {}, "waits": set()}) == ["never_three", "never_below_nought"]
