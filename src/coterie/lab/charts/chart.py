"""Line charts: measurements as marks, theory as lines, several panels with one legend."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coterie.diagram.legend import SAMPLE, LegendEntry, draw_legend
from coterie.diagram.svg import FAINT, GRID, PALETTE, PAPER, SOFT, Sheet
from coterie.diagram.ticks import linear_ticks, log_ticks, tick_text
from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MARGIN = 24.0
PLOT_WIDTH, PLOT_HEIGHT = 300.0, 200.0
LEFT, GAP = 46.0, 42.0  # of a panel: room for its numbers, and to the next one
ABOVE, BELOW = 34.0, 44.0  # its title, its axis
# Lines that lie on each other show through each other's gaps.
DASHES = ("none", "8 5", "2 4", "12 4 2 4", "5 7", "1 6", "16 6", "4 2")


@dataclass(frozen=True)
class Band:
    """What theory says at one place: a number, or a range whose high end may be infinite."""

    x: float
    low: float
    high: float


@dataclass(frozen=True)
class Series:
    """One line of a panel. The same name has the same colour and mark in every panel."""

    name: str
    measured: Sequence[tuple[float, float]] = ()
    theory: Sequence[Band] = ()
    joined: bool = False  # a line leads through what was measured, and the band has no edges


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its series."""

    title: str
    series: Sequence[Series]
    x_name: str = "N"
    log_x: bool = False
    log_y: bool = False


def chart(panels: Sequence[Panel], *, title: str = "", columns: int = 2) -> str:
    """Draw panels as one SVG picture; those on a logarithmic axis take positive values only."""
    names = list(dict.fromkeys(series.name for panel in panels for series in panel.series))
    columns = min(columns, len(panels))
    top = 52.0 if title else 16.0
    sheet = Sheet()
    width = 2 * MARGIN + columns * (PLOT_WIDTH + LEFT) + (columns - 1) * GAP
    if title:
        sheet.headline(MARGIN, 34, title, width - 2 * MARGIN, size=15)
    for index, panel in enumerate(panels):
        row, column = divmod(index, columns)
        x = MARGIN + LEFT + column * (PLOT_WIDTH + LEFT + GAP)
        y = top + ABOVE + row * (PLOT_HEIGHT + ABOVE + BELOW)
        _PanelDrawing(sheet, panel, names, x, y).draw()
    rows = math.ceil(len(panels) / columns)
    bottom = top + rows * (PLOT_HEIGHT + ABOVE + BELOW) + 8
    bottom += draw_legend(sheet, MARGIN + LEFT, bottom, width - 2 * MARGIN - LEFT, _legend(names))
    return sheet.finish(width, bottom + 14, title or ", ".join(panel.title for panel in panels))


