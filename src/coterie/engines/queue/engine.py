"""The engine that a coordinator stands on when locks come from a server that keeps queues."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from coterie import system
from coterie.engines.queue.desk import Desk, answer_of
from coterie.engines.queue.mail import HoldEnded, HoldOrder, Inquiry, Knock, decode, encode
from coterie.engines.queue.nonsense import NONSENSE, describe
from coterie.engines.queue.orders import Orders
from coterie.engines.queue.server import (
    ClockedStore,
    PolledServer,
    SessionLost,
    TransactionalStore,
    ValueSession,
)
from coterie.errors import CoterieError, Unavailable, UsageError
from coterie.locks.breaker import FoundHold
from coterie.locks.deadlocks.collection import Collection
from coterie.locks.deadlocks.reports import Wanted
from coterie.locks.deadlocks.search import DeadlockSearch
from coterie.locks.deadlocks.waits import Waits
from coterie.locks.engine import LockState, Party, follow
from coterie.locks.held import NOT_IN_FORCE, loss
from coterie.locks.leases import blockers
from coterie.locks.leases.attempt import try_once
from coterie.locks.leases.frames import AskOwner, LockReport, OwnerReport, Owners
from coterie.locks.leases.group import LeaseGroup
from coterie.locks.leases.questions import Questions
from coterie.locks.value import follow_value, no_transactions, no_values, record_of
from coterie.system.aio import Tasks, to_the_end

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )

    from coterie.engines.queue.desk import QueueBid
    from coterie.engines.queue.server import QueueEntry, QueueSession, Server, ValueStore
    from coterie.errors import LockLost
    from coterie.locks.deadlocks.reports import Hold
    from coterie.locks.leases.group import LeasedClaim
    from coterie.locks.leases.owner_query import OwnerQuery
    from coterie.locks.lock import Owner
    from coterie.locks.value import Value

AnswerT = TypeVar("AnswerT")

Group: TypeAlias = LeaseGroup[Desk]

ASKED_MAX = 100  # processes that wait for a lock and are asked about their tasks
LOCKS_PER_QUESTION = 100
TRY_SECONDS_MAX = 2.0
UNREADABLE_PAUSE_SECONDS = 60.0  # between two lines about letters that cannot be read
FIND_SECONDS = (
    2.0  # for the holders to say that they are there, before an operator ends their holds
)

REFUSED = "the server refuses to write its value: the hold has ended there"

logger = logging.getLogger("coterie.engines")


class QueueEngine:
    """Grants the locks of a server to the tasks of this process.

    At most one process holds a lock at any instant, or any number that share it, as long as the
    server keeps its promises and clocks run at about the same rate. Sessions are renewed as long as
    this event loop runs, and a lock is lost early when its session cannot be.
    """

    def __init__(
        self, server: Server, *, deadlock_detection: bool = True, witness: bool = True
    ) -> None:
        """Prepare; the server is called when the engine is opened.

        With `witness` this program says there by which processes it is known.
        """
        self._is_seen = witness
        self._children: Sequence[int] | None = ()
        self.waits = Waits(
            system.secret(16).hex(),
            self._blockers,
            on_block=self._plan_search,
            detects=deadlock_detection,
        )
        self.groups: dict[float | None, Group] = {}  # by lease; None: that of the server
        self.search = DeadlockSearch(self.waits, self, self._held)
        self.server = server
        self._poll_seconds = server.poll_seconds if isinstance(server, PolledServer) else 0.0
        self.orders = Orders()
        self._questions = Questions()
        self._unreadable_at = -math.inf  # when the log said last that a letter was
        self._tasks = Tasks()

    @property
    def group(self) -> Group:
        """The claims of this process that have the usual lease; there is one while open."""
        return self.groups[None]

    async def open(self) -> None:
        """Begin a session; raises `Unavailable` if the server does not answer."""
        self.orders = Orders()
        self.search = DeadlockSearch(self.waits, self, self._held)
        group = self._group_of(self.server.lease)
        try:
            await group.supply.open()
        except BaseException:
            await group.supply.close()
            raise
        self.groups[None] = group

    async def close(self) -> None:
        """End all claims and sessions, so that no process has to wait for a lease of ours."""
        self.search.stop()
        tasks = self._tasks.cancel()
        groups = list(self.groups.values())
        self.groups.clear()
        for group in groups:
            group.close()
        await to_the_end(_close_all([group.supply for group in groups], tasks))

    def place(
        self, name: str, *, owner: Owner, shared: bool, lease: float | None, wait: bool
    ) -> LeasedClaim:
        """Ask for a lock, with a lease of this many seconds: that of the session at most."""
        group = self.groups.get(lease) or self._group(name, lease)
        claim = group.place(name, owner, shared=shared, wait=wait)
        if not wait and claim.token is None and not claim.granted.done():
            patience = max(min(TRY_SECONDS_MAX, group.supply.lease / 5), 2 * self._poll_seconds)
            self._tasks.run(try_once(claim, group, self._query_one, patience))
        return claim

    # Leases

    def _group(self, lock: str, lease: float | None) -> Group:
        """Find the group that has that lease, or begin another session for it."""
        longest = self.server.lease
        if lease is None or lease == longest:
            return self.group
        if not self.server.lease_min <= lease < longest:
            raise UsageError(
                f"lock {lock!r}: lease must be from {self.server.lease_min:g} s to {longest:g} s, got"
                f" {lease:g} s; for a longer one raise `lease` in the URL"
            )
        group = self.groups[lease] = self._group_of(lease)
        group.supply.begin()
        return group

    def _group_of(self, lease: float) -> Group:
        def enter(group: Group) -> Desk:
            mail = partial(self._read, group)
            return Desk(self.server, lease, self.waits.process, group, mail, life=self._life)

        return LeaseGroup(enter)

    def await_children(self) -> None:
        """Let no end of this process count as the end of the program: it is about to have children."""
        self._children = None

    def live_with(self, children: Sequence[int]) -> None:
        """Name the children that belong to this program, which has awaited them."""
        self._children = children
        for group in self.groups.values():
            group.supply.live()

    def _life(self) -> str:
        """Name the processes of this program, if all are known and others are to see its end."""
        if self._children is None or not self._is_seen:
            return ""
        return system.life(self._children)

    # Mail

    def _read(self, group: Group, letter: bytes) -> None:
        """Read a letter of another process; one that makes no sense is left aside."""
        try:
            mail = decode(letter)
        except NONSENSE as error:
            self._note_unreadable(error)
            return
        match mail:
            case Knock(lock):
                group.supply.knocked(lock)
            case Inquiry(sender, asked):
                self._send(sender, encode(self._report(group, asked)))
            case OwnerReport():
                self._questions.learn(0, mail)
            case HoldOrder():
                runs_command = bool(self._children)
                self._tasks.run(self.orders.obey(group.supply, mail, runs_command=runs_command))
            case HoldEnded():
                self.orders.learn(mail)

    def _note_unreadable(self, error: Exception) -> None:
        """Log that a letter cannot be read, once in a while: one costs its sender nothing."""
        now = system.now()
        if now < self._unreadable_at + UNREADABLE_PAUSE_SECONDS:
            return
        self._unreadable_at = now
        logger.warning(
            "%s: a letter that cannot be read: %s",
            self.server,
            describe(error),
            extra={"event": "letter-unreadable"},
        )

    def _send(self, participant: str, letter: bytes) -> None:
        session = self.group.supply.session if self.groups else None
        if session is not None:
            self._tasks.run(_deliver(session, participant, letter))

    def _report(self, group: Group, asked: AskOwner) -> OwnerReport:
        return blockers.answer(group, self.waits, self.search, asked)

    # Deadlocks

    def _blockers(self, wanted: Wanted) -> list[LeasedClaim]:
        return [claim for group in self.groups.values() for claim in group.blockers(wanted)]

    def _held(self) -> list[LeasedClaim]:
        return [claim for group in self.groups.values() for claim in group.held()]

    def _plan_search(self, owner: Owner) -> None:
        self.search.plan(owner)

    @property
    def round_trip(self) -> float:
        """How many seconds an answer of other processes takes."""
        return self._questions.round_trips.latest

    async def holds(self, locks: Sequence[Wanted]) -> dict[Wanted, list[Hold]]:
        """Find the tasks of other processes that hold these locks; without a server, none."""
        try:
            query = await self._query(locks, search=True)
        except Unavailable:
            return {}
        return {lock: query.holds(lock) for lock in locks}

    # Values

    async def read_value(self, name: str, claim: LeasedClaim | None = None) -> Value | None:
        """Return the value of a lock; with the claim of its holder no earlier hold writes it any more."""
        if claim is not None:
            store, _ = self._hold_of(claim)
            record = await _in_hold(claim, store.read(name, claim.token))
        else:
            record = await self._of_all(lambda store: store.read(name, None))
        return None if record is None else record.value

    async def write_value(
        self, claim: LeasedClaim, sequence: int, data: bytes | None
    ) -> Value | None:
        """Write the value as the holder, or delete it, and return it when it is durable."""
        record = record_of(claim, sequence, data, self.waits.process)
        store, bid = self._hold_of(claim)
        bid.writes += 1
        write = store.write(bid.ticket, record, is_alone=bid.writes == 1)
        is_taken = await _in_hold(claim, write)
        bid.writes -= 1
        if not is_taken:
            raise _lost(claim, REFUSED)
        return record.value

    async def write_value_in(
        self, connection: object, claim: LeasedClaim, sequence: int, data: bytes
    ) -> None:
        """Write the value as the holder, within a transaction of the user's, where the server can do that."""
        record = record_of(claim, sequence, data, self.waits.process)
        store, _ = self._hold_of(claim)
        if not isinstance(store, TransactionalStore):
            raise no_transactions(str(self.server))
        if not await _in_hold(claim, store.write_in(connection, record)):
            raise _lost(claim, REFUSED)

    def watch_value(
        self, name: str, check: Callable[[], None]
    ) -> AsyncGenerator[Value | None, None]:
        """Follow the value of a lock; a change is noticed within a fifth of a second, or the pause between two looks."""
        return follow_value(partial(self.read_value, name), check, self._poll_seconds)

    async def all_values(self) -> dict[str, Value]:
        """Return all values by their names."""
        records = await self._of_all(lambda store: store.all())
        return {record.name: record.value for record in records if record.value is not None}

    def _hold_of(self, claim: LeasedClaim) -> tuple[ValueStore, QueueBid]:
        """Return the entry by which a claim has its lock, and the store of its session."""
        assert claim.token is not None, "a holder reads and writes"
        for group in self.groups.values():
            bid = group.supply.find(claim.lock, claim.token)
            if bid is not None and bid.session is not None:
                return self._store_of(bid.session), bid
        raise _lost(claim, NOT_IN_FORCE)

    async def server_time(self) -> float | None:
        """Ask the server for its time of day, where it tells that."""

        async def ask(store: ValueStore) -> float | None:
            return await store.time() if isinstance(store, ClockedStore) else None

        return await self._of_all(ask)

    async def _of_all(self, ask: Callable[[ValueStore], Awaitable[AnswerT]]) -> AnswerT:
        """Ask for values over the present session, in the name of no hold."""
        desk = self.group.supply
        if desk.session is None:
            raise Unavailable(f"{self.server}: {desk.trouble}")
        try:
            return await answer_of(ask(self._store_of(desk.session)))
        except SessionLost:
            raise Unavailable(f"{self.server}: the session was lost") from None

    def _store_of(self, session: QueueSession) -> ValueStore:
        store = session.values if isinstance(session, ValueSession) else None
        if store is None:
            raise no_values(str(self.server))
        return store

    # Questions

    async def holders(self, name: str) -> list[Party]:
        """List the holders of a lock."""
        return (await self._query_one(name)).holders(name)

    async def waiters(self, name: str) -> list[Party]:
        """List the tasks that wait for a lock, the next first."""
        return (await self._query_one(name)).waiters(name)

    def watch(self, name: str, check: Callable[[], None]) -> AsyncGenerator[Party | None, None]:
        """Follow the holder of a lock; a change is noticed within a fifth of a second, or the pause between two looks."""
        return follow(partial(self.holders, name), check, self._poll_seconds)

    def obstacle(self, name: str) -> CoterieError | None:
        """Return what blocks a lock besides its holders: a server that cannot be reached."""
        return self.group.obstacle(name)

    async def states(self) -> list[LockState]:
        """Describe all locks that any process holds, keeps or waits for."""
        lines = await self._lines(None)
        return [
            _state(query, wanted.lock, lines[wanted.lock])
            for query, part in await self._ask_about(map(Wanted, sorted(lines)), lines)
            for wanted in part
        ]

    async def find_hold(self, lock: str) -> FoundHold:
        """Find which programs hold a lock, or may hold it and do not answer."""
        lines = await self._lines([lock])
        query = await self._ask([Wanted(lock)], lines, search=False, patience=FIND_SECONDS)
        return FoundHold(_state(query, lock, lines.get(lock, [])), tuple(query.suspects(lock)))

    async def collect(self) -> Collection:
        """Ask all processes once which of their tasks waits for what, and which holds it."""
        lines = await self._lines(None)
        surveyed = await self._ask_about(map(Wanted, sorted(lines)), lines)
        known = [(query, wanted) for query, part in surveyed for wanted in part]
        collection = Collection(
            owner for query, wanted in known for owner in query.waiting(wanted.lock)
        )
        for query, wanted in known:
            collection.hear(wanted, query.holds(wanted))
        shared = [wanted for wanted in collection.wanted() if wanted.requester.participant]
        for query, part in await self._ask_about(shared, lines, search=True):
            for wanted in part:
                collection.hear(wanted, query.holds(wanted))
        return collection

    async def _ask_about(
        self,
        locks: Iterable[Wanted],
        lines: Mapping[str, Sequence[QueueEntry]],
        *,
        search: bool = False,
    ) -> list[tuple[OwnerQuery, list[Wanted]]]:
        """Ask about many locks, some at a time: a letter has a limit."""
        wanted = list(locks)
        parts = [
            wanted[i : i + LOCKS_PER_QUESTION] for i in range(0, len(wanted), LOCKS_PER_QUESTION)
        ]
        return [(await self._ask(part, lines, search=search), part) for part in parts]

    async def _query_one(self, lock: str) -> OwnerQuery:
        return await self._query([Wanted(lock)], search=False)

    async def _query(self, locks: Sequence[Wanted], *, search: bool) -> OwnerQuery:
        lines = await self._lines(sorted({wanted.lock for wanted in locks}))
        return await self._ask(locks, lines, search=search)

    async def _lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        desk = self.group.supply
        if desk.session is None:
            raise Unavailable(f"{self.server}: {desk.trouble}")
        try:
            return await answer_of(desk.session.lines(locks))
        except SessionLost:
            raise Unavailable(f"{self.server}: the session was lost") from None

    async def _ask(
        self,
        locks: Sequence[Wanted],
        lines: Mapping[str, Sequence[QueueEntry]],
        *,
        search: bool,
        patience: float = 0.0,
    ) -> OwnerQuery:
        """Ask the processes that the server names; our own groups answer at once."""
        reports = tuple(_describe(lock, lines.get(lock.lock, ()), search=search) for lock in locks)
        concerns: dict[str, list[Wanted]] = {}
        for report in reports:
            for participant in dict.fromkeys((*report.owners, *report.queue)):
                concerns.setdefault(participant, []).append(report.wanted)
        labels = {
            entry.author.participant: entry.author.process
            for line in lines.values()
            for entry in line
        }
        ours = {group.supply.name: group for group in self.groups.values()}
        desk = self.group.supply

        def send(number: int) -> None:
            self._questions.learn(0, Owners(number, reports, labels))
            for participant, wanted in concerns.items():
                asked = AskOwner(0, number, tuple(wanted), search)
                if participant in ours:
                    self._questions.learn(0, self._report(ours[participant], asked))
                else:
                    self._send(participant, encode(Inquiry(desk.name, asked)))

        # A letter lies for as long as a pause, and its answer may wait for the writes of others.
        reading = min(desk.lease, 2 * self._poll_seconds)
        limit = max(patience, self._questions.patience(desk.lease), reading)
        return await self._questions.ask([0], send, limit, desk.lease)


