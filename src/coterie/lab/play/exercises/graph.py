"""A wait-for graph that a reader has written, small enough to be judged and drawn on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.algorithms.deadlock.graph_file import parse_graph
from coterie.errors import CoterieError
from coterie.lab.play.runs.address import Refusal

if TYPE_CHECKING:
    from coterie.algorithms.deadlock.wait_for import Graph

NODES_MAX = 60


def read_graph(text: str) -> Graph[str] | Refusal:
    """Read a graph as `coterie deadlock` does."""
    try:
        graph = parse_graph(text)
    except CoterieError as error:
        return Refusal(str(error))
    if len(graph.nodes()) > NODES_MAX:
        return Refusal(f"a graph on a page has at most {NODES_MAX} processes")
    return graph
