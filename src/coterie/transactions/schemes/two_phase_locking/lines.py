"""Who holds which lock, who stands in line for it, and who has to end before whom.

Claims on a key stand in line. A claim waits for everybody else who holds a conflicting lock, and
for every conflicting claim before it: so readers do not overtake a writer for ever.

A range is locked in shared mode. It conflicts with exclusive locks on the keys in it, whether these
exist or not. Claims on ranges stand in a line of their own; tickets tell what came first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.transactions.schemes.scheduler import Name
from coterie.transactions.schemes.span import Span
from coterie.transactions.schemes.two_phase_locking.claims import (
    EXCLUSIVE,
    SHARED,
    Claim,
    Mode,
    conflict,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Lines(msgspec.Struct, array_like=True):
    """The locks of one site, held and waited for."""

    held: dict[str, dict[Name, Mode]] = {}  # by key
    keys: dict[Name, list[str]] = {}  # the same by owner, in the order in which they were granted
    spans: dict[Name, list[Span]] = {}  # ranges held
    queues: dict[str, list[Claim]] = {}  # by key, those that wait
    scans: list[Claim] = []  # on ranges, those that wait
    waiting: dict[Name, Claim] = {}  # the claims of both; an owner has one at most
    tickets: int = 0  # given so far
    shrinking: set[Name] = set()  # owners that have let go of something

    def covers(self, owner: Name, key: str, mode: Mode) -> bool:
        """Tell whether an owner has locked a key at least so, by itself or within a range."""
        if key in self.held and self.held[key].get(owner, 0) >= mode:
            return True
        return mode is SHARED and any(key in span for span in self.spans.get(owner, ()))

    def locked(self, key: str) -> bool:
        """Tell whether anybody has locked a key, by itself or within a range."""
        if key in self.held:
            return True
        return any(key in span for spans in self.spans.values() for span in spans)

    def blockers(self, claim: Claim) -> Iterator[Name]:
        """Name everyone who has to end before a claim is granted, some perhaps twice."""
        if isinstance(claim.target, Span):
            return self._before_span(claim, claim.target)
        return self._before_key(claim, claim.target)

    def behind(self, key: str) -> Iterator[Claim]:
        """Walk all claims that could wait for whoever has a key or claims it."""
        yield from self.queues.get(key, ())
        for scan in self.scans:
            if key in _span(scan):
                yield scan

    def queued_within(self, spans: Iterable[Span]) -> list[str]:
        """List the keys in these ranges for which somebody waits."""
        return [key for key in self.queues if any(key in span for span in spans)]

    def _before_key(self, claim: Claim, key: str) -> Iterator[Name]:
        for holder, mode in self.held.get(key, {}).items():
            if holder != claim.owner and conflict(mode, claim.mode):
                yield holder
        for other in self.queues.get(key, ()):
            if other.owner == claim.owner:
                break
            if conflict(other.mode, claim.mode):
                yield other.owner
        if claim.mode is EXCLUSIVE:
            yield from self._ranges_before(claim, key)

    def _ranges_before(self, claim: Claim, key: str) -> Iterator[Name]:
        for holder, spans in self.spans.items():
            if holder != claim.owner and any(key in span for span in spans):
                yield holder
        for scan in self.scans:
            if key in _span(scan) and scan.ticket < claim.ticket and not self._awaits(scan, claim):
                yield scan.owner

    def _awaits(self, scan: Claim, claim: Claim) -> bool:
        """Tell whether a scan waits for a claim's owner, who would wait for itself behind it."""
        return any(
            key in _span(scan) and self.held[key][claim.owner] is EXCLUSIVE
            for key in self.keys.get(claim.owner, ())
        )

    def _before_span(self, claim: Claim, span: Span) -> Iterator[Name]:
        for key, holders in self.held.items():
            if key in span:
                for holder, mode in holders.items():
                    if holder != claim.owner and mode is EXCLUSIVE:
                        yield holder
        for key in self.queued_within([span]):
            if not self.covers(claim.owner, key, SHARED):  # else they wait for this owner
                for other in self.queues[key]:
                    if other.mode is EXCLUSIVE and other.ticket < claim.ticket:
                        yield other.owner

    def _enqueue(self, owner: Name, target: str | Span, mode: Mode) -> Claim:
        """Put a claim in line.

        An upgrade goes before ordinary claims: they wait for its owner, or for one who does, so
        behind them it would wait for itself. It takes the ticket of the first, for the scans that
        have come after that one wait for its owner, too.
        """
        self.tickets += 1
        if isinstance(target, Span):
            claim = Claim(owner, target, mode, self.tickets)
            self.scans.append(claim)
        else:
            queue = self.queues.setdefault(target, [])
            upgrade = self.covers(owner, target, SHARED)
            place = sum(other.upgrade for other in queue) if upgrade else len(queue)
            ticket = self.tickets if place == len(queue) else queue[place].ticket
            claim = Claim(owner, target, mode, ticket, upgrade)
            queue.insert(place, claim)
        self.waiting[owner] = claim
        return claim

    def _dequeue(self, claim: Claim) -> None:
        del self.waiting[claim.owner]
        if isinstance(claim.target, Span):
            self.scans.remove(claim)
            return
        queue = self.queues[claim.target]
        queue.remove(claim)
        if not queue:
            del self.queues[claim.target]

    def _hold(self, claim: Claim) -> None:
        owner, target = claim.owner, claim.target
        if isinstance(target, Span):
            self.spans.setdefault(owner, []).append(target)
            return
        holders = self.held.setdefault(target, {})
        if owner not in holders:
            self.keys.setdefault(owner, []).append(target)
        holders[owner] = claim.mode

    def _drop(self, owner: Name, key: str) -> None:
        holders = self.held[key]
        del holders[owner]
        if not holders:
            del self.held[key]


def _span(scan: Claim) -> Span:
    assert isinstance(scan.target, Span)
    return scan.target
