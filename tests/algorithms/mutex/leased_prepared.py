"""A step of a change that begins while the lock is held: with two clients, where `leased_steps` does not end.

The first client has the lock before anything is explored: that it asked and got it was played, with every
message delivered at once. It keeps the lock, or leaves at any moment (`leaves`), or crashes. The second one
asks at any moment, or waits from the beginning (`queued`). No lease lapses here, so the timers of participants and voters have nothing to do,
and are left out with the times at which they would ring.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

from coterie.algorithms.mutex.quorum.leased.frames import NewConfiguration
from coterie.algorithms.mutex.quorum.leased.participant import PARTICIPANT
from coterie.algorithms.mutex.quorum.leased.process import LOCK
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.process import Entered, Outbox, ProcessId
from tests.algorithms.mutex.leased_steps import HEAR, Changing, change

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from tests.algorithms.mutex.leased_abstraction import Message

LEAVE = "leave"


class Prepared(Changing):
    """A voter or a client that has been running before the search begins."""

    is_running: bool = False
    leaves: bool = False  # it holds the lock, and may leave
    is_queued: bool = False  # it waits already, for a user that is played as well

    def start(self, out: Outbox[Any]) -> None:
        if not self.is_running:
            super().start(out)
            self.is_running = True
            return
        if self.watchful:
            for peer in range(1, self.voters + self.participants + 1):
                if peer != self.me:
                    out.watch(peer)
        if self.following is not None:
            out.set_timer(HEAR, 0)
        if self.leaves:
            out.set_timer(LEAVE, 0)

    def acquire(self, out: Outbox[Any]) -> None:
        super().acquire(out)
        self._forget_timers(out)

    def release(self, out: Outbox[Any]) -> None:
        super().release(out)
        self._forget_timers(out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Any]) -> None:
        super().receive(sender, message, out)
        self._forget_timers(out)

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        if timer == LEAVE:
            out.now = self.time
            self.participant.release(LOCK, out)
            self.leaves = False
        else:
            super().ring(timer, out)
        self._forget_timers(out)

    def down(self, peer: ProcessId, out: Outbox[Any]) -> None:
        super().down(peer, out)
        self._forget_timers(out)

    def _forget_timers(self, out: Outbox[Any]) -> None:
        if self.is_queued:
            out.events[:] = [each for each in out.events if not isinstance(each, Entered)]
        out.timers[:] = [each for each in out.timers if each[0] not in (PARTICIPANT, VOTER)]
        self.participant.armed = math.inf
        if self.voter is not None:
            self.voter.armed = math.inf


def held(
    present: Configuration,
    following: Configuration,
    *,
    before: Configuration | None = None,
    leaves: bool = False,
    queued: bool = False,
    watchful: bool = False,
) -> list[Prepared]:
    """Build voters and two clients, of which the first holds the lock by `present`, or by `before`.

    All voters have adopted `present` then, and serve the number before it as well.
    """
    first = before or present
    plain = change(present, following, clients=(before, None), watchful=watchful)
    processes = [
        Prepared(
            each.me,
            each.participant,
            each.voter and Voter(first if each.me in first.seats else None),
            participants=each.participants,
            voters=each.voters,
            origin=each.origin,
            watchful=watchful,
            following=following,
        )
        for each in plain
    ]
    _play(processes, present, processes[-1:] if queued else [])
    assert processes[-2].participant.valid(LOCK, 0.0), "the first client has the lock"
    processes[-2].leaves, processes[-1].is_queued = leaves, queued
    return processes


def _play(processes: list[Prepared], present: Configuration, waiting: list[Prepared]) -> None:
    """Start all, and let the first client ask, then these; every message arrives at once."""
    under_way: deque[tuple[ProcessId, ProcessId, Any]] = deque()

    def step(process: Prepared, handler: Callable[..., None], *arguments: Any) -> None:
        out: Outbox[Any] = Outbox(process.me)
        handler(*arguments, out)
        under_way.extend((out.me, to, message) for to, message in out.sends)
        while under_way:
            sender, to, message = under_way.popleft()
            step(processes[to - 1], processes[to - 1].receive, sender, message)

    for process in processes:
        step(process, process.start)
    step(processes[-2], processes[-2].acquire)
    for seat in sorted(present.all_seats()):
        step(processes[seat - 1], processes[seat - 1].receive, seat, NewConfiguration(present))
    for client in waiting:
        step(client, client.acquire)
