"""The lock table of one site: strict about the two phases, fair to whoever waits.

Every owner locks before it accesses, and gets no lock after it has let go of one. Whenever a lock
or a place in line becomes free, every claim is granted that has nobody before it any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.errors import MisuseError
from coterie.transactions.schemes.span import Span
from coterie.transactions.schemes.two_phase_locking.claims import EXCLUSIVE, SHARED, Claim, Mode
from coterie.transactions.schemes.two_phase_locking.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.transactions.schemes.scheduler import Name


class LockTable(Lines, array_like=True):
    """What owners do with the locks of one site; an owner waits for one claim at most."""

    def acquire(self, owner: Name, key: str, mode: Mode) -> bool:
        """Lock a key, or stand in line for it; tell whether it is locked."""
        if owner in self.shrinking:
            raise MisuseError(f"{owner} asks for a lock on {key} after it has released one")
        holders = self.held.get(key)
        if holders is not None and holders.get(owner, 0) >= mode:
            return True
        # Nearly always nobody else is interested in the key, and this is all there is to do.
        if key not in self.queues and not (mode is EXCLUSIVE and (self.spans or self.scans)):
            if holders is None:
                self.held[key] = {owner: mode}
                self.keys.setdefault(owner, []).append(key)
                return True
            if len(holders) == 1 and owner in holders:
                holders[owner] = mode
                return True
        return self.covers(owner, key, mode) or self._claim(owner, key, mode)

    def acquire_span(self, owner: Name, span: Span) -> bool:
        """Lock a range in shared mode, or stand in line for it; tell whether it is locked."""
        if owner in self.shrinking:
            raise MisuseError(f"{owner} asks for a lock on a range after it has released one")
        if any(_includes(held, span) for held in self.spans.get(owner, ())):
            return True
        return self._claim(owner, span, SHARED)

    def require(self, owner: Name, key: str, mode: Mode) -> None:
        """Insist that an owner may access a key in this mode."""
        if not self.covers(owner, key, mode):
            raise MisuseError(f"{owner} accesses {key} without a lock: {mode.name.lower()}")

    def release(self, owner: Name, key: str) -> list[Claim]:
        """Let go of one key; give the claims that are granted thereby."""
        if key not in self.keys.get(owner, ()):
            raise MisuseError(f"{owner} releases {key}, which it has not locked")
        self.shrinking.add(owner)
        self.keys[owner].remove(key)
        self._drop(owner, key)
        return self._grant([key])

    def release_shared(self, owner: Name) -> list[Claim]:
        """Let go of what is not locked exclusively; give the claims that are granted thereby."""
        self.shrinking.add(owner)
        keys = self.keys.get(owner, [])
        freed = [key for key in keys if self.held[key][owner] is not EXCLUSIVE]
        if not freed and owner not in self.spans:
            return []
        self.keys[owner] = [key for key in keys if self.held[key][owner] is EXCLUSIVE]
        for key in freed:
            self._drop(owner, key)
        return self._grant(freed + self.queued_within(self.spans.pop(owner, [])))

    def leave(self, owner: Name) -> list[Claim]:
        """Let go of everything and of the place in line; give the claims granted thereby."""
        self.shrinking.discard(owner)
        freed = self.keys.pop(owner, [])
        for key in freed:
            self._drop(owner, key)
        if not self.waiting and not self.spans:
            return []
        spans = self.spans.pop(owner, [])
        claim = self.waiting.get(owner)
        if claim is not None:
            self._dequeue(claim)
            if isinstance(claim.target, Span):
                spans.append(claim.target)
            else:
                freed.append(claim.target)
        return self._grant(freed + self.queued_within(spans))

    def _claim(self, owner: Name, target: str | Span, mode: Mode) -> bool:
        if owner in self.waiting:
            raise MisuseError(f"{owner} waits for {self.waiting[owner]} and asks for another lock")
        claim = self._enqueue(owner, target, mode)
        return self._grant_if_free(claim)

    def _grant(self, keys: Iterable[str]) -> list[Claim]:
        granted = []
        for key in keys:
            for claim in tuple(self.queues.get(key, ())):
                if self._grant_if_free(claim):
                    granted.append(claim)
                elif claim.mode is EXCLUSIVE:
                    break  # which conflicts with all that stand behind it
        return granted + [scan for scan in tuple(self.scans) if self._grant_if_free(scan)]

    def _grant_if_free(self, claim: Claim) -> bool:
        if next(self.blockers(claim), None) is not None:
            return False
        self._dequeue(claim)
        self._hold(claim)
        return True


def _includes(outer: Span, inner: Span) -> bool:
    if outer.low > inner.low:
        return False
    return outer.high is None or (inner.high is not None and inner.high <= outer.high)
