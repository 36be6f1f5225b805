"""A wait-for graph that a reader has written: who is deadlocked, why, and the picture."""

from __future__ import annotations

import msgspec

from coterie.algorithms.deadlock.explanation import describe, explain
from coterie.diagram.wait_for import draw_wait_for
from coterie.lab.play.exercises.graph import read_graph


class NodeVerdict(msgspec.Struct, frozen=True):
    """What becomes of one process."""

    name: str
    state: str  # deadlocked, waits or runs
    waits_for: str


class Reason(msgspec.Struct, frozen=True):
    """Why some processes can never go on."""

    kind: str
    core: list[str]
    sentences: list[str]


class GraphAnswer(msgspec.Struct, frozen=True):
    """Everything that the page shows of a graph."""

    nodes: list[NodeVerdict]
    reasons: list[Reason]
    svg: str


def judge_graph(text: str) -> GraphAnswer:
    """Find the deadlocks of a graph, as `coterie deadlock` reads it, and explain each once."""
    graph = read_graph(text)
    stuck = set(graph.deadlocked())
    nodes = [
        NodeVerdict(
            node,
            "deadlocked" if node in stuck else "waits" if node in graph.waits else "runs",
            describe(graph, graph.waits[node]) if node in graph.waits else "",
        )
        for node in graph.nodes()
    ]
    found = [explain(graph, core[0]) for core in graph.cores()]
    reasons = [Reason(each.kind, list(each.core), list(each.text)) for each in found]
    return GraphAnswer(nodes, reasons, draw_wait_for(graph))
