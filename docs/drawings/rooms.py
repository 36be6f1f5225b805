"""The rooms of the code in three bands, with the arrows of the pinned graph between rooms of one band."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx  # type: ignore[import-untyped]  # ships no types

from coterie.diagram.layers import Point, lay_out
from coterie.diagram.svg import (
    FAINT,
    GRID,
    INK,
    PALETTE,
    PAPER,
    SOFT,
    Sheet,
    number,
    text_width,
    tip,
)
from docs.drawings.figure import MARGIN, heading
from docs.rooms import ROOMS

if TYPE_CHECKING:
    from collections.abc import Hashable

BANDS = (
    ("Laboratory", "cli.lab lab", "imports all bands", PALETTE[3]),
    (
        "Service",
        "cli cluster contrib dashboard engines locks sync telemetry testing transactions",
        "imports no room of the laboratory",
        PALETTE[0],
    ),
    (
        "Shared",
        "algorithms catalogue clocks coteries diagram errors process system trace",
        "imports neither of the two",
        PALETTE[2],
    ),
)
ENTRANCES = {"__main__", "coterie"}  # they name rooms, and hold nothing
LETTER = 12.0
BOX = 26.0  # height of a room
NARROWER = 0.62  # than the layout, which leaves room for the gates of other graphs
HEAD, TITLE = 66.0, 34.0  # heights of the heads of the sheet and of a band


def draw() -> str:
    sheet = Sheet()
    note = "An arrow means: imports. Left out are arrows to other bands, and those that follow from others."
    heading(sheet, MARGIN, 34, "The rooms of coterie", note)
    bands = [_Band(place) for place in range(len(BANDS))]
    width = max(band.width for band in bands) + 4 * MARGIN
    top = HEAD
    for band, (title, _, note, colour) in zip(bands, BANDS, strict=True):
        frame = {"x": MARGIN, "y": top, "width": width - 2 * MARGIN, "rx": 8.0}
        sheet.add("rect", **frame, height=band.height + TITLE + 18, fill=GRID, stroke=FAINT)
        sheet.text(MARGIN + 14, top + 22, title, font_size=13.5, font_weight="600", fill=colour)
        sheet.text(MARGIN + 112, top + 22, note, fill=SOFT)
        band.draw(sheet, Point(2 * MARGIN, top + TITLE), colour)
        top += band.height + TITLE + 18 + 14
    return sheet.finish(width, top - 14 + MARGIN, "The rooms of coterie; an arrow means: imports")


def band_of(room: str) -> int:
    """Return the place of a room's band; the commands of the laboratory are in its own."""
    return next(place for place, (_, names, *_) in enumerate(BANDS) if within(room, names.split()))


def within(room: str, names: list[str]) -> bool:
    return any(room == name or room.startswith(f"{name}.") for name in names)


class _Band:
    """The rooms of one band, laid out from the left, which imports, to the right."""

    def __init__(self, place: int) -> None:
        everything = set(ROOMS) | {other for others in ROOMS.values() for other in others.split()}
        mine = sorted(room for room in everything - ENTRANCES if band_of(room) == place)
        whole: nx.DiGraph = nx.DiGraph()
        whole.add_nodes_from(mine)
        for room in mine:
            imported = set(ROOMS.get(room, "").split()) - ENTRANCES
            assert all(band_of(other) >= place for other in imported), f"{room} imports upwards"
            whole.add_edges_from((room, other) for other in imported if other in mine)
        self._graph: nx.DiGraph = nx.transitive_reduction(whole)
        edges: dict[Hashable, list[Hashable]] = {
            room: sorted(self._graph.successors(room)) for room in mine
        }
        layout = lay_out(edges, [], {room: _width(room) for room in mine}, BOX)
        self._places = {str(room): _narrower(point) for room, point in layout.places.items()}
        self._passes = {
            pair: [_narrower(point) for point in points] for pair, points in layout.passes.items()
        }
        last = max(self._places, key=lambda room: self._places[room].x)
        self.width = self._places[last].x + _width(last) / 2
        self.height = layout.height

    def draw(self, sheet: Sheet, corner: Point, colour: str) -> None:
        """Draw arrows, then rooms, from this corner on."""

        def moved(point: Point) -> Point:
            return Point(point.x + corner.x, point.y + corner.y)

        for room, other in sorted(self._graph.edges):
            way = [moved(point) for point in self._passes.get((room, other), [])]
            start, end = moved(self._places[room]), moved(self._places[other])
            foot = Point(start.x + _width(room) / 2, start.y)
            _arrow(sheet, [foot, *way, Point(end.x - _width(other) / 2, end.y)], colour)
        for room, place in self._places.items():
            _box(sheet, room, moved(place))


def _narrower(point: Point) -> Point:
    return Point(point.x * NARROWER + 30, point.y)


def _width(room: str) -> float:
    return text_width(_name(room), LETTER) * 1.1 + 18


def _name(room: str) -> str:
    return room.replace(".", "/")


def _arrow(sheet: Sheet, way: list[Point], colour: str) -> None:
    """Draw a curve through points, with a head."""
    head, last = way[-1], Point(way[-1].x - 6, way[-1].y)
    path = f"M{number(way[0].x)} {number(way[0].y)}"
    for here, there in zip(way, [*way[1:-1], last], strict=False):
        half = number((here.x + there.x) / 2)
        path += f"C{half} {number(here.y)} {half} {number(there.y)} "
        path += f"{number(there.x)} {number(there.y)}"
    sheet.add("path", d=path, fill="none", stroke=colour, stroke_width=1.2, stroke_opacity=0.6)
    corners = [head, (head.x - 7, head.y - 3.4), (head.x - 7, head.y + 3.4)]
    sheet.polygon(corners, fill=colour)


def _box(sheet: Sheet, room: str, place: Point) -> None:
    imported = ROOMS.get(room, "").replace(" ", ", ") or "nothing"
    sheet.add(
        "rect",
        tip(f"{_name(room)} imports {imported}"),
        x=place.x - _width(room) / 2,
        y=place.y - BOX / 2,
        width=_width(room),
        height=BOX,
        rx=6.0,
        fill=PAPER,
        stroke=SOFT,
    )
    sheet.text(
        place.x, place.y + 4.2, _name(room), text_anchor="middle", font_size=LETTER, fill=INK
    )
