"""The tickets of this process in the queues of a server, and the session that keeps them.

Time. A hold is in force until `sound_until`: the sending of the last renewal that was confirmed, plus
the lease, less what clocks may differ. Our entries are removed no earlier than a lease after the server
has received that renewal, so no other process is let in before. When `sound_until` passes, the
session is given up for good: no later answer revives it, and its holders are told at once.

Keeping. A lock that is released stays in our name if it was used here lately and no other process
waits for it. It is held by no task, so this is as safe as a hold; its price is liveness: a process
that is suspended while it keeps a lock delays others by a lease. A process that had to wait for a
lock takes it for wanted: it keeps nothing, and passes it on only within its turns. So does one that
finds it free a moment after others wanted it: they have not gone, they are about to ask again.

Passing on. A program that gives a lock back often asks for one at once: for the same one if it fights
for it, or for the next. So a lock goes back some turns of the event loop late, and a request that comes
meanwhile leaves the old entry and joins in one message; see `offers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import logging
import math
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from coterie import system
from coterie.engines.queue.mail import Knock, encode
from coterie.engines.queue.observation import CLOCK_RATE_ERROR
from coterie.engines.queue.offers import Offers
from coterie.engines.queue.server import Author, SessionLost, Ticket
from coterie.engines.queue.witness import SeenSession
from coterie.errors import ConfigError, CoterieError, Unavailable
from coterie.locks.breaker import BROKEN
from coterie.system.aio import Tasks, is_cancelled
from coterie.system.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coterie.engines.queue.server import QueueSession, Server
    from coterie.locks.leases.group import LeaseGroup

TIMES_MAX = 1 << 10  # tokens per number: a lock can be taken that often without asking the server
KEPT_SECONDS_MAX = 2.0  # without use
KNOWN_MAX = 4096  # names that were used lately
KNOCK_SECONDS = 0.005  # before a process inside is asked to hurry: most are out by then
KNOCK_LATE_SECONDS = (
    0.05  # the same where all know that others wait, but for one that has just come
)
WANTED_SECONDS = 0.1  # that a lock is taken for wanted after another process has wanted it
RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5)
SILENT_SECONDS = 1.0  # without a session, before the log says so
CALLS_MAX = 32  # joins and leaves under way; a renewal waits behind no more of them
GOODBYE_SECONDS_MAX = 1.0
LAPSED = "its lease could not be renewed in time"

logger = logging.getLogger("coterie.engines")


AnswerT = TypeVar("AnswerT")


class BidState(enum.Enum):
    """What has become of a bid."""

    ASKED = "asked"
    HELD = "held"
    KEPT = "kept"
    LOST = "lost"
    ENDING = "ending"  # lost to its tasks, and to be given back when their command has ended


class QueueBid:
    """A request of this process for a lock, from the asking to its end."""

    __slots__ = (
        "given_up",
        "knock",
        "number",
        "session",
        "state",
        "ticket",
        "times",
        "trouble",
        "used_at",
        "waiting",
        "wanted",
        "writes",
    )

    def __init__(self, ticket: Ticket) -> None:
        """Begin to ask."""
        self.ticket = ticket
        self.state = BidState.ASKED
        self.session: QueueSession | None = None  # in which it has joined
        self.number = 0
        self.times = 0  # that the lock was taken again since it was granted
        self.wanted = False
        self.given_up = False
        self.trouble = ""  # why the server does not take it into the queue
        self.used_at = 0.0
        self.writes = 0  # of the value, of which it is not known yet what has become of them
        self.waiting: asyncio.Future[int] | None = None
        self.knock: asyncio.TimerHandle | None = None  # the next one, while it waits

    @property
    def token(self) -> int:
        """The fencing token of the present hold."""
        return self.number * TIMES_MAX + self.times


class Ear:
    """Hears what one session says; a session that was given up has no say any more."""

    def __init__(self, desk: Desk) -> None:
        """Pass on to the desk what is said."""
        self._desk = desk

    def renewed(self, sent_at: float) -> None:
        """Pass on that a renewal was confirmed."""
        self._desk.renewed(self, sent_at)

    def lost(self, reason: str) -> None:
        """Pass on that the session is over."""
        self._desk.lost(self, reason)

    def closed(self, reason: str, until: float) -> None:
        """Pass on why no lock is granted."""
        self._desk.closed(self, reason, until)

    def mail(self, letter: bytes) -> None:
        """Pass on a letter."""
        self._desk.mail(letter)


class Desk:
    """Plays the supply of a group of claims; it is its own stock."""

    def __init__(
        self,
        server: Server,
        lease: float,
        process: str,
        group: LeaseGroup[Desk],
        mail: Callable[[bytes], None],
        *,
        life: Callable[[], str] = str,
    ) -> None:
        """Prepare; `open` begins the first session.

        Args:
            server: Where the queues are.
            lease: That is asked for.
            process: How people find this one: host:pid.
            group: Is told what becomes of requests and holds.
            mail: Takes letters of other processes.
            life: Names the processes of this program; empty if none is to see its end.
        """
        self._life = life
        self.name = system.secret(8).hex()  # also the address of our mail
        self.lease = lease
        self.mail = mail
        self.stock = self
        self.bids: dict[str, QueueBid] = {}
        self.cached: dict[str, None] = {}
        # Entries of claims that wait for our own sharing to end.
        self._announced: dict[str, QueueBid] = {}
        self._offers = Offers(self._begin_to_leave)
        self.sound_until = -math.inf
        self.session: QueueSession | None = None
        self._ear: Ear | None = None  # that hears what the present session says
        self._server = server
        self._process = process
        self._group = group
        self.trouble = "no session was opened"
        self._mistake: CoterieError | None = None  # why none can be, as long as it is not corrected
        self._closed_for, self._closed_until = "", -math.inf  # why no lock is granted
        self._attempts = itertools.count(1)
        self._known: OrderedDict[str, None] = OrderedDict()  # names that were used lately
        self._wanted_at: OrderedDict[str, float] = OrderedDict()  # when others wanted them
        self._leaves: dict[str, asyncio.Future[None]] = {}  # under way, the last of each lock
        self._tasks = Tasks()
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self._ready = asyncio.Event()
        self._closed = False
        self._sweep: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None  # of the lease, unless it is renewed
        self._alarm = Alarm(self._check_lease)

    # Sessions

    async def open(self) -> None:
        """Begin a session; raises `Unavailable` or `ConfigError`."""
        ear = self._ear = Ear(self)
        self._closed_for = ""
        self.sound_until = -math.inf
        session = await self._server.open(self.name, ear, self.lease)
        if self._ear is not ear or self._closed:
            await _end(session)
            raise Unavailable(f"{self._server}: {self.trouble}")
        self.session = session
        self.lease = session.lease
        self._ready.set()
        self._check_lease()
        self.live()

    def live(self) -> None:
        """Say by which processes this program is known, where the server can tell others."""
        session, life = self.session, self._life()
        if life and isinstance(session, SeenSession):
            self._tasks.run(_say(session, life))

    def begin(self) -> None:
        """Begin a session as soon as the server can be reached; requests wait for it."""
        self._tasks.run(self._open_at_last())

    def stop(self) -> None:
        """Accept nothing more; `close` waits until the server knows it."""
        self._closed = True
        self._offers.close()
        for timer in (self._sweep, self._end):
            if timer is not None:
                timer.cancel()
        self._alarm.close()

    async def close(self) -> None:
        """End the session; entries that are still there go with it."""
        self.stop()
        session, self.session = self.session, None
        self._ready.clear()
        if session is not None:
            await _end(session)
        await self._tasks.end()

    def renewed(self, ear: Ear, sent_at: float) -> None:
        """Count the lease from the sending of a renewal that was confirmed.

        One that is confirmed after the hold has lapsed comes too late: `valid` may have said no.
        What a former session says does not count for this one.
        """
        if ear is not self._ear:
            return
        if self.session is not None and system.now() >= self.sound_until:
            self._lose(LAPSED)
            return
        self.sound_until = max(self.sound_until, sent_at + self.lease * (1 - CLOCK_RATE_ERROR))
        self._alarm.set(self.sound_until)

    def lost(self, ear: Ear, reason: str) -> None:
        """Take note that the session is over, unless it was given up before."""
        if ear is self._ear:
            self._lose(reason)

    def closed(self, ear: Ear, reason: str, until: float) -> None:
        """Take note that the server grants no lock until then, or that it does again."""
        if ear is self._ear:
            self._closed_for, self._closed_until = reason, until

    def _lose(self, reason: str) -> None:
        """Give up the session: tell the holders, and begin another one."""
        session, self.session = self.session, None
        self._ear = None
        self.trouble = reason
        if session is None:
            return  # it was not quite open: that fails
        self._ready.clear()
        self.sound_until = -math.inf
        logger.warning(
            "%s: the session is lost: %s", self._server, reason, extra={"event": "session-lost"}
        )
        for lock, bid in list(self.bids.items()):
            if bid.state is BidState.KEPT:
                self._forget(lock)
            elif bid.state is BidState.HELD:
                bid.state = BidState.LOST
                self._group.lose(lock, bid.token, reason)
        self._tasks.run(self._begin_again(session))

    async def _begin_again(self, former: QueueSession) -> None:
        await _end(former)
        await self._open_at_last()

    async def _open_at_last(self) -> None:
        began_at, was_said = system.now(), False
        for pause in itertools.chain(RETRY_SECONDS, itertools.repeat(RETRY_SECONDS[-1])):
            if self._closed:
                return
            try:
                await self.open()
            except CoterieError as error:
                self.trouble = str(error)
                self._mistake = None if isinstance(error, Unavailable) else error
                if not was_said and system.now() - began_at >= SILENT_SECONDS:
                    was_said = True
                    logger.warning(
                        "%s; requests for its locks wait", error, extra={"event": "session-awaited"}
                    )
                await asyncio.sleep(pause)
            else:
                self._mistake = None
                return

    def _check_lease(self) -> None:
        """Ring at the end of the lease, which each renewal moves on."""
        if self._closed or self.session is None:
            return
        left = self.sound_until - system.now()
        if left <= 0:
            self._lose(LAPSED)
            return
        if self._end is not None:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(left, self._check_lease)
        self._alarm.set(self.sound_until)

    # What the group calls to ask for locks

    def new_age(self) -> int:
        """Return the age of a claim that begins to wait behind others here."""
        return next(self._attempts)

    def acquire(self, lock: str, *, shared: bool, age: int = 0, writer: int = 0) -> None:
        """Ask for a lock, alone or shared; the server knows the order by the queue alone."""
        leaving = self._offers.take(lock)
        if lock in self.bids:  # kept, but in the other mode, or its tokens are used up
            leaving = self._forget(lock)
        self._ask(lock, shared=shared, writer=writer, leaving=leaving)

    def release(self, lock: str) -> None:
        """Give a lock back; that is sent, and not waited for."""
        self._offers.add(self._forget(lock))

    def _begin_to_leave(self, bid: QueueBid) -> None:
        self._tasks.run(self._leave(bid))

    def reenter(self, lock: str, *, shared: bool, age: int = 0, writer: int = 0) -> None:
        """Give a lock back and ask for it again, in one message."""
        self._ask(lock, shared=shared, writer=writer, leaving=self._forget(lock))

    def announce(self, lock: str, writer: int) -> None:
        """Put an entry into the queue that wants the lock alone, behind our own that shares it."""
        announced = self._announced.get(lock)
        if writer and announced is None:
            announced = self._announced[lock] = QueueBid(Ticket(lock, False, next(self._attempts)))
            self._tasks.run(self._obtain(announced, None))
        elif not writer and announced is not None:
            del self._announced[lock]
            self._give_up(announced)

    def withdraw(self, lock: str) -> None:
        """Give up waiting. A join that is under way is not cancelled: it leaves when it has ended."""
        self._give_up(self._forget(lock))

    def _give_up(self, bid: QueueBid) -> None:
        bid.given_up = True
        if bid.waiting is not None:
            bid.waiting.cancel()

    def _ask(self, lock: str, *, shared: bool, writer: int, leaving: QueueBid | None) -> None:
        if not shared and lock in self._announced:
            # It stands in the queue already, and cannot be inside before our entry that shares leaves.
            self.bids[lock] = self._announced.pop(lock)
            if leaving is not None:
                self._tasks.run(self._leave(leaving))
            return
        bid = self.bids[lock] = QueueBid(Ticket(lock, shared, next(self._attempts)))
        self._tasks.run(self._obtain(bid, leaving))
        if shared:
            self.announce(lock, writer)

    def _forget(self, lock: str) -> QueueBid:
        self.cached.pop(lock, None)
        return self.bids.pop(lock)

    async def _obtain(self, bid: QueueBid, leaving: QueueBid | None) -> None:
        """Stand in the queue until we are inside, over as many sessions as that takes."""
        author = Author(self.name, self._process, system.wall())
        while not self._is_over(bid):
            if (gone := self._leaves.get(bid.ticket.lock)) is not None:
                # Behind an entry of our own that is about to go we would take the lock for wanted.
                await asyncio.wait([gone])
            try:
                async with self._calls:
                    session = await self._present(bid)
                    if self._is_over(bid):
                        break
                    leaving = self._entry_to_leave(session, bid, leaving)
                    number = await self._join(session, bid, author, leaving)
                leaving, bid.trouble = None, ""
                if number is None and not bid.given_up:
                    bid.wanted = True
                    number = await self._wait(session, bid)
                    self._note_wanted(bid.ticket.lock)
            except SessionLost:
                continue
            except Unavailable as error:
                self.trouble = bid.trouble = str(error)
                await self._step_aside(leaving)
                leaving = None
                continue
            except CoterieError as error:  # nothing that time will mend, such as a lack of rights
                self._refuse(bid, error)
                break
            if bid.given_up:
                break
            # The session that has joined must be the one that is sound now: a lock that the server
            # grants to a session that is over is no lock.
            if session is not self.session or system.now() >= self.sound_until or number is None:
                continue
            if self._announced.get(bid.ticket.lock) is not bid:
                self._enter(bid, number)
                return
            await self._step_back(bid)
        if leaving is not None:
            await self._leave(leaving)
        await self._leave(bid)

    def _entry_to_leave(
        self, session: QueueSession, bid: QueueBid, leaving: QueueBid | None
    ) -> QueueBid | None:
        """Choose what a join leaves: what it takes over, or else an entry that is given back just now."""
        if leaving is not None and leaving.session is session:
            return leaving  # others went with their sessions
        # Not in a further try: where the first one was carried out, nothing is left with it.
        return None if bid.trouble else self._offers.take_other(session)

    async def _join(
        self, session: QueueSession, bid: QueueBid, author: Author, leaving: QueueBid | None
    ) -> int | None:
        """Enter the queue, and leave another entry in the same message."""
        if leaving is None:
            return await answer_of(session.join(bid.ticket, author, None))
        # A request for that lock waits for this as for any leave, and this waits for no other one: so no two of
        # them wait for each other.
        lock = leaving.ticket.lock
        gone = self._leaves[lock] = asyncio.get_running_loop().create_future()
        try:
            return await answer_of(session.join(bid.ticket, author, leaving.ticket))
        finally:
            self._note_left(lock, gone)

    def _note_left(self, lock: str, gone: asyncio.Future[None]) -> None:
        gone.set_result(None)
        if self._leaves.get(lock) is gone:
            del self._leaves[lock]

    def _is_over(self, bid: QueueBid) -> bool:
        return bid.given_up or self._closed

    async def _present(self, bid: QueueBid) -> QueueSession:
        """Wait for a session, in which the bid has an entry of its own."""
        while self.session is None:
            await self._ready.wait()
        if bid.session is not self.session:
            # An entry of a former session goes with it, soon or late: it must not be taken for this one.
            bid.session = self.session
            bid.ticket = bid.ticket._replace(attempt=next(self._attempts))
        return self.session

    async def _step_aside(self, leaving: QueueBid | None) -> None:
        """Let others go on before we try again: a server that is full lets entries go, and takes none."""
        if leaving is not None:
            await self._leave(leaving)
        await asyncio.sleep(RETRY_SECONDS[-1])

    async def _step_back(self, bid: QueueBid) -> None:
        """Let our own sharing, behind which the bid was to wait, have its place in the queue."""
        await self._leave(bid)
        bid.session = None
        await asyncio.sleep(RETRY_SECONDS[0])

    def _refuse(self, bid: QueueBid, error: CoterieError) -> None:
        """Let the claims fail that a bid was for, unless it was given up."""
        lock = bid.ticket.lock
        if bid in (self.bids.get(lock), self._announced.get(lock)):
            self._group.refuse(lock, error)

    async def _wait(self, session: QueueSession, bid: QueueBid) -> int | None:
        """Wait until it is our turn; None if the wait was given up."""
        bid.waiting = asyncio.ensure_future(session.wait(bid.ticket))
        delay = KNOCK_LATE_SECONDS if self._was_wanted(bid.ticket.lock) else KNOCK_SECONDS
        self._plan_knock(session, bid, delay)
        try:
            return await answer_of(bid.waiting)
        except SessionLost:
            if bid.given_up and not self._closed:
                return None
            raise
        except asyncio.CancelledError:
            bid.waiting.cancel()
            raise
        finally:
            if bid.knock is not None:
                bid.knock.cancel()
            bid.knock = bid.waiting = None

    def _plan_knock(self, session: QueueSession, bid: QueueBid, delay: float) -> None:
        """Knock after a while, and again and again, for mail may be lost."""

        def knock() -> None:
            self._tasks.run(self._knock(session, bid.ticket.lock))
            self._plan_knock(session, bid, max(self.lease, 2 * delay))

        bid.knock = asyncio.get_running_loop().call_later(delay, knock)

    async def _knock(self, session: QueueSession, lock: str) -> None:
        """Tell the processes inside that another one waits, if we are the next.

        Behind others it is not for us to tell: each of them had to wait, so it takes the lock for
        wanted, and one that gives up has told what we would.
        """
        with contextlib.suppress(SessionLost, CoterieError):
            line = (await session.lines([lock])).get(lock, [])
            following = [entry.author.participant for entry in line if not entry.inside]
            if following[:1] != [self.name]:
                return
            for entry in line:
                if entry.inside and entry.author.participant != self.name:
                    await session.send(entry.author.participant, encode(Knock(lock)))

    async def _leave(self, bid: QueueBid) -> None:
        """Remove an entry from the server, unless it goes with its session."""
        lock = bid.ticket.lock
        gone = self._leaves[lock] = asyncio.get_running_loop().create_future()
        try:
            await self._remove(bid)
        finally:
            self._note_left(lock, gone)

    async def _remove(self, bid: QueueBid) -> None:
        while bid.session is not None and bid.session is self.session and not self._closed:
            try:
                async with self._calls:
                    await answer_of(bid.session.leave(bid.ticket))
            except SessionLost:
                return
            except CoterieError as error:
                self.trouble = str(error)
                await asyncio.sleep(RETRY_SECONDS[-1])
            else:
                return

    def _enter(self, bid: QueueBid, number: int) -> None:
        bid.state = BidState.HELD
        bid.number = number
        bid.wanted = bid.wanted or self._was_wanted(bid.ticket.lock)
        self._group.acquired(bid.ticket.lock, bid.token)

    async def revoke(self, lock: str, token: int, *, runs_command: bool) -> bool:
        """End a hold, as an operator wants it, if its token is not above this one; return whether there was one.

        Its tasks are told before the entry goes, so none of them is valid when another process enters. It goes
        although they may go on; but a command that runs under it is ended first, while the lease is renewed.
        """
        bid = self.bids.get(lock)
        if bid is None or bid.state is not BidState.HELD or bid.token > token:
            if bid is not None and bid.state is BidState.KEPT:
                self.release(lock)
            return bid is not None and bid.state in (BidState.LOST, BidState.ENDING)
        bid.state = BidState.ENDING if runs_command else BidState.LOST
        self._group.lose(lock, bid.token, BROKEN)
        if (
            not runs_command and self.bids.get(lock) is bid
        ):  # else a task that waits here joins in its place
            await self._leave(bid)
            bid.session = None  # there is nothing to be given back when its tasks release it
        return True

    def knocked(self, lock: str) -> None:
        """Note that another process waits for a lock; one that is only kept goes back at once."""
        bid = self.bids.get(lock)
        if bid is not None:
            self._note_wanted(lock)
            bid.wanted = True
            if bid.state is BidState.KEPT:
                self.release(lock)

    def _note_wanted(self, lock: str) -> None:
        """Remember that another process has wanted a lock just now."""
        self._wanted_at[lock] = system.now()
        self._wanted_at.move_to_end(lock)
        if len(self._wanted_at) > KNOWN_MAX:
            self._wanted_at.popitem(last=False)

    def _was_wanted(self, lock: str) -> bool:
        wanted_at = self._wanted_at.get(lock)
        return wanted_at is not None and system.now() - wanted_at < WANTED_SECONDS

    # What the group calls to use what we have

    def try_reacquire(self, lock: str, now: float, *, shared: bool) -> int:
        """Take a lock that is kept, and return its token; 0 if the server has to be asked."""
        bid = self.bids.get(lock)
        if (
            bid is None
            or bid.state is not BidState.KEPT
            or not self._begin_next(bid, now, shared=shared)
        ):
            return 0
        del self.cached[lock]
        bid.state = BidState.HELD
        return bid.token

    def try_pass_on(self, lock: str, now: float, *, shared: bool) -> int:
        """Let the next task have a lock that is held, and return the token; 0 if that cannot be."""
        bid = self.bids.get(lock)
        if (
            bid is None
            or bid.state is not BidState.HELD
            or not self._begin_next(bid, now, shared=shared)
        ):
            return 0
        return bid.token

    def _begin_next(self, bid: QueueBid, now: float, *, shared: bool) -> bool:
        """Use up a token of the same entry, if one is left and the hold is in force.

        A write of the value that is under way rests on the entry: it must not take effect in the next hold.
        """
        if bid.ticket.shared is not shared or bid.times + 1 == TIMES_MAX or now >= self.sound_until:
            return False
        if bid.writes:
            return False
        bid.times += 1
        return True

    def try_release(self, lock: str, now: float) -> bool:
        """Keep a lock that is not used any more; return False if it has to go back."""
        bid = self.bids[lock]
        is_known = self._note_use(lock)
        if bid.state is not BidState.HELD or bid.wanted or not is_known or now >= self.sound_until:
            return False
        bid.state = BidState.KEPT
        bid.used_at = now
        self.cached[lock] = None
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(KEPT_SECONDS_MAX, self._sweep_kept)
        return True

    def _note_use(self, lock: str) -> bool:
        """Return whether a name was used lately: most names are used once, and cost nothing extra."""
        if lock in self._known:
            self._known.move_to_end(lock)
            return True
        self._known[lock] = None
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return False

    def _sweep_kept(self) -> None:
        """Give back what has not been used for a while."""
        self._sweep = None
        now = system.now()
        for lock in list(self.cached):
            if now - self.bids[lock].used_at >= KEPT_SECONDS_MAX:
                self.release(lock)
        if self.cached:
            self._sweep = asyncio.get_running_loop().call_later(KEPT_SECONDS_MAX, self._sweep_kept)

    def find(self, lock: str, token: int) -> QueueBid | None:
        """Return the bid by which a lock is held with that token in the present session."""
        bid = self.bids.get(lock)
        if bid is None or bid.state is not BidState.HELD or bid.token != token:
            return None
        return bid if bid.session is self.session else None

    def is_wanted(self, lock: str) -> bool:
        """Return True if another process waits for the lock, as far as we know."""
        bid = self.bids.get(lock)
        return bid is not None and bid.wanted

    def is_shared(self, lock: str) -> bool:
        """Return the mode of the request or the hold."""
        return self.bids[lock].ticket.shared

    def remaining(self, lock: str, now: float) -> float:
        """Return for how many seconds the hold is in force."""
        bid = self.bids.get(lock)
        if bid is None or bid.state not in (BidState.HELD, BidState.ENDING):
            return 0.0
        return max(0.0, self.sound_until - now)

    def valid(self, lock: str, now: float) -> bool:
        """Return True if the hold is in force."""
        return self.remaining(lock, now) > 0

    # Troubles

    def obstacle(self, lock: str) -> CoterieError | None:
        """Return what blocks a lock beside its holders.

        There is no session, or the server takes no request, or locks from before may be held.
        """
        if self.session is None:
            return self._unavailable(lock, self.trouble)
        bid = self.bids.get(lock)
        if bid is not None and bid.trouble:
            return self._unavailable(lock, bid.trouble)
        if not self._closed_for:
            return None
        left = max(0.0, self._closed_until - system.now())
        return Unavailable(
            f"lock {lock!r}: {self._server}: {self._closed_for}; locks from before may be held for"
            f" {left:.0f} s more"
        )

    def may_grant(self) -> bool:
        """Return True if there is a session."""
        return self.session is not None

    def hopeless(self, lock: str) -> CoterieError | None:
        """Return the mistake for which no session can be had; a server that is away will be back."""
        mistake = self._mistake
        return None if mistake is None else ConfigError(f"lock {lock!r}: {mistake}")

    def _unavailable(self, lock: str, trouble: str) -> Unavailable:
        shown = trouble.removeprefix(f"{self._server}: ")
        return Unavailable(f"lock {lock!r}: {self._server}: {shown}")


async def answer_of(call: Awaitable[AnswerT]) -> AnswerT:
    """Wait for a call of a session; raise `SessionLost` if it is cancelled and its caller is not.

    A session that is closed cancels the calls that are under way. For the caller that is no reason to end.
    """
    try:
        return await call
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        raise SessionLost("it was closed") from None


async def _say(session: SeenSession, life: str) -> None:
    with contextlib.suppress(CoterieError, SessionLost):  # then the end of its lease is seen
        await session.live(life)


async def _end(session: QueueSession) -> None:
    """End a session in bounded time, whatever the server says to it."""
    with contextlib.suppress(TimeoutError, SessionLost, CoterieError):
        async with asyncio.timeout(GOODBYE_SECONDS_MAX):
            await session.close()
