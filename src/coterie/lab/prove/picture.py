"""A counterexample to induction as a picture: the state before a step, and the one after it.

Where a theorem does not follow from the clauses there is no step, and one state.

Things of the sort that most facts are about stand on a circle; or in a row, with a second one below it, where
facts are about pairs of them with another sort. What holds of one thing is written beside it, what holds of two is
an arrow, and the rest is listed. What the step changed is red. Facts
that neither the clause nor the step reads are left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from coterie.diagram.svg import ALARM, FAINT, INK, PAPER, SOFT, Sheet
from coterie.lab.prove.terms import Formula

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from coterie.lab.prove.bounded import Counterexample, Table
    from coterie.lab.prove.page import Symbol
    from coterie.lab.prove.terms import Sort

Point: TypeAlias = tuple[float, float]

WIDTH = 430  # of one of the two panels
RISE = 80  # half the height of the circle
ROW = 2  # as many things stand side by side
RADIUS = 24  # of a thing
BEND = 30  # of an arrow
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
    things: list[str]  # that stand on the circle, or in the first row
    others: list[str]  # of another sort, in a second row


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
    main = _main_sort(found)
    partner = _partner(found, main)
    things = _things(found, main)
    others = [] if partner is None else _things(found, partner)
    if not set(things).isdisjoint(others):  # two sorts whose names begin alike
        others = []
    before = State("before", _facts(found, after=False), things, others)
    if found.question.action is None:
        return [before._replace(name="a state")]
    return [before, State(f"after {found.step}", _facts(found, after=True), things, others)]


def _partner(found: Counterexample, main: Sort) -> Sort | None:
    """Return the sort that is most often in a pair with the main one, if there is any."""
    pairs = [set(symbol.sorts) - {main} for symbol in _read(found) if _is_pair(symbol, main)]
    sorts = [sort for others in pairs for sort in others if sort.number is None]
    return max(sorts, key=sorts.count) if sorts else None


def _is_pair(symbol: Symbol[Any], main: Sort) -> bool:
    return len(symbol.sorts) == 2 and main in symbol.sorts


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


def _read(found: Counterexample) -> list[Symbol[Any]]:
    """List what the clause or the step reads or changes."""
    read = set(found.question.clause.formula.symbols())
    action = found.question.action
    if action is not None:
        read |= action.updates.keys() | set(action.guard.symbols())
    return [symbol for symbol in found.page.symbols if symbol in read]


def _facts(found: Counterexample, *, after: bool) -> list[Fact]:
    read = _read(found)
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
    sheet.text(left + 8, top, state.name, fill=SOFT)
    all_things = (*state.things, *state.others)
    own = {thing: [f for f in state.facts if f.args == (thing,)] for thing in all_things}
    arrange = _in_two_rows if state.others else _on_a_circle
    places, end = arrange(state, own, left, top)
    between: dict[tuple[str, ...], list[Fact]] = {}
    rest = []
    for fact in state.facts:
        if len(fact.args) == 2 and len(set(fact.args)) == 2 and set(fact.args) <= places.keys():
            between.setdefault(fact.args, []).append(fact)
        elif len(fact.args) != 1 or fact.args[0] not in places:
            rest.append(fact)
    for (one, other), arrow in between.items():
        _arrow(sheet, places[one], places[other], arrow)
    for thing, (x, y) in places.items():
        sheet.add("circle", cx=x, cy=y, r=RADIUS, fill="none", stroke=INK)
        sheet.text(x, y + 4, thing, text_anchor="middle", font_weight="600")
        is_above = bool(state.others) and thing in state.things
        for number, fact in enumerate(own[thing]):
            down = LINE * (number + 1)
            line = y - RADIUS + 8 - down if is_above else y + RADIUS + down
            sheet.text(x, line, fact.text, text_anchor="middle", fill=fact.colour)
    for number, fact in enumerate(rest):
        sheet.text(left + 8, end + LINE * (number + 1), fact.whole, fill=fact.colour)
    return end + LINE * len(rest) + 10


def _on_a_circle(
    state: State, own: Mapping[str, list[Fact]], left: float, top: float
) -> tuple[dict[str, Point], float]:
    """Return where things stand, and how far down that comes; two stand side by side."""
    high = 0 if len(state.things) <= ROW else RISE
    centre = left + WIDTH / 2, top + 75 + high
    places = {}
    for number, thing in enumerate(state.things):
        turn = 2 * math.pi * number / len(state.things) - math.pi
        places[thing] = centre[0] + 120 * math.cos(turn), centre[1] + RISE * math.sin(turn)
    return places, centre[1] + high + RADIUS + LINE * _most(own, state.things) + 20


def _in_two_rows(
    state: State, own: Mapping[str, list[Fact]], left: float, top: float
) -> tuple[dict[str, Point], float]:
    """Return the same for two rows: facts of the first are written above it, those of the second below it."""
    first = top + 30 + LINE * _most(own, state.things) + RADIUS
    second = first + 2 * RISE
    places = {}
    for row, things in ((first, state.things), (second, state.others)):
        for number, thing in enumerate(things):
            places[thing] = left + WIDTH * (number + 0.5) / len(things), row
    return places, second + RADIUS + LINE * _most(own, state.others) + 20


def _most(own: Mapping[str, list[Fact]], things: Sequence[str]) -> int:
    return max((len(own[thing]) for thing in things), default=0)


def _arrow(sheet: Sheet, start: Point, end: Point, facts: Sequence[Fact]) -> None:
    """Draw an arrow, bent to one side, with all that holds of this pair of things, in this order."""
    (x1, y1), (x2, y2) = start, end
    length = math.hypot(x2 - x1, y2 - y1)
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    bx, by = (x1 + x2) / 2 - uy * BEND, (y1 + y2) / 2 + ux * BEND
    from_x, from_y = x1 + ux * RADIUS, y1 + uy * RADIUS
    tip_x, tip_y = x2 - ux * RADIUS, y2 - uy * RADIUS
    colour = ALARM if any(fact.changed for fact in facts) else INK
    path = f"M{from_x:.0f} {from_y:.0f}Q{bx:.0f} {by:.0f} {tip_x:.0f} {tip_y:.0f}"
    sheet.add("path", d=path, fill="none", stroke=colour)
    towards = math.atan2(tip_y - by, tip_x - bx)
    wings = [
        (tip_x - 8 * math.cos(towards + turn), tip_y - 8 * math.sin(towards + turn))
        for turn in (-0.4, 0.4)
    ]
    sheet.polygon([(tip_x, tip_y), *wings], fill=colour)
    # Nearer to the start than to the end: so the words of two arrows that cross, or lead back, stand apart.
    x = 0.4 * from_x + 0.45 * bx + 0.15 * tip_x
    y = 0.4 * from_y + 0.45 * by + 0.15 * tip_y - LINE * (len(facts) - 1) / 2 + 4
    halo: dict[str, float | str] = {"paint_order": "stroke", "stroke": PAPER, "stroke_width": 4}
    for number, fact in enumerate(facts):
        line = y + LINE * number
        sheet.text(x, line, fact.text, text_anchor="middle", fill=fact.colour, **halo)
