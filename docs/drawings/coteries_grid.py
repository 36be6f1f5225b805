"""A grid of nine: the quorum of a member is its row and its column."""

from __future__ import annotations

from coterie.coteries import parse_coterie
from coterie.diagram.layers import Point
from coterie.diagram.svg import FAINT, Sheet
from docs.drawings.figure import BLUE, MARGIN, ORANGE, braces, heading, member, shared

SIZE, WIDTH = 9, 3
PANEL = 246.0
TOP, STEP = 112.0, 62.0
INDENT = 30.0  # of the first member


def draw() -> str:
    grid = parse_coterie("grid", SIZE)
    first, second = grid.quorum_for(1), grid.quorum_for(9)
    diagonal = (1, 5, 9)
    assert grid.without(diagonal) is None
    assert grid.without(diagonal[:2]) is not None
    sheet = Sheet()
    _panel(sheet, 0, {grid.quorum_for(5): BLUE})
    _panel(sheet, 1, {first: BLUE, second: ORANGE})
    _panel(sheet, 2, {}, diagonal)
    common = " and ".join(map(str, sorted(first & second)))
    texts = [
        ("The quorum of 5", "its row and its column:", braces(grid.quorum_for(5))),
        (
            "The quorums of 1 and 9",
            f"meet in {common}: the row of",
            "each crosses the other's column",
        ),
        ("A diagonal is down", "each quorum has lost a member:", "no entry until one is back"),
    ]
    for panel, (title, *notes) in enumerate(texts):
        heading(sheet, MARGIN + panel * PANEL, 34, title, *notes)
    bottom = TOP + (WIDTH - 1) * STEP + 2 * MARGIN - 8
    return sheet.finish(2 * MARGIN + 3 * PANEL - 34, bottom, "A grid of nine members")


def _panel(
    sheet: Sheet, panel: int, quorums: dict[frozenset[int], str], failed: tuple[int, ...] = ()
) -> None:
    left = MARGIN + INDENT + panel * PANEL
    places = {
        each: Point(left + (each - 1) % WIDTH * STEP, TOP + (each - 1) // WIDTH * STEP)
        for each in range(1, SIZE + 1)
    }
    for one, start in places.items():
        for other, end in places.items():
            near = one < other and abs(start.x - end.x) + abs(start.y - end.y) == STEP
            if near:
                mine = [colour for each, colour in quorums.items() if {one, other} <= each]
                colour, width = (mine[0], 3.0) if mine else (FAINT, 1.6)
                sheet.line(start, end, stroke=colour, stroke_width=width)
    for name, place in places.items():
        mine = [colour for quorum, colour in quorums.items() if name in quorum]
        if len(mine) == 2:
            shared(sheet, place, name, (mine[0], mine[1]))
        else:
            member(sheet, place, name, colour="".join(mine), down=name in failed)
