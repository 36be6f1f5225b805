"""What the fence is for: a writer that was overtaken comes too late, and the resource refuses it.

Illustrates the session of docs/locks.md, in which the tokens are larger.
"""

from __future__ import annotations

from coterie.diagram.svg import ALARM, INK, Sheet
from docs.drawings.figure import BLUE, MARGIN, ORANGE, arrow, heading
from docs.drawings.lanes import LANE, LEFT, SMALL, Lanes

SLOW, RESOURCE, QUICK = 1, 2, 3
NAMES = {SLOW: "worker 1", RESOURCE: "table", QUICK: "worker 2"}
SCALE, END, TOP = 46.0, 14.0, 100.0
HOLD = 14.0  # height of a bar
FIRST, SECOND = 33, 34  # tokens


def draw() -> str:
    sheet = Sheet()
    heading(
        sheet,
        MARGIN,
        34,
        "A late write meets the fence",
        "Worker 1 is stopped, and loses its lock to worker 2. It cannot know that when it goes on. The table can:",
        "it has seen a higher token, and refuses a lower one.",
    )
    lanes = Lanes(sheet, TOP, SCALE, NAMES)
    lanes.draw(END)
    _holds(lanes)
    fence = 0
    for worker, time, token in ((QUICK, 7.0, SECOND), (SLOW, 11.0, FIRST)):
        taken = token >= fence  # the condition of the page: fence <= token
        fence = max(fence, token)
        _write(lanes, worker, time, token, taken=taken)
    assert fence == SECOND
    bottom = TOP + 2 * LANE + 50
    return sheet.finish(LEFT + END * SCALE + MARGIN, bottom, "A late write is refused by its token")


def _holds(lanes: Lanes) -> None:
    for worker, begin, end, token in ((SLOW, 0.5, 4.5, FIRST), (QUICK, 5.0, 9.0, SECOND)):
        lanes.bar(worker, begin, end, (HOLD, BLUE))
        x, y = lanes.at(begin, worker)
        beside = y - 13 if worker == SLOW else y + 23
        lanes.sheet.text(x, beside, f"has the lock, token {token}", font_size=SMALL, fill=INK)
    lanes.bar(SLOW, 2.5, 10.5, (4.0, ORANGE))
    x, y = lanes.at(4.9, SLOW)
    lanes.sheet.text(
        x, y - 13, "stopped: a pause, a swap, a slow network", font_size=SMALL, fill=INK
    )


def _write(lanes: Lanes, worker: int, time: float, token: int, *, taken: bool) -> None:
    start, end = lanes.at(time, worker), lanes.at(time + 0.9, RESOURCE)
    colour = INK if taken else ALARM
    arrow(lanes.sheet, start, end.towards(start, 8), colour, width=1.8)
    x, y = (start.x + end.x) / 2 + 10, (start.y + end.y) / 2 + 4
    lanes.sheet.text(x, y, f"write, token {token}", font_size=SMALL, fill=INK)
    if taken:
        lanes.sheet.add("circle", cx=end.x, cy=end.y, r=6, fill=BLUE)
    else:
        lanes.sheet.cross(*end, 6, stroke=ALARM, stroke_width=2.6)
    said = f"taken: fence = {token}" if taken else f"refused: {token} < {SECOND}"
    below = end.y - 11 if taken else end.y + 19
    lanes.sheet.text(end.x, below, said, font_size=SMALL, fill=colour, text_anchor="middle")
