from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest

from coterie.errors import UsageError
from coterie.lab.charts import Band, Panel, Series, chart

SVG = "{http://www.w3.org/2000/svg}"
SIZES = (3.0, 7.0, 13.0)
EVERYONE = Series(
    "ricart-agrawala",
    [(n, 2 * (n - 1)) for n in SIZES],
    [Band(n, 2 * (n - 1), 2 * (n - 1)) for n in SIZES],
)
RANGE = Series("maekawa", [(n, n) for n in SIZES], [Band(n, n / 2, 2 * n) for n in SIZES])


def draw(*panels: Panel, title: str = "") -> ET.Element:
    return ET.fromstring(chart(panels, title=title))  # noqa: S314 - our own output


def texts(picture: ET.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


def test_a_panel_names_its_title_its_ticks_and_its_series() -> None:
    shown = texts(draw(Panel("messages", [EVERYONE, RANGE]), title="Costs"))
    assert shown == [
        *("Costs", "messages", "0", "10", "20", "3", "7", "13", "N"),
        *("ricart-agrawala", "maekawa"),
    ]


def test_an_exact_theory_is_a_line_and_a_range_is_a_band() -> None:
    exact = draw(Panel("messages", [EVERYONE]))
    assert len(list(exact.iter(f"{SVG}polyline"))) == 1
    assert list(exact.iter(f"{SVG}polygon")) == []
    ranged = draw(Panel("messages", [Series("ricart-agrawala", (), RANGE.theory)]))
    assert len(list(ranged.iter(f"{SVG}polyline"))) == 2
    assert len(list(ranged.iter(f"{SVG}polygon"))) == 1


def test_every_measurement_has_a_mark_even_where_two_are_equal() -> None:
    twin = Series("twin", EVERYONE.measured)
    picture = draw(Panel("messages", [EVERYONE, twin]))
    circles = [float(c.attrib["cx"]) for c in picture.iter(f"{SVG}circle")]
    squares = [p.attrib["points"] for p in picture.iter(f"{SVG}polygon")]
    assert len(circles) == len(squares) == len(SIZES) + 1, "and one in the legend"
    for circle, square in zip(circles, squares, strict=True):
        if (circle, square) != (circles[-1], squares[-1]):
            assert float(square.split(",")[0]) > circle, "side by side"


def test_a_range_without_end_reaches_to_the_top() -> None:
    endless = Series("token-ring", [(3.0, 5.0)], [Band(n, 1, math.inf) for n in SIZES])
    picture = draw(Panel("messages", [endless]))
    high = list(picture.iter(f"{SVG}polyline"))[1].attrib["points"].split()
    assert len({point.split(",")[1] for point in high}) == 1


def test_a_logarithmic_axis_spaces_equal_ratios_equally() -> None:
    series = Series("doubling", [(1.0, 1.0), (10.0, 10.0), (100.0, 100.0)])
    picture = draw(Panel("messages", [series], log_x=True, log_y=True))
    marks = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in picture.iter(f"{SVG}circle")]
    (x1, y1), (x2, y2), (x3, y3), _ = marks
    assert math.isclose(x2 - x1, x3 - x2, abs_tol=0.2)
    assert math.isclose(y2 - y1, y3 - y2, abs_tol=0.2)


def test_a_logarithmic_axis_refuses_zero() -> None:
    with pytest.raises(UsageError, match="a logarithmic axis takes positive values only, got 0"):
        draw(Panel("messages", [Series("token", [(3.0, 0.0)])], log_y=True))


def test_panels_share_colours_and_stand_in_rows() -> None:
    panels = [Panel(name, [EVERYONE, RANGE]) for name in ("a", "b", "c")]
    picture = draw(*panels)
    assert texts(picture).count("maekawa") == 1
    assert float(picture.attrib["height"]) > float(draw(panels[0]).attrib["height"]) * 1.5


def test_one_size_and_no_measurement_are_drawn_too() -> None:
    assert draw(Panel("one", [Series("a", [(3.0, 0.0)])])).tag == f"{SVG}svg"
    assert draw(Panel("at zero", [Series("a", [(0.0, 1.0)])])).tag == f"{SVG}svg"
    assert draw(Panel("none", [])).tag == f"{SVG}svg"
