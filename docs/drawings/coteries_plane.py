"""The plane of order 2, which is also called the Fano plane: seven members, and lines for quorums."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.coteries import projective_plane
from coterie.diagram.layers import Point
from coterie.diagram.svg import FAINT, PALETTE, Sheet
from docs.drawings.figure import BLUE, MARGIN, ORANGE, braces, heading, member, shared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coterie.coteries import Coterie

PANEL = 246.0
TOP = 100.0
SIDE = 190.0
LINES = (*PALETTE[:6], PALETTE[7])  # its brown is dim on dark paper
CORNERS, MIDDLES, CENTRE = (1, 2, 4), (3, 6, 5), 7  # the middles of the sides after each corner


def draw() -> str:
    plane = projective_plane(2)
    first, second = plane.quorum_for(1), plane.quorum_for(5)
    failed = (1, 2)
    alive = plane.without(failed)
    assert alive is not None
    (common,) = first & second
    sheet = Sheet()
    colours = dict(zip(plane.quorums, LINES, strict=True))
    _panel(sheet, 0, plane, colours)
    _panel(sheet, 1, plane, {first: BLUE, second: ORANGE})
    _panel(sheet, 2, plane, {alive: BLUE}, failed)
    texts = [
        ("Seven quorums of three", "each line is one, and so is", "the circle"),
        (
            f"{braces(first)} and {braces(second)}",
            f"meet in {common}, which says yes",
            "to one of them",
        ),
        (f"{_words(failed)} are down", f"{braces(alive)} has all its members,", "so entries go on"),
    ]
    for panel, (title, *notes) in enumerate(texts):
        heading(sheet, MARGIN + panel * PANEL, 34, title, *notes)
    return sheet.finish(2 * MARGIN + 3 * PANEL - 34, TOP + 208, "The projective plane of order 2")


def _words(members: Iterable[int]) -> str:
    return " and ".join(map(str, members))


def _places(panel: int) -> dict[int, Point]:
    """Return the usual picture: a triangle, the middles of its sides, and its centre."""
    left, high = MARGIN + 14 + panel * PANEL, SIDE * math.sqrt(3) / 2
    top, right = Point(left + SIDE / 2, TOP), Point(left + SIDE, TOP + high)
    corners = [top, right, Point(left, TOP + high)]
    places = dict(zip(CORNERS, corners, strict=True))
    for middle, one, other in zip(MIDDLES, corners, [*corners[1:], corners[0]], strict=True):
        places[middle] = Point((one.x + other.x) / 2, (one.y + other.y) / 2)
    places[CENTRE] = Point(left + SIDE / 2, TOP + high * 2 / 3)
    return places


def _panel(
    sheet: Sheet,
    panel: int,
    plane: Coterie,
    colours: Mapping[frozenset[int], str],
    failed: tuple[int, ...] = (),
) -> None:
    places = _places(panel)
    for quorum in sorted(plane.quorums, key=lambda each: each in colours):
        look = {
            "stroke": colours.get(quorum, FAINT),
            "stroke_width": 3 if quorum in colours else 1.6,
        }
        _line(sheet, [places[each] for each in quorum], look)
    marked = colours if len(colours) < len(plane.quorums) else {}
    for name, place in places.items():
        mine = [colour for quorum, colour in marked.items() if name in quorum]
        if len(mine) == 2:
            shared(sheet, place, name, (mine[0], mine[1]))
        else:
            member(sheet, place, name, colour="".join(mine), down=name in failed)


def _line(sheet: Sheet, points: list[Point], look: dict[str, str | float]) -> None:
    """Draw the line through three points, which is the circle if it is not straight."""
    first, middle, last = sorted(points)
    turn = (middle.x - first.x) * (last.y - first.y) - (middle.y - first.y) * (last.x - first.x)
    if abs(turn) < 1.0:
        sheet.polyline([first, last], **look)
        return
    centre = Point(sum(point.x for point in points) / 3, sum(point.y for point in points) / 3)
    sheet.add("circle", cx=centre.x, cy=centre.y, r=math.dist(centre, first), fill="none", **look)