async def _close_all(desks: Sequence[Desk], tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*(desk.close() for desk in desks))
    await asyncio.gather(*tasks, return_exceptions=True)


async def _in_hold(claim: LeasedClaim, call: Awaitable[AnswerT]) -> AnswerT:
    """Wait for a call in the name of a hold, which ends with its session."""
    try:
        return await answer_of(call)
    except SessionLost:
        raise _lost(claim, NOT_IN_FORCE) from None


def _lost(claim: LeasedClaim, reason: str) -> LockLost:
    assert claim.token is not None, "it has held the lock"
    return loss(claim.lock, claim.token, claim.lost.result() if claim.lost.done() else reason)


async def _deliver(session: QueueSession, participant: str, letter: bytes) -> None:
    with contextlib.suppress(SessionLost, CoterieError):
        await session.send(participant, letter)


def _state(query: OwnerQuery, lock: str, line: Sequence[QueueEntry]) -> LockState:
    return LockState(lock, query.holders(lock), query.silent(lock), _waiters(query, lock, line))


def _waiters(query: OwnerQuery, lock: str, line: Sequence[QueueEntry]) -> list[Party]:
    """List the tasks that wait, the next first; of a process that has not answered, what the server knows."""
    found: dict[str, list[Party]] = {}
    for entry in line:
        participant, process, since = (
            entry.author.participant,
            entry.author.process,
            entry.author.since,
        )
        if (answer := query.waiters_of(lock, participant)) is not None:
            found[participant] = answer
        elif not entry.inside:
            party = Party(lock, process, since, None, entry.shared)
            found.setdefault(participant, []).append(party)
    return [party for parties in found.values() for party in parties]


