"""What a process waits for: so many of these, nested as deep as you like.

AND is "all of them", OR is "one of them", and a quorum is "k of n" of them: one kind of value for
the three models of the literature and for every mixture.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Container

NodeT = TypeVar("NodeT", bound=Hashable)


class Condition(msgspec.Struct, Generic[NodeT], frozen=True, array_like=True):
    """Holds when `needed` of its parts do: nodes that must grant, groups that must hold."""

    needed: int
    nodes: tuple[NodeT, ...] = ()
    groups: tuple[Condition[NodeT], ...] = ()

    @property
    def size(self) -> int:
        """The number of parts."""
        return len(self.nodes) + len(self.groups)

    def holds(self, granting: Container[NodeT]) -> bool:
        """Return True if grants of these nodes are enough."""
        count = sum(node in granting for node in self.nodes)
        return count + sum(group.holds(granting) for group in self.groups) >= self.needed

    def targets(self) -> tuple[NodeT, ...]:
        """Return all nodes that it names, each once, in order."""
        names = dict.fromkeys(self.nodes)
        for group in self.groups:
            names |= dict.fromkeys(group.targets())
        return tuple(names)

    def without(self, met: Container[NodeT]) -> Condition[NodeT]:
        """Leave out the nodes that have granted already."""
        nodes = tuple(node for node in self.nodes if node not in met)
        groups = tuple(group.without(met) for group in self.groups)
        return Condition(self.needed - len(self.nodes) + len(nodes), nodes, groups)

    def blockers(self, stuck: Container[NodeT]) -> tuple[NodeT, ...]:
        """Return as few of the stuck nodes as keep it from holding; none if it can still hold.

        A condition that needs k of n parts fails for good when n - k + 1 of them do.
        """
        failing: list[tuple[NodeT, ...]] = [(node,) for node in self.nodes if node in stuck]
        failing += [names for group in self.groups if (names := group.blockers(stuck))]
        enough = self.size - self.needed + 1
        if len(failing) < enough:
            return ()
        return tuple(dict.fromkeys(node for names in failing[:enough] for node in names))

    def __str__(self) -> str:
        """Write it as people say it: `all of P2, (any of P3, P4)`."""
        parts = [str(node) for node in self.nodes] + [f"({group})" for group in self.groups]
        if len(parts) == 1:
            return parts[0]
        return f"{self.quantity} of {', '.join(parts)}"

    @property
    def quantity(self) -> str:
        """How many parts it needs: all, any or a number."""
        if self.needed == self.size:
            return "all"
        return "any" if self.needed == 1 else str(self.needed)


def some_of(needed: int, *parts: NodeT | Condition[NodeT]) -> Condition[NodeT]:
    """Wait for so many of these."""
    nodes = tuple(part for part in parts if not isinstance(part, Condition))
    return Condition(needed, nodes, tuple(part for part in parts if isinstance(part, Condition)))


def all_of(*parts: NodeT | Condition[NodeT]) -> Condition[NodeT]:
    """Wait for all of these."""
    return some_of(len(parts), *parts)


def any_of(*parts: NodeT | Condition[NodeT]) -> Condition[NodeT]:
    """Wait for one of these."""
    return some_of(1, *parts)
