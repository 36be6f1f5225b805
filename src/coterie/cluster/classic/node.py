"""A node of a classic algorithm: one process of it for every lock that a program has named.

No node acts before all have met: a `Meeting` decides when, and the node carries out its wishes.

A node of an election has a single process. It takes each of its starts for a return, so it begins with
an election: with it nothing depends on what an earlier start has promised, and no node waits until all
others have been there once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from coterie import system
from coterie.catalogue import Algorithm, Setup, find
from coterie.cluster.classic.frames import (
    Absent,
    ClassicFigures,
    ClassicStatus,
    GetClassicStatus,
    GetRecords,
    RecordingBegun,
    Records,
    StartRecording,
    decode_note,
    decode_question,
)
from coterie.cluster.classic.meeting import Begin, Leave, Lost, Meeting, Regained, RuleOut, Tell
from coterie.cluster.classic.tape import RECORDINGS_MAX, Tape, TapedProcess
from coterie.cluster.runtime.durable import FolderLock
from coterie.cluster.runtime.host import Host
from coterie.cluster.runtime.incarnation import count_start
from coterie.cluster.wire.frames import GetMembership, MembershipReply
from coterie.cluster.wire.peers import Handlers, Peers
from coterie.errors import ProtocolError, Unavailable
from coterie.process import Elected, Election, ElectionUser, Seat, SeatCodec, encode, seat

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.classic.frames import Note, Question
    from coterie.cluster.classic.meeting import Wish
    from coterie.cluster.membership.config import Config
    from coterie.cluster.wire.connection import Connection
    from coterie.cluster.wire.frames import ClassicMessage
    from coterie.locks.engine import LockState
    from coterie.process import Event, Outbox, ProcessId

CRASH, RETURN = "crash", "recovery without memory"  # as the catalogue calls them
NUMBER_MAX = 1 << 62  # that a message may name: as many are left to count on from it
LEADERSHIP = "leadership"  # what letters of an election name in the place of a lock
PROBES_PER_LEASE = 4  # so that a peer that hangs is lost after two leases or little more
RECORDS_AT_ONCE = 1_000  # in one answer
FIRST_ANSWERS_SECONDS_MAX = 1.0
NODES = ""  # what letters about nodes name there; no lock is called so

logger = logging.getLogger("coterie.cluster")


def choose(config: Config, lock: str | None = None) -> tuple[Algorithm, Setup]:
    """Return the algorithm of a configuration, and what was chosen about it.

    With a lock, where the algorithm takes the name of what is locked and the file has none, it is that
    of the lock: so each lock has another coordinator, or other replicas.
    """
    choice = config.membership.algorithm
    assert choice is not None, "the leased lock has nodes of its own"
    entry = find(choice.name)
    size = len(config.membership.members)
    named = (
        {} if lock is None else {each.name: lock for each in entry.parameters if each.names_lock}
    )
    return entry, entry.setup(size, choice.variant, named | dict(choice.parameters))


class HostedProcess:
    """A process with its user as its host drives them: it takes a message whole or not at all.

    Nodes trust each other: one that claims a token which it has not got is believed. But whatever a
    faulty one sends, no step is left half done here, and nothing is sent that cannot be.
    """

    def __init__(self, seat: Seat, size: int) -> None:
        """Prepare, among so many processes."""
        self._seat = seat
        self._size = size
        self._codec = SeatCodec(seat)
        self.messages = seat.messages
        self.start = seat.start
        self.ring = seat.ring
        self.down = seat.down

    def receive(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
        """Handle a message; raise `ProtocolError` if it makes no sense here, with nothing changed."""
        _insist_on_size(msgspec.to_builtins(message))
        before = self._codec.save(self._seat)
        try:
            self._seat.receive(sender, message, out)
            self._insist_on_peers(out)
        except Exception as error:
            restored = self._codec.restore(before)
            self._seat.process, self._seat.user = restored.process, restored.user
            raise ProtocolError(f"a message that makes no sense here: {error}") from error

    def _insist_on_peers(self, out: Outbox[Any]) -> None:
        """Raise `ProtocolError` if what a message leads to concerns a process that does not exist."""
        leaders = [event.leader for event in out.events if isinstance(event, Elected)]
        for peer in (*(to for to, _ in out.sends), *leaders):
            if not 1 <= peer <= self._size:
                raise ProtocolError(f"there is no process {peer}")


def _insist_on_size(value: object) -> None:
    """Raise `ProtocolError` if a number is so large that a count could not go on from it."""
    if isinstance(value, dict):
        value = (*value.keys(), *value.values())
    if isinstance(value, list | tuple):
        for part in value:
            _insist_on_size(part)
    elif isinstance(value, int) and abs(value) > NUMBER_MAX:
        raise ProtocolError(f"{value} is a number that no process reaches")


class LockProcess(NamedTuple):
    """The process of one lock at this node, with its user."""

    seat: Seat
    host: Host
    taped: TapedProcess

    def call(self, verb: str) -> None:
        """Let the user acquire or release."""
        self.host.step(self.taped.call, verb)

    def take(self, sender: ProcessId, letter: ClassicMessage) -> None:
        """Let the process have a message; one that is none of its own raises."""
        self.host.step(self.taped.take, sender, letter)


def ignore(*_: object) -> None:
    """Do nothing: a node whose processes have no users is told of nothing."""


def _no_locks() -> tuple[LockState, ...]:
    """Return what the program of a node without one holds and waits for."""
    return ()


class Program(NamedTuple):
    """What the program at a node hears, and what it says when the node is asked."""

    event: Callable[[str, Event], None] = ignore
    """A process, named by its lock, tells its user something."""

    failure: Callable[[Unavailable], None] = ignore
    """The other nodes do not have this one any more."""

    ready: Callable[[], None] = ignore
    """Processes can be used from now on."""

    lost: Callable[[str], None] = ignore
    """A node of that name is lost."""

    locks: Callable[[], tuple[LockState, ...]] = _no_locks
    """Return what the program holds and waits for."""


class Classic:
    """One node; all have to run for a lock to be granted, unless the algorithm tolerates less."""

    def __init__(self, config: Config, name: str, program: Program) -> None:
        """Prepare; `program` is the one at this node."""
        self.name = name
        self.membership = config.membership
        self._config = config
        self.me = config.membership.voter(name)
        self.algorithm, self.setup = choose(config)
        self.elects = issubclass(self.algorithm.process, Election)
        self.processes: dict[str, LockProcess] = {}  # by lock
        goes_on = self.tolerates(CRASH) and not self.elects
        self.meeting = Meeting(
            frozenset(range(1, self.setup.size + 1)) - {self.me},
            goes_on=goes_on,
            # One that has a rule for returns finds out by itself which nodes are down.
            stays_without=goes_on and not self.tolerates(RETURN),
        )
        self._program = program
        self._tape = Tape(self.me)
        self._began = system.now()
        self._patience: asyncio.TimerHandle | None = None  # with nodes that have not been met
        self._probes: asyncio.TimerHandle | None = None  # the next ones
        self._leaving: asyncio.Task[None] | None = None  # since the others have refused this node
        self._early: list[tuple[ProcessId, ClassicMessage]] = []  # came before we were ready
        self._data = config.options(name).data
        self._folder = None if self._data is None else FolderLock(self._data, "node")
        self._incarnation = 0
        self.peers = Peers(
            config.local_node(name),
            Handlers(
                letter=self._deliver,
                lost=lambda peer: self._carry_out(self.meeting.lose(peer)),
                met=self._meet,
                restarted=self._meet_again,
                refused=self._fail,
                connected=lambda peer: self._carry_out(self.meeting.find(peer)),
            ),
            f"{self.algorithm.name} has no programs outside its nodes: join it",
            admin=self._answer,
            # An election begins again with each start. A mutex with a rule for returns drops what was
            # meant for a former start by itself, and relies on what it sends to the new one.
            keeps_letters=not self.elects and self.tolerates(RETURN),
        )

    @property
    def tolerates_restarts(self) -> bool:
        """Whether a node may return: the algorithm has a rule for it, and disks count the starts.

        Without a directory a node cannot know that it has been here before. Its configuration says
        whether this one has, and all have or none. For an election each start is a return anyway.
        """
        return self.tolerates(RETURN) and (self.elects or self._data is not None)

    def tolerates(self, fault: str) -> bool:
        """Return whether the algorithm tolerates a fault, by the words of the catalogue."""
        return fault in self.algorithm.faults_tolerated(self.setup.variant)

    @property
    def leader(self) -> str | None:
        """The node that this one follows; None without one, and while it is lost."""
        running = self.processes.get(LEADERSHIP) if self.elects else None
        user = None if running is None else running.seat.user
        if not isinstance(user, ElectionUser) or user.leader is None or user.leader in self.lost:
            return None
        return self.membership.members[user.leader - 1].name

    @property
    def missing(self) -> str:
        """Which nodes this one waits for before it acts, and what they have not done so far."""
        strangers, unable = self.meeting.strangers, self.meeting.unable
        lack = "did not answer" if strangers else "did not meet all others"
        names = [self.peers[peer].name for peer in sorted(strangers or unable)]
        return f"{', '.join(names)} {lack} so far"

    @property
    def lost(self) -> set[ProcessId]:
        """The nodes that are lost to this one."""
        return self.meeting.lost

    @property
    def away(self) -> list[str]:
        """The names of the nodes that are lost to this one."""
        return [self.peers[peer].name for peer in sorted(self.lost)]

    @property
    def has_failed(self) -> bool:
        """Whether the others have refused this node."""
        return self.meeting.is_refused

    @property
    def is_ready(self) -> bool:
        """Whether processes can be used."""
        return self.meeting.has_begun

    async def start(self) -> None:
        """Listen, call the others, and say what this algorithm tolerates."""
        if self._folder is not None:
            self._folder.take()
        try:
            self._incarnation = self._number_of_start()
            await self.peers.start(self._incarnation)
        except BaseException:
            await self.stop()
            raise
        variant = self.setup.variant
        logger.warning(
            "node %(node)s runs %(algorithm)s (%(variant)s): it assumes %(assumes)s, and tolerates %(tolerates)s;"
            " there are no leases and no fence",
            {
                "node": self.name,
                "algorithm": self.algorithm.name,
                "variant": variant,
                "assumes": ", ".join(self.algorithm.assumptions(variant)) or "nothing",
                "tolerates": ", ".join(self.algorithm.faults_tolerated(variant)) or "nothing else",
            },
            extra={"event": "classic-node-starts"},
        )
        returns = self._incarnation > 0 and self.tolerates_restarts
        self._carry_out(self.meeting.start(returns=returns))
        self._wait_for_strangers(self._say_that_it_waits)
        if self.elects:
            self._probe_watched()

    async def settle(self) -> None:
        """Wait until each node that is there has let this one in, or refused it; a short time at most.

        Nodes may be started one after the other, so nothing waits for one that is not there yet.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_ANSWERS_SECONDS_MAX):
                for peer in self.peers:
                    await peer.first_answer()

    def _probe_watched(self) -> None:
        """Ask the peers that processes watch for signs of life, again and again.

        A process that hangs, or a machine without power, closes no connection. An election that takes a
        slow link for a dead leader elects another one, which does no harm. A mutex would let a second
        process in beside a holder that is only slow, so its peers are lost by their connections alone.
        """
        watched = {peer for running in self.processes.values() for peer in running.host.watched}
        for peer in sorted(watched):
            self.peers[peer].probe()
        pause = self.membership.settings.lease / PROBES_PER_LEASE
        self._probes = asyncio.get_running_loop().call_later(pause, self._probe_watched)

    def _number_of_start(self) -> int:
        """Return a number that no earlier start of this node had; 0 for the very first.

        A mutex without a directory has 0: the others refuse a second start, so this is the only one.
        An election has more than 0, as after a return, and by the time of day without a directory:
        two starts with one number would at worst mix up their elections.
        """
        counted = None if self._data is None else count_start(self._data)
        if self.elects and self.tolerates_restarts:
            return int(system.wall() * 1000) if counted is None else counted + 1
        return counted or 0

    def _carry_out(self, wishes: list[Wish]) -> None:
        for wish in wishes:
            match wish:
                case Begin():
                    self._begin()
                case Tell(peers, note):
                    content = msgspec.msgpack.encode(note)
                    for peer in sorted(peers):
                        self.peers[peer].send(NODES, content)
                case Lost(peer):
                    self._lose(peer)
                case Regained(peer):
                    self._find(peer)
                case RuleOut(peer):
                    self.peers[peer].rule_out()
                case Leave():
                    self._leaving = asyncio.get_running_loop().create_task(self.peers.stop())

    def _begin(self) -> None:
        """Let processes be used."""
        early, self._early = self._early, []
        if self.elects:
            self._make(LEADERSHIP)
        self._program.ready()
        for sender, letter in early:
            self._deliver(sender, letter)

    async def stop(self) -> None:
        """End; the others find this node lost."""
        if self._patience is not None:
            self._patience.cancel()
        if self._probes is not None:
            self._probes.cancel()
        for running in self.processes.values():
            running.host.stop()
        if self._leaving is not None:
            await self._leaving
        await self.peers.stop()
        if self._folder is not None:
            self._folder.release()

    def process(self, lock: str) -> LockProcess:
        """Return the process of a lock; the first use of a name lets all nodes make theirs."""
        assert self.is_ready, "no process begins before all nodes know each other"
        if lock not in self.processes:
            self._make(lock)
            for peer in self.peers:
                peer.send(lock, b"")
        return self.processes[lock]

    def _make(self, lock: str) -> None:
        _, setup = choose(self._config, lock)
        seated = seat(self.algorithm.build(setup)[self.me - 1])
        taped = TapedProcess(HostedProcess(seated, setup.size), seated, lock, self._tape)
        host = Host(
            taped,
            lambda to, message: self._send(lock, to, message),
            lambda event: self._tell(lock, event),
            me=self.me,
            lost=self.meeting.lost,
        )
        self.processes[lock] = LockProcess(seated, host, taped)
        host.start(self._incarnation)

    def _send(self, lock: str, to: ProcessId, message: Any) -> None:
        number = self.peers[to].send(lock, encode(message))
        self._tape.note_sent(lock, number, to, message)

    def _tell(self, lock: str, event: Event) -> None:
        self._tape.note_told(lock, event)
        if isinstance(event, Elected):
            leader = self.membership.members[event.leader - 1].name
            logger.info(
                "node %(node)s follows node %(leader)s",
                {"node": self.name, "leader": leader},
                extra={"event": "leader-followed"},
            )
        self._program.event(lock, event)

    def _deliver(self, peer: ProcessId, letter: ClassicMessage) -> None:
        if self.elects and letter.lock != LEADERSHIP:
            raise ProtocolError(f"a letter about {letter.lock!r}: this cluster has no locks")
        if letter.lock == NODES:
            self._take_note(peer, decode_note(letter.content))
            return
        if not self.is_ready:
            self._early.append((peer, letter))
            self._carry_out(self.meeting.hear_letter())
            return
        if letter.lock not in self.processes:
            self._make(letter.lock)
        if letter.content:
            self.processes[letter.lock].take(peer, letter)

    # Nodes that come, go, and come back

    def _meet(self, peer: ProcessId) -> None:
        strangers = len(self.meeting.strangers)
        wishes = self.meeting.meet(peer)
        if strangers and not self.meeting.strangers:
            logger.info(
                "node %(node)s has met all others",
                {"node": self.name},
                extra={"event": "nodes-met"},
            )
        self._carry_out(wishes)

    def _take_note(self, sender: ProcessId, note: Note) -> None:
        if not self.meeting.goes_on:
            raise ProtocolError("a note about nodes, which this algorithm does not go on without")
        is_known = True
        if isinstance(note, Absent):
            if note.process not in self.meeting.others:
                raise ProtocolError(
                    f"process {note.process} is no node that could be lost to this one"
                )
            is_known = self.peers[note.process].is_known
        self._carry_out(self.meeting.hear(sender, note, is_known=is_known))

    def _wait_for_strangers(self, then: Callable[[], None]) -> None:
        loop, lease = asyncio.get_running_loop(), self.membership.settings.lease
        self._patience = loop.call_later(lease, self._miss_strangers, then)

    def _miss_strangers(self, then: Callable[[], None]) -> None:
        """Do something about nodes of which nothing was known for a lease."""
        others = self.meeting.others
        unknown = frozenset(peer for peer in others if not self.peers[peer].is_known)
        self._carry_out(self.meeting.miss(unknown))
        if not self.is_ready and not self.has_failed:
            then()
            self._wait_for_strangers(ignore)

    def _say_that_it_waits(self) -> None:
        logger.warning(
            "node %(node)s waits: %(algorithm)s grants locks when all nodes have met, and %(missing)s",
            {"node": self.name, "algorithm": self.algorithm.name, "missing": self.missing},
            extra={"event": "node-waits"},
        )

    def _lose(self, peer: ProcessId) -> None:
        name = self.peers[peer].name
        logger.error(
            "node %(peer)s is lost to node %(node)s",
            {"peer": name, "node": self.name},
            extra={"event": "node-lost"},
        )
        self._report(peer)
        self._program.lost(name)

    def _report(self, peer: ProcessId) -> None:
        """Let the processes that watch a peer know that it is down."""
        for _, running in sorted(self.processes.items()):
            running.host.down(peer)

    def _find(self, peer: ProcessId) -> None:
        """Go on with a peer that was lost and is the same start as before.

        Where none of our processes was told that it is down, nothing else has changed. An election
        was told, and so was its: both sides may have a leader by now, so both find out which is the
        highest.
        """
        logger.warning(
            "node %(peer)s is back at node %(node)s",
            {"peer": self.peers[peer].name, "node": self.name},
            extra={"event": "node-back"},
        )
        self._elect()

    def _elect(self) -> None:
        """Find a leader again, since a peer is there that was lost until now.

        An election that went past this node meanwhile has left that peer out, maybe one that the peer
        has begun itself: its list or question came by way of others, before it was here.
        """
        if self.elects:
            for running in self.processes.values():
                running.call("elect")

    def _meet_again(self, peer: ProcessId, incarnation: int) -> str | None:
        """Return why a node that was restarted is not spoken with, if the algorithm has no rule for it.

        Its new start has forgotten what the one before has promised: with its initial state it
        could let in a second process, or claim a token that is elsewhere. The others know its old
        start, so it is up to them to refuse it.
        """
        name = self.peers[peer].name
        if not self.tolerates_restarts or not incarnation:
            self._carry_out(self.meeting.lose(peer))
            only = " of nodes without a data directory" if self.tolerates(RETURN) else ""
            return (
                f"node {name!r} was restarted: {self.algorithm.name} does not tolerate"
                f" restarts{only}; restart all nodes"
            )
        logger.warning(
            "node %(peer)s has returned to node %(node)s",
            {"peer": name, "node": self.name},
            extra={"event": "node-returned"},
        )
        self._report(peer)  # the start that was watched is over, whether it was missed or not
        was_lost = peer in self.lost
        self._carry_out(self.meeting.take_back(peer))
        for lock in sorted(self.processes):
            self.peers[peer].send(lock, b"")
        if was_lost:
            self._elect()
        return None

    def _fail(self, reason: str) -> None:
        wishes = self.meeting.refuse()
        if not wishes:
            return
        logger.critical(
            "node %(node)s ends: %(reason)s",
            {"node": self.name, "reason": reason},
            extra={"event": "node-ends"},
        )
        for running in self.processes.values():
            running.host.stop()
        self._program.failure(Unavailable(reason))
        self._carry_out(wishes)

    # Questions

    def _answer(self, connection: Connection, frame: memoryview) -> None:
        question: Question = decode_question(frame)
        match question:
            case GetMembership():
                connection.send(MembershipReply(msgspec.msgpack.encode(self.membership)))
            case GetClassicStatus():
                connection.send(ClassicStatus(self.figures()))
            case StartRecording():
                self._record(connection)
            case GetRecords():
                connection.send(self._records(connection))

    def _record(self, connection: Connection) -> None:
        """Record for a program until its connection ends."""
        if not self._tape.begin(connection):
            refusal = f"node {self.name} is recorded {RECORDINGS_MAX} times already"
            connection.send(RecordingBegun(system.now(), {}, refusal))
            return
        connection.use(
            lambda frame: self._answer(connection, frame), lambda _: self._tape.end(connection)
        )
        others = (peer for peer in range(1, self.setup.size + 1) if peer != self.me)
        before = {peer: self.peers[peer].posted for peer in others}
        connection.send(RecordingBegun(system.now(), before))

    def _records(self, connection: Connection) -> Records:
        recording = self._tape.recordings.get(connection)
        if recording is None:
            raise ProtocolError("asked for records, and nothing is recorded")
        return Records(tuple(recording.take(RECORDS_AT_ONCE)), recording.left_out)

    def figures(self) -> ClassicFigures:
        """Return how the node is."""
        return ClassicFigures(
            system.now() - self._began,
            self.is_ready,
            tuple(self.away),
            self.leader,
            0 if self.elects else len(self.processes),
            self._program.locks(),
        )
