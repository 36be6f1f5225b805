"""The layout of wait-for graphs: what waits stands left of what it waits for, and nothing overlaps."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest

from coterie.algorithms.deadlock import Graph, all_of, any_of
from coterie.diagram.layers import Layout, lay_out
from coterie.diagram.svg import DARK, INK, PALETTE, Sheet
from coterie.diagram.wait_for import draw_wait_for

HEIGHT = 26.0


def layout_of(graph: Graph[Any], width: float = 70.0) -> Layout:
    widths = dict.fromkeys(graph.nodes(), width)
    return lay_out(graph.edges(), graph.cycles(), widths, HEIGHT)


def random_graph(seed: int) -> Graph[Any]:
    chance = random.Random(seed)
    names = [f"n{number}" for number in range(chance.randint(1, 14))]
    waits = {
        name: all_of(*chance.sample(names, chance.randint(1, min(3, len(names)))))
        for name in names
        if chance.random() < 0.7
    }
    return Graph(waits, running=tuple(names))


@pytest.mark.parametrize("seed", range(40))
def test_arrows_go_right_and_boxes_do_not_overlap(seed: int) -> None:
    graph = random_graph(seed)
    layout = layout_of(graph)
    ring_of = {node: number for number, ring in enumerate(graph.cycles()) for node in ring}
    for node, targets in graph.edges().items():
        for target in targets:
            if ring_of.get(node, node) != ring_of.get(target, target):
                assert layout.places[node].x < layout.places[target].x
                line = [layout.places[node], *layout.passes[node, target], layout.places[target]]
                assert [point.x for point in line] == sorted(point.x for point in line)
    places = list(layout.places.values())
    for index, (x, y) in enumerate(places):
        assert 0 <= x <= layout.width
        assert 0 <= y <= layout.height
        for other in places[index + 1 :]:
            assert abs(x - other.x) >= 70 or abs(y - other.y) >= HEIGHT


def test_a_ring_is_drawn_in_the_order_of_its_arrows() -> None:
    names = ["a", "lock 1", "b", "lock 2", "c", "lock 3"]
    ring = {name: all_of(names[(place + 1) % 6]) for place, name in enumerate(names)}
    shuffled = {name: ring[name] for name in sorted(names)}
    places = layout_of(Graph(shuffled)).places
    steps = {
        round(abs(places[x].x - places[y].x) ** 2 + abs(places[x].y - places[y].y) ** 2)
        for x, y in zip(names, [*names[1:], names[0]], strict=True)
    }
    assert len(steps) == 1, "neighbours stand next to each other"


def test_a_long_chain_and_a_crowd_are_placed_without_recursion() -> None:
    chain: Graph[Any] = Graph({number: all_of(number + 1) for number in range(3_000)})
    assert len(layout_of(chain).places) == 3_001
    crowd: Graph[Any] = Graph({f"w{number}": all_of("lock") for number in range(500)})
    assert layout_of(crowd).places["lock"].y == pytest.approx(layout_of(crowd).height / 2, abs=30)


def test_nothing_to_draw_is_a_sheet_without_nodes() -> None:
    assert "0 of 0 deadlocked" in draw_wait_for(Graph({}))


def test_a_picture_names_its_colours_and_keeps_the_light_ones() -> None:
    text = draw_wait_for(Graph({"a": any_of("b", "c"), "b": all_of("a")}))
    assert text.count("<style>") == 1
    assert "prefers-color-scheme:dark" in text
    assert "var(--coterie-ink,#1f2933)" in text
    used = {name for names in re.findall(r'class="([^"]*)"', text) for name in names.split()}
    styled = set(re.findall(r"\.coterie-picture \.([a-z-]+)", text))
    assert used - {"coterie-picture"} <= styled


def test_a_renderer_without_variables_reads_no_rule_and_has_every_light_colour() -> None:
    """It would take `fill:var(--ink)` for an unknown colour, and draw a black sheet."""
    text = draw_wait_for(Graph({"a": any_of("b", "c"), "b": all_of("a")}))
    (style,) = re.findall("<style>(.*)</style>", text)
    depth = list(itertools.accumulate((each == "{") - (each == "}") for each in style))
    assert style.startswith("@supports (color:var(--ink)){")
    assert depth.index(0, style.index("{")) == len(style) - 1, "all rules stand in one block"
    light = {name: colour for colour, (name, _) in DARK.items()}
    for element in re.findall("<[^>]* class=[^>]*>", text):
        (names,) = re.findall('class="([^"]*)"', element)
        for part, name in re.findall("(fill|stroke)-([a-z]+)", names):
            assert f' {part}="{light[name]}"' in element


def test_a_picture_styles_the_colours_that_it_uses() -> None:
    sheet = Sheet()
    sheet.add("rect", fill=PALETTE[0], stroke=INK)
    text = sheet.finish(10, 10, "plain")
    assert f'fill="{PALETTE[0]}"' in text
    assert f"--blue:var(--coterie-blue,{PALETTE[0]})" in text
    assert "--orange" not in text


def test_every_colour_of_pictures_has_one_for_dark_paper() -> None:
    assert set(PALETTE) <= set(DARK)
    names = [name for name, _ in DARK.values()]
    assert len(set(names)) == len(names)
