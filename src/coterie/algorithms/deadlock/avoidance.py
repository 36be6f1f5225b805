"""Deadlocks avoided by a table of what each job may still want: the banker's algorithm.

Dijkstra, "Cooperating sequential processes" (EWD 123, 1965), for one kind of unit; Habermann,
"Prevention of system deadlocks" (CACM 12:7, 1969), for several kinds.

Each job states beforehand the most that it will ever hold: its claim. A request is granted only if
afterwards all jobs could still finish one after the other, even if each of them first asked for the
rest of its claim. Such a state is *safe*, and the order in which they could finish shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

JobT = TypeVar("JobT")
KindT = TypeVar("KindT")


class Account(msgspec.Struct, Generic[JobT, KindT], frozen=True):
    """A row of the table: how many units of each kind a job holds, and how many it claims in all."""

    job: JobT
    holds: Mapping[KindT, int]
    claims: Mapping[KindT, int]

    def rest(self) -> Counter[KindT]:
        """Return what the job may still ask for."""
        return Counter(self.claims) - Counter(self.holds)


def safe_order(
    free: Mapping[KindT, int], accounts: Iterable[Account[JobT, KindT]]
) -> list[JobT] | None:
    """Return an order in which all jobs could finish, or None if the state is not safe.

    Any job that could finish now may be let go first: it only gives units back, so no other job
    loses its turn by that, and the search never has to go back.
    """
    units, left, order = Counter(free), list(accounts), list[JobT]()
    while left:
        able = next((account for account in left if account.rest() <= units), None)
        if able is None:
            return None
        units.update(able.holds)
        left.remove(able)
        order.append(able.job)
    return order