@dataclass(frozen=True)
class _Axis:
    """A range of values laid along a line on the sheet."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def place(self, value: float) -> float:
        value, low, high = (self._scaled(v) for v in (value, self.low, self.high))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else value


class _PanelDrawing:
    """A panel on its place on the sheet."""

    def __init__(
        self, sheet: Sheet, panel: Panel, names: Sequence[str], x: float, y: float
    ) -> None:
        self.sheet, self.panel, self.names = sheet, panel, names
        self.left, self.top = x, y
        self.right, self.bottom = x + PLOT_WIDTH, y + PLOT_HEIGHT
        xs = sorted({point[0] for series in panel.series for point in _points(series)})
        ys = [point[1] for series in panel.series for point in _points(series)]
        self.xs = xs
        self.x_axis = _x_axis(xs, x + 20, self.right - 20, log=panel.log_x)
        self.y_axis = _y_axis(ys, self.bottom, y, log=panel.log_y)

    def draw(self) -> None:
        """Draw everything: lines below marks."""
        self._draw_axes()
        for series in self.panel.series:
            self._draw_lines(series)
        self._draw_measured()

    def _draw_axes(self) -> None:
        sheet, small = self.sheet, 10.5
        title, room = self.panel.title, self.right - self.left
        sheet.headline(self.left, self.top - 14, title, room, size=12.5)
        ends = self.y_axis.low, self.y_axis.high
        for tick in log_ticks(*ends) if self.panel.log_y else linear_ticks(*ends, 4):
            y = self.y_axis.place(tick)
            sheet.line((self.left, y), (self.right, y), stroke=GRID)
            sheet.text(
                self.left - 8,
                y + 3.5,
                tick_text(tick),
                fill=SOFT,
                font_size=small,
                text_anchor="end",
            )
        sheet.line((self.left, self.bottom), (self.right, self.bottom), stroke=FAINT)
        for tick in self._x_ticks():
            x = self.x_axis.place(tick)
            sheet.line((x, self.bottom), (x, self.bottom + 4), stroke=FAINT)
            sheet.text(
                x,
                self.bottom + 17,
                tick_text(tick),
                fill=SOFT,
                font_size=small,
                text_anchor="middle",
            )
        sheet.text(self.right, self.bottom + 32, self.panel.x_name, fill=SOFT, text_anchor="end")

    def _x_ticks(self) -> list[float]:
        """Name the places measured if they are not too close to each other."""
        places = [self.x_axis.place(x) for x in self.xs]
        if all(b - a > 22 for a, b in itertools.pairwise(places)):
            return self.xs
        ends = self.x_axis.low, self.x_axis.high
        return log_ticks(*ends) if self.panel.log_x else linear_ticks(*ends, 6)

    def _draw_lines(self, series: Series) -> None:
        index = self.names.index(series.name)
        colour, dashes = PALETTE[index % len(PALETTE)], DASHES[index % len(DASHES)]
        low = [(self.x_axis.place(band.x), self._y(band.low)) for band in series.theory]
        high = [(self.x_axis.place(band.x), self._y(band.high)) for band in series.theory]
        if low != high:
            self.sheet.polygon([*low, *reversed(high)], fill=colour, opacity="0.12")
        lines = [low] if low == high else [low, high]
        if series.joined:  # in a band, whose edges would hide the line
            lines = [[(self.x_axis.place(x), self._y(y)) for x, y in series.measured]]
        for line in lines:
            self.sheet.polyline(line, stroke=colour, stroke_width=1.6, stroke_dasharray=dashes)

    def _y(self, value: float) -> float:
        return max(self.y_axis.place(value), self.top) if math.isfinite(value) else self.top

    def _draw_measured(self) -> None:
        """Draw the marks, side by side where several would cover each other."""
        groups: dict[tuple[int, int], list[tuple[float, float, int]]] = defaultdict(list)
        for series in self.panel.series:
            index = self.names.index(series.name)
            for x, y in series.measured:
                place = self.x_axis.place(x), self.y_axis.place(y)
                groups[round(place[0] / 6), round(place[1] / 6)].append((*place, index))
        for group in groups.values():
            for rank, (x, y, index) in enumerate(group):
                _mark(self.sheet, x + 8 * (rank - (len(group) - 1) / 2), y, index)


def _points(series: Series) -> Iterable[tuple[float, float]]:
    yield from series.measured
    for band in series.theory:
        yield band.x, band.low
        if math.isfinite(band.high):
            yield band.x, band.high


def _x_axis(values: Sequence[float], start: float, end: float, *, log: bool) -> _Axis:
    low, high = min(values, default=1.0), max(values, default=1.0)
    _check(low, log=log)
    if low == high:
        low, high = (low / 2, high * 2) if low > 0 else (low - 1, high + 1)
    return _Axis(low, high, start, end, log)


def _y_axis(values: Sequence[float], start: float, end: float, *, log: bool) -> _Axis:
    low, high = min(values, default=1.0), max(values, default=1.0)
    _check(low, log=log)
    if log:
        return _Axis(low / 1.4, high * 1.4, start, end, log)
    return _Axis(min(low, 0.0), high * 1.15 or 1.0, start, end, log)


def _check(low: float, *, log: bool) -> None:
    if log and low <= 0:
        raise UsageError(f"a logarithmic axis takes positive values only, got {low:g}")


def _mark(sheet: Sheet, x: float, y: float, index: int) -> None:
    """Draw a mark whose form tells series apart as well as its colour does."""
    size = 4.2
    corners = (
        None,
        [(-1, -1), (1, -1), (1, 1), (-1, 1)],
        [(0, -1.25), (1.15, 0.9), (-1.15, 0.9)],
        [(0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)],
        [(0, 1.25), (1.15, -0.9), (-1.15, -0.9)],
        [(-1.35, -0.6), (1.35, -0.6), (1.35, 0.6), (-1.35, 0.6)],
    )[index % 6]
    colour = PALETTE[index % len(PALETTE)]
    if corners is None:
        sheet.add("circle", cx=x, cy=y, r=size, fill=PAPER, stroke=colour, stroke_width=2)
        return
    points = [(x + a * size * 0.9, y + b * size * 0.9) for a, b in corners]
    sheet.polygon(points, fill=PAPER, stroke=colour, stroke_width=2, stroke_linejoin="round")


def _legend(names: Sequence[str]) -> list[LegendEntry]:
    def entry(index: int, name: str) -> LegendEntry:
        def draw(sheet: Sheet, x: float, y: float) -> None:
            colour = PALETTE[index % len(PALETTE)]
            dashes = DASHES[index % len(DASHES)]
            sheet.line(
                (x, y), (x + SAMPLE, y), stroke=colour, stroke_width=1.6, stroke_dasharray=dashes
            )
            _mark(sheet, x + SAMPLE / 2, y, index)

        return LegendEntry(name, draw)

    return [entry(index, name) for index, name in enumerate(names)]
