"""Coteries: families of quorums of which any two meet and none contains another.

A process that holds the permission of a whole quorum excludes all others, because every other quorum
has a member in common with it (Garcia-Molina and Barbara, 1985). `Coterie` lists its quorums and
works out everything from the list; the families of the sibling modules override what they know
without it.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
from typing import TYPE_CHECKING, TypeAlias

from coterie.coteries.assignment import assign
from coterie.coteries.availability import Availability, count_live_sets, sampled
from coterie.coteries.domination import two_colourable
from coterie.coteries.load import Load, optimal_load
from coterie.coteries.replacement import Keep, replace_member
from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Quorum: TypeAlias = frozenset[int]

LISTED_IDS_MAX = 5_000_000  # ids in all quorums together; a few hundred megabytes
TABLE_QUORUMS_MAX = 100
EXACT_MEMBERS_MAX = 20  # an exact availability looks at every subset of the members
_ids_max = contextvars.ContextVar("ids_max", default=LISTED_IDS_MAX)


class Coterie:
    """A quorum system over some members, as an immutable value.

    Two are equal when they have the same members and the same quorums, whatever made them. The
    constructor accepts any quorums of known members; `check` says whether they form a coterie.
    """

    def __init__(self, members: Iterable[int], quorums: Iterable[Iterable[int]]) -> None:
        """Take the members and the quorums, in any order and with repetitions."""
        self._members = tuple(sorted(set(members)))
        self._quorums = in_order(frozenset(quorum) for quorum in quorums)
        if not self._quorums:
            raise ConfigError("a coterie needs at least one quorum")
        known = set(self._members)
        for quorum in self._quorums:
            if not quorum:
                raise ConfigError("a quorum needs at least one member")
            if strangers := sorted(quorum - known):
                raise ConfigError(
                    f"quorum {show(quorum)} names {strangers[0]}, which is not a member"
                )

    @property
    def members(self) -> tuple[int, ...]:
        """The members, in order."""
        return self._members

    @property
    def quorums(self) -> tuple[Quorum, ...]:
        """The quorums, each once, in the order of their sorted members."""
        return self._quorums

    def __eq__(self, other: object) -> bool:
        """Compare members and quorums."""
        if not isinstance(other, Coterie):
            return NotImplemented
        return self is other or (self.members == other.members and self.quorums == other.quorums)

    def __hash__(self) -> int:
        """Hash the members, which all representations know."""
        return hash(self.members)

    def __str__(self) -> str:
        """Write the quorums as `parse_coterie` reads them: 1,2 1,3 2,3."""
        return " ".join(",".join(map(str, sorted(quorum))) for quorum in self.quorums)

    def __repr__(self) -> str:
        """Show the kind and the quorums, or only the number of members of a large one."""
        if len(self.members) > EXACT_MEMBERS_MAX:
            return f"<{type(self).__name__} of {len(self.members)} members>"
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str | None:
        """List the quorums, a column for each member, where a notebook shows it; not of a large one."""
        if len(self.members) > EXACT_MEMBERS_MAX or len(self.quorums) > TABLE_QUORUMS_MAX:
            return None
        head = "".join(f"<th>{member}</th>" for member in self.members)
        rows = (
            "".join(f"<td>{'●' if member in quorum else ''}</td>" for member in self.members)
            for quorum in self.quorums
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def check(self) -> None:
        """Raise `ConfigError` naming two quorums that do not meet or are nested, if there are such."""
        for one, other in itertools.combinations(self.quorums, 2):
            if one.isdisjoint(other):
                raise ConfigError(f"quorums {show(one)} and {show(other)} have no member in common")
            if one < other or other < one:
                large, small = (other, one) if one < other else (one, other)
                raise ConfigError(f"quorum {show(large)} contains quorum {show(small)}")

    def contains_quorum(self, alive: Iterable[int]) -> bool:
        """Return whether all members of some quorum are among `alive`."""
        present = frozenset(alive)
        return any(quorum <= present for quorum in self.quorums)

    def quorum_for(self, member: int) -> Quorum:
        """Return the quorum that `member` asks: Maekawa's S_i.

        It is a smallest one that contains `member` if any does, and as many members as possible
        get one of their own.
        """
        self._know(member)
        return self._assignment[member]

    def without(self, suspects: Iterable[int]) -> Quorum | None:
        """Return a smallest quorum that avoids all of `suspects`, or None."""
        avoided = frozenset(suspects)
        usable = [quorum for quorum in self.quorums if quorum.isdisjoint(avoided)]
        return min(usable, key=len, default=None)

    def is_nondominated(self) -> bool:
        """Return whether no other coterie has a quorum alive whenever this one has, and more often.

        That is so exactly if the members cannot be split in two parts without a quorum in either.
        """
        return not two_colourable(self.quorums)

    def availability(self, p: float, *, samples: int = 10_000, seed: int = 0) -> Availability:
        """Return the probability that a quorum is alive when each member is, independently, with `p`.

        It is exact up to 20 members (and for votes and trees of any size), otherwise estimated
        from `samples` random sets of live members; the answer says which.
        """
        if not 0 <= p <= 1:
            raise UsageError(f"p must be a probability between 0 and 1, got {p}")
        return self._availability(p, samples, seed)

    def load(self) -> Load:
        """Return the load of the busiest member when quorums are chosen as well as possible.

        This is the optimal load of Naor and Wool (1998): the share of all accesses that the
        busiest member sees under the best random choice of quorums.
        """
        return optimal_load(self.quorums)

    def replace(self, failed: int, by: int, *, keep: Keep = "larger") -> Coterie:
        """Let `by` stand in for `failed` in every quorum: the update C' = Q(T_xy(C)) of 1996.

        Of two images of which one contains the other, Q keeps the `larger` (as published: a
        request pending on G continues on a superset of G - {x}, theorem 2) or the `smaller` (which
        preserves nondomination). The result is a coterie in both cases (theorem 1).
        """
        self._know(failed)
        self._know(by)
        if failed == by:
            raise ConfigError(f"member {failed} cannot stand in for itself")
        survivors = [member for member in self.members if member != failed]
        return Coterie(survivors, replace_member(self.quorums, failed, by, keep))

    @functools.cached_property
    def _assignment(self) -> dict[int, Quorum]:
        return assign(self.members, self.quorums)

    def _availability(self, p: float, samples: int, seed: int) -> Availability:
        if len(self.members) > EXACT_MEMBERS_MAX:
            return sampled(self.members, self.quorums, p, samples, seed)
        size = len(self.members)
        counts = count_live_sets(self.members, self.quorums)
        return Availability(
            sum(count * p**alive * (1 - p) ** (size - alive) for alive, count in enumerate(counts))
        )

    def _know(self, member: int) -> None:
        if member not in self._places:
            raise ConfigError(f"{member} is not a member of this coterie")

    @functools.cached_property
    def _places(self) -> dict[int, int]:
        return {member: place for place, member in enumerate(self.members)}


def show(quorum: Iterable[int]) -> str:
    """Write a quorum as a set: {1,2,3}."""
    return "{" + ",".join(map(str, sorted(quorum))) + "}"


def in_order(quorums: Iterable[Quorum]) -> tuple[Quorum, ...]:
    """Drop repetitions and order by the sorted members, the same way in every run."""
    return tuple(sorted(set(quorums), key=sorted))


@contextlib.contextmanager
def shorter_lists(ids_max: int) -> Iterator[None]:
    """Refuse lists of more than `ids_max` ids in here: for a program that builds what strangers choose."""
    before = _ids_max.set(ids_max)
    try:
        yield
    finally:
        _ids_max.reset(before)


def refuse_long_list(what: str, count: int, length: int) -> None:
    """Raise `UsageError` before a list of `count` quorums of `length` would fill the memory."""
    if count * length > _ids_max.get():
        raise UsageError(
            f"{what} has too many quorums to list them all here: take fewer members,"
            " or a coterie of fewer quorums such as grid"
        )
