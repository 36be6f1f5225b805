"""Transactions side by side, with what each did in the order of events: as text and as a picture."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.diagram.svg import ALARM, BOLD, GRID, PALETTE, SOFT, Sheet, text_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.lab.serializability import Anomaly
    from coterie.transactions.history import HistoryEvent, Name

GAP = 3  # characters between columns
MARGIN = 24.0
ROW = 20.0
FONT = 12.5
COLOURS = {"write": PALETTE[1], "append": PALETTE[1], "read": PALETTE[0]}


class Step(NamedTuple):
    """Something that one of the transactions did."""

    column: int
    op: str
    text: str


def in_order(events: Iterable[HistoryEvent], names: Sequence[Name]) -> list[Name]:
    """Return the names in the order in which these transactions began."""
    return list(dict.fromkeys(e.transaction for e in events if e.transaction in names))


def steps(events: Iterable[HistoryEvent], names: Sequence[Name]) -> list[Step]:
    """Return what the named transactions did, in the order of events."""
    columns = {name: place for place, name in enumerate(names)}
    return [
        Step(columns[event.transaction], event.op, _text(event))
        for event in events
        if event.transaction in columns
    ]


def lanes_text(events: Iterable[HistoryEvent], names: Sequence[Name]) -> list[str]:
    """Return a line for each step, each transaction in a column of its own."""
    events = list(events)
    names = in_order(events, names)
    found = steps(events, names)
    widths = [
        max([len(str(name)), *(len(step.text) for step in found if step.column == place)])
        for place, name in enumerate(names)
    ]
    starts = [sum(widths[:place]) + GAP * place for place in range(len(names))]
    header = "".join(
        str(name).ljust(width + GAP) for name, width in zip(names, widths, strict=True)
    )
    return [header.rstrip(), *(" " * starts[step.column] + step.text for step in found)]


def draw_lanes(events: Iterable[HistoryEvent], anomaly: Anomaly) -> str:
    """Draw the transactions of an anomaly as lanes, and below why each stands before the next."""
    events = list(events)
    names = in_order(events, anomaly.cycle)
    found = steps(events, names)
    sheet = Sheet()
    title = f"{anomaly.name}: {anomaly.meaning}"
    widths = [
        max(
            [
                text_width(str(name), FONT),
                *(text_width(s.text, FONT) for s in found if s.column == p),
            ]
        )
        for p, name in enumerate(names)
    ]
    lefts = [MARGIN + sum(widths[:place]) + 56.0 * place for place in range(len(names))]
    right = max(
        lefts[-1] + widths[-1] + 24,
        MARGIN + text_width(title, 14.0) * BOLD,
        *(MARGIN + 26 + text_width(edge.text, 12.0) for edge in anomaly.dependencies),
    )
    sheet.headline(
        MARGIN, MARGIN + 8, title, right - MARGIN, size=14.0, font_weight="bold", fill=ALARM
    )
    top = MARGIN + 40.0
    bottom = top + ROW * (len(found) + 1)
    for left, name in zip(lefts, names, strict=True):
        sheet.text(left + 14, top, str(name), font_size=FONT, font_weight="bold")
        sheet.line((left, top + 8), (left, bottom), stroke=GRID, stroke_width=2.0)
    for place, step in enumerate(found, start=1):
        y = top + ROW * place
        colour = COLOURS.get(step.op, SOFT)
        sheet.add("circle", cx=lefts[step.column], cy=y, r=4.0, fill=colour)
        sheet.text(lefts[step.column] + 14, y + 4, step.text, font_size=FONT, fill=colour)
    for place, edge in enumerate(anomaly.dependencies, start=1):
        y = bottom + ROW * place + 8
        sheet.text(MARGIN, y, edge.kind, font_weight="bold", fill=ALARM)
        sheet.text(MARGIN + 26, y, edge.text)
    height = bottom + ROW * len(anomaly.dependencies) + 8 + MARGIN
    return sheet.finish(right + MARGIN, height, title)


def _text(event: HistoryEvent) -> str:
    match event.op:
        case "read" | "write":
            return f"{event.op} {event.key} = {_shown(event.value)}"
        case "append":
            return f"append {_shown(event.value)} to {event.key}"
        case other:
            return other


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 30 else f"{text[:27]}..."
