"""What a checker of histories found, as a picture: cycles of transactions, or a serial order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.diagram.svg import (
    ALARM,
    BOLD,
    GRID,
    INK,
    PALETTE,
    SOFT,
    Sheet,
    number,
    text_width,
    tip,
)

if TYPE_CHECKING:
    from coterie.lab.serializability import Anomaly, Dependency, Report
    from coterie.transactions.history import Name

SIZE = 12.5  # of the font
HEIGHT = 26.0  # of a transaction's box
GAP = 34.0  # between the boxes of a serial order
MARGIN = 24.0
HEADER = 50.0  # room for the title of a cycle
SHOWN = 12  # cycles, at most
BOXES = 60  # of a serial order, at most
WIDTH = 860.0  # of a serial order, at most
COLOURS = {"ww": PALETTE[1], "wr": PALETTE[0], "rw": PALETTE[3], "rt": SOFT, "so": SOFT}

Point = tuple[float, float]


def draw_serialization(report: Report) -> str:
    """Draw each anomaly's cycle below the other, or the serial order if there is no anomaly."""
    if report.anomalies:
        return _draw_cycles(report.anomalies)
    if report.serializable:
        return _draw_order(report.order or ())
    sheet = Sheet()
    sheet.text(MARGIN, MARGIN + SIZE, "Whether this is serializable was too hard to tell")
    return sheet.finish(340.0, 2 * MARGIN + SIZE, "Unknown")


def _draw_order(order: tuple[Name, ...]) -> str:
    sheet = Sheet()
    sheet.text(MARGIN, MARGIN + 6, "Equivalent serial order", font_size=SIZE, font_weight="bold")
    x, y, widest = MARGIN, MARGIN + 20 + HEIGHT / 2, 200.0
    shown = [str(name) for name in order[:BOXES]]
    if len(order) > BOXES:
        shown.append(f"and {len(order) - BOXES} more")
    for index, name in enumerate(shown):
        half = _half_width(name)
        if index and x + GAP + 2 * half > WIDTH - MARGIN:
            x, y = MARGIN, y + HEIGHT + 16
        elif index:
            _arrow(sheet, (x + 4, y), (x + GAP - 4, y), INK)
            x += GAP
        _box(sheet, (x + half, y), name, SOFT)
        x += 2 * half
        widest = max(widest, x)
    return sheet.finish(widest + MARGIN, y + HEIGHT / 2 + MARGIN, "Serializable")


def _draw_cycles(anomalies: tuple[Anomaly, ...]) -> str:
    sheet = Sheet()
    y, widest = MARGIN, 320.0
    for anomaly in anomalies[:SHOWN]:
        width, height = _draw_cycle(sheet, anomaly, y)
        y += height
        widest = max(widest, width)
    if len(anomalies) > SHOWN:
        sheet.text(MARGIN, y, f"and {len(anomalies) - SHOWN} more", fill=SOFT)
        y += MARGIN
    return sheet.finish(widest, y, f"Not serializable: {', '.join(a.name for a in anomalies)}")


def _draw_cycle(sheet: Sheet, anomaly: Anomaly, top: float) -> tuple[float, float]:
    """Draw the transactions in a ring and, beside it, why each stands before the next."""
    title = f"{anomaly.name}: {anomaly.meaning}"
    count = len(anomaly.cycle)
    radius = max(54.0, 90.0 * count / (2 * math.pi)) if count > 1 else 20.0
    widest = max(_half_width(str(name)) for name in anomaly.cycle)
    rise = max(radius if count > 2 else 34.0, 9.0 * count)  # of the ring or the text beside it
    centre = (MARGIN + radius + widest + 30, top + HEADER + rise)
    left = centre[0] + radius + widest + 56
    right = left + 26 + max(text_width(edge.text, 12.0) for edge in anomaly.dependencies)
    right = max(right, MARGIN + text_width(title, 14.0) * BOLD)
    sheet.headline(
        MARGIN, top + 8, title, right - MARGIN, size=14.0, font_weight="bold", fill=ALARM
    )
    places = {
        name: _on_ring(centre, radius, index, count) for index, name in enumerate(anomaly.cycle)
    }
    for edge in anomaly.dependencies:
        if edge.source != edge.target:
            _edge(sheet, edge, centre, places[edge.source], places[edge.target])
    for name, place in places.items():
        _box(sheet, place, str(name), ALARM)
    line = centre[1] - 9.0 * (len(anomaly.dependencies) - 1)
    for edge in anomaly.dependencies:
        sheet.text(left, line + 4, edge.kind, font_weight="bold", fill=COLOURS[edge.kind])
        sheet.text(left + 26, line + 4, edge.text)
        line += 18.0
    return right + MARGIN, HEADER + 2 * rise + HEIGHT + MARGIN


