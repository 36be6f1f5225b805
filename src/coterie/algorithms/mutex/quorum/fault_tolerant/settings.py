"""What all processes must agree on before they start: quorums, stand-ins and bounds on time."""

from __future__ import annotations

import functools

import msgspec

from coterie.coteries import Coterie, Keep, UpdateTable
from coterie.process import ProcessId


class Settings(msgspec.Struct, frozen=True, array_like=True):
    """The same at every process.

    `sigma` bounds how long a message takes and `lambda_` how long its receiver takes to answer.
    Mutual exclusion rests on both.
    """

    quorums: tuple[tuple[ProcessId, ...], ...]  # while none is down
    stand_ins: tuple[ProcessId, ...]  # of 1 to N: the update table
    sigma: float
    lambda_: float
    t_max: float  # how long to wait for a process before asking whether it is there
    patience_max: float  # the same, after it has answered again and again
    keep: Keep = "larger"  # which of two nested quorums an update keeps

    @property
    def members(self) -> range:
        """All processes, down or not."""
        return range(1, len(self.stand_ins) + 1)

    @property
    def t_d(self) -> float:
        """How long an answer may take: T_d."""
        return 2 * self.sigma + self.lambda_

    @property
    def quarantine(self) -> float:
        """How long no process enters after news: longer than 2(sigma + lambda), by another lambda.

        In that time the relayed news reaches all processes, and then a Hold comes back.
        """
        return 2 * self.sigma + 3 * self.lambda_

    def coterie(self, dead: frozenset[ProcessId]) -> Coterie:
        """Return the coterie while these are down, which does not depend on the order (lemma 4)."""
        return _coterie(self.quorums, self.stand_ins, dead, self.keep)


@functools.lru_cache(maxsize=10_000)
def _coterie(
    quorums: tuple[tuple[ProcessId, ...], ...],
    stand_ins: tuple[ProcessId, ...],
    dead: frozenset[ProcessId],
    keep: Keep,
) -> Coterie:
    members = range(1, len(stand_ins) + 1)
    table = UpdateTable.of(dict(zip(members, stand_ins, strict=True)))
    return table.coterie_after(Coterie(members, quorums), dead, keep=keep)
