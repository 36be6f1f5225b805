"""Wait-for graphs as pictures: what waits for what, with what is deadlocked in red."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie.diagram.layers import Point, lay_out
from coterie.diagram.svg import (
    ALARM,
    GRID,
    INK,
    PALE,
    PAPER,
    SOFT,
    Sheet,
    number,
    text_width,
    tip,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from coterie.algorithms.deadlock.condition import Condition
    from coterie.algorithms.deadlock.wait_for import Graph

SIZE = 12.5  # of the font
HEIGHT = 26.0  # of a node
GATE = 11.0  # radius
REACH = 40.0  # from a gate to the next; from a node it is nearer by the radius
MARGIN = 40.0


def draw_wait_for(graph: Graph[Any]) -> str:
    """Draw a wait-for graph as SVG: cores in red, what waits for them pale, gates for conditions."""
    picture = _Picture(graph)
    for node, condition in graph.waits.items():
        picture.wait(node, condition)
    for node in picture.places:
        picture.node(node)
    stuck = len(graph.deadlocked())
    return picture.sheet.finish(
        picture.layout.width + 2 * MARGIN,
        picture.layout.height + 2 * MARGIN,
        f"Wait-for graph: {stuck} of {len(picture.places)} deadlocked",
    )


@dataclass
class _Picture:
    """A sheet with the nodes in layers: what waits stands left of what it waits for."""

    graph: Graph[Any]
    sheet: Sheet = field(default_factory=Sheet)

    def __post_init__(self) -> None:
        nodes = self.graph.nodes()
        self.core = {node for core in self.graph.cores() for node in core}
        self.stuck = set(self.graph.deadlocked())
        widths = {node: 2 * _half_width(node) for node in nodes}
        self.layout = lay_out(self.graph.edges(), self.graph.cycles(), widths, HEIGHT)
        self.places = {
            node: Point(x + MARGIN, y + MARGIN) for node, (x, y) in self.layout.places.items()
        }

    def node(self, node: Hashable) -> None:
        x, y = self.places[node]
        half = _half_width(node)
        red = node in self.core
        state = (
            "deadlocked" if node in self.stuck else "waits" if node in self.graph.waits else "runs"
        )
        since = f" since {self.graph.since[node]}" if node in self.graph.since else ""
        self.sheet.add(
            "rect",
            tip(f"{node}: {state}{since}"),
            x=x - half,
            y=y - HEIGHT / 2,
            width=2 * half,
            height=HEIGHT,
            rx=3.0 if node in self.graph.resources else HEIGHT / 2,
            fill=PALE if node in self.stuck else GRID if node in self.graph.waits else PAPER,
            stroke=ALARM if red else SOFT,
            stroke_width=2.0 if red else 1.2,
        )
        self.sheet.text(x, y + 4.5, str(node), text_anchor="middle", font_size=SIZE)

    def wait(self, node: Hashable, condition: Condition[Hashable]) -> None:
        self._branch(self.places[node], HEIGHT / 2 + 2, node, condition)

    def _branch(
        self, start: Point, gap: float, owner: Hashable, condition: Condition[Hashable]
    ) -> None:
        """Draw a condition from where it hangs: an arrow if it names one, else a gate."""
        if condition.size == 1 and condition.nodes:
            self._arrow(start, gap, owner, condition.nodes[0])
            return
        gate = self._gate_place(start, condition)
        red = owner in self.core and bool(condition.blockers(self.core))
        colour = ALARM if red else self._colour(owner)
        self.sheet.line(start.towards(gate, gap), gate, stroke=colour, stroke_width=1.4)
        for target in condition.nodes:
            self._arrow(gate, GATE, owner, target)
        for group in condition.groups:
            self._branch(gate, GATE, owner, group)
        self._gate(gate, condition, colour)

    def _gate_place(self, start: Point, condition: Condition[Hashable]) -> Point:
        """Stand between those that wait and the middle of those they wait for."""
        targets = [self.places[target] for target in condition.targets()]
        middle = Point(
            sum(target.x for target in targets) / len(targets),
            sum(target.y for target in targets) / len(targets),
        )
        box = next((node for node, place in self.places.items() if place == start), None)
        if box is None:  # a gate hangs on another gate
            return start.towards(middle, REACH)
        border = _border(start, middle, _half_width(box), HEIGHT / 2)
        return border.towards(middle, REACH - GATE)

    def _gate(self, place: Point, condition: Condition[Hashable], colour: str) -> None:
        self.sheet.add(
            "circle",
            tip(str(condition)),
            cx=place.x,
            cy=place.y,
            r=GATE,
            fill=PAPER,
            stroke=colour,
        )
        self.sheet.text(
            place.x, place.y + 3.5, condition.quantity, text_anchor="middle", font_size=9.5
        )

    def _arrow(self, start: Point, gap: float, owner: Hashable, target: Hashable) -> None:
        """Draw a bent arrow, so that two in opposite directions do not lie on each other."""
        end = self.places[target]
        colour = self._colour(owner, target)
        if math.hypot(end.x - start.x, end.y - start.y) < 1.0:
            self._loop(end, colour)
            return
        way, start = self._way(start, gap, owner, target)
        bend = 0.12
        control = Point(
            (start.x + end.x) / 2 - bend * (end.y - start.y),
            (start.y + end.y) / 2 + bend * (end.x - start.x),
        )
        tip_point = _border(end, control, _half_width(target) + 2, HEIGHT / 2 + 2)
        foot = tip_point.towards(control, 9.0)
        first = "" if way else f"M{_pair(start.towards(control, gap))}"
        width = 1.9 if colour == ALARM else 1.2
        path = f"{way}{first}Q{_pair(control)} {_pair(foot)}"
        self.sheet.add("path", d=path, fill="none", stroke=colour, stroke_width=width)
        across = Point(foot.x - (tip_point.y - foot.y), foot.y + (tip_point.x - foot.x))
        left, right = foot.towards(across, 3.6), foot.towards(across, -3.6)
        self.sheet.polygon([tip_point, left, right], fill=colour)

    def _way(
        self, start: Point, gap: float, owner: Hashable, target: Hashable
    ) -> tuple[str, Point]:
        """Lead a long arrow through the places that it keeps, and return the last of them."""
        way = ""
        for x, y in self.layout.passes.get((owner, target), ()):
            point = Point(x + MARGIN, y + MARGIN)
            middle = (start.x + point.x) / 2
            way = way or f"M{_pair(start.towards(point, gap))}"
            way += (
                f"C{_pair(Point(middle, start.y))} {_pair(Point(middle, point.y))} {_pair(point)}"
            )
            start = point
        return way, start

    def _loop(self, place: Point, colour: str) -> None:
        """Draw a wait for oneself."""
        top = place.y - HEIGHT / 2
        left, right, peak = (number(v) for v in (place.x - 8, place.x + 8, top - 26))
        self.sheet.add(
            "path",
            d=f"M{left} {number(top)}C{left} {peak} {right} {peak} {right} {number(top - 2)}",
            fill="none",
            stroke=colour,
            stroke_width=1.9,
        )

    def _colour(self, owner: Hashable, target: Hashable | None = None) -> str:
        if owner in self.core and target in self.core:
            return ALARM
        return SOFT if owner in self.stuck else INK


def _pair(point: Point) -> str:
    return f"{number(point.x)} {number(point.y)}"


def _half_width(node: Hashable) -> float:
    return max(text_width(str(node), SIZE) / 2 + 10, HEIGHT / 2)


def _border(node: Point, outside: Point, half_width: float, half_height: float) -> Point:
    """Return the point where the line from outside meets the box round a node."""
    across, down = abs(outside.x - node.x) or 1e-9, abs(outside.y - node.y) or 1e-9
    length = math.hypot(across, down)
    return node.towards(outside, length * min(half_width / across, half_height / down, 1.0))


def dot(graph: Graph[Any]) -> str:
    """Write a wait-for graph in Graphviz' language, with the same colours and gates."""
    core = {node for members in graph.cores() for node in members}
    lines = ["digraph wait_for {", '  node [shape=box, style="rounded", fontname="sans-serif"];']
    for node in graph.nodes():
        shape = ', style=""' if node in graph.resources else ""
        colour = f', color="{ALARM}", penwidth=2' if node in core else ""
        lines.append(f"  {_quoted(node)} [label={_quoted(node)}{shape}{colour}];")
    for node, condition in graph.waits.items():
        lines += _dot_branch(_quoted(node), str(node), condition, node in core, core)
    return "\n".join([*lines, "}"]) + "\n"


def _dot_branch(
    source: str, name: str, condition: Condition[Hashable], red: bool, core: set[Hashable]
) -> list[str]:
    if condition.size == 1 and condition.nodes:
        target = condition.nodes[0]
        return [_dot_edge(source, _quoted(target), red=red and target in core)]
    red = red and bool(condition.blockers(core))
    gate = _quoted(f"gate of {name}")
    label = _quoted(condition.quantity)
    lines = [
        f'  {gate} [shape=circle, style="", fontsize=9, label={label}];',
        _dot_edge(source, gate, "arrowhead=none", red=red),
    ]
    lines += [_dot_edge(gate, _quoted(t), red=red and t in core) for t in condition.nodes]
    for index, group in enumerate(condition.groups):
        lines += _dot_branch(gate, f"{name}.{index}", group, red, core)
    return lines


def _dot_edge(source: str, target: str, *attributes: str, red: bool) -> str:
    written = [*attributes, f'color="{ALARM}"'] if red else attributes
    return f"  {source} -> {target}" + (f" [{', '.join(written)}];" if written else ";")


def _quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
