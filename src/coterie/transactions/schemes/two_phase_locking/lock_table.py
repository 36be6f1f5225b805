"""The lock table of one site: which locks are held, which claims wait, and for whom.

An owner locks a key or a range of keys before it accesses it, and gets no lock after it has released
one: these are the two phases. Whenever a lock or a place in a queue becomes free, every claim is
granted that no other has to precede any more.

Claims on a key stand in a queue. A claim waits for every other owner that holds a conflicting lock,
and for every conflicting claim before it, so readers cannot overtake a writer without end.

A range is locked in shared mode. It conflicts with exclusive locks on the keys in it, whether these
exist or not. Claims on ranges have a queue of their own; tickets tell which claim came first.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

from coterie.errors import MisuseError
from coterie.transactions.schemes.scheduler import Name
from coterie.transactions.schemes.span import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Mode(IntEnum):
    """How a key is locked; each mode permits what those before it do."""

    SHARED = 1  # to read
    UPDATE = 2  # to read on the way to writing: beside readers, but by one transaction only
    EXCLUSIVE = 3  # to write


SHARED, UPDATE, EXCLUSIVE = Mode


def conflict(one: Mode, other: Mode) -> bool:
    """Return True if two transactions must not hold the same key in these modes at one time."""
    return one is EXCLUSIVE or other is EXCLUSIVE or (one is UPDATE and other is UPDATE)


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """A lock that a transaction waits for."""

    owner: Name
    target: str | Span  # a span is claimed in shared mode only
    mode: Mode
    ticket: int  # what came later has a larger one, but an upgrade takes another's place
    upgrade: bool = False  # the owner has the key in a weaker mode

    def __str__(self) -> str:
        """Name what is claimed."""
        if isinstance(self.target, str):
            return self.target
        return f"{self.target.low}..{self.target.high or ''}"


class LockTable(msgspec.Struct, array_like=True):
    """The locks of one site, held and waited for; an owner waits for one claim at most."""

    held: dict[str, dict[Name, Mode]] = {}  # by key
    keys: dict[Name, list[str]] = {}  # the same by owner, in the order in which they were granted
    spans: dict[Name, list[Span]] = {}  # ranges held
    queues: dict[str, list[Claim]] = {}  # by key, those that wait
    scans: list[Claim] = []  # on ranges, those that wait
    waiting: dict[Name, Claim] = {}  # the claims of both; an owner has one at most
    tickets: int = 0  # given so far
    shrinking: set[Name] = set()  # owners that have let go of something

    # What owners do

    def acquire(self, owner: Name, key: str, mode: Mode) -> bool:
        """Lock a key, or queue for it; return whether it is locked."""
        if owner in self.shrinking:
            raise MisuseError(f"{owner} asks for a lock on {key} after it has released one")
        holders = self.held.get(key)
        if holders is not None and holders.get(owner, 0) >= mode:
            return True
        # Nearly always no other owner is interested in the key, and this is all there is to do.
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
        """Lock a range in shared mode, or queue for it; return whether it is locked."""
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
        """Release one key; return the claims that this grants."""
        if key not in self.keys.get(owner, ()):
            raise MisuseError(f"{owner} releases {key}, but has not locked it")
        self.shrinking.add(owner)
        self.keys[owner].remove(key)
        self._drop(owner, key)
        return self._grant([key])

    def release_shared(self, owner: Name) -> list[Claim]:
        """Release what is not locked exclusively; return the claims that this grants."""
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
        """Release everything, the place in a queue included; return the claims that this grants."""
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

    # What is locked, and who has to end first

    def covers(self, owner: Name, key: str, mode: Mode) -> bool:
        """Return whether an owner has locked a key at least so, by itself or within a range."""
        if key in self.held and self.held[key].get(owner, 0) >= mode:
            return True
        return mode is SHARED and any(key in span for span in self.spans.get(owner, ()))

    def locked(self, key: str) -> bool:
        """Return whether any owner has locked a key, by itself or within a range."""
        if key in self.held:
            return True
        return any(key in span for spans in self.spans.values() for span in spans)

    def blockers(self, claim: Claim) -> Iterator[Name]:
        """Name every owner that has to end before a claim is granted, some perhaps twice."""
        if isinstance(claim.target, Span):
            return self._before_span(claim, claim.target)
        return self._before_key(claim, claim.target)

    def behind(self, key: str) -> Iterator[Claim]:
        """Walk all claims that could wait for an owner that has a key or claims it."""
        yield from self.queues.get(key, ())
        for scan in self.scans:
            if key in _span(scan):
                yield scan

    def queued_within(self, spans: Iterable[Span]) -> list[str]:
        """List the keys in these ranges for which a claim waits."""
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
        """Return whether a scan waits for a claim's owner, which would wait for itself behind it."""
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

    # Queues

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

    def _enqueue(self, owner: Name, target: str | Span, mode: Mode) -> Claim:
        """Put a claim in its queue.

        An upgrade goes before ordinary claims: they wait for its owner, or for one that does, so
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


def _includes(outer: Span, inner: Span) -> bool:
    if outer.low > inner.low:
        return False
    return outer.high is None or (inner.high is not None and inner.high <= outer.high)
