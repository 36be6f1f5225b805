"""A session with ZooKeeper, with the entries that go with it.

An entry is an ephemeral node with a sequence below that of its lock (see `names`). The queue of a lock is
its entries in the order of their sequence, which begins again when the node of the lock was removed:
the last to leave removes it. So an entry's number is not its sequence but the transaction that created
it (`czxid`), which all members agree on: those never go back, and survive failovers and restarts.

Mail to a participant are nodes below `m/PARTICIPANT`, where it watches; it deletes what it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo.exceptions import NoNodeError

from coterie import system
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.server import QueueEntry, SessionLost, inside
from coterie.engines.queue.url import TLS_PARAMETERS, WITNESS, parse_server_url
from coterie.engines.queue.witness import watched
from coterie.engines.zookeeper import names
from coterie.engines.zookeeper.connection import ZooKeeperConnection, ask_node
from coterie.engines.zookeeper.values import ZooKeeperValues
from coterie.errors import CoterieError, Unavailable
from coterie.system.aio import Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from coterie.engines.queue.server import Author, ServerNode, SessionListener, Ticket
    from coterie.engines.queue.url import ServerUrl

LEASE_SECONDS_MIN = 1.0  # the server may not grant less than 2 of its ticks, 4 s if not configured
BEATS_PER_LEASE = 4
UNKNOWN_PART = 1 / 4  # of a lease, which the leader may have heard of us before a beat
RETRY_SECONDS = 0.1
PRESENCE = "here"
SWEPT_MAX = 10  # nodes that a program looks after when it begins
LISTED_MAX = 10_000
CROWDED_MAX = 4096
LETTER = "l-"


def make_engine(url: str) -> QueueEngine:
    """Return the engine of a program that takes locks on ZooKeeper."""
    parsed = parse_server_url(url, port=2181, parameters=(*TLS_PARAMETERS, WITNESS))
    return QueueEngine(
        ZooKeeperServer(parsed), deadlock_detection=parsed.detects, witness=parsed.is_seen
    )


class ZooKeeperServer:
    """An ensemble of ZooKeeper."""

    lease_min = LEASE_SECONDS_MIN

    def __init__(self, url: ServerUrl) -> None:
        """Remember where it is."""
        self.lease = url.lease_from(self.lease_min)
        self._url = url

    def __str__(self) -> str:
        """Name the ensemble for people."""
        return f"zookeeper at {self._url.shown}"

    async def open(self, participant: str, told: SessionListener, lease: float) -> ZooKeeperSession:
        """Begin a session of ZooKeeper."""
        session = ZooKeeperSession(self._url, participant, told, lease)
        try:
            await session.start()
        except SessionLost as error:
            await session.close()
            raise Unavailable(f"{self}: {error}") from None
        except BaseException:
            await session.close()
            raise
        return session

    async def nodes(self) -> list[ServerNode]:
        """Ask each member by itself."""
        members = [self._url._replace(addresses=[address]) for address in self._url.addresses]
        return list(await asyncio.gather(*map(ask_node, members)))


class Own(NamedTuple):
    """An entry of ours that is known to be on the server."""

    path: str
    number: int


class ZooKeeperSession:
    """One session of ZooKeeper and the nodes that go with it."""

    carries = False  # its requests go out together as it is

    def __init__(
        self, url: ServerUrl, participant: str, told: SessionListener, lease: float
    ) -> None:
        """Prepare; `start` begins it."""
        self.lease = lease  # as the server grants it, after `start`
        self._connection = ZooKeeperConnection(url, lease, self._end)
        self._name = participant
        self._told = told
        path = f"/{url.path}/coterie" if url.path else "/coterie"
        parts = path.split("/")
        self._root = ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
        self._queues = f"{path}/q"
        self._mailboxes = f"{path}/m"
        self._mailbox = f"{self._mailboxes}/{participant}"
        self._begun: dict[Ticket, Own | None] = {}  # None: whether it is on the server is not known
        self._crowded: dict[
            str, None
        ] = {}  # locks whose queues others stood in when we last looked
        self._worn: set[str] = set()  # locks whose queues have to be made again
        self._ahead: dict[
            Ticket, list[names.QueueNode]
        ] = {}  # what was in the way of an entry that joined
        self._watches: dict[str, list[asyncio.Event]] = {}
        self._mail = asyncio.Event()
        self._tasks = Tasks()
        self.values = ZooKeeperValues(self._connection, path, self._find_entry)

    async def start(self) -> None:
        """Connect, renew the session from now on, and listen to mail."""
        connection = self._connection
        await connection.open()
        self.lease = connection.timeout
        made: Any = None
        while made is None or isinstance(made[-1], Exception):
            # Others may remove an empty mailbox before we are in it.
            made = await connection.answers(
                *(
                    connection.send("create", path)
                    for path in (*self._root, self._queues, self._mailboxes, self._mailbox)
                ),
                connection.send("create", f"{self._mailbox}/{PRESENCE}", ephemeral=True),
            )
        await self._beat()
        self._tasks.run(self._renew())
        self._tasks.run(self._read_mail())
        self._tasks.run(self._sweep())

    async def close(self) -> None:
        """End the session; ZooKeeper removes all entries that go with it."""
        await self._tasks.end()
        with contextlib.suppress(SessionLost, Unavailable):
            for ticket, own in self._begun.items():
                if own is not None:
                    self._connection.send("delete", own.path)
                self._connection.send("delete", self._queue(ticket.lock))
            self._connection.send("delete", f"{self._mailbox}/{PRESENCE}")
            self._connection.send("delete", self._mailbox)
        await self._connection.close()
        self._wake_all()

    def _end(self, reason: str) -> None:
        self._wake_all()
        self._told.lost(reason)

    # The lease

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(
                self.lease / BEATS_PER_LEASE if self._connection.is_up else RETRY_SECONDS
            )
            self._connection.live()
            try:
                await self._beat()
            except SessionLost:
                return
            except CoterieError:
                continue

    async def _beat(self) -> None:
        """Ask a member anything, which renews the session there.

        The leader, which decides when a session is over, hears of that with the member's next report,
        half a tick later: not at all, if the member fails before. What it surely knows of is half
        a tick older than the beat. A session lasts two ticks at least, so that is a quarter of it.
        """
        sent_at = system.now()
        connection = self._connection
        beat = connection.send("exists", self._root[-1])
        await connection.answers(beat, limit=self.lease / BEATS_PER_LEASE)
        self._told.renewed(sent_at - self.lease * UNKNOWN_PART)

    # Entries

    async def join(self, ticket: Ticket, author: Author, leaving: Ticket | None) -> int | None:
        """Create our entry and list the queue, in one round trip."""
        if ticket.lock in self._worn:
            await self._renew_queue(ticket.lock)
        if ticket in self._begun:
            await self._find(ticket)
        send = self._connection.send
        left = self._begun.get(leaving) if leaving is not None else None
        sent = [send("delete", left.path)] if left is not None else []
        queue = self._queue(ticket.lock)
        listed: Any = None
        while (own := self._begun.get(ticket)) is None:
            self._begun[ticket] = None
            if ticket.lock not in self._crowded:
                sent.append(send("create", queue))
            path = f"{queue}/{names.stem(ticket, author)}"
            sent.append(send("create", path, ephemeral=True, sequence=True, include_data=True))
            sent.append(send("get_children", queue))
            *_, made, listed = await self._connection.answers(*sent)
            sent = []
            if isinstance(made, NoNodeError):  # the last to leave has removed the queue
                self._crowded.pop(ticket.lock, None)
                del self._begun[ticket]
            else:
                self._begun[ticket] = Own(made[0], made[1].czxid)
        if sent:
            await self._connection.answers(*sent)
        if leaving is not None:
            self._begun.pop(leaving, None)
        if names.is_worn(own.path):
            await self._connection.answers(self._connection.send("delete", own.path))
            del self._begun[ticket]
            self._worn.add(ticket.lock)
            await self._renew_queue(ticket.lock)
            raise Unavailable(f"{self._connection}: its queue was made again just now")
        ahead = await self._before(ticket, own, listed)
        if not ahead:
            return own.number
        self._ahead[ticket] = ahead
        return None

    async def _renew_queue(self, lock: str) -> None:
        """Remove a queue whose sequence is used up, if it is empty; raise `Unavailable` until then."""
        connection, queue = self._connection, self._queue(lock)
        (listed,) = await connection.answers(connection.send("get_children", queue))
        if listed and not isinstance(listed, NoNodeError):
            raise Unavailable(
                f"{connection}: {names.SEQUENCE_MAX} requests have stood in its queue, which is made again"
                f" when the {len(listed)} in it are served"
            )
        await connection.answers(connection.send("delete", queue))  # not if one has come meanwhile
        self._crowded.pop(lock, None)
        self._worn.discard(lock)

    async def wait(self, ticket: Ticket) -> int:
        """Wait for the end of the nearest entry in our way, then look for one before it."""
        own, ahead = self._begun[ticket], self._ahead.pop(ticket, None)
        assert own is not None, "it has joined"
        while True:
            try:
                if ahead is None:
                    ahead = await self._before(ticket, own)
                if not ahead:
                    return own.number
                near, ahead = ahead[-1], None
                path = f"{self._queue(ticket.lock)}/{near.name}"
                async with self._watching(near, path):
                    await self._until_deleted(path)
            except Unavailable:
                await asyncio.sleep(RETRY_SECONDS)

    async def _before(self, ticket: Ticket, own: Own, listed: Any = None) -> list[names.QueueNode]:
        """Return the entries in our way, given or read.

        Whichever member is read has seen our own entry, so it has seen all that were created before;
        none with a lower sequence can come later, since a queue with entries is not removed.
        """
        if listed is None:
            request = self._connection.send("get_children", self._queue(ticket.lock))
            (listed,) = await self._connection.answers(request)
        nodes = names.line(() if isinstance(listed, NoNodeError) else listed)
        name = own.path.rpartition("/")[2]
        mine = next((node for node in nodes if node.name == name), None)
        if mine is None:
            self._connection.end("an entry of ours was removed by another program")
            raise SessionLost("an entry of ours was removed by another program")
        if len(nodes) > 1:
            self._crowded[ticket.lock] = None
            if len(self._crowded) > CROWDED_MAX:
                del self._crowded[next(iter(self._crowded))]
        return names.in_the_way(nodes, mine)

    # The end of others, seen on this machine

    async def live(self, life: str) -> None:
        """Write down by which processes we are known, where it goes with our session."""
        path = f"{self._mailbox}/{PRESENCE}"
        await self._connection.answers(self._connection.send("set", path, life.encode()))

    def _watching(self, node: names.QueueNode, path: str) -> AbstractAsyncContextManager[None]:
        """Watch the program of an entry, which is all of it that we delete when the program is dead.

        So where it says by which processes it is known stays for others that come upon entries of it,
        also upon one that was still on its way, until its session has run out.
        """
        mailbox = f"{self._mailboxes}/{node.author.participant}"

        async def find() -> str:
            (answer,) = await self._connection.answers(
                self._connection.send("get", f"{mailbox}/{PRESENCE}")
            )
            return "" if isinstance(answer, Exception) else answer[0].decode("utf-8", "replace")

        async def end() -> None:
            await self._connection.answers(self._connection.send("delete", path))

        name = f"{self._connection}: program {node.author.process}"
        return watched(name, self.lease, find, end)

    async def _until_deleted(self, path: str) -> None:
        """Wait until a node is gone, or the connection was; watches are then gone, too."""
        news = asyncio.Event()
        self._watches.setdefault(path, []).append(news)
        try:
            # Not `exists`: where the node is gone, that would leave a watch which never ends.
            request = self._connection.send("get", path, watch=self._hear)
            (answer,) = await self._connection.answers(request)
            if not isinstance(answer, NoNodeError):
                await news.wait()
        finally:
            self._watches[path].remove(news)
            if not self._watches[path]:
                del self._watches[path]

    def _hear(self, event: Any) -> None:
        """Hear of a change; kazoo calls a watch without a path when the connection is lost."""
        if event.path is None:
            self._wake_all()
        for news in self._watches.get(event.path, ()):
            news.set()

    def _wake_all(self) -> None:
        for watching in self._watches.values():
            for news in watching:
                news.set()

    async def leave(self, ticket: Ticket) -> None:
        """Delete our entry, and the queue if it was the last."""
        self._ahead.pop(ticket, None)
        if self._begun.get(ticket, ticket) is None:
            await self._find(ticket)
        own = self._begun.get(ticket)
        if own is None:
            return
        connection, queue = self._connection, self._queue(ticket.lock)
        _, listed = await connection.answers(
            connection.send("delete", own.path), connection.send("get_children", queue)
        )
        self._begun.pop(ticket, None)
        if listed == []:
            self._crowded.pop(ticket.lock, None)
            # One that joins now makes it again, or it is not empty and stays.
            await connection.answers(connection.send("delete", queue))

    async def _find(self, ticket: Ticket) -> None:
        """Learn whether an entry whose creation was not answered is on the server.

        It must not be created twice, nor left alone: the server would keep it as long as our session,
        and all others would wait for it. What we sent over the former connection has been carried
        out or never will be, since the session is at another connection now; `sync` lets the
        member that we ask catch up.
        """
        if self._begun[ticket] is not None:
            return
        connection, queue = self._connection, self._queue(ticket.lock)
        _, listed = await connection.answers(
            connection.send("sync", queue), connection.send("get_children", queue)
        )
        prefix = names.prefix(ticket, self._name)
        nodes = names.line(() if isinstance(listed, NoNodeError) else listed)
        path = next((f"{queue}/{node.name}" for node in nodes if node.name.startswith(prefix)), "")
        stat = (await connection.answers(connection.send("exists", path)))[0] if path else None
        if stat is None:
            del self._begun[ticket]
        else:
            self._begun[ticket] = Own(path, stat.czxid)

    # Questions

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Read queues; each lock is read at one moment."""
        connection = self._connection
        if locks is None:
            (listed,) = await connection.answers(connection.send("get_children", self._queues))
            locks = [names.unescape(node) for node in listed]
        if not locks:
            return {}
        answers = await connection.answers(
            *(connection.send("get_children", self._queue(lock)) for lock in locks)
        )
        lines = {
            lock: _entries(names.line(listed))
            for lock, listed in zip(locks, answers, strict=True)
            if not isinstance(listed, NoNodeError)
        }
        return {lock: line for lock, line in lines.items() if line}

    # Mail

    async def send(self, participant: str, letter: bytes) -> None:
        """Put a letter where its reader watches; it goes with our session if it is never read."""
        path = f"{self._mailboxes}/{participant}/{LETTER}"
        request = self._connection.send("create", path, letter, ephemeral=True, sequence=True)
        await self._connection.answers(request)

    async def _read_mail(self) -> None:
        while True:
            self._mail.clear()
            try:
                await self._empty_mailbox()
            except SessionLost:
                return
            except CoterieError:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                await self._mail.wait()

    async def _empty_mailbox(self) -> None:
        """Take out all letters, and watch for more; one that could be deleted is read, so once."""
        connection = self._connection
        request = connection.send("get_children", self._mailbox, watch=self._hear_of_mail)
        (listed,) = await connection.answers(request)
        paths = [f"{self._mailbox}/{name}" for name in sorted(listed) if name.startswith(LETTER)]
        sent = [connection.send(what, path) for path in paths for what in ("get", "delete")]
        answers = await connection.answers(*sent)
        for letter, deleted in zip(answers[::2], answers[1::2], strict=True):
            if deleted is True:
                self._told.mail(letter[0])

    def _hear_of_mail(self, _: Any) -> None:
        self._mail.set()

    # What programs that were killed have left

    async def _sweep(self) -> None:
        """Remove some nodes that are empty: entries go with their sessions, but not what they stood in.

        A queue that is removed under a process that joins is made again by it, and a mailbox with a
        reader is not empty.
        """
        connection = self._connection
        with contextlib.suppress(SessionLost, CoterieError):
            for parent in (self._queues, self._mailboxes):
                (stat,) = await connection.answers(connection.send("exists", parent))
                if stat is None or not 0 < stat.numChildren <= LISTED_MAX:
                    continue
                (listed,) = await connection.answers(connection.send("get_children", parent))
                some = system.random().sample(listed, min(len(listed), SWEPT_MAX))
                paths = [f"{parent}/{name}" for name in some]
                stats = await connection.answers(*(connection.send("exists", p) for p in paths))
                for path, found in zip(paths, stats, strict=True):
                    if found is not None and not found.numChildren:
                        await connection.answers(connection.send("delete", path))

    def _find_entry(self, ticket: Ticket) -> str | None:
        """Return the path of an entry, as far as it is known to be on the server."""
        own = self._begun.get(ticket)
        return None if own is None else own.path

    def _queue(self, lock: str) -> str:
        return f"{self._queues}/{names.escape(lock)}"


def _entries(line: Sequence[names.QueueNode]) -> list[QueueEntry]:
    count = inside([node.shared for node in line])
    return [
        QueueEntry(node.author, node.shared, position < count, 0)
        for position, node in enumerate(line)
    ]
