"""Stepping by hand a process that watches others, and mutants that only a crash brings to light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.explore import Settles, Together
from coterie.process import ElectionUser
from tests.harness import Hand, Mutant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import Outbox, Process, Seat


class WatchingHand(Hand):
    """Begun already, unless told not to be; keeps whom the process watches."""

    def __init__(self, process: Process[Any], *, incarnation: int = 0) -> None:
        super().__init__(process)
        self.watched: set[int] = set()
        out = self._out()
        out.incarnation = incarnation
        self.seat.start(out)
        self.begun_with = self._carry_out(out)

    def call(self, name: str) -> list[Any]:
        out = self._out()
        self.seat.call(name, out)
        return self._carry_out(out)

    def receive(self, sender: int, message: Any) -> list[Any]:
        out = self._out()
        self.seat.receive(sender, message, out)
        return self._carry_out(out)

    def down(self, peer: int) -> list[Any]:
        self.watched.remove(peer)
        out = self._out()
        self.seat.down(peer, out)
        return self._carry_out(out)

    def _carry_out(self, out: Outbox[Any]) -> list[Any]:
        for peer, wanted in out.watches:
            (self.watched.add if wanted else self.watched.discard)(peer)
        return [*out.sends, *out.events]


@dataclass(frozen=True)
class CrashMutant(Mutant):
    """A broken line that an exploration with so many crashes must notice."""

    entries: int = 0
    crashes: int = 1
    requesters: tuple[int, ...] | None = None


def highest_leads(seats: Sequence[Seat | None]) -> bool:
    """Tell whether all live users follow the highest live process."""
    live = [seat for seat in seats if seat]
    return all(
        isinstance(seat.user, ElectionUser) and seat.user.leader == live[-1].process.me
        for seat in live
    )


HIGHEST_LEADS = Settles("the highest leads", (Together(highest_leads),), "some follow another")
