"""Update tables (1996): which member stands in for which when members fail, one after the other.

The table and the coterie after some failures depend on which failed, not on the order (lemmas 3 and
4), so both are functions of the set of the dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.coteries.coterie import show
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from coterie.coteries.coterie import Coterie
    from coterie.coteries.replacement import Keep


class UpdateTable(msgspec.Struct, frozen=True):
    """For each member the one that takes its place in the quorums if it fails."""

    members: tuple[int, ...]
    stand_ins: tuple[int, ...]  # of the members, in their order

    @classmethod
    def of(cls, stand_ins: Mapping[int, int]) -> UpdateTable:
        """Make the table that sends each key to its value."""
        members = tuple(sorted(stand_ins))
        for member in members:
            if stand_ins[member] not in stand_ins:
                raise ConfigError(
                    f"{stand_ins[member]} is to stand in for {member} and is not a member itself"
                )
        return cls(members, tuple(stand_ins[member] for member in members))

    @classmethod
    def cyclic(cls, order: Sequence[int]) -> UpdateTable:
        """Let each member be replaced by the next one in `order`, and the last by the first.

        This survives the failure of all members but one (lemma 2). The initial table of the paper
        is the cycle 1, 2, ..., N.
        """
        if len(set(order)) != len(order):
            raise ConfigError("a member occurs twice in the cycle")
        return cls.of(dict(zip(order, [*order[1:], *order[:1]], strict=True)))

    def stand_in(self, member: int) -> int:
        """Return the member that takes the place of `member`."""
        if member not in self.members:
            raise ConfigError(f"{member} is not in the update table")
        return self.stand_ins[self.members.index(member)]

    def after(self, failed: Iterable[int]) -> UpdateTable:
        """Update the table: a member that pointed to a dead one points to its stand-in."""
        table = dict(zip(self.members, self.stand_ins, strict=True))
        for dead in sorted(set(failed)):
            successor = self._successor(table, dead)
            for member, stand_in in table.items():
                if stand_in == dead:
                    table[member] = successor
        return UpdateTable.of(table)

    def coterie_after(
        self, coterie: Coterie, failed: Iterable[int], *, keep: Keep = "larger"
    ) -> Coterie:
        """Replace all of `failed` in the coterie, each by its stand-in at that time."""
        table = self
        for dead in sorted(set(failed)):
            table = table.after([dead])
            coterie = coterie.replace(dead, table.stand_in(dead), keep=keep)
        return coterie

    def cycles(self) -> list[tuple[int, ...]]:
        """List the cycles of the graph of the table, each from its smallest member on."""
        found: list[tuple[int, ...]] = []
        seen: set[int] = set()
        for start in self.members:
            path: list[int] = []
            member = start
            while member not in seen:
                seen.add(member)
                path.append(member)
                member = self.stand_in(member)
            if member in path:
                found.append(_from_smallest(path[path.index(member) :]))
        return sorted(found)

    def fault_tolerance(self) -> int:
        """Return the largest K such that any K members may fail: one less than the shortest cycle."""
        return min(map(len, self.cycles())) - 1

    def require(self, failures: int) -> None:
        """Raise `ConfigError` unless any `failures` members may fail."""
        shortest = min(self.cycles(), key=len)
        if len(shortest) <= failures:
            raise ConfigError(
                f"the update table does not tolerate {failures} failures: the members of"
                f" {show(shortest)} replace only each other"
            )

    @staticmethod
    def _successor(table: Mapping[int, int], dead: int) -> int:
        if dead not in table:
            raise ConfigError(f"{dead} is not in the update table")
        if table[dead] == dead:
            raise ConfigError(f"no member is left to stand in for {dead}")
        return table[dead]


def _from_smallest(cycle: list[int]) -> tuple[int, ...]:
    first = cycle.index(min(cycle))
    return tuple(cycle[first:] + cycle[:first])
