"""A layered layout of a directed graph: every arrow goes to the right, except round a ring.

Nodes that all reach each other stand in a ring, in the order of their arrows. Each ring, and each
other node, is a block; blocks stand in columns, as far to the right as what they lead to allows. An
arrow that passes a column keeps a place in it, so that it need not run through a node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

ACROSS = 118.0  # between columns: room for a gate and an arrow
DOWN = 26.0  # between blocks of a column
ALONG = 96.0  # between nodes of a ring: room for a gate
PAIR = 52.0  # from the middle of a ring of two to either of them
SWEEPS = 6


class Point(NamedTuple):
    """A place on the sheet."""

    x: float
    y: float

    def towards(self, other: Point, distance: float) -> Point:
        """Go that far in the direction of another point."""
        length = math.hypot(other.x - self.x, other.y - self.y) or 1.0
        share = distance / length
        return Point(self.x + share * (other.x - self.x), self.y + share * (other.y - self.y))


ORIGIN = Point(0.0, 0.0)


@dataclass(frozen=True)
class Layout:
    """Where nodes stand, which points long arrows pass, and how large the whole is."""

    places: dict[Hashable, Point]
    passes: dict[tuple[Hashable, Hashable], list[Point]]
    width: float
    height: float


@dataclass(eq=False)
class _Block:
    """Nodes that move together, or the place that an arrow keeps in a column."""

    nodes: list[Hashable]
    width: float
    height: float
    order: float  # in which it stands in its column
    leads_to: list[_Block] = field(default_factory=list)
    comes_from: list[_Block] = field(default_factory=list)
    column: int = 0  # counted from the right
    middle: Point = ORIGIN


def lay_out(
    edges: Mapping[Hashable, Sequence[Hashable]],
    rings: Sequence[Sequence[Hashable]],
    widths: Mapping[Hashable, float],
    height: float,
) -> Layout:
    """Place nodes of these widths, all of one height; `rings` are the components with a cycle."""
    blocks = _blocks(edges, rings, widths, height)
    home = {node: block for block in blocks for node in block.nodes}
    links = list(
        dict.fromkeys(
            (home[node], home[target])
            for node, targets in edges.items()
            for target in targets
            if home[node] is not home[target]
        )
    )
    for block in _ends_first(blocks, links):
        block.column = 1 + max((x.column for x in block.leads_to), default=-1)
    kept = {link: _keep_places(*link, height) for link in links}
    columns: dict[int, list[_Block]] = {}
    for block in [*blocks, *(each for line in kept.values() for each in line)]:
        columns.setdefault(block.column, []).append(block)
    _sort(columns)
    size = _stand(columns)
    places = {node: point for block in blocks for node, point in _stand_within(block, widths)}
    passes = {
        (node, target): [each.middle for each in kept[home[node], home[target]]]
        for node, targets in edges.items()
        for target in targets
        if home[node] is not home[target]
    }
    return Layout(places, passes, *size)


def _blocks(
    edges: Mapping[Hashable, Sequence[Hashable]],
    rings: Sequence[Sequence[Hashable]],
    widths: Mapping[Hashable, float],
    height: float,
) -> list[_Block]:
    ring_of = {node: ring for ring in rings if len(ring) > 1 for node in ring}
    blocks: list[_Block] = []
    placed: set[Hashable] = set()
    for node in widths:
        if node in placed:
            continue
        nodes = _in_turn(node, edges, set(ring_of.get(node, [node])))
        placed |= set(nodes)
        widest = max(widths[each] for each in nodes)
        around = 2 * _radius(nodes, widths) if len(nodes) > 1 else 0.0
        across = widest if len(nodes) <= 2 else widest + around
        blocks.append(_Block(nodes, across, height + around, float(len(blocks))))
    return blocks


def _in_turn(
    start: Hashable, edges: Mapping[Hashable, Sequence[Hashable]], ring: set[Hashable]
) -> list[Hashable]:
    """Order a ring by following its arrows."""
    found: dict[Hashable, None] = {}
    border = [start]
    while border:
        node = border.pop()
        if node in ring and node not in found:
            found[node] = None
            border += reversed(edges.get(node, ()))
    return list(found)


def _radius(nodes: Sequence[Hashable], widths: Mapping[Hashable, float]) -> float:
    around = sum(widths[node] + ALONG for node in nodes) / (2 * math.pi)
    return around if len(nodes) > 2 else PAIR


def _ends_first(blocks: list[_Block], links: list[tuple[_Block, _Block]]) -> list[_Block]:
    """Note the links, and order blocks so that each comes after those that it leads to."""
    for source, target in links:
        source.leads_to.append(target)
        target.comes_from.append(source)
    left = {id(block): len(block.leads_to) for block in blocks}
    ordered = [block for block in blocks if not block.leads_to]
    for block in ordered:
        for source in block.comes_from:
            left[id(source)] -= 1
            if not left[id(source)]:
                ordered.append(source)
    return ordered


def _keep_places(source: _Block, target: _Block, height: float) -> list[_Block]:
    """Let an arrow keep a place in each column that it passes, from the source on."""
    line = []
    before = source
    for column in range(source.column - 1, target.column, -1):
        place = _Block([], 0.0, height / 2, source.order, comes_from=[before], column=column)
        if before is not source:
            before.leads_to.append(place)
        line.append(place)
        before = place
    if line:
        source.leads_to[source.leads_to.index(target)] = line[0]
        target.comes_from[target.comes_from.index(source)] = line[-1]
        line[-1].leads_to.append(target)
    return line


def _sort(columns: dict[int, list[_Block]]) -> None:
    """Order each column by where its neighbours stand, sweeping to and fro."""
    for sweep in range(SWEEPS):
        rightward = sweep % 2 == 0
        for number in sorted(columns, reverse=rightward):
            column = columns[number]
            ranks = {}
            for place, block in enumerate(column):
                near = block.comes_from if rightward else block.leads_to
                ranks[id(block)] = (
                    sum(each.order for each in near) / len(near) if near else block.order,
                    place,
                )
            column.sort(key=lambda block: ranks[id(block)])
            for place, block in enumerate(column):
                block.order = place - (len(column) - 1) / 2


def _stand(columns: dict[int, list[_Block]]) -> tuple[float, float]:
    """Give each block its middle, and return the size of the whole."""
    heights = {
        number: sum(block.height for block in column) + DOWN * (len(column) - 1)
        for number, column in columns.items()
    }
    tallest = max(heights.values(), default=0.0)
    x = 0.0
    for number in sorted(columns, reverse=True):
        column = columns[number]
        widest = max(block.width for block in column)
        y = (tallest - heights[number]) / 2
        for block in column:
            block.middle = Point(x + widest / 2, y + block.height / 2)
            y += block.height + DOWN
        x += widest + ACROSS
    return max(x - ACROSS, 0.0), tallest


def _stand_within(block: _Block, widths: Mapping[Hashable, float]) -> list[tuple[Hashable, Point]]:
    """Place the nodes of a block round its middle."""
    count = len(block.nodes)
    if count == 1:
        return [(block.nodes[0], block.middle)]
    radius = _radius(block.nodes, widths)
    turns = [2 * math.pi * index / count - math.pi / 2 for index in range(count)]
    x, y = block.middle
    return [
        (node, Point(x + radius * math.cos(turn), y + radius * math.sin(turn)))
        for node, turn in zip(block.nodes, turns, strict=True)
    ]
