"""Trees as values: shapes, distances against an oracle, and what is no tree."""

from __future__ import annotations

import networkx as nx  # type: ignore[import-untyped]  # ships no types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.algorithms.mutex.token.trees import SpanningTree, parse_tree, random_tree
from coterie.errors import ConfigError, UsageError


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("star", ((1, 2), (1, 3), (1, 4), (1, 5))),
        ("chain", ((1, 2), (2, 3), (3, 4), (4, 5))),
        ("binary", ((1, 2), (1, 3), (2, 4), (2, 5))),
        ("5-1, 2-5,3-5,4-3", ((5, 1), (2, 5), (3, 5), (4, 3))),
    ],
)
def test_a_tree_is_a_shape_or_its_links(text: str, edges: tuple[tuple[int, int], ...]) -> None:
    assert parse_tree(text, 5) == SpanningTree(5, edges)


@pytest.mark.parametrize("text", ["star", "chain", "binary", "random:7"])
def test_one_process_is_a_tree_without_links(text: str) -> None:
    tree = parse_tree(text, 1)
    assert tree == SpanningTree(1, ())
    assert tree.diameter == 0
    assert tree.towards(1) == {1: 1}


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(0, 10**6))
def test_ways_and_distances_are_those_of_the_oracle(size: int, seed: int) -> None:
    tree = random_tree(size, seed)
    oracle = nx.Graph(tree.edges)
    oracle.add_nodes_from(range(1, size + 1))
    assert nx.is_tree(oracle)
    assert tree.diameter == nx.diameter(oracle)
    root = 1 + seed % size
    step = tree.towards(root)
    for process, distance in nx.single_source_shortest_path_length(oracle, root).items():
        assert tree.distance(process, root) == tree.distance(root, process) == distance
        assert tree.distance(step[process], root) == max(0, distance - 1)
        assert process == root or oracle.has_edge(process, step[process])


def test_every_tree_is_equally_likely_to_be_drawn() -> None:
    drawn = [frozenset(map(frozenset, random_tree(4, seed).edges)) for seed in range(1600)]
    counts = [drawn.count(tree) for tree in set(drawn)]
    assert len(counts) == 4**2
    assert 60 < min(counts) <= max(counts) < 140


def test_the_same_seed_gives_the_same_tree() -> None:
    assert parse_tree("random:7", 6).edges == ((3, 2), (2, 1), (5, 4), (4, 1), (1, 6))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1-2,2-3,3-1", "the link 3-1 closes a cycle"),
        ("1-2,3-3", "the link 3-3 closes a cycle"),
        ("1-2,3-4", "no way leads from process 1 to process 3"),
        ("1-2,2-3", "no way leads from process 1 to process 4"),
        ("1-2,2-3,3-9", "links process 9; there are only 1 to 4"),
        ("0-1,1-2,2-3", "links process 0; there are only 1 to 4"),
        ("1-2,2-3,2-1", "the link 2-1 twice"),
    ],
)
def test_a_graph_that_is_no_tree_is_refused_with_the_reason(text: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        parse_tree(text, 4)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("stars", r"unknown tree: 'stars' \(did you mean 'star'\?\); choose from: binary, chain,"),
        ("", "unknown tree: ''"),
        ("star:3", "unknown tree: 'star:3'"),
        ("random", "a random tree takes a number as its seed: random:7, got 'random'"),
        ("random:x", "a random tree takes a number as its seed"),
        ("1-2,2", "expected the links of a tree, such as 1-2,2-3, got '1-2,2'"),
        ("1-2,2-x", "expected the links of a tree, such as"),
        ("1-2-3", "expected the links of a tree, such as"),
    ],
)
def test_a_text_that_names_no_tree_is_refused_with_the_choices(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        parse_tree(text, 4)
