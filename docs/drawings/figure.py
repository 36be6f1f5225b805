"""What the drawings of the guide have in common: members, arrows, and panels with a heading."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.diagram.layers import Point
from coterie.diagram.svg import ALARM, INK, PALE, PALETTE, PAPER, SOFT, Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable

MARGIN = 24.0
RADIUS = 15.0  # of a member
BLUE, ORANGE = PALETTE[0], PALETTE[1]


def heading(sheet: Sheet, x: float, y: float, title: str, *notes: str) -> None:
    """Write the title of a panel, and below it what there is to see."""
    sheet.text(x, y, title, font_size=13.5, font_weight="600", fill=INK)
    for line, note in enumerate(notes, 1):
        sheet.text(x, y + 17 * line, note, fill=SOFT)


def member(
    sheet: Sheet, place: Point, name: object, *, colour: str = "", down: bool = False
) -> None:
    """Draw a member: in the colour of its quorum, or pale and marked by a cross."""
    x, y = place
    look: dict[str, str | float] = {"fill": colour or PAPER, "stroke": colour or INK}
    if down:
        look = {"fill": PALE, "stroke": ALARM, "stroke_dasharray": "3 3"}
    sheet.add("circle", cx=x, cy=y, r=RADIUS, stroke_width=1.4, **look)
    ink = ALARM if down else PAPER if colour else INK
    sheet.text(x, y + 4.5, str(name), text_anchor="middle", font_size=13, fill=ink)
    if down:
        sheet.cross(x + RADIUS, y - RADIUS, 5, stroke=ALARM, stroke_width=2.4)


def shared(sheet: Sheet, place: Point, name: object, colours: tuple[str, str]) -> None:
    """Draw a member of two quorums, half in the colour of each."""
    x, y = place
    for colour, sweep in zip(colours, (0, 1), strict=True):
        half = (
            f"M{x:.1f} {y - RADIUS:.1f}A{RADIUS:g} {RADIUS:g} 0 0 {sweep} {x:.1f} {y + RADIUS:.1f}"
        )
        sheet.add("path", d=f"{half}Z", fill=colour)
    sheet.text(
        x, y + 4.5, str(name), text_anchor="middle", font_size=13, font_weight="700", fill=PAPER
    )


def arrow(
    sheet: Sheet, start: Point, end: Point, colour: str, *, width: float = 1.4, dashes: str = "none"
) -> None:
    """Draw a straight arrow."""
    foot = end.towards(start, 9.0)
    sheet.line(start, foot, stroke=colour, stroke_width=width, stroke_dasharray=dashes)
    across = Point(foot.x - (end.y - foot.y), foot.y + (end.x - foot.x))
    sheet.polygon([end, foot.towards(across, 4.0), foot.towards(across, -4.0)], fill=colour)


def on_circle(centre: Point, radius: float, part: float) -> Point:
    """Return the point after that part of a circle, clockwise from its top."""
    angle = 2 * math.pi * part
    return Point(centre.x + radius * math.sin(angle), centre.y - radius * math.cos(angle))


def braces(members: Iterable[int]) -> str:
    """Write a set as the literature does."""
    return f"{{{', '.join(map(str, sorted(members)))}}}"
