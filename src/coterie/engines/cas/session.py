"""A session that its process renews and that others remove, over the steps of a server that compares and sets.

No clock of the server, no timer of it and no end of a connection takes part in what is promised: see
`engines/queue/observation.py` for why a holder knows of its loss before another one is let in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from coterie import system
from coterie.engines.queue.observation import PAST, Observations
from coterie.engines.queue.server import SessionLost, ValueSession
from coterie.engines.queue.witness import Witness
from coterie.errors import CoterieError, Unavailable
from coterie.system.aio import Tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Sequence

    from coterie.engines.cas.steps import Renewal, ServerPast, Sight, Steps
    from coterie.engines.queue.server import (
        Author,
        QueueEntry,
        SessionListener,
        Ticket,
        ValueStore,
    )

AnswerT = TypeVar("AnswerT")

BEATS_PER_LEASE = 3
RETRY_SECONDS = 0.1
LAPSED = "it was removed: its lease has run out for those who wait, an operator has ended it, or the server has lost it"
OLDER = "the server came back with an older state"

logger = logging.getLogger("coterie.engines")


class OwnEntry:
    """An entry of ours, and who waits for it."""

    def __init__(self) -> None:
        """Begin before the join is sent: news may come before its answer."""
        self.news = False  # look at it
        self.is_held = False  # as far as we know
        self.waiting: asyncio.Future[int] | None = None


class CasSession:
    """One session, with its entries in queues."""

    def __init__(
        self,
        server: str,
        name: str,
        steps: Steps,
        told: SessionListener,
        *,
        lease: float,
        observed: Observations,
    ) -> None:
        """Prepare; `start` announces the session.

        Args:
            server: For people.
            name: Of the session, never used for another one.
            steps: What can be asked of the server.
            told: Is told what becomes of the session.
            lease: In seconds.
            observed: What this process has seen of other sessions.
        """
        self.lease = lease
        self._server = server
        self._id = name
        self._steps = steps
        self._told = told
        self._counter = 0
        self._is_doubtful = False  # whether a renewal may have been carried out, or still be
        self._lost = ""
        self._run = ""  # of the server, which our entries were compared with
        self._is_open = False  # whether the run is
        self._entries: dict[Ticket, OwnEntry] = {}
        self._observed = observed  # the sessions before our entries, and the past
        self._neighbour = Observations()  # the next session in the order of names
        self._over: set[str] = set()  # sessions that are over, and whose entries were seen
        self._witness = Witness(server, lease, steps.lives, self._bury_dead)
        self._news = asyncio.Event()
        self._renew_now = asyncio.Event()
        self._ended = asyncio.Event()
        self._tasks = Tasks()
        self._ear: asyncio.Task[None] | None = None

    @property
    def carries(self) -> bool:
        """Whether a join leaves an entry of another lock in the same request."""
        return self._steps.carries

    async def start(self) -> None:
        """Announce the session, and renew it from now on."""
        sent_at, past = await self._steps.open()
        self._run = past.run
        self._told.renewed(sent_at)
        self._learn_of_past(past)
        for work in (self._renew(), self._watch()):
            self._tasks.run(self._to_the_end(work))
        self._tasks.run(self._witness.run())
        listening = self._steps.listen(self._hear, self._told.mail)
        self._ear = asyncio.ensure_future(self._to_the_end(listening))

    async def close(self) -> None:
        """End the session and remove all of its entries."""
        is_over, self._lost = bool(self._lost), self._lost or "it was closed"
        self._stop()
        ear, self._ear = self._ear, None
        try:
            if ear is not None:
                ear.cancel()
                await asyncio.gather(ear, return_exceptions=True)
            await self._tasks.done()  # a request that is under way is not cancelled
        finally:
            try:
                await self._steps.close(is_over=is_over)
            finally:
                await self._tasks.end()

    async def _to_the_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what a session is nothing without: whatever ends it ends the session."""
        try:
            await work
        finally:
            self._end("its work has ended")

    def _end(self, reason: str) -> None:
        if not self._lost:
            self._lost = reason
            self._stop()
            self._told.lost(reason)

    def _stop(self) -> None:
        """End waits and pauses."""
        self._witness.stop()
        self._renew_now.set()
        self._ended.set()
        self._news.set()
        for entry in self._entries.values():
            if entry.waiting is not None and not entry.waiting.done():
                entry.waiting.set_exception(SessionLost(self._lost))

    def _wake_all(self) -> None:
        """Look at all entries."""
        for entry in self._entries.values():
            entry.news = True
        self._news.set()

    def _hear(self, lock: str = "") -> None:
        """Look at the entries that there are news of."""
        if lock:
            self._wake(lock)
        else:
            self._wake_all()

    async def _ask(self, step: Awaitable[AnswerT]) -> AnswerT:
        """Wait for a step in the name of the session, which is over where the server says so."""
        try:
            return await step
        except SessionLost:
            self._end(LAPSED)
            raise SessionLost(self._lost) from None

    def _check(self) -> None:
        if self._lost:
            raise SessionLost(self._lost)

    # The lease

    async def _renew(self) -> None:
        pause = self._period
        while not self._lost:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._renew_now.wait()
            self._renew_now.clear()
            try:
                self._check()
                pause = await self._renew_once()
            except SessionLost:
                return
            except CoterieError:
                pause = RETRY_SECONDS

    async def _renew_once(self) -> float:
        """Move the counter on by compare-and-set; return after how many seconds to do so again."""
        if self._is_doubtful:
            # A renewal was not answered. It may have been carried out: that keeps the session, but the lease is
            # counted from answers alone.
            found = await self._ask(self._steps.find())
            if found not in (self._counter, self._counter + 1):
                self._end(LAPSED)
                raise SessionLost(self._lost)
            self._counter = found
        was_doubtful, self._is_doubtful = self._is_doubtful, True
        renewal = await self._ask(self._steps.renew(self._counter))
        if renewal is None:
            if was_doubtful:
                return RETRY_SECONDS  # one that was late came between
            self._end(LAPSED)
            raise SessionLost(self._lost)
        self._is_doubtful = False
        self._counter += 1
        if renewal.past.run != self._run:
            await self._compare(renewal.past.run)
        self._told.renewed(renewal.sent_at)
        self._learn(renewal)
        if renewal.entries > len(self._entries):
            await self._disown()
        return self._period

    @property
    def _period(self) -> float:
        """The time from one renewal to the next, which is also how late the end of another session may be noticed."""
        period = self.lease / BEATS_PER_LEASE
        return period / 2 if self._steps.renews_by_reading else period

    def _learn(self, renewal: Renewal) -> None:
        """Observe the past, and the neighbour: so those that live observe all sessions."""
        self._learn_of_past(renewal.past)
        found = [renewal.neighbour, *renewal.others] if renewal.neighbour else []
        self._neighbour.keep(each.name for each in found)
        for each in found:
            self._neighbour.saw(*each, system.now())
        self._news.set()

    async def _compare(self, run: str) -> None:
        """Compare our holds on another run of the server: it may have come up with an older state.

        Then it may have our session, which goes on to be renewed, and not an entry which we hold a lock by. No
        one is let in on that run before the leases of the former one are over; ours is not renewed there.
        """
        found = await self._ask(self._steps.own())
        held = {ticket for ticket, entry in self._entries.items() if entry.is_held}
        if not held <= set(found):
            self._end(OLDER)
            raise SessionLost(self._lost)
        self._run = run

    async def _disown(self) -> None:
        """Remove entries of ours that no task knows: an older state of the server, or a request that came late."""
        for ticket in await self._ask(self._steps.own()):
            if ticket not in self._entries:
                await self._ask(self._steps.leave(ticket))

    async def _pause(self, seconds: float) -> None:
        """Do nothing for a while, unless the session ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    # Entries

    async def join(self, ticket: Ticket, author: Author, leaving: Ticket | None) -> int | None:
        """Enter the queue, and see at once who is before us."""
        self._check()
        entry = self._entries[ticket] = OwnEntry()
        left = self._entries.get(leaving) if leaving is not None else None
        if left is not None:
            left.is_held = False
        past, sight = await self._ask(
            self._steps.join(ticket, author, leaving if left is not None else None)
        )
        if leaving is not None:
            self._entries.pop(leaving, None)
            self._wake(leaving.lock, but=ticket)  # which has been looked at since
        self._learn_of_past(past)
        self._news.set()
        return self._number(ticket, entry, sight) or None

    async def wait(self, ticket: Ticket) -> int:
        """Wait until a look has found the entry inside."""
        self._check()
        entry = self._entries[ticket]
        entry.waiting = asyncio.get_running_loop().create_future()
        self._news.set()
        try:
            return await entry.waiting
        finally:
            entry.waiting = None

    async def leave(self, ticket: Ticket) -> None:
        """Remove an entry, and wake those who are inside now."""
        self._check()
        entry = self._entries.get(ticket)
        if entry is not None:
            entry.is_held = False
            await self._ask(self._steps.leave(ticket))
            self._entries.pop(ticket, None)
            self._wake(ticket.lock)

    def _wake(self, lock: str, *, but: Ticket | None = None) -> None:
        """Look at our entries of a lock that an entry has left."""
        for ticket, entry in self._entries.items():
            if ticket.lock == lock and ticket != but:
                entry.news = True
                self._news.set()

    def _number(self, ticket: Ticket, entry: OwnEntry, sight: Sight) -> int:
        """Observe what is before an entry; return its number if that is not in its way, else 0.

        Called as soon as the answer has arrived that shows it. Whether our own lease is in force then is asked
        by the one who waits.
        """
        now = system.now()
        in_the_way = False
        for each in sight.before:
            if each.counted is None:
                self._over.add(each.session)
                continue
            if each.session != self._id:
                self._observed.saw(*each.counted, now)
            in_the_way = in_the_way or not (ticket.shared and each.shared)
        if in_the_way or not self._is_open:
            return 0
        entry.is_held = True
        self._steps.known = max(self._steps.known, sight.number)
        return sight.number

    # What is before us

    async def _watch(self) -> None:
        """Look at the entries that have news, and at the sessions before us; remove those that are over."""
        while not self._lost:
            next_at = min(self._observed.next_at(), self._neighbour.next_removal_at())
            try:
                async with asyncio.timeout(max(0.0, min(next_at - system.now(), self.lease))):
                    await self._news.wait()
            except TimeoutError:
                if system.now() < next_at:
                    self._wake_all()  # no news for a lease: some may have been lost
            self._news.clear()
            try:
                await self._bury(system.now())
                await self._look(system.now())
                self._witness.look_at(self._observed.sessions)
            except SessionLost:
                return
            except CoterieError:
                await self._pause(RETRY_SECONDS)
                self._wake_all()

    async def _look(self, now: float) -> None:
        """Look at what has news; if it is time for the sessions before us, at all in one request."""
        waiting = {t: e for t, e in self._entries.items() if e.waiting and not e.waiting.done()}
        is_time = bool(self._observed.looks(now))
        asked = waiting if is_time else {t: e for t, e in waiting.items() if e.news}
        if asked or (is_time and not self._is_open):
            for entry in asked.values():
                entry.news = False
            past, sights = await self._ask(self._steps.look(list(asked)))
            self._learn_of_past(past)
            for ticket, entry in asked.items():
                self._answer(ticket, entry, sights.get(ticket))
            before = {each.session for sight in sights.values() for each in sight.before}
        else:
            before = set()
        if is_time:
            self._observed.keep(before if self._is_open else before | {PAST})

    def _answer(self, ticket: Ticket, entry: OwnEntry, sight: Sight | None) -> None:
        """End a wait whose entry is inside, or was removed by hand: then it joins again."""
        number = self._number(ticket, entry, sight) if sight is not None else 0
        if entry.waiting is None or entry.waiting.done():
            return
        if sight is None:
            entry.waiting.set_exception(Unavailable(f"{self._server}: the entry is gone"))
        elif number:
            entry.waiting.set_result(number)

    async def _bury(self, now: float) -> None:
        """Remove sessions that were silent for their whole lease; open a run whose past is over."""
        for observed in (self._observed, self._neighbour):
            for name, counter in observed.due(now):
                if name == PAST:
                    await self._ask(self._steps.open_past(str(counter)))
                    past, _ = await self._ask(self._steps.look([]))
                    self._learn_of_past(past)
                elif await self._ask(self._steps.remove(name, int(counter))):
                    observed.forget(name)
                    self._wake_all()  # news of what we do ourselves goes to others
                    logger.info(
                        "%s: session %s was silent for its lease, and is removed",
                        self._server,
                        name,
                        extra={"event": "session-removed"},
                    )
        await self._sweep()

    async def _bury_dead(self, name: str, life: str) -> bool:
        """Remove a session whose program is gone, as its neighbour on the same machine has seen."""
        if not await self._ask(self._steps.bury(name, life)):
            return False
        self._observed.forget(name)
        self._wake_all()
        return True

    async def _sweep(self) -> None:
        """Remove the entries of sessions that are over."""
        while self._over:
            name = next(iter(self._over))
            await self._ask(self._steps.sweep(name))
            self._over.discard(name)
            self._wake_all()

    def _learn_of_past(self, past: ServerPast) -> None:
        """Note whether the run is open, whose past is a session that no process renews."""
        was_open, self._is_open = self._is_open, past.is_open
        if past.is_open:
            self._observed.forget(PAST)
            self._told.closed("", system.now())
            if not was_open:
                self._wake_all()
        else:
            self._observed.saw(PAST, past.run, past.lease, system.now())
            self._told.closed("it was restarted", self._observed.removal_at(PAST))

    # The end of programs, seen on this machine

    async def live(self, life: str) -> None:
        """Write down by which processes we are known, at once."""
        self._check()
        if not await self._ask(self._steps.live(life)):
            self._renew_now.set()

    # Orders of operators

    async def condemn(self, lock: str, participant: str) -> float | None:
        """Let no renewal of the session succeed by which a participant is inside."""
        self._check()
        return await self._steps.condemn(lock, participant)

    @property
    def values(self) -> ValueStore | None:
        """The values of locks, where the steps of this server keep some."""
        return self._steps.values if isinstance(self._steps, ValueSession) else None

    # Questions and mail

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Read queues, all at one moment."""
        self._check()
        return {} if locks is not None and not locks else await self._steps.lines(locks)

    async def send(self, participant: str, letter: bytes) -> None:
        """Send a letter."""
        self._check()
        await self._steps.send(participant, letter)
