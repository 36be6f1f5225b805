"""Legends: samples with their names, in rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coterie.diagram.svg import SOFT, Sheet, text_width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SAMPLE = 26.0  # width of a sample
ROW = 20.0
SIZE = 11.5


class LegendEntry(NamedTuple):
    """A name, and a way to draw its sample with the left end of its middle line at a point."""

    name: str
    draw: Callable[[Sheet, float, float], None]


def draw_legend(
    sheet: Sheet, left: float, top: float, width: float, entries: Sequence[LegendEntry]
) -> float:
    """Draw the entries in as many rows as the width asks for, and return the height used."""
    x, y = left, top + ROW / 2
    for entry in entries:
        needed = SAMPLE + 6 + text_width(entry.name, SIZE)
        if x > left and x + needed > left + width:
            x, y = left, y + ROW
        entry.draw(sheet, x, y)
        sheet.text(x + SAMPLE + 6, y + 4, entry.name, fill=SOFT, font_size=SIZE)
        x += needed + 20
    return y + ROW / 2 - top
