"""Where the diagram of a long run writes the names of messages: beside their arrows, and on nothing else."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.browser import watched_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    Box = list[float]

pytestmark = pytest.mark.real
WIDTH, HEIGHT, LABEL = 900.0, 400.0, 60.0
LANES = [[0.0, y - 6, WIDTH, y + 6] for y in (50.0, 150.0, 250.0, 350.0)]
FRAME = [0.0, 0.0, WIDTH, HEIGHT]
PLACE = """async ([arrows, taken, frame, wanted]) => {
  const { placeLabels } = await import("/assets/lab/labels.js");
  return placeLabels(arrows, () => 60, taken, frame, (each) => wanted.includes(each.i));
}"""


def arrows(seed: int, count: int) -> list[dict[str, float]]:
    choices = random.Random(seed)
    made = []
    for i in range(count):
        sender, receiver = choices.sample((50.0, 150.0, 250.0, 350.0), 2)
        begin = choices.uniform(0, WIDTH - 80)
        end = begin + choices.uniform(5, 80)
        made.append({"i": i, "x1": begin, "y1": sender, "x2": end, "y2": receiver})
    return made


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def touches(arrow: dict[str, float], box: Box) -> bool:
    """Look at many points of the arrow."""
    for step in range(401):
        x = arrow["x1"] + (arrow["x2"] - arrow["x1"]) * step / 400
        y = arrow["y1"] + (arrow["y2"] - arrow["y1"]) * step / 400
        if box[0] < x < box[2] and box[1] < y < box[3]:
            return True
    return False


def test_names_stand_on_nothing_and_those_pointed_at_always_stand(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab)
        shown = []
        for seed, count in enumerate((3, 12, 40, 120)):
            drawn = arrows(seed, count)
            boxes = page.evaluate(PLACE, [drawn, LANES, FRAME, []])
            found = [box for box in boxes if box]
            shown.append(len(found))
            for place, box in enumerate(found):
                assert box[0] >= 0
                assert box[2] <= WIDTH
                assert not any(overlap(box, other) for other in [*LANES, *found[:place]])
                assert not any(touches(arrow, box) for arrow in drawn), seed
            hidden = next((i for i, box in enumerate(boxes) if not box), 0)
            assert page.evaluate(PLACE, [drawn, LANES, FRAME, [hidden]])[hidden]
        assert shown[0] == 3
        assert 0 < shown[3] < 120
