"""Titles are not cut, whatever fonts the reader has: they fit their picture, or are set to a width."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest

from coterie.diagram import space_time
from coterie.diagram.svg import BOLD, WIDER, Sheet, text_width
from coterie.lab.charts import Panel, Series, chart
from coterie.lab.charts.dependencies import draw_serialization
from coterie.lab.charts.lanes import draw_lanes
from coterie.lab.scenario import perform
from coterie.lab.serializability import check
from coterie.transactions.history import HistoryEvent, parse_history

SVG = "{http://www.w3.org/2000/svg}"
BOLD_WEIGHTS = ("600", "bold")
LONG = "A title that says at length what is seen in the picture below, and why"
PLAIN = f"# {LONG}\nricart-agrawala 2\nacquire 1\nrun\nrelease 1\n"
HISTORIES = Path(__file__).parent.parent.parent / "docs" / "histories"


def overhang(picture: str) -> float:
    """Return by how much the widest title ends beyond the paper in a wide font; below 0: it does not."""
    root = ET.fromstring(picture)  # noqa: S314 - our own output
    titles = [
        e
        for e in root.iter(f"{SVG}text")
        if e.get("font-weight") in BOLD_WEIGHTS and e.get("font-size")
    ]
    assert titles
    return max(end_of(title) for title in titles) - float(root.attrib["width"])


def end_of(title: ET.Element) -> float:
    usual = text_width(title.text or "", float(title.attrib["font-size"])) * BOLD
    return float(title.attrib["x"]) + float(title.get("textLength", usual * WIDER))


def test_a_title_that_makes_a_picture_wide_fits_it() -> None:
    assert overhang(space_time(perform(PLAIN).trace)) < 0


@pytest.mark.parametrize("panels", [1, 2])
def test_the_titles_of_a_chart_fit_it(panels: int) -> None:
    series = [Series("measured", measured=[(3.0, 1.0), (7.0, 2.0)])]
    assert overhang(chart([Panel(LONG, series)] * panels, title=f"{LONG}; {LONG}")) < 0


@pytest.mark.parametrize("name", ["appends", "on-call"])
def test_the_titles_of_anomalies_fit_their_pictures(name: str) -> None:
    written = (HISTORIES / f"{name}.jsonl").read_bytes()
    report = check(parse_history(written))
    assert overhang(draw_serialization(report)) < 0
    events = [msgspec.json.decode(line, type=HistoryEvent) for line in written.splitlines()]
    assert overhang(draw_lanes(events, report.anomalies[0])) < 0


def test_a_title_with_room_to_spare_is_left_to_its_font() -> None:
    sheet = Sheet()
    sheet.headline(0, 10, "short", 400.0, size=15)
    assert "textLength" not in sheet.finish(400, 20, "short")
