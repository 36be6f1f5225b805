"""The leases of foreign sessions, counted by a process that waits behind them, on its own clock.

A session has a counter at the server, which each renewal moves on. A process that waits reads the counters
of all sessions before it, and may remove a session whose counter it has seen unchanged for a whole lease:
by one compare-and-set, from (alive, n) to dead. The server's clock and its idea of a connection take no part.

Why the holder knows of its loss first. Let n be the counter that the removal compared. The renewal that
wrote n was sent, then carried out, then shown by the answer from whose arrival the count starts. The hold
ends at that sending + L(1 - e) on the holder's clock, and the removal is sent at the start of the count
+ L(1 + e) on ours: later, by any two clocks whose rates differ by less than 2e. A renewal that was carried
out in between makes the comparison fail, and one that comes after the removal fails itself. An answer that
is old only starts the count later.

This is a value: it sends nothing and reads no clock. It belongs to the process and outlives its own sessions:
what was seen of others stays true.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

CLOCK_RATE_ERROR = 0.05  # of a lease, which the clock of any process may gain or lose on true time
LOOKS_PER_LEASE = 6
NEIGHBOURS = 16
"""How many sessions a renewal shows: the next ones in the order of names, around the end.

So programs that live observe all sessions, and of those that died together, with a machine for instance, so many in a
row are found in the time of one.
"""
PAST = "past"
"""The session of all leases from before this run of the server; its counter is the run.

It is alive while the run is closed, and no process renews it: so it is removed like any other session, after the
longest lease that an earlier run may have granted, and the removal opens the run.
"""

Counter: TypeAlias = int | str  # compared for equality, never for order


class Silent(NamedTuple):
    """A session that was seen with the same counter for a whole lease: it may be removed if it still has it."""

    session: str
    counter: Counter


class Observation(msgspec.Struct):
    """What was seen of one session."""

    counter: Counter
    lease: float  # of the session, not of the observer
    since: float  # the arrival of the answer that was the first to show this counter
    look_at: float  # no earlier
    tried_at: float = -math.inf  # the last removal that was begun

    @property
    def removal_at(self) -> float:
        """From when on the session may be removed; one that was tried may have been lost on its way."""
        over_at = self.since + self.lease * (1 + CLOCK_RATE_ERROR)
        return max(over_at, self.tried_at + self.lease / LOOKS_PER_LEASE)


class Observations:
    """What a process has seen of the sessions before it."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._seen: dict[str, Observation] = {}
        self._origin = 0.0  # of the beats at which looks are made

    def saw(self, session: str, counter: Counter, lease: float, now: float) -> None:
        """Note what an answer shows of a living session.

        Args:
            session: Its name, never used for another one.
            counter: That the answer shows.
            lease: That the record of the session says, in seconds.
            now: Read after the answer had arrived. What it shows was true before.
        """
        if not self._seen:
            self._origin = now
        seen = self._seen.get(session)
        if seen is None or seen.counter != counter:
            self._seen[session] = Observation(counter, lease, now, self._next_beat(lease, now))
            return
        seen.lease = max(seen.lease, lease)  # that of the past grows with what is known of it
        seen.look_at = self._next_beat(seen.lease, now)

    @property
    def sessions(self) -> list[str]:
        """The sessions that are observed, without the past."""
        return [session for session in self._seen if session != PAST]

    def __contains__(self, session: str) -> bool:
        """Return True if a session is observed."""
        return session in self._seen

    def forget(self, session: str) -> None:
        """Drop a session that is dead or has ended."""
        self._seen.pop(session, None)

    def keep(self, sessions: Iterable[str]) -> None:
        """Drop all but these, which a task of this process waits behind."""
        kept = set(sessions)
        for session in [each for each in self._seen if each not in kept]:
            del self._seen[session]

    def due(self, now: float) -> list[Silent]:
        """Return the sessions to be removed now, each with the counter that the removal compares.

        A removal is taken as begun. Unless `forget` or another counter says how it ended, it is due again
        a sixth of a lease later.
        """
        found = []
        for session, seen in self._seen.items():
            if now >= seen.removal_at:
                seen.tried_at = now
                found.append(Silent(session, seen.counter))
        return found

    def looks(self, now: float) -> list[str]:
        """Return the sessions to be looked at now, all in one request, and take that request as sent.

        Each is looked at once in a sixth of its lease at most, whatever number of locks it is in the way of.
        """
        found = [session for session, seen in self._seen.items() if now >= seen.look_at]
        for session in found:
            seen = self._seen[session]
            seen.look_at = self._next_beat(seen.lease, now)
        return found

    def removal_at(self, session: str) -> float:
        """Return from when on a session may be removed, if its counter stays; infinity if it is not observed."""
        seen = self._seen.get(session)
        return math.inf if seen is None else seen.removal_at

    def next_at(self) -> float:
        """Return when the next look or removal is due; infinity if nothing is observed."""
        looks = (seen.look_at for seen in self._seen.values())
        return min(self.next_removal_at(), min(looks, default=math.inf))

    def next_removal_at(self) -> float:
        """Return when the next removal is due; infinity if nothing is observed."""
        return min((seen.removal_at for seen in self._seen.values()), default=math.inf)

    def _next_beat(self, lease: float, now: float) -> float:
        """Return the first of the common beats after `now`: sessions of equal leases share a request."""
        beat = lease / LOOKS_PER_LEASE
        at = self._origin + (math.floor((now - self._origin) / beat) + 1) * beat
        return at if at > now else at + beat  # a beat that rounding has put at `now`
