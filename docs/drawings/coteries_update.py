"""Figure 5 of the paper of 1996: the update graph, and the coterie, as members fail for good.

The graph has an arrow from each member to the one that stands in for it. A failure takes away a
member with its arrow, and what pointed to it points to its stand-in.
"""

from __future__ import annotations

import math

from coterie.coteries import Coterie, UpdateTable, projective_plane
from coterie.diagram.layers import Point
from coterie.diagram.svg import INK, SOFT, Sheet
from docs.drawings.figure import MARGIN, ORANGE, RADIUS, arrow, braces, heading, member, on_circle

PANEL = 246.0
TOP, REACH = 184.0, 84.0  # of the middle of the circle, and its radius
LIST, ROW = 316.0, 20.0
FAILURES = (1, 5)  # of example 1 of the paper


def draw() -> str:
    coterie: Coterie = projective_plane(2)
    table = UpdateTable.cyclic(coterie.members)
    sheet = Sheet()
    heading(
        sheet,
        MARGIN,
        34,
        "(a) All seven live",
        "each is replaced by the next,",
        "and the last by the first",
    )
    _graph(sheet, 0, table, table, ())
    for row, quorum in enumerate(coterie.quorums):
        sheet.text(MARGIN, LIST + row * ROW, braces(quorum), fill=INK)
    failed: tuple[int, ...] = ()
    for panel, dead in enumerate(FAILURES, 1):
        failed = (*failed, dead)
        after, successor = table.after([dead]), table.stand_in(dead)
        pointed = next(each for each in table.members if table.stand_in(each) == dead)
        updated = coterie.replace(dead, successor)
        heading(
            sheet,
            MARGIN + panel * PANEL,
            34,
            f"({'abc'[panel]}) {' and '.join(map(str, failed))} {'has' if panel == 1 else 'have'} failed",
            f"{successor} takes its place in the quorums,",
            f"and is to stand in for {pointed}",
        )
        _graph(sheet, panel, after, table, failed)
        _quorums(sheet, panel, coterie, updated, (dead, successor))
        table, coterie = after, updated
    assert coterie == UpdateTable.cyclic(range(1, 8)).coterie_after(projective_plane(2), FAILURES)
    bottom = LIST + 7 * ROW + MARGIN - 8
    return sheet.finish(
        2 * MARGIN + 3 * PANEL + 8, bottom, "The update graph and the coterie, after 1 and 5 fail"
    )


def _graph(
    sheet: Sheet, panel: int, table: UpdateTable, before: UpdateTable, failed: tuple[int, ...]
) -> None:
    centre = Point(MARGIN + REACH + RADIUS + panel * PANEL, TOP)
    size = len(table.members)
    places = {each: on_circle(centre, REACH, (each - 1) / size) for each in table.members}
    for each in table.members:
        if each in failed:
            continue
        start, end = places[each], places[table.stand_in(each)]
        moved = table.stand_in(each) != before.stand_in(each)
        length = math.dist(start, end)
        gap = RADIUS + 4
        colour, width = (ORANGE, 2.6) if moved else (SOFT, 1.4)
        arrow(sheet, start.towards(end, gap), start.towards(end, length - gap), colour, width=width)
    for each, place in places.items():
        member(sheet, place, each, down=each in failed)


def _quorums(
    sheet: Sheet, panel: int, coterie: Coterie, updated: Coterie, step: tuple[int, int]
) -> None:
    """List each quorum of before, with what becomes of it."""
    dead, successor = step
    seen = {quorum for quorum in coterie.quorums if dead not in quorum}
    left = MARGIN + panel * PANEL
    for row, quorum in enumerate(coterie.quorums):
        y = LIST + row * ROW
        if dead not in quorum:
            sheet.text(left, y, braces(quorum), fill=INK)
            continue
        image = (quorum - {dead}) | {successor}
        assert image in updated.quorums
        again = " already there" if image in seen else ""
        seen.add(image)
        sheet.text(left, y, braces(quorum), fill=SOFT)
        arrow(sheet, Point(left + 62, y - 4), Point(left + 86, y - 4), ORANGE, width=2)
        sheet.text(left + 94, y, f"{braces(image)}{again}", fill=INK, font_weight="600")
    assert seen == set(updated.quorums)
