"""The smallest violation as a picture: a lane for each program, bars while the library calls the lock held."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coterie.diagram.legend import LegendEntry, draw_legend
from coterie.diagram.svg import ALARM, DIM, GRID, PALE, PALETTE, SOFT, Sheet, text_width
from coterie.diagram.ticks import linear_ticks, tick_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.lock_audit.notes import Turn
    from coterie.lab.lock_audit.trial import Happened
    from coterie.lab.lock_audit.verdict import LockVerdict

MARGIN, TITLE = 24.0, 15.0
TOP, LANE, BAR = 78.0, 46.0, 14.0
WIDTH = 760.0  # of the lanes
BEFORE = 0.08  # of the time that is drawn, before the first has entered
HELD, WAITING = PALETTE[2], DIM  # as in the pictures of the laboratory: inside is green


class Violation(NamedTuple):
    """Two turns that cannot both be right, in the order of entry."""

    title: str
    first: Turn
    second: Turn

    @property
    def begin(self) -> float:
        """When the first has entered."""
        return self.first.entered or 0.0

    @property
    def end(self) -> float:
        """When both have left, or nothing more is known of them."""
        turns = self.first, self.second
        return max(max(turn.until, turn.left or 0.0, turn.told or 0.0) for turn in turns)


class _Scale(NamedTuple):
    """Where times stand on the sheet."""

    begin: float
    end: float
    left: float

    def x(self, at: float) -> float:
        share = (at - self.begin) / (self.end - self.begin)
        return self.left + min(max(share, 0.0), 1.0) * WIDTH


def draw_violation(
    violation: Violation, turns: Sequence[Turn], happened: Sequence[Happened], verdict: LockVerdict
) -> str:
    """Draw what all programs did from the entry of the first to the end of both."""
    span = max(violation.end - violation.begin, 0.001)
    left = MARGIN + text_width("program 99", 12) + 10
    scale = _Scale(violation.begin - span * BEFORE, violation.end + span * BEFORE, left)
    places = range(verdict.programs + 1)  # the last lane is that of the server
    bottom = TOP + LANE * len(places)
    sheet = Sheet()
    width = left + WIDTH + MARGIN
    sheet.headline(MARGIN, 30, violation.title, width - 2 * MARGIN, size=TITLE, fill=ALARM)
    facts = f"{verdict.target} · {verdict.version} · seed {verdict.seed} · seconds since the first has entered"
    sheet.text(MARGIN, 48, facts, fill=SOFT)
    _draw_axis(sheet, scale, violation.begin, bottom)
    _draw_together(sheet, scale, violation, bottom)
    for place in places:
        y = TOP + LANE * (place + 0.5)
        name = f"program {place + 1}" if place < verdict.programs else verdict.server or "machine"
        sheet.text(MARGIN, y + 4, name)
        sheet.line((left, y), (left + WIDTH, y), stroke=GRID, stroke_width=1.5)
    for each in happened:
        _draw_fault(sheet, scale, each, verdict.programs)
    for turn in turns:
        _draw_turn(sheet, scale, turn)
    entries = [
        LegendEntry("called held", _sample(HELD)),
        LegendEntry("waits", _sample(WAITING)),
        LegendEntry("fault", _sample(PALETTE[1])),
        LegendEntry("two at the same time", _sample(PALE)),
    ]
    height = bottom + 34 + draw_legend(sheet, MARGIN, bottom + 30, width - 2 * MARGIN, entries)
    return sheet.finish(width, height + 10, violation.title)


def _draw_axis(sheet: Sheet, scale: _Scale, zero: float, bottom: float) -> None:
    for tick in linear_ticks(scale.begin - zero, scale.end - zero, 10):
        x = scale.x(zero + tick)
        sheet.line((x, TOP), (x, bottom), stroke=GRID)
        sheet.text(x, bottom + 16, tick_text(tick), fill=SOFT, font_size=10, text_anchor="middle")


def _draw_together(sheet: Sheet, scale: _Scale, violation: Violation, bottom: float) -> None:
    """Shade the time for which both were inside."""
    begin = scale.x(violation.second.entered or 0.0)
    end = scale.x(min(violation.first.until, violation.second.until))
    if end > begin or violation.first.until > (violation.second.entered or 0.0):
        room = max(end - begin, 3.0)
        sheet.add("rect", x=begin, y=TOP, width=room, height=bottom - TOP, fill=PALE)


def _draw_turn(sheet: Sheet, scale: _Scale, turn: Turn) -> None:
    if (turn.left or turn.until or scale.end) < scale.begin or turn.asked > scale.end:
        return
    y = TOP + LANE * (turn.place + 0.5)
    entered = turn.entered if turn.entered is not None else scale.end
    _draw_bar(sheet, (scale.x(turn.asked), scale.x(entered)), y, 5.0, WAITING)
    if turn.entered is None:
        return
    _draw_bar(sheet, (scale.x(entered), scale.x(turn.until)), y, BAR, HELD)
    label = "" if turn.token is None else f"token {turn.token}"
    if turn.told is not None:
        label = f"{label} lost: told {turn.told_how}".strip()
        sheet.cross(scale.x(turn.told), y, 5.0, stroke=ALARM, stroke_width=2.0)
    sheet.text(scale.x(entered), y - BAR / 2 - 4, label, font_size=10, fill=SOFT)


def _draw_fault(sheet: Sheet, scale: _Scale, fault: Happened, programs: int) -> None:
    if fault.ended < scale.begin or fault.begun > scale.end:
        return
    y = TOP + LANE * ((programs if fault.place is None else fault.place) + 0.5) + BAR / 2 + 5
    begin, end = scale.x(fault.begun), scale.x(fault.ended)
    _draw_bar(sheet, (begin, end), y, 4.0, PALETTE[1])
    sheet.text(begin, y + 13, fault.name, font_size=10, fill=PALETTE[1])


def _draw_bar(
    sheet: Sheet, ends: tuple[float, float], y: float, height: float, colour: str
) -> None:
    width = max(ends[1] - ends[0], 1.5)
    sheet.add("rect", x=ends[0], y=y - height / 2, width=width, height=height, fill=colour)


def _sample(colour: str) -> Callable[[Sheet, float, float], None]:
    def draw(sheet: Sheet, x: float, y: float) -> None:
        sheet.add("rect", x=x, y=y - 5, width=26.0, height=10.0, fill=colour)

    return draw
