"""Every wait ends: shown by sets that shrink, without a word about how many processes there are.

While one waits, a rank of sets in levels does not grow, the earlier level weighing more; some
helpful step is possible, stays so until it is taken, and makes the rank smaller. Sets are finite, as
processes are, so where no possible step is left out forever, no wait lasts forever. That last
sentence is an argument on paper; all before it is for the solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.prove.terms import Formula, Sort, Term


class Help(NamedTuple):
    """A step that helps where its sign stands; both are functions of the one that waits and of things."""

    action: str
    sorts: tuple[Sort, ...]
    sign: Callable[..., Formula]
    args: Callable[..., tuple[Term, ...]]


@dataclass(frozen=True)
class Waits:
    """Who waits, the levels of sets, each with the sorts of its things, and the steps that help."""

    sort: Sort
    waiting: Callable[..., Formula]
    levels: Sequence[Sequence[tuple[tuple[Sort, ...], Callable[..., Formula]]]]
    helps: Sequence[Help]
    given: Formula | bool = True