def _on_ring(centre: Point, radius: float, index: int, count: int) -> Point:
    """Stand on a ring, the first to the left so that a pair stands side by side."""
    turn = 2 * math.pi * index / count + math.pi
    return centre[0] + radius * math.cos(turn), centre[1] + radius * math.sin(turn)


def _edge(sheet: Sheet, edge: Dependency, centre: Point, start: Point, end: Point) -> None:
    """Draw an arrow that bends outwards, with what it is at its middle."""
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    across, down = end[1] - start[1], start[0] - end[0]
    length = math.hypot(across, down)
    bend = 38.0 if math.dist(middle, centre) < 1 else 16.0
    control = (middle[0] + bend * across / length, middle[1] + bend * down / length)
    colour = COLOURS[edge.kind]
    foot, point = _leave(start, control, str(edge.source)), _leave(end, control, str(edge.target))
    shaft = _towards(point, control, 8.0)
    path = "M{} {}Q{} {} {} {}".format(*map(number, (*foot, *control, *shaft)))
    text = tip(f"{edge.source} before {edge.target}: {edge.text}")
    sheet.add("path", text, d=path, fill="none", stroke=colour, stroke_width=1.8)
    _head(sheet, shaft, point, colour)
    label = f"{edge.kind} {edge.key}"
    away = bend * 0.75 + 10
    x = middle[0] + (away + text_width(label, 11.0) / 2) * across / length
    y = middle[1] + away * down / length + 4
    sheet.text(x, y, label, text_anchor="middle", font_size=11.0, fill=colour)


def _leave(box: Point, towards: Point, name: str) -> Point:
    """Return the point where the line from a box's middle leaves the room around it."""
    across, down = abs(towards[0] - box[0]) or 1e-9, abs(towards[1] - box[1]) or 1e-9
    share = min((_half_width(name) + 2) / across, (HEIGHT / 2 + 2) / down, 1.0)
    return box[0] + share * (towards[0] - box[0]), box[1] + share * (towards[1] - box[1])


def _towards(start: Point, end: Point, distance: float) -> Point:
    share = distance / (math.dist(start, end) or 1.0)
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def _arrow(sheet: Sheet, start: Point, end: Point, colour: str) -> None:
    shaft = _towards(end, start, 8.0)
    sheet.line(start, shaft, stroke=colour, stroke_width=1.4)
    _head(sheet, shaft, end, colour)


def _head(sheet: Sheet, shaft: Point, point: Point, colour: str) -> None:
    across, down = (point[1] - shaft[1]) * 0.45, (shaft[0] - point[0]) * 0.45
    left, right = (shaft[0] + across, shaft[1] + down), (shaft[0] - across, shaft[1] - down)
    sheet.polygon([point, left, right], fill=colour)


def _box(sheet: Sheet, place: Point, name: str, stroke: str) -> None:
    half = _half_width(name)
    sheet.add(
        "rect",
        x=place[0] - half,
        y=place[1] - HEIGHT / 2,
        width=2 * half,
        height=HEIGHT,
        rx=HEIGHT / 2,
        fill=GRID,
        stroke=stroke,
        stroke_width=1.4,
    )
    sheet.text(place[0], place[1] + 4.5, name, text_anchor="middle", font_size=SIZE)


def _half_width(name: str) -> float:
    return max(text_width(name, SIZE) / 2 + 10, HEIGHT / 2)
