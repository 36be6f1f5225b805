"""The wait-for graph as a value, and the exact answer to which nodes are deadlocked in it.

The definition is by reduction: let every process that runs finish and grant what it is asked for;
let every process whose condition then holds run and finish, too; those that remain can never go on.
That covers AND, OR, AND-OR and k-of-n alike, in time proportional to the graph. The criteria of the
literature are special cases: a cycle where all conditions are AND, a knot where all are OR.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

from coterie.algorithms.deadlock.components import cyclic_components, knots, sinks
from coterie.algorithms.deadlock.condition import Condition, NodeT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

SHRINKING_STEPS_MAX = 300_000  # each looks at one thing that one node waits for


@dataclass(frozen=True)
class Graph(Generic[NodeT]):
    """Which node waits for what; nodes without a condition run.

    A resource may be a node of its own, waiting for its holders to let go of it. Then a lock with a
    thousand waiters has a thousand and one edges, and a change of hands changes one.
    """

    waits: Mapping[NodeT, Condition[NodeT]]
    since: Mapping[NodeT, str] = field(default_factory=dict)  # when the wait began, if known
    resources: frozenset[NodeT] = frozenset()  # nodes that stand for something held
    running: tuple[NodeT, ...] = ()  # nodes to be shown though none may wait for them

    def nodes(self) -> tuple[NodeT, ...]:
        """Return all nodes, those that wait first."""
        names = dict.fromkeys(self.waits)
        for condition in self.waits.values():
            names |= dict.fromkeys(condition.targets())
        return tuple(names | dict.fromkeys(self.running))

    def edges(self) -> dict[NodeT, tuple[NodeT, ...]]:
        """Return for each node that waits the nodes that its condition names."""
        return {node: condition.targets() for node, condition in self.waits.items()}

    def deadlocked(self) -> tuple[NodeT, ...]:
        """Return the nodes that can never go on, by reduction."""
        return self.stuck(self.waits)

    def stuck(self, within: Iterable[NodeT]) -> tuple[NodeT, ...]:
        """Return the nodes among these that could not go on even if all others ran.

        It is the largest set of them in which no condition holds without the set.
        """
        left = dict.fromkeys(within)
        waiters: dict[NodeT, list[NodeT]] = {node: [] for node in left}
        for node in left:
            for target in self.waits[node].targets():
                if target in left:
                    waiters[target].append(node)
        granting = _Outside(left)
        doubtful = list(left)
        while doubtful:
            node = doubtful.pop()
            if node in left and self.waits[node].holds(granting):
                del left[node]
                doubtful += waiters[node]
        return tuple(left)

    def cycles(self) -> list[list[NodeT]]:
        """Return components with a cycle: where all conditions are AND, deadlock means that there is one."""
        return cyclic_components(self.edges())

    def knots(self) -> list[list[NodeT]]:
        """Return the knots: where all conditions are OR, deadlock means that there is one."""
        return knots(self.edges())

    def cores(self) -> list[tuple[NodeT, ...]]:
        """Return smallest sets that are deadlocked by themselves, one for each end of the waits.

        Abort any one member of a core, and all its other members can go on: if some could not, they
        would be a smaller deadlocked set. All that see the same end find the same core.
        """
        stuck = dict.fromkeys(self.deadlocked())
        return [self._core_of(end) for end in sinks(self._inner_edges(stuck))]

    def smallest(self, nodes: Collection[NodeT], around: NodeT | None = None) -> tuple[NodeT, ...]:
        """Shrink a deadlocked set until no member can be spared; keep the node `around` in it.

        Of hundreds of nodes some that could be spared may stay: it is tried for so many steps.
        """
        kept = dict.fromkeys(self.stuck(nodes))
        steps = 0
        for node in tuple(kept):
            if node == around or node not in kept:
                continue
            steps += sum(self.waits[other].size for other in kept)
            if steps > SHRINKING_STEPS_MAX:
                break
            fewer = self.stuck(other for other in kept if other != node)
            if fewer and (around is None or around in fewer):
                kept = dict.fromkeys(fewer)
        return tuple(kept)

    def reasons(self, start: NodeT, stuck: Collection[NodeT]) -> dict[NodeT, tuple[NodeT, ...]]:
        """Follow from a stuck node to nodes that keep it stuck, to those that keep these, and on."""
        found: dict[NodeT, tuple[NodeT, ...]] = {}
        border = [start]
        while border:
            node = border.pop(0)
            if node not in found:
                found[node] = self.waits[node].blockers(stuck)
                border += found[node]
        return found

    def _core_of(self, end: list[NodeT]) -> tuple[NodeT, ...]:
        members = set(end)
        first = next(node for node in self.waits if node in members)
        reasons = self.reasons(first, members)
        return self.smallest(sinks(reasons)[0])

    def _inner_edges(self, nodes: Collection[NodeT]) -> dict[NodeT, list[NodeT]]:
        return {
            node: [target for target in self.waits[node].targets() if target in nodes]
            for node in nodes
        }


class _Outside(Generic[NodeT]):
    """Everything that a collection does not contain, now or later."""

    def __init__(self, inside: Collection[NodeT]) -> None:
        self._inside = inside

    def __contains__(self, node: object) -> bool:
        return node not in self._inside
