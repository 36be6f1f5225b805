"""A counterexample to induction as a picture: the state before a step, and the one after it.

Where a theorem does not follow from the clauses there is no step, and one state.

Things of the sort that most facts are about stand on a circle; what holds of one thing is written
below it, what holds of two is an arrow, and the rest is listed. What the step changed is red. Facts
that neither the clause nor the step reads are left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.diagram.svg import ALARM, FAINT, INK, SOFT, Sheet
from coterie.lab.prove.terms import Formula

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.lab.prove.bounded import Counterexample, Table
    from coterie.lab.prove.page import Symbol
    from coterie.lab.prove.terms import Sort

WIDTH = 430  # of one of the two panels
RISE = 80  # half the height of the circle
ROW = 2  # as many things stand side by side
RADIUS = 24  # of a thing
LINE = 15  # height of a line of text
TOP = 60


class Fact(NamedTuple):
    """What holds of some things, or no longer does."""

    text: str  # without the things
    args: tuple[str, ...]
    changed: bool

    @property
    def whole(self) -> str:
        """The fact with its things."""
        return f"{self.text}({', '.join(self.args)})" if self.args else self.text

    @property
    def colour(self) -> str:
        """Red if the step changed it."""
        return ALARM if self.changed else INK


class State(NamedTuple):
    """What a panel shows."""

    name: str
    facts: list[Fact]
    things: list[str]  # that stand on the circle


def draw(found: Counterexample) -> str:
    """Return the picture as the text of an SVG file."""
    sheet = Sheet()
    clause = f"“{found.question.clause.words}”"
    title = f"{found.page.name}: {found.step} breaks {clause}"
    note = "Red: changed by the step. The state before fulfils all clauses, whether a run reaches it or not."
    if found.question.action is None:
        title = f"{found.page.name}: {clause} does not follow"
        note = "The state fulfils all clauses, whether a run reaches it or not."
    if found.witness:
        title += " for " + ", ".join(f"{name} = {thing}" for name, thing in found.witness.items())
    states = _states(found)
    sheet.headline(20, 28, title, len(states) * WIDTH, size=14)
    bottom = max(
        _panel(sheet, (20 + number * (WIDTH + 10), TOP), state)
        for number, state in enumerate(states)
    )
    if len(states) > 1:
        sheet.line((25 + WIDTH, TOP), (25 + WIDTH, bottom), stroke=FAINT)
    sheet.text(20, bottom + 20, note, fill=SOFT)
    return sheet.finish(len(states) * (WIDTH + 10) + 30, bottom + 36, title)


def draw_states(found: Counterexample) -> list[str]:
    """Return a picture of each state, for a page that puts them where there is room."""
    drawn = []
    for state in _states(found):
        sheet = Sheet()
        bottom = _panel(sheet, (10, 24), state)
        drawn.append(sheet.finish(WIDTH + 20, bottom + 10, f"{found.page.name}: {state.name}"))
    return drawn


def _states(found: Counterexample) -> list[State]:
    things = _things(found, _main_sort(found))
    before = State("before", _facts(found, after=False), things)
    if found.question.action is None:
        return [before._replace(name="a state")]
    return [before, State(f"after {found.step}", _facts(found, after=True), things)]


def _main_sort(found: Counterexample) -> Sort:
    """Return the sort that most symbols are about."""
    symbols = found.page.symbols
    return max(found.page.sorts, key=lambda sort: sum(sort in each.sorts for each in symbols))


def _things(found: Counterexample, sort: Sort) -> list[str]:
    names = {
        arg
        for symbol, table in found.before.items()
        for args in table
        for arg, kind in zip(args, symbol.sorts, strict=True)
        if kind is sort
    }
    return sorted(names)


def _facts(found: Counterexample, *, after: bool) -> list[Fact]:
    read = set(found.question.clause.formula.symbols())
    action = found.question.action
    if action is not None:
        read |= action.updates.keys() | set(action.guard.symbols())
    states = (found.after, found.before) if after else (found.before, found.before)
    facts: list[Fact] = []
    for symbol, table in states[0].items():
        if symbol in read:
            facts += _facts_of(symbol, table, states[1][symbol])
    return facts


def _facts_of(symbol: Symbol[Any], table: Table, earlier: Table) -> Iterator[Fact]:
    for args, value in table.items():
        changed = earlier[args] != value
        if symbol.to is not Formula:
            yield Fact(f"{symbol.name} {value}", args, changed)
        elif value == "True":
            yield Fact(symbol.name, args, changed)
        elif changed:
            yield Fact(f"no longer {symbol.name}", args, changed)


def _panel(sheet: Sheet, corner: tuple[float, float], state: State) -> float:
    """Draw a state below and to the right of a corner; return how far down it comes."""
    left, top = corner
    name, facts, things = state
    sheet.text(left + 8, top, name, fill=SOFT)
    own = {thing: [f for f in facts if f.args == (thing,)] for thing in things}
    # Two stand side by side, and need no more height than what is written below them.
    is_row = len(things) <= ROW
    high = (0 if is_row else 2 * RISE) + LINE * max(map(len, own.values()), default=0)
    centre = left + WIDTH / 2, top + 75 + (0 if is_row else RISE)
    places = {}
    for number, thing in enumerate(things):
        turn = 2 * math.pi * number / len(things) - math.pi
        places[thing] = centre[0] + 120 * math.cos(turn), centre[1] + RISE * math.sin(turn)
    between: dict[tuple[str, ...], list[Fact]] = {}
    rest = []
    for fact in facts:
        if len(fact.args) == 2 and len(set(fact.args)) == 2 and set(fact.args) <= places.keys():
            between.setdefault(fact.args, []).append(fact)
        elif len(fact.args) != 1 or fact.args[0] not in places:
            rest.append(fact)
    for (one, other), arrows in between.items():
        for number, fact in enumerate(arrows):
            _arrow(sheet, places[one], places[other], fact, number)
    for thing, (x, y) in places.items():
        sheet.add("circle", cx=x, cy=y, r=RADIUS, fill="none", stroke=INK)
        sheet.text(x, y + 4, thing, text_anchor="middle", font_weight="600")
        for number, fact in enumerate(own[thing]):
            below = y + RADIUS + LINE * (number + 1)
            sheet.text(x, below, fact.text, text_anchor="middle", fill=fact.colour)
    # Arrows of one pair bend more and more, by half of that at most.
    bends = max(map(len, between.values()), default=0) if is_row else 0
    end = top + 75 + RADIUS + max(high, 20 * bends) + 20
    for number, fact in enumerate(rest):
        sheet.text(left + 8, end + LINE * (number + 1), fact.whole, fill=fact.colour)
    return end + LINE * len(rest) + 10


def _arrow(
    sheet: Sheet, start: tuple[float, float], end: tuple[float, float], fact: Fact, number: int
) -> None:
    """Draw a bent arrow; those of one pair of things bend more and more."""
    (x1, y1), (x2, y2) = start, end
    length = math.hypot(x2 - x1, y2 - y1)
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    bend = 25 + 40 * number
    bx, by = (x1 + x2) / 2 - uy * bend, (y1 + y2) / 2 + ux * bend
    tip_x, tip_y = x2 - ux * RADIUS, y2 - uy * RADIUS
    path = (
        f"M{x1 + ux * RADIUS:.0f} {y1 + uy * RADIUS:.0f}Q{bx:.0f} {by:.0f} {tip_x:.0f} {tip_y:.0f}"
    )
    sheet.add("path", d=path, fill="none", stroke=fact.colour)
    towards = math.atan2(tip_y - by, tip_x - bx)
    wings = [
        (tip_x - 8 * math.cos(towards + turn), tip_y - 8 * math.sin(towards + turn))
        for turn in (-0.4, 0.4)
    ]
    sheet.polygon([(tip_x, tip_y), *wings], fill=fact.colour)
    middle = ((x1 + x2) / 2 + bx) / 2, ((y1 + y2) / 2 + by) / 2 + 4
    sheet.text(*middle, fact.text, text_anchor="middle", fill=fact.colour)