def _describe(wanted: Wanted, line: Sequence[QueueEntry], *, search: bool) -> LockReport:
    """Report which processes are inside and which wait, or what blocks a request to share."""
    if wanted.shared:
        return _describe_obstacles(wanted, line)
    owners = tuple(entry.author.participant for entry in line if entry.inside)
    waiting = [entry.author.participant for entry in line if not entry.inside]
    return LockReport(wanted, owners, () if search else tuple(waiting[:ASKED_MAX]))


def _describe_obstacles(wanted: Wanted, line: Sequence[QueueEntry]) -> LockReport:
    """Report which processes block a request to share a lock, beside the requester itself.

    That is the one that has it alone, and the first that wants it alone before the requester's own
    entry. Where the requester is inside, it is the first that waits: later tasks do not join its
    hold.
    """
    requester = wanted.requester.participant
    mine = [entry for entry in line if entry.author.participant == requester]
    waits = any(not entry.inside for entry in mine)
    before = [entry for entry in line if waits or not entry.inside]
    if waits:
        before = before[
            : next(i for i, entry in enumerate(before) if entry in mine and not entry.inside)
        ]
    first = next((entry.author.participant for entry in before if not entry.shared), None)
    owners = [e.author.participant for e in line if e.inside and (not e.shared or e in mine)]
    queue = [*([first] if first and mine else []), *([requester] if waits else [])]
    return LockReport(wanted, tuple(owners), tuple(queue))
