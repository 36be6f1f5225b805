"""Two-phase locking without deadlocks, because waits go in one direction of age only.

`WaitDie` lets only the older wait for the younger; `WoundWait` lets only the younger wait for the
older (Rosenkrantz, Stearns and Lewis, 1978). Age is that of the first attempt, so whoever tries
again becomes the oldest in the end, and nobody refuses it then.

A wait is judged against all holders and all claims in line before it. So a lock that changes hands
gives no new wait: whoever gets it was in the way before. Only an upgrade is put before others, who
are judged again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.transactions.schemes.two_phase_locking.locking import TwoPhaseLocking

if TYPE_CHECKING:
    from coterie.clocks import Stamp
    from coterie.transactions.schemes.scheduler import Answer, Name
    from coterie.transactions.schemes.two_phase_locking.claims import Claim


class ByAge(TwoPhaseLocking):
    """A site where age decides who waits."""

    def _overtake(self, key: str, out: list[Answer]) -> None:
        for claim in tuple(self.locks.behind(key)):
            if self.locks.waiting.get(claim.owner) == claim:  # not ended because of another
                self._resolve(claim, out)

    def _before(self, claim: Claim) -> list[Name]:
        return list(dict.fromkeys(self.locks.blockers(claim)))

    def _age(self, name: Name) -> tuple[Stamp, Stamp]:
        attempt = self.active[name].attempt
        return attempt.age, attempt.stamp


class WaitDie(ByAge):
    """A site where the younger dies instead of waiting for the older."""

    def _resolve(self, claim: Claim, out: list[Answer]) -> None:
        age = self._age(claim.owner)
        older = [name for name in self._before(claim) if self._age(name) < age]
        if older:
            self.refuse(claim.owner, "younger than one in its way", [str(claim)], older, out)


class WoundWait(ByAge):
    """A site where the older wounds the younger instead of waiting for it."""

    def _resolve(self, claim: Claim, out: list[Answer]) -> None:
        age = self._age(claim.owner)
        younger = [name for name in self._before(claim) if self._age(name) > age]
        # Those who wait go first, lest they are granted what the holders leave behind.
        for name in reversed(younger):
            if name in self.active and not self.active[name].prepared:
                self.refuse(name, "in the way of an older one", [str(claim)], [claim.owner], out)
