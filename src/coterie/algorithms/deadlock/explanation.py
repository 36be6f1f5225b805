"""Why a process is deadlocked: as few waits as prove it, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal

import msgspec

from coterie.algorithms.deadlock.components import sinks
from coterie.algorithms.deadlock.condition import Condition, NodeT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.algorithms.deadlock.wait_for import Graph

Kind = Literal["cycle", "knot", "b-knot"]


class Explanation(msgspec.Struct, Generic[NodeT], frozen=True):
    """A smallest set of waits that keeps one node from ever going on.

    The core is the part of it that is deadlocked by itself: a cycle, in which each waits for the
    next; a knot, which no member waits out of; or else a b-knot, in which each waits for enough of the
    others, though some wait for outsiders as well.
    """

    node: NodeT
    kind: Kind
    core: tuple[NodeT, ...]
    members: tuple[NodeT, ...]  # the node first; all but the core only lead to it
    text: tuple[str, ...]  # a sentence for each member


def explain(graph: Graph[NodeT], node: NodeT) -> Explanation[NodeT]:
    """Say why this deadlocked node can never go on."""
    stuck = graph.deadlocked()
    assert node in stuck, f"{node} is not deadlocked"
    around = graph.smallest(list(graph.reasons(node, set(stuck))), node)
    reasons = graph.reasons(node, set(around))
    core = _in_order(reasons, graph.smallest(sinks(reasons)[0]))
    return Explanation(
        node=node,
        kind=_kind(graph, core),
        core=core,
        members=tuple(reasons),
        text=tuple(_sentence(graph, member, reasons[member]) for member in reasons),
    )


def _in_order(
    reasons: dict[NodeT, tuple[NodeT, ...]], chosen: Sequence[NodeT]
) -> tuple[NodeT, ...]:
    return tuple(node for node in reasons if node in chosen)


def _kind(graph: Graph[NodeT], core: Sequence[NodeT]) -> Kind:
    targets = [graph.waits[node].targets() for node in core]
    if all(sum(target in core for target in named) == 1 for named in targets):
        return "cycle"
    return "knot" if all(target in core for named in targets for target in named) else "b-knot"


def _sentence(graph: Graph[NodeT], node: NodeT, blockers: Sequence[NodeT]) -> str:
    verb = "is held by" if node in graph.resources else "waits for"
    text = f"{node} {verb} {describe(graph, graph.waits[node])}"
    if node in graph.since:
        text += f" since {graph.since[node]}"
    if len(blockers) < len(graph.waits[node].targets()):
        text += f"; {_listed(blockers)} cannot come"
    return text


def describe(graph: Graph[NodeT], condition: Condition[NodeT]) -> str:
    """Write a condition; a lock is called one where it stands alone."""
    if condition.size == 1 and condition.nodes and condition.nodes[0] in graph.resources:
        return f"lock {condition.nodes[0]}"
    return str(condition)


def _listed(nodes: Sequence[NodeT]) -> str:
    *most, last = map(str, nodes)
    return f"{', '.join(most)} and {last}" if most else last
