"""Lanes of processes, time to the right: what the drawings of runs have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coterie.diagram.layers import Point
from coterie.diagram.svg import ALARM, INK, PAPER, SOFT, Sheet
from docs.drawings.figure import MARGIN, ORANGE, arrow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.diagram.lifelines import Flight

LEFT = 116.0  # where time begins
LANE = 58.0  # from one lane to the next
SMALL = 10.5  # size of the letters


@dataclass(frozen=True)
class Lanes:
    """Processes, one below the other."""

    sheet: Sheet
    top: float
    scale: float  # a unit of time, on the sheet
    names: dict[int, str]  # of the processes, from the top

    def at(self, time: float, process: int) -> Point:
        """Return the place of a process at a time."""
        return Point(
            LEFT + time * self.scale, self.top + list(self.names).index(process) * LANE + 14
        )

    def draw(self, end: float) -> None:
        """Draw the lanes up to that time; what happens comes on top of them."""
        for process, name in self.names.items():
            y = self.at(0, process).y
            self.sheet.text(MARGIN, y + 4, name, fill=INK)
            self.sheet.line((LEFT - 14, y), self.at(end, process), stroke=SOFT)

    def bar(self, process: int, begin: float, end: float, look: tuple[float, str]) -> None:
        """Draw a stay, of some height and colour."""
        height, colour = look
        start = self.at(begin, process)
        size = {"width": (end - begin) * self.scale, "height": height}
        self.sheet.add("rect", x=start.x, y=start.y - height / 2, rx=2, fill=colour, **size)

    def down(self, process: int, begin: float, end: float) -> None:
        """Draw a crash and the silence after it."""
        start, stop = self.at(begin, process), self.at(end, process)
        self.sheet.line(start, stop, stroke=PAPER, stroke_width=3)
        self.sheet.line(start, stop, stroke=ALARM, stroke_dasharray="1 5")
        self.sheet.cross(*start, 6, stroke=ALARM, stroke_width=2.4)

    def flights(self, flights: Iterable[Flight]) -> None:
        """Draw messages; several that go the same way at the same time share an arrow."""
        together: dict[tuple[Point, Point, bool], list[str]] = {}
        for flight in flights:
            lost = flight.lost is not None
            for time in [flight.lost] if flight.lost is not None else flight.arrivals:
                ends = self.at(flight.begin, flight.sender), self.at(time, flight.receiver)
                together.setdefault((*ends, lost), []).append(flight.kind)
        for (start, end, lost), kinds in together.items():
            dashes, colour = ("3 3", SOFT) if lost else ("none", INK)
            arrow(self.sheet, start, end.towards(start, 9), colour, dashes=dashes)
            self._label(start, end, ", ".join(kinds))

    def _label(self, start: Point, end: Point, words: str) -> None:
        """Write beside an arrow, where it crosses no lane: near its start, and to its right if it can be."""
        down, far = end.y > start.y, abs(end.y - start.y) > LANE
        part = 0.35 if not far else 0.75 if down else 0.25
        x, y = start.x + part * (end.x - start.x), start.y + part * (end.y - start.y) + 5
        if down or not far:
            self.sheet.text(x + 8, y, words, font_size=SMALL, fill=INK)
        else:
            self.sheet.text(x - 8, y, words, font_size=SMALL, fill=INK, text_anchor="end")

    def bracket(self, name: str, begin: float, end: float) -> None:
        """Mark a stretch of time below the lanes."""
        last = list(self.names)[-1]
        y = self.at(0, last).y + 28
        left, right = self.at(begin, last).x + 2, self.at(end, last).x - 2
        self.sheet.line((left, y), (right, y), stroke=ORANGE, stroke_width=2)
        for x in (left, right):
            self.sheet.line((x, y - 4), (x, y + 4), stroke=ORANGE, stroke_width=2)
        anchor, x = ("middle", (left + right) / 2) if right - left > 60 else ("start", left)
        self.sheet.text(x, y + 17, name, font_size=SMALL, fill=INK, text_anchor=anchor)
