"""The marks of a space-time diagram: bars, arrows, dots and crosses."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from coterie.diagram.labels import SIZE, Arrow
from coterie.diagram.legend import SAMPLE, LegendEntry
from coterie.diagram.lifelines import LaneCondition
from coterie.diagram.svg import ALARM, DIM, INK, PAPER, SOFT, SOLID, number, tip

if TYPE_CHECKING:
    from coterie.diagram.labels import LabelPlace
    from coterie.diagram.svg import Sheet

LANE = "#9aa5b1"
BARS = {  # height and colour
    LaneCondition.WAITING: (5.0, "#f2c46d"),
    LaneCondition.INSIDE: (13.0, SOLID),
    LaneCondition.PAUSED: (9.0, DIM),
}


class Ending(enum.Enum):
    """How the way of a message ends."""

    ARRIVED = "arrived"
    LOST = "lost"
    UNDERWAY = "underway"


def bar(sheet: Sheet, condition: LaneCondition, begin: float, end: float, y: float) -> None:
    """Draw a stay; that of a crashed process is a gap in its lane."""
    if condition is LaneCondition.DOWN:
        sheet.line((begin, y), (end, y), stroke=PAPER, stroke_width=3)
        sheet.line((begin, y), (end, y), stroke=LANE, stroke_dasharray="1 5")
        return
    height, colour = BARS[condition]
    # A stay inside that takes no time must be seen all the same, behind the call that ends it.
    width = max(end - begin, 9.0 if condition is LaneCondition.INSIDE else 0.0)
    sheet.add(
        "rect",
        x=(begin + end - width) / 2,
        y=y - height / 2,
        width=width,
        height=height,
        rx=min(height / 2, 3.0),
        fill=colour,
    )


def loop(sheet: Sheet, left: float, right: float, top: float) -> None:
    """Draw a bracket over what happens again and again."""
    for end in (left, right):
        sheet.line((end, top), (end, top + 6), stroke=ALARM, stroke_width=1.5)
    sheet.line((left, top), (right, top), stroke=ALARM, stroke_width=1.5)
    sheet.text(right, top - 5, "again and again", fill=ALARM, text_anchor="end")


def band(sheet: Sheet, left: float, right: float, top: float, bottom: float) -> None:
    """Draw the time from a violation on."""
    sheet.add(
        "rect", x=left, y=top, width=right - left, height=bottom - top, fill=ALARM, opacity="0.1"
    )
    sheet.line((left, top), (left, bottom), stroke=ALARM, stroke_width=1.5)


def arrow(
    sheet: Sheet, way: Arrow, ending: Ending, colour: str, *, words: str = "", busy: bool = False
) -> None:
    """Draw the way of a message; thinner where there are many."""
    x, y = way.x2, way.y2
    if ending is Ending.ARRIVED:
        x, y = _head(sheet, way, colour, 5.0 if busy else 8.0)
    start, control = way.at(min(3 / (way.length or 1.0), 0.5)), way.control
    points = [number(value) for value in (*start, *control, x, y)]
    sheet.add(
        "path",
        tip(words),
        d="M{} {}Q{} {} {} {}".format(*points),
        fill="none",
        stroke=colour,
        stroke_width=0.8 if busy else 1.5,
        stroke_dasharray="none" if ending is Ending.ARRIVED else "5 3",
        opacity="0.6" if busy or ending is Ending.UNDERWAY else "1",
    )
    if ending is Ending.LOST:
        sheet.cross(x, y, 4.5, stroke=colour, stroke_width=2.0)


def _head(sheet: Sheet, way: Arrow, colour: str, length: float) -> tuple[float, float]:
    """Draw the head just short of the lane, and return the point where the line meets it."""
    along, down = way.direction(1.0)
    tip_x, tip_y = way.x2 - 2 * along, way.y2 - 2 * down
    foot_x, foot_y = tip_x - length * along, tip_y - length * down
    half = length * 0.36
    corners = [
        (tip_x, tip_y),
        (foot_x - half * down, foot_y + half * along),
        (foot_x + half * down, foot_y - half * along),
    ]
    sheet.polygon(corners, fill=colour)
    return foot_x + along, foot_y + down


def label(sheet: Sheet, place: LabelPlace, text: str, colour: str) -> None:
    """Write along an arrow."""
    x, y, turn = place
    turned = f"rotate({turn:.1f} {x:.1f} {y:.1f})"
    _write(sheet, x, y, text, size=SIZE, fill=colour, transform=turned)


def _write(
    sheet: Sheet, x: float, y: float, text: str, *, size: float, fill: str, **attributes: str
) -> None:
    """Write with an edge of paper, so that it reads on top of lines."""
    sheet.text(
        x,
        y,
        text,
        text_anchor="middle",
        font_size=size,
        fill=fill,
        stroke=PAPER,
        stroke_width=3,
        stroke_linejoin="round",
        paint_order="stroke",
        **attributes,
    )


def call(sheet: Sheet, x: float, y: float, words: str) -> None:
    """Draw a call of the user."""
    sheet.add("circle", tip(words), cx=x, cy=y, r=3.2, fill=PAPER, stroke=INK, stroke_width=1.5)


def timer(sheet: Sheet, x: float, y: float, name: str) -> None:
    """Draw a timer that runs out."""
    sheet.line((x, y - 8), (x, y + 8), stroke=INK, stroke_width=2)
    if name:
        _write(sheet, x, y - 12, name, size=9, fill=SOFT)


def notice(sheet: Sheet, x: float, y: float, words: str) -> None:
    """Draw that a process hears of a crash."""
    sheet.line((x, y - 8), (x, y + 8), stroke=INK, stroke_width=2)
    _write(sheet, x, y + 19, words, size=9, fill=SOFT)


def event(sheet: Sheet, x: float, y: float, text: str) -> None:
    """Draw something that a process told its user."""
    sheet.polygon([(x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y)], fill=INK)
    _write(sheet, x, y - 9, text, size=9, fill=INK)


def crash(sheet: Sheet, x: float, y: float) -> None:
    """Draw a crash."""
    sheet.cross(x, y, 6, stroke=ALARM, stroke_width=2.6, stroke_linecap="round")


def message_entry(kind: str, colour: str) -> LegendEntry:
    """Show a kind of message in the legend."""
    return LegendEntry(
        kind,
        lambda sheet, x, y: arrow(sheet, Arrow(x, y, x + SAMPLE, y), Ending.ARRIVED, colour),
    )


def ending_entry(name: str, ending: Ending) -> LegendEntry:
    """Show in the legend what became of a message."""
    return LegendEntry(
        name, lambda sheet, x, y: arrow(sheet, Arrow(x, y, x + SAMPLE - 5, y), ending, SOFT)
    )


def stay_entry(condition: LaneCondition) -> LegendEntry:
    """Show a condition of a process in the legend."""

    def draw(sheet: Sheet, x: float, y: float) -> None:
        bar(sheet, condition, x, x + SAMPLE, y)
        if condition is LaneCondition.DOWN:
            crash(sheet, x + 6, y)

    return LegendEntry(condition.value, draw)
