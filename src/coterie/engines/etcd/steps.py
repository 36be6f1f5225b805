"""The requests of one session with etcd.

The counter that others compare is moved only for those who count. A session whose hint has gone (`presence`) may be dead, so who is
in its way puts a challenge below its key, a third key with a revision of its own. A renewal reads the keys of its
session at a majority, which writes nothing. It finds no challenge, or deletes it: only an etcd that has carried that out
confirms it. The removal compares the revision of the challenge, after it has been there for a whole lease.

Why a holder knows of its loss first, then. A challenge that was there without a break from revision r to the removal was found by
no renewal in between, and deleted by none. So each renewal that was confirmed was carried out before r, and sent
before the answer arrived that showed r, from which the observer counts: the argument of `engines/queue/observation.py`,
with r for the counter. The lease of etcd says when to begin to count, and nothing else.

While no program has died, nothing is written for leases, however many wait. A challenge is answered by a deletion, which an etcd takes
that is out of space: so that ends no hold.

No transaction is made that only reads: etcd up to 3.5.6 dies of one whose client gives up waiting (etcd#14110, etcd#14891).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from coterie import system
from coterie.engines.cas.session import BEATS_PER_LEASE
from coterie.engines.cas.steps import CountedSession, EntryBefore, Renewal, ServerPast, Sight
from coterie.engines.etcd import keys
from coterie.engines.etcd import messages as api
from coterie.engines.etcd.presence import Presence
from coterie.engines.etcd.values import EtcdValues
from coterie.engines.etcd.watches import Watches
from coterie.engines.queue.nonsense import read_author, sensible
from coterie.engines.queue.observation import LOOKS_PER_LEASE, NEIGHBOURS
from coterie.engines.queue.server import QueueEntry, SessionLost, inside
from coterie.errors import CoterieError, Unavailable
from coterie.system.aio import Tasks

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Coroutine,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from coterie.engines.cas.steps import Wake
    from coterie.engines.etcd.channel import EtcdChannel
    from coterie.engines.etcd.keys import EtcdEntry, SessionState
    from coterie.engines.etcd.messages import KeyChange, KeyValue
    from coterie.engines.queue.server import Author, Ticket
    from coterie.errors import ConfigError

CALL_SECONDS_MAX = 5.0
OPERATIONS_MAX = 120  # in a transaction; etcd takes 128
PAGE = 1000  # keys
GRACES_PER_LEASE = 24
KEYS_PER_SESSION = 4  # and marks, which are rare
FOREVER = ServerPast("", is_open=True, lease=0.0)  # etcd forgets nothing that it has acknowledged

T = TypeVar("T")

_encode_author = msgspec.msgpack.Encoder().encode


class JoinedEntry:
    """An entry of ours that is there, as far as we know."""

    def __init__(self, number: int) -> None:
        """Begin with the revision in which it was created."""
        self.number = number
        self.before: list[EtcdEntry] = []  # in its way
        self.is_first = False  # as the end of the nearest one has shown
        self.is_there = True
        self._near = b""  # whose end is watched
        self._watching: asyncio.Task[None] | None = None

    @property
    def is_watched(self) -> bool:
        """Whether the nearest one is there still, as far as etcd has said."""
        return self._watching is not None and not self._watching.done()

    def watch(self, near: bytes, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Watch the end of the nearest one in its way, unless that is watched already."""
        if near != self._near or not self.is_watched:
            self.unwatch()
            self._near, self._watching = near, asyncio.ensure_future(work())

    def unwatch(self) -> None:
        """Watch nothing."""
        if self._watching is not None:
            self._watching.cancel()


