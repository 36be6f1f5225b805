"""Parts of a directed graph whose nodes all reach each other, and those that nothing leaves."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Node = TypeVar("Node", bound=Hashable)


def strong_components(edges: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Split the keys into strongly connected components, each before those that lead to it.

    Edges to nodes that are no keys are left out. This is Tarjan's algorithm without recursion, so
    that long chains of waits do not overflow the stack.
    """
    order: dict[Node, int] = {}  # when a node was found first
    lowest: dict[Node, int] = {}  # the earliest open node it reaches
    open_nodes: dict[Node, None] = {}  # found, component not known yet
    components: list[list[Node]] = []

    def enter(node: Node) -> tuple[Node, Iterator[Node]]:
        order[node] = lowest[node] = len(order)
        open_nodes[node] = None
        return node, iter(edges[node])

    for root in edges:
        path = [] if root in order else [enter(root)]
        while path:
            node, targets = path[-1]
            target = next((target for target in targets if target in edges), None)
            if target is None:
                path.pop()
                if path:
                    parent = path[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == order[node]:
                    components.append(_close(open_nodes, node))
            elif target not in order:
                path.append(enter(target))
            elif target in open_nodes:
                lowest[node] = min(lowest[node], order[target])
    return components


def _close(open_nodes: dict[Node, None], root: Node) -> list[Node]:
    component: list[Node] = []
    while not component or component[-1] != root:
        component.append(open_nodes.popitem()[0])
    return component[::-1]


def cyclic_components(edges: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Return the components that contain a cycle: more than one node, or one that leads to itself."""
    return [
        component
        for component in strong_components(edges)
        if len(component) > 1 or component[0] in edges[component[0]]
    ]


def knots(edges: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Return the components with a cycle that no edge leaves: from there, one only gets to where one was.

    Nodes that are no keys lie outside: they are processes that run.
    """
    return [
        component
        for component in cyclic_components(edges)
        if all(target in component for node in component for target in edges[node])
    ]


def sinks(edges: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Return the components from which no edge leads to another component."""
    found = []
    for component in strong_components(edges):
        inside = set(component)
        leaving = (t for node in component for t in edges[node] if t in edges and t not in inside)
        if next(leaving, None) is None:
            found.append(component)
    return found
