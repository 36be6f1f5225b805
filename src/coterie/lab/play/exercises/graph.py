"""A wait-for graph that a reader has written, small enough to be judged and drawn on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.algorithms.deadlock.graph_file import parse_graph
from coterie.lab.play.runs.refusal import Refusal

if TYPE_CHECKING:
    from coterie.algorithms.deadlock.wait_for import Graph

NODES_MAX = 60


def read_graph(text: str) -> Graph[str]:
    """Read a graph as `coterie deadlock` does."""
    graph = parse_graph(text)
    if len(graph.nodes()) > NODES_MAX:
        raise Refusal(f"a graph on a page has at most {NODES_MAX} processes")
    return graph