class EtcdSteps:
    """The requests of one session."""

    carries = True
    renews_by_reading = (
        True  # and the hint of a dead session goes late, so that every part of a lease counts
    )

    def __init__(self, channel: EtcdChannel, session: str, participant: str, lease: float) -> None:
        """Prepare; the channel is open."""
        self.known = 0
        self._channel = channel
        self._session = session
        self._participant = participant
        self._lease = lease
        self._limit = min(CALL_SECONDS_MAX, lease)
        self._revision = 0  # of our record
        self._count = 0  # renewals that were confirmed
        self._is_crowded = False  # so many sessions that one answer has not all
        self._seen = 0  # the highest revision of any answer: an older one shows nothing new
        self._inspect_at = 0.0  # when to read again what stands below the sessions before us
        self._entries: dict[Ticket, JoinedEntry] = {}
        # A join of these was not answered, and may be carried out after they are left.
        self._doubtful: set[Ticket] = set()
        self._letters = itertools.count(1)
        self._tasks = Tasks()
        self._presence = Presence(channel, session, lease)
        self._wake: Wake = _sleep_on
        self._mail: Callable[[bytes], None] = _drop
        self._mailbox = keys.mailbox(participant)
        self._refusal: ConfigError | None = None
        self._watches = Watches(
            channel, self._mailbox, self._receive, self._look_for_mail, self._refuse
        )
        self.values = EtcdValues(channel, self._call, self._find_entry)

    # The session

    async def open(self) -> tuple[float, ServerPast]:
        """Write the record, which says by its absence that the session is over."""
        await self._presence.begin(self._limit)
        record = keys.encode_record(keys.EtcdSessionRecord(self._participant, self._lease))
        puts = [api.put(self._key, record, 0), self._presence.put()]
        sent_at = system.now()
        answer = await self._transact(
            [api.absent(self._key)], [api.chunk(2, each) for each in puts]
        )
        if not answer.succeeded:
            raise Unavailable(f"{self._channel}: the session is there already")
        self._revision = answer.revision
        self._tasks.run(self._presence.run())
        return sent_at, FOREVER

    async def find(self) -> int | None:
        """Return how many renewals were confirmed; one that was not has left nothing to be known of."""
        found = await self._read_newest(api.get(*keys.of_session(self._session)))
        with sensible(self._channel):
            own = keys.read_sessions(found).get(self._session)
        return self._count if own is not None and own.revision == self._revision else None

    async def renew(self, counter: int) -> Renewal | None:
        """Find no challenge, or delete it; see which sessions may be dead."""
        sent_at, states = await self._read_neighbours()
        own = states.pop(self._session, None)
        if own is None or own.revision != self._revision:
            return None
        if own.challenge:
            sent_at = system.now()
            await self._answer()
        if not own.is_present:
            self._presence.renew()
        self._count = counter + 1
        first = dict(itertools.islice(states.items(), NEIGHBOURS))
        found = [each for each in (await self._challenge(first)).values() if each and each.counter]
        return Renewal(sent_at, FOREVER, 0, found[0] if found else None, found[1:])

    async def _read_neighbours(self) -> tuple[float, dict[str, SessionState]]:
        """Read our session and the next ones in the order of names, around the end; return when that was sent.

        A majority is asked: what a member says that lags behind may be older than a challenge.
        """
        limit = KEYS_PER_SESSION * (NEIGHBOURS + 1)
        end, beat = keys.after(keys.SESSIONS), self._beat
        sent_at = system.now()
        if not self._is_crowded:
            found = await self._read_newest(api.get(keys.SESSIONS, end, limit=limit), beat)
            self._is_crowded = len(found) == limit
        if self._is_crowded:
            sent_at = system.now()
            found = await self._read_newest(api.get(self._key, end, limit=limit), beat)
            if len(found) < limit:
                found += await self._read_newest(
                    api.get(keys.SESSIONS, self._key, limit=limit), beat
                )
        with sensible(self._channel):
            states = keys.read_sessions(found)
        later = {name: state for name, state in states.items() if name >= self._session}
        return sent_at, later | states

    async def _answer(self) -> None:
        """Delete the challenge; where it is not there any more, the next renewal shows why."""
        request = api.delete(self._key + keys.CHALLENGE)
        if not await self._delete(request, self._beat):
            raise Unavailable(f"{self._channel}: a challenge has gone before it was answered")

    async def _challenge(
        self, states: Mapping[str, SessionState]
    ) -> dict[str, CountedSession | None]:
        """Challenge those of the sessions that may be dead; return all, None for each that is over."""
        counted: dict[str, CountedSession | None] = {
            name: _counted(name, state) for name, state in states.items()
        }
        silent = [n for n, s in states.items() if not (s.is_present or s.challenge)]
        for part in _parts(silent, OPERATIONS_MAX // 2):
            # It fails where one of them has ended, or etcd is out of space: the next look shows more.
            with contextlib.suppress(Unavailable):
                shown = await self._challenge_all(part)
                counted.update((name, _counted(name, state)) for name, state in shown.items())
        return counted

    async def _challenge_all(self, names: Sequence[str]) -> dict[str, SessionState]:
        written = await self._call("KV/Txn", keys.challenge(names))
        with sensible(self._channel):
            return keys.read_sessions(itertools.chain.from_iterable(api.done(written).reads))

    async def remove(self, session: str, counter: int) -> bool:
        """End a session whose challenge stands since then, with all that stands below it; then its entries."""
        if not counter:
            return False  # it was not challenged
        challenge = keys.session(session) + keys.CHALLENGE
        return await self._remove(session, [api.created(challenge, counter)])

    async def _remove(self, session: str, compare: Sequence[bytes]) -> bool:
        delete = api.chunk(3, api.delete(*keys.of_session(session)))
        answer = await self._transact(compare, [delete])
        if answer.succeeded:
            await self.sweep(session)
        return answer.succeeded

    async def live(self, life: str) -> bool:
        """Write it below the record."""
        put = api.chunk(2, api.put(self._key + keys.LIFE, life.encode(), 0))
        await self._transact([self._is_ours], [put])
        return True

    async def lives(self, sessions: Sequence[str]) -> dict[str, str]:
        """Read those of other sessions."""
        states = await self._states(sessions)
        return {name: state.life for name, state in states.items() if state.life}

    async def bury(self, session: str, life: str) -> bool:
        """End a session if it is known by these processes still."""
        key = keys.session(session) + keys.LIFE
        return await self._remove(session, [api.holds(key, life.encode())])

    async def sweep(self, session: str) -> None:
        """Delete the entries of a session that is over; who waits behind them hears of it."""
        every = _read_entries(await self._pages(keys_only=True))
        found = [e.key for e in every if e.counts and e.session == session]
        for part in _parts(found):
            deletes = [api.chunk(3, api.delete(key)) for key in part]
            await self._transact([api.absent(keys.session(session))], deletes)

    async def condemn(self, lock: str, participant: str) -> float | None:
        """Write the record again: no renewal succeeds from then on, and it is removed like one that is silent."""
        line = await self._line(lock)
        count = inside([entry.ticket.shared for entry in line])
        names = (
            e.session
            for e in line[:count]
            if e.counts and read_author(e.author).participant == participant
        )
        name = next(names, None)
        state = (await self._states([name])).get(name) if name else None
        if name is None or state is None:
            return None
        key = keys.session(name)
        put = api.chunk(2, api.put(key, keys.encode_record(state.record), 0))
        hint = api.chunk(3, api.delete(key + keys.HINT))
        answer = await self._transact([api.exists(key)], [put, hint])
        return state.record.lease if answer.succeeded else None

    async def open_past(self, run: str) -> None:
        """Do nothing: the past of etcd is never closed."""

    async def close(self, *, is_over: bool) -> None:
        """End the session with its entries, and disconnect."""
        for own in self._entries.values():
            own.unwatch()
        await self._tasks.end()
        try:
            with contextlib.suppress(CoterieError):
                if self._revision and not is_over:
                    await self._delete_all()
                await self._presence.end(self._limit)
        finally:
            await self._channel.close()

    async def _delete_all(self) -> None:
        """Delete our record first: a join that comes later than this is of no session."""
        entries = [keys.entry(each, self._session) for each in {*self._entries, *self._doubtful}]
        deletes = [api.delete(*keys.of_session(self._session)), *map(api.delete, entries)]
        for part in _parts(deletes):
            await self._transact([], [api.chunk(3, each) for each in part])

    # Entries

    async def join(
        self, ticket: Ticket, author: Author, leaving: Ticket | None
    ) -> tuple[ServerPast, Sight]:
        """Create our key and read the end of the queue in one transaction.

        Where the key is there already, an earlier request whose answer was lost has created it.
        """
        key = keys.entry(ticket, self._session)
        last = api.get(*keys.way(ticket), limit=2, order=api.DESCENDING, keys_only=True)
        then = [api.chunk(1, last), api.chunk(2, api.put(key, _encode_author(author), 0))]
        if leaving is not None:
            then[:0] = self._leaves(leaving)
        compare = [self._is_ours, api.absent(key), api.absent(keys.mark(ticket, self._session))]
        reads = [api.get(key, keys_only=True), api.get(self._key)]
        otherwise = [api.chunk(1, read) for read in reads]
        try:
            answer = await self._transact(compare, then, otherwise=otherwise)
        except BaseException:
            self._doubtful.add(ticket)
            raise
        if leaving is not None:
            self._forget(leaving)
        if not answer.succeeded:
            return await self._join_again(ticket, *answer.reads)
        own = self._entries[ticket] = JoinedEntry(answer.revision)
        before = _read_entries(reversed(answer.reads[0]))
        self._note_before(ticket, own, before, answer.revision)
        return FOREVER, self._sight(own, {})

    async def _join_again(
        self, ticket: Ticket, found: Sequence[KeyValue], record: Sequence[KeyValue]
    ) -> tuple[ServerPast, Sight]:
        if not record or record[0].changed != self._revision:
            raise SessionLost(f"{self._channel}: the session is over")
        if not found:
            raise Unavailable(f"{self._channel}: the entry is gone")
        self._entries[ticket] = JoinedEntry(found[0].created)
        past, sights = await self.look([ticket])
        if ticket not in sights:
            raise Unavailable(f"{self._channel}: the entry is gone")
        return past, sights[ticket]

    async def look(self, tickets: Sequence[Ticket]) -> tuple[ServerPast, dict[Ticket, Sight]]:
        """Read what is in the way of these entries, and at times what stands below the sessions of those."""
        for ticket in tickets:
            if (own := self._entries.get(ticket)) and not (own.is_first or own.is_watched):
                own.is_there = await self._read_way(ticket, own)
        names = self._to_inspect()
        shown = await self._states(names)
        if gone := set(names) - shown.keys():
            await self._read_again(gone)
        counted = dict.fromkeys(names, None) | await self._challenge(shown)
        there = {t: o for t in tickets if (o := self._entries.get(t)) and o.is_there}
        return FOREVER, {ticket: self._sight(own, counted) for ticket, own in there.items()}

    async def _read_again(self, gone: set[str]) -> None:
        """See whether entries are left of sessions that are over: most have left with them."""
        for ticket, own in list(self._entries.items()):
            if not own.is_first and any(e.session in gone for e in own.before):
                own.is_there = await self._read_way(ticket, own)

    def _to_inspect(self) -> list[str]:
        """Return the sessions before us if it is time to read them."""
        now = system.now()
        if now < self._inspect_at:
            return []
        self._inspect_at = now + self._lease / LOOKS_PER_LEASE / 2
        before = itertools.chain.from_iterable(own.before for own in self._entries.values())
        return sorted({e.session for e in before if e.counts} - {self._session})

    async def _read_way(self, ticket: Ticket, own: JoinedEntry) -> bool:
        """Read what is in the way of an entry; return False if the entry is not there."""
        answer = await self._read(_read_to(ticket, own.number))
        line = _read_entries(answer.keys)
        if not line or line[-1].number != own.number:
            return False
        before = [e for e in line[:-1] if not (ticket.shared and e.ticket.shared)]
        self._note_before(ticket, own, before, answer.revision)
        return True

    def _note_before(
        self, ticket: Ticket, own: JoinedEntry, before: list[EtcdEntry], seen: int
    ) -> None:
        """Hear of the end of the nearest entry in the way, which was there in the revision `seen`; none joins before us."""
        if not any(each.before for each in self._entries.values()):
            # Most waits are over before a look at the sessions is worth its request.
            self._inspect_at = system.now() + self._lease / GRACES_PER_LEASE
        own.before = before
        if before and self._entries.get(ticket) is own:
            near = before[-1]
            own.watch(near.key, partial(self._await_end, ticket, own, near, seen))

    def _sight(self, own: JoinedEntry, counted: Mapping[str, CountedSession | None]) -> Sight:
        """Return what is in the way of an entry; sessions that were not looked at are counted later."""
        before = [] if own.is_first else own.before
        unknown = {e.session: CountedSession(e.session, 0, self._lease) for e in before}
        known: dict[str, CountedSession | None] = {**unknown, **counted}
        return Sight(
            own.number, [EntryBefore(e.ticket.shared, e.session, known[e.session]) for e in before]
        )

    async def _await_end(
        self, ticket: Ticket, own: JoinedEntry, near: EtcdEntry, seen: int
    ) -> None:
        """Wake those who wait when an entry has gone, which was there in the revision `seen`."""
        waiting = await self._watches.until_deleted(near.key)
        try:
            since = await waiting.since()
            if since <= seen:
                gone = await waiting.ended
                self._seen = max(self._seen, gone.revision)
                # It was inside, alone, and passes that on: an entry is left and joined again at once only then.
                own.is_first = gone.passed_on and not near.ticket.shared
            elif math.isfinite(since):
                # It may have gone before the watch began, which would then be silent: that is to be looked at.
                self._seen = max(self._seen, int(since))
        finally:
            waiting.give_up()
        self._wake(ticket.lock)

    async def leave(self, ticket: Ticket) -> None:
        """Delete our key."""
        delete = api.delete(keys.entry(ticket, self._session))
        if ticket in self._entries and ticket not in self._doubtful:
            await self._delete(delete)
        else:
            try:
                otherwise = [api.chunk(3, delete)]
                await self._transact([self._is_ours], self._leaves(ticket), otherwise=otherwise)
            except Unavailable:  # a server that is full takes no marks
                await self._delete(delete)
                raise
        self._forget(ticket)

    def _leaves(self, ticket: Ticket) -> list[bytes]:
        """Return the operations that delete our key for good.

        Where a join was not answered, its request may still be under way and arrive later than this one, also if
        another one has created the key. A mark, which goes with our session, then stops it.
        """
        operations = [api.chunk(3, api.delete(keys.entry(ticket, self._session)))]
        if ticket in self._doubtful or ticket not in self._entries:
            operations.append(api.chunk(2, api.put(keys.mark(ticket, self._session), b"", 0)))
        return operations

    def _forget(self, ticket: Ticket) -> None:
        own = self._entries.pop(ticket, None)
        if own is not None:
            own.unwatch()
        self._doubtful.discard(ticket)

    def _find_entry(self, ticket: Ticket) -> list[bytes] | None:
        """Return what a transaction compares that is to take effect while an entry of ours is there."""
        own = self._entries.get(ticket)
        if own is None:
            return None
        return [api.created(keys.entry(ticket, self._session), own.number), self._is_ours]

    # Reading

    async def own(self) -> list[Ticket]:
        """Return all entries of the session."""
        every = _read_entries(await self._pages(keys_only=True))
        return [e.ticket for e in every if e.counts and e.session == self._session]

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Read queues; each lock is read at one revision."""
        if locks is None:
            every = _read_entries(await self._pages())
        else:
            every = [entry for lock in locks for entry in await self._line(lock)]
        living = await self._states({e.session for e in every if e.counts})
        lines: dict[str, list[EtcdEntry]] = {}
        for each in sorted(every, key=lambda e: e.number):
            if not each.counts or each.session in living:
                lines.setdefault(each.ticket.lock, []).append(each)
        return {lock: _shown(line) for lock, line in lines.items()}

    async def _line(self, lock: str) -> list[EtcdEntry]:
        start = keys.queue(lock)
        read = api.get(start, keys.after(start), order=api.ASCENDING)
        return _read_entries(await self._read_newest(read))

    async def _pages(self, *, keys_only: bool = False) -> list[KeyValue]:
        """Read all entries, some at a time."""
        found: list[KeyValue] = []
        start, end = keys.QUEUES, keys.after(keys.QUEUES)
        while True:
            read = api.get(start, end, limit=PAGE, keys_only=keys_only)
            page = await self._read_newest(read)
            found += page
            if len(page) < PAGE:
                return found
            start = page[-1].key + b"\0"

    async def _states(self, names: Collection[str]) -> dict[str, SessionState]:
        """Read sessions; those that are over are left out."""
        if not names:
            return {}
        if self._is_crowded or len(names) == 1:
            ranges = [keys.of_session(name) for name in names]
        else:
            ranges = [(keys.SESSIONS, keys.after(keys.SESSIONS))]
        found = await asyncio.gather(*(self._read(api.get(*each)) for each in ranges))
        with sensible(self._channel):
            states = keys.read_sessions(each for answer in found for each in answer.keys)
        return {name: states[name] for name in names if name in states}

    async def _read(self, read: bytes) -> api.FoundKeys:
        """Read a range at the member that is asked, or at a majority if that one lags behind what we have seen.

        What is read later is not older: so a session that is not there, of an entry that is, has ended.
        """
        answer = await self._read_once(read + api.SERIALIZABLE)
        if answer.revision < self._seen:
            answer = await self._read_once(read)
        self._seen = max(self._seen, answer.revision)
        return answer

    async def _read_newest(self, read: bytes, limit: float = 0.0) -> list[KeyValue]:
        return (await self._read_once(read, limit)).keys

    async def _read_once(self, read: bytes, limit: float = 0.0) -> api.FoundKeys:
        written = await self._call("KV/Range", read, limit)
        with sensible(self._channel):
            return api.found(written)

    async def _delete(self, request: bytes, limit: float = 0.0) -> bool:
        """Delete a key; return whether it was there."""
        answer = await self._call("KV/DeleteRange", request, limit)
        with sensible(self._channel):
            return bool(dict(api.fields(answer)).get(2))

    # Mail

    async def listen(self, wake: Wake, mail: Callable[[bytes], None]) -> None:
        """Hear of the ends of entries, and of letters."""
        self._wake, self._mail = wake, mail
        wake()
        await self._watches.run()
        if self._refusal is not None:  # waits would not end
            raise self._refusal

    def _refuse(self, error: ConfigError) -> None:
        self._refusal = error

    async def send(self, participant: str, letter: bytes) -> None:
        """Put a letter where its reader watches; it goes with our hint if it is never read."""
        key = keys.mailbox(participant)[0] + f"{self._participant}.{next(self._letters)}".encode()
        await self._call("KV/Put", api.put(key, letter, self._presence.lease))

    def _look_for_mail(self) -> None:
        """Read what has come while no stream was there."""
        self._tasks.run(self._read_mail())

    async def _read_mail(self) -> None:
        with contextlib.suppress(CoterieError):
            for letter in await self._read_newest(api.get(*self._mailbox)):
                await self._open(letter.key, letter.value)

    def _receive(self, change: KeyChange) -> None:
        if not change.deleted:
            self._tasks.run(self._open(change.key, change.value))

    async def _open(self, key: bytes, letter: bytes) -> None:
        """Take a letter out; the one that has deleted it reads it, so it is read once."""
        with contextlib.suppress(CoterieError):
            if await self._delete(api.delete(key)):
                self._mail(letter)

    # Calls

    @property
    def _key(self) -> bytes:
        return keys.session(self._session)

    @property
    def _is_ours(self) -> bytes:
        """Compare that holds as long as the session is not over."""
        return api.unchanged(self._key, self._revision)

    @property
    def _beat(self) -> float:
        """How long a renewal may take: another one has to follow within the lease."""
        return min(self._limit, self._lease / BEATS_PER_LEASE)

    async def _transact(
        self,
        compare: Sequence[bytes],
        then: Sequence[bytes],
        limit: float = 0.0,
        *,
        otherwise: Sequence[bytes] = (),
    ) -> api.Done:
        written = await self._call("KV/Txn", api.transaction(compare, then, otherwise), limit)
        with sensible(self._channel):
            answer = api.done(written)
            reads = sum(each[:1] == api.READ for each in (then if answer.succeeded else otherwise))
            if len(answer.reads) != reads:
                raise ValueError("an answer to something else")
        self._seen = max(self._seen, answer.revision)
        return answer

    async def _call(self, method: str, request: bytes, limit: float = 0.0) -> bytes:
        return await self._channel.call(method, request, limit or self._limit)


def _counted(name: str, state: SessionState) -> CountedSession:
    """Return a session with the revision of its challenge; without one it is not counted."""
    return CountedSession(name, state.challenge, state.record.lease)


def _read_to(ticket: Ticket, number: int) -> bytes:
    """Encode what reads a queue up to an entry that was created in that revision."""
    start = keys.queue(ticket.lock)
    end = keys.after(start)
    return api.get(start, end, order=api.ASCENDING, created_before=number + 1, keys_only=True)


def _read_entries(found: Iterable[KeyValue]) -> list[EtcdEntry]:
    return [keys.read_entry(each) for each in found]


def _shown(line: Sequence[EtcdEntry]) -> list[QueueEntry]:
    count = inside([entry.ticket.shared for entry in line])
    return [
        QueueEntry(read_author(entry.author), entry.ticket.shared, place < count, entry.number)
        for place, entry in enumerate(line)
    ]


def _parts(several: Sequence[T], size: int = OPERATIONS_MAX) -> Iterator[Sequence[T]]:
    return (several[at : at + size] for at in range(0, len(several), size))


def _sleep_on(lock: str = "") -> None:
    """Wake no one: no one listens yet."""


def _drop(letter: bytes) -> None:
    """Leave a letter unread: no one listens yet."""
