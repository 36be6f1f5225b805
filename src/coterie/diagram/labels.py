"""Places for labels along arrows, such that they cover neither each other nor the lanes."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from coterie.diagram.svg import text_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Cell: TypeAlias = tuple[int, int]

SIZE = 9.5  # of the font
RADIUS = SIZE * 0.5  # a label is taken as a row of discs
LIFT = 4.5  # from the arrow to the foot of the letters
CROSSED_MAX = 1  # other arrows under a label
PLACES = (0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73)  # along the arrow, in the order of liking


class Arrow(NamedTuple):
    """A way from left to right, bent by `bow` at its middle (a quadratic curve)."""

    x1: float
    y1: float
    x2: float
    y2: float
    bow: float = 0.0

    @property
    def length(self) -> float:
        """How far its ends are apart."""
        return math.hypot(self.x2 - self.x1, self.y2 - self.y1)

    @property
    def control(self) -> tuple[float, float]:
        """The point that pulls the curve."""
        length = self.length or 1.0
        across = (self.y2 - self.y1) / length, (self.x1 - self.x2) / length
        return (
            (self.x1 + self.x2) / 2 + 2 * self.bow * across[0],
            (self.y1 + self.y2) / 2 + 2 * self.bow * across[1],
        )

    def at(self, part: float) -> tuple[float, float]:
        """Return the point at that part of its way."""
        (x, y), rest = self.control, 1 - part
        return (
            rest * rest * self.x1 + 2 * rest * part * x + part * part * self.x2,
            rest * rest * self.y1 + 2 * rest * part * y + part * part * self.y2,
        )

    def direction(self, part: float) -> tuple[float, float]:
        """Return the unit vector along it at that part of its way."""
        (x, y), rest = self.control, 1 - part
        along = rest * (x - self.x1) + part * (self.x2 - x)
        down = rest * (y - self.y1) + part * (self.y2 - y)
        length = math.hypot(along, down) or 1.0
        return along / length, down / length

    def points(self, gap: float) -> Iterator[tuple[float, float]]:
        """Return points along it that are about so far apart."""
        steps = max(1, math.ceil(self.length / gap))
        return (self.at(step / steps) for step in range(steps + 1))


class LabelPlace(NamedTuple):
    """Where the middle of a label's foot stands, and how it is turned (degrees)."""

    x: float
    y: float
    turn: float


class Labels:
    """Remembers what is taken while labels are placed one after another.

    The sheet is divided into cells as large as a disc's radius, and a disc reaches into the nine
    cells around its middle.
    """

    def __init__(self, arrows: Iterable[Arrow], lanes: Iterable[float]) -> None:
        """Keep clear of the lanes at those heights, and if possible of all arrows."""
        self._lanes = list(lanes)
        self._taken: set[Cell] = set()
        self._passing: defaultdict[Cell, set[Arrow]] = defaultdict(set)
        for arrow in arrows:
            for x, y in arrow.points(RADIUS):
                self._passing[_cell(x, y)].add(arrow)

    def place(self, arrow: Arrow, text: str) -> LabelPlace | None:
        """Find the best free place along the arrow; there may be none."""
        width = text_width(text, SIZE)
        if width > arrow.length - 14:
            return None
        best: tuple[int, LabelPlace, list[tuple[float, float]]] | None = None
        for part in PLACES:
            place, discs = self._try(arrow, part, width)
            if not self._free(discs):
                continue
            crossed = self._crossed(arrow, discs)
            if crossed <= CROSSED_MAX and (best is None or crossed < best[0]):
                best = crossed, place, discs
        if best is None:
            return None
        self._taken.update(cell for x, y in best[2] for cell in _around(x, y))
        return best[1]

    def _try(
        self, arrow: Arrow, part: float, width: float
    ) -> tuple[LabelPlace, list[tuple[float, float]]]:
        along, down = arrow.direction(part)
        x, y = arrow.at(part)
        x, y = x + down * LIFT, y - along * LIFT
        middle = x + down * RADIUS * 0.7, y - along * RADIUS * 0.7
        discs = [
            (middle[0] + along * offset, middle[1] + down * offset) for offset in _offsets(width)
        ]
        return LabelPlace(x, y, math.degrees(math.atan2(down, along))), discs

    def _free(self, discs: list[tuple[float, float]]) -> bool:
        return not any(
            any(abs(y - lane) < RADIUS + 5 for lane in self._lanes)
            or any(cell in self._taken for cell in _around(x, y))
            for x, y in discs
        )

    def _crossed(self, own: Arrow, discs: list[tuple[float, float]]) -> int:
        others = {
            arrow
            for x, y in discs
            for cell in _around(x, y)
            if cell in self._passing
            for arrow in self._passing[cell]
        }
        return len(others - {own})


def _cell(x: float, y: float) -> Cell:
    return math.floor(x / RADIUS), math.floor(y / RADIUS)


def _around(x: float, y: float) -> Iterator[Cell]:
    column, row = _cell(x, y)
    return ((column + i, row + j) for i in (-1, 0, 1) for j in (-1, 0, 1))


def _offsets(width: float) -> Iterator[float]:
    count = max(2, math.ceil(width / (1.5 * RADIUS)))
    for index in range(count):
        yield (index / (count - 1) - 0.5) * (width - RADIUS)
