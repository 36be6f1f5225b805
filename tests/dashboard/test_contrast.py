"""The colours of the pages: each pair that pages use can be read, and both dark palettes are the same."""

from __future__ import annotations

import re

import pytest

from coterie.dashboard import ASSETS

SHEET = (ASSETS / "tokens.css").read_text(encoding="utf-8")
FATES = ("safe", "fragile", "risky", "lost", "open", "violation")
KINDS = ("ask", "grant", "refuse", "inquire", "release", "announce")
TEXTS = ("ink", "soft", "accent", "inside", "waiting", "crashed", *FATES, *KINDS)
SHAPES = ("inside-bar", "waiting-bar", "edge", "focus")
READABLE, VISIBLE = 4.5, 3  # WCAG 2.2, level AA: of text, and of what is no text
PAIRS = [
    *((text, ground, READABLE) for text in TEXTS for ground in ("paper", "stage")),
    *((text, f"{fate}-paper", READABLE) for fate in FATES for text in ("ink", "soft", fate)),
    *((text, "hover", READABLE) for text in ("ink", "soft", "accent")),
    ("ink", "fresh", READABLE),
    ("on-accent", "accent", READABLE),
    ("on-violation", "violation", READABLE),
    *((shape, ground, VISIBLE) for shape in SHAPES for ground in ("paper", "stage")),
]


def palette(selector: str) -> dict[str, str]:
    block = SHEET[SHEET.index(selector) :].split("}", 1)[0]
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))


def luminance(colour: str) -> float:
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("selector", [":root {", ':root[data-theme="dark"] {'])
def test_what_is_written_can_be_read_on_what_it_is_written_on(selector: str) -> None:
    colours = palette(":root {") | palette(selector)
    for colour, ground, least in PAIRS:
        assert contrast(colours[colour], colours[ground]) >= least, (colour, ground)


def test_a_dark_system_and_a_dark_choice_have_the_same_colours() -> None:
    assert palette(':root:not([data-theme="light"]) {') == palette(':root[data-theme="dark"] {')


def test_the_sheets_use_no_colour_that_is_not_named() -> None:
    for sheet in ASSETS.glob("*.css"):
        if sheet.name != "tokens.css":
            assert not re.search(r"#[0-9a-f]{3,8}\b", sheet.read_text(encoding="utf-8")), sheet
