"""A voter among its connections: frames go to the protocol, questions are answered around it."""

from __future__ import annotations

import logging
import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from coterie import system
from coterie.algorithms.mutex.quorum.leased.frames import (
    Accept,
    Beat,
    Bye,
    Close,
    Data,
    Frame,
    NewConfiguration,
    Prepare,
    Probe,
    Query,
    Term,
    Upward,
)
from coterie.algorithms.mutex.quorum.leased.saved import read_saved
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.cluster.membership.abstention import abstention
from coterie.cluster.membership.membership import (
    check_attempt,
    check_decided,
    check_heard,
    objection_to_meaning,
)
from coterie.cluster.runtime import clock
from coterie.cluster.runtime.host import Host
from coterie.cluster.voter.report import describe, describe_obstacles, report
from coterie.cluster.voter.storage import NoDisk
from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.frames import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    GetMembership,
    MembershipReply,
)
from coterie.cluster.wire.voter_frames import (
    BreakHold,
    FindOwners,
    GetAbstention,
    GetStatus,
    GetTokenBound,
    HoldBroken,
    Impose,
    NodeStatus,
    Reach,
    TokenBound,
    decode_to_voter,
)
from coterie.errors import ConfigError, ProtocolError
from coterie.locks.leases.frames import AskOwner, OwnerReport, Owners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.algorithms.mutex.quorum.leased.frames import Ask
    from coterie.algorithms.mutex.quorum.leased.saved import Saved
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.voter.storage import Memory, Storage
    from coterie.cluster.wire.frames import Hello
    from coterie.cluster.wire.voter_frames import Reached, ToVoter
    from coterie.locks.deadlocks.reports import LockOwner, Wanted
    from coterie.locks.leases.frames import LockReport
    from coterie.process import Event, Outbox, ProcessId

ASKED_MAX = 64  # waiting participants that a question about a lock is passed on to

logger = logging.getLogger("coterie.cluster")


class Line(Protocol):
    """Somewhere to send frames: a connection, or the participant in this very process."""

    def send(self, frame: msgspec.Struct) -> None:
        """Send a frame."""


class HostedVoter:
    """The voter as its host drives it: how it begins, and what follows from its timer."""

    messages: ClassVar[Any] = Upward

    def __init__(
        self,
        voter: Voter,
        after_ring: Callable[[], None],
        *,
        has_disk: bool,
        new_cluster: bool,
    ) -> None:
        """Prepare; `after_ring` follows each time the timer has rung."""
        self.voter = voter
        self.resumed = False  # it is as an orderly end has left it
        self.recovers = False  # the disk is empty, and nothing says that it always was
        self.expired = 0  # sessions
        self._after_ring = after_ring
        self._has_disk = has_disk
        self._new_cluster = new_cluster

    def resume(self, voter: Voter) -> None:
        """Go on where an orderly end has stopped: for all others this was a pause."""
        self.voter = voter
        self.resumed = True

    def start(self, out: Outbox[Frame]) -> None:
        """Begin under a name that no other start has had.

        The voter abstains for a lease, since votes that it gave before this start may still count,
        and it does not know them. It does not abstain if it remembers everything since an orderly
        end, or if the operator vouches that no program has been granted anything before.
        """
        if self.resumed:
            self.voter.armed = math.inf
            self.voter.ring(VOTER, out)
            return
        if self.voter.configuration is None:  # a spare, unless its disk knows better
            self.voter.start(system.secret(16).hex(), out)
            self.voter.advance(clock.number())  # about where those of the voters are
            return
        self.recovers = self._has_disk and not out.saved and not self._new_cluster
        by_time = self._number_by_time()
        if not out.saved and not self._new_cluster:
            out.saved = str(by_time).encode()
        self.voter.start(system.secret(16).hex(), out)
        if not out.saved:
            self.voter.floor = self.voter.clock = by_time
        if self.recovers:
            self.voter.abstains_until = math.inf

    def _number_by_time(self) -> int:
        """Return a number above all that were used, as far as all times of day are right.

        Programs refuse nodes further away than the error, so nodes are two of them apart at most.
        """
        settings = self.voter.settings
        error = clock.error_borne(settings.lease)
        return clock.number() + int(2 * error * clock.NUMBERS_PER_SECOND) + settings.interval

    def receive(self, sender: ProcessId, message: Upward, out: Outbox[Frame]) -> None:
        """Handle a frame of a participant."""
        self.voter.receive(sender, message, out)

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        """Handle the timer, and count the sessions that it ends."""
        sessions = len(self.voter.sessions)
        self.voter.ring(timer, out)
        self.expired += sessions - len(self.voter.sessions)
        self._after_ring()

    def down(self, peer: ProcessId, out: Outbox[Frame]) -> None:
        """Voters watch no process: sessions expire."""
        raise AssertionError(f"a voter watches no process, and heard that {peer} is down")


def _too_old(label: str, required: int) -> str:
    return (
        f"{label!r} does not speak protocol {required}, which the cluster asks for now: run a newer"
        " version of coterie there"
    )


def _owners(report: OwnerReport) -> Iterator[LockOwner]:
    for standing in report.locks:
        yield from standing.holders
        yield from standing.waiting


class VoterHost:
    """The voter of one node, with all programs that are connected to it."""

    def __init__(
        self,
        membership: Membership,
        node: str,
        storage: Storage | None,
        on_disk_failure: Callable[[OSError], None],
        *,
        reach: Callable[[str, str, Callable[[Reached], None]], None],
        new_cluster: bool = False,
    ) -> None:
        """Prepare; without storage, numbers go on from the time of day.

        `reach` calls another node by name and address, and passes on what came of it.
        """
        self.node = node
        self._founded = membership
        self._shown = membership  # the newest that it knows, though it may have no part in it
        self._considered: Configuration | None = None  # that of the voter, as `_shown` knows it
        self.started = system.now()
        self.awaited: list[str] = []  # nodes that have to say first which numbers were used
        self.labels: dict[str, str] = {}  # of participants with a session or a connection
        self.lines: dict[ProcessId, Line] = {}  # by number
        self.received: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self._reach = reach
        self._numbers: dict[str, ProcessId] = {}  # of participants, by identity
        self._last_number = 0
        self._runs = False
        self._time = clock.RunningClock()
        self._storage = storage
        self._versions: dict[str, int] = {}  # of the protocol, that participants speak
        self._operators: dict[ProcessId, str] = {}  # their labels
        self._told: dict[ProcessId, tuple[Configuration, float]] = {}  # what, and when
        self._hosted = HostedVoter(
            Voter(None if membership.decided else membership.configuration),
            self._after_ring,
            has_disk=storage is not None,
            new_cluster=new_cluster,
        )
        self.host = Host(
            self._hosted,
            self._send,
            self._hear,
            storage=storage or NoDisk(),
            on_disk_failure=on_disk_failure,
        )

    @property
    def voter(self) -> Voter:
        """The voter as it is now."""
        return self._hosted.voter

    @property
    def membership(self) -> Membership:
        """The newest configuration that it knows."""
        adopted = self.voter.configuration
        if adopted is not self._considered:
            self._considered = adopted
            if adopted is not None and adopted.number >= self._shown.configuration.number:
                self._shown = self._founded.after(adopted)
        return self._shown

    @property
    def votes(self) -> bool:
        """Whether it is a voter of its configuration, with this very disk."""
        adopted = self.voter.configuration
        if adopted is None or not adopted.members:
            return adopted is not None
        return any(
            member.name == self.node and member.identity == self.voter.identity
            for member in adopted.members
        )

    @property
    def expired(self) -> int:
        """How many sessions have expired."""
        return self._hosted.expired

    @property
    def recovers(self) -> bool:
        """Whether other nodes have to say first which numbers may have been used."""
        return self._hosted.recovers

    def start(self) -> None:
        """Go on from an orderly end, or begin; maybe by abstaining."""
        self.started = system.now()
        memory = self._recall()
        if memory is not None:
            self._hosted.resume(memory.voter)
            self.labels = memory.labels
            self._numbers = {name: link.peer for name, link in memory.voter.sessions.items()}
            self._last_number = max(self._numbers.values(), default=0)
        if self._storage is not None:
            self.voter.identity = self._storage.identity
            self.voter.is_old = self._storage.is_old
        self.host.start(clock.number())
        self._runs = True
        if self._hosted.resumed:
            logger.info(
                "node %(node)s goes on with %(sessions)d sessions",
                {"node": self.node, "sessions": len(self._numbers)},
                extra={"event": "node-resumes"},
            )
        elif self.voter.abstains() and not self.recovers:
            seconds = self.voter.abstains_until - self.started
            logger.info(
                "node %(node)s abstains from voting for %(seconds).2f s",
                {"node": self.node, "seconds": seconds},
                extra={"event": "node-abstains"},
            )

    def _recall(self) -> Memory | None:
        """Take what an orderly end has left, if it is of the configuration that is on disk."""
        if self._storage is None:
            return None
        saved = read_saved(self._storage.load()[0])
        self._check_meaning(saved)
        membership = self._founded
        if saved.configuration is not None:
            membership = membership.after(saved.configuration)
        return self._storage.recall(membership.digest)

    def _check_meaning(self, saved: Saved) -> None:
        """Raise `ConfigError` if the disk knows of a protocol that this version does not speak.

        Nothing is taken from the disk before: a newer version goes on from all of it.
        """
        accepted = saved.accepted.configuration if saved.accepted is not None else None
        for configuration in (saved.configuration, accepted):
            reason = None if configuration is None else objection_to_meaning(configuration)
            if reason:
                raise ConfigError(f"node {self.node!r} does not start: {reason}")

    def raise_floor(self, floor: int) -> None:
        """Give no token up to this one, as another node may have supported it together with us."""
        self.voter.raise_floor(floor)

    def wait_for(self, nodes: list[str]) -> None:
        """Note which nodes have to say first which numbers may have been used."""
        self.awaited = nodes

    def end_recovery(self) -> None:
        """Vote as soon as the abstention of every restart is over."""
        self._hosted.recovers = False
        self.awaited = []
        self.voter.abstains_until = self.started + self.voter.abstention
        self.host.step(self._hosted.ring, VOTER)

    def clock(self) -> int:
        """Return the voter's logical clock, which goes on with time for those that compare it.

        No token above it is used unless its voter gave it.
        """
        return self._time.read(self.voter.clock)

    def stop(self) -> None:
        """End in good order, remembering everything if there is a disk."""
        self.host.stop()
        runs, self._runs = self._runs, False
        is_spare = self.voter.configuration is None
        if self._storage is None or not runs or self.host.failed or self.recovers or is_spare:
            # What could not be saved, or is not known yet, must not be remembered as if it were: the
            # next start would go on from it, and vote at once.
            return
        try:
            self._storage.remember(self.membership.digest, self.voter, self.labels)
        except OSError as error:
            logger.warning(
                "node %(node)s abstains after its next start: %(reason)s",
                {"node": self.node, "reason": error},
                extra={"event": "state-not-saved"},
            )

    # Connections

    def admit(self, connection: Connection, hello: Hello) -> None:
        """Serve a program that has proven itself, over its connection."""
        if hello.role == "peer":
            raise ProtocolError(
                "this cluster runs the leased lock, and a node of a classic one has called"
            )
        required = self.membership.configuration.protocol
        if hello.highest < required:
            # The configuration came while it was in the handshake; the next one tells it the reason.
            raise ProtocolError(_too_old(hello.label, required))
        if hello.role in ("admin", "operator"):
            # What it calls itself is not proven, so it speaks for no participant.
            number, identity = self._new_number(), ""
        else:
            number, identity = self._number(hello.identity), hello.identity
            before = self.lines.get(number)
            if isinstance(before, Connection):
                before.close("its owner has opened another one")
        connection.use(
            lambda frame: self.receive(number, identity, decode_to_voter(frame)),
            lambda _: self.leave(identity, connection) if identity else self._dismiss(number),
        )
        self.enter(number, hello, connection)

    def _number(self, identity: str) -> ProcessId:
        if identity not in self._numbers:
            self._numbers[identity] = self._new_number()
        return self._numbers[identity]

    def _new_number(self) -> ProcessId:
        self._last_number += 1
        return self._last_number

    def attach(self, hello: Hello, line: Line) -> ProcessId:
        """Serve the participant of this very process; return the number for `receive`."""
        number = self._number(hello.identity)
        self.enter(number, hello, line)
        return number

    def enter(self, number: ProcessId, hello: Hello, line: Line) -> None:
        """Send what belongs to that number there from now on."""
        self.lines[number] = line
        self._told.pop(number, None)  # it may have been lost with the connection before
        if hello.role == "operator":
            self._operators[number] = hello.label
        if hello.role == "participant":
            self._versions[hello.identity] = hello.highest
            self.labels[hello.identity] = hello.label
            if hello.number < self.membership.configuration.number:
                self._announce([number])
            self.host.step(self.voter.connected, hello.identity)

    def _dismiss(self, number: ProcessId) -> None:
        self.lines.pop(number, None)
        self._operators.pop(number, None)
        self._told.pop(number, None)

    def leave(self, identity: str, line: Line) -> None:
        """Forget a connection, unless a newer one of the same participant has taken its place."""
        number = self._numbers.get(identity)
        if number is None:  # the newer one has ended first, and left nothing to forget
            return
        if self.lines.get(number) is line:
            self._dismiss(number)
            self._forget_stranger(identity)

    def _after_ring(self) -> None:
        self.clock()
        for identity in list(self._numbers):
            self._forget_stranger(identity)

    def _forget_stranger(self, identity: str) -> None:
        """Keep nothing about a participant that has neither a connection nor a session."""
        if self._numbers[identity] not in self.lines and identity not in self.voter.sessions:
            del self._numbers[identity]
            self.labels.pop(identity, None)
            self._versions.pop(identity, None)

    # Frames

    def receive(self, number: ProcessId, identity: str, frame: ToVoter) -> None:
        """Handle a frame of the program with that number, and with that identity if it has one."""
        self.received[type(frame).__name__] += 1
        match frame:
            case NewConfiguration(configuration):
                # Programs that take locks pass on what they have heard from voters: without that, a
                # voter that was away would not learn of a change whose changer is gone.
                if not identity and number not in self._operators:
                    raise ProtocolError("a configuration of a program that is no operator")
                self.learn(configuration)
            case Query() | Reach() | Close() | Prepare() | Accept() | Impose() | BreakHold():
                self._receive_from_operator(number, frame)
            case Data() | Beat() | Probe() | Term() | Bye():
                if not identity or frame.session.participant != identity:
                    raise ProtocolError(
                        f"a frame in the name of another participant, {frame.session.participant!r}"
                    )
                voter = self._hosted.voter
                reading = self._time.read(voter.clock)
                voter.advance(reading)
                self.host.step(voter.receive, number, frame)
                if voter.clock > reading:
                    self.clock()  # time goes on from where the frame has moved the logical clock
            case FindOwners():
                self._ask_around(number, frame)
            case OwnerReport():
                if not identity or frame.identity != identity:
                    raise ProtocolError(
                        f"a report in the name of another participant, {frame.identity!r}"
                    )
                if any(owner.wait and owner.wait.condition.groups for owner in _owners(frame)):
                    raise ProtocolError("a wait for groups of locks, which no program has")
                self._send(frame.route, frame)
            case GetMembership() | GetTokenBound() | GetStatus() | GetAbstention():
                self._send(number, self._answer(frame))

    def _answer(
        self, question: GetMembership | GetTokenBound | GetStatus | GetAbstention
    ) -> msgspec.Struct:
        match question:
            case GetMembership():
                return MembershipReply(msgspec.msgpack.encode(self.membership))
            case GetTokenBound():
                return TokenBound(self.node, max(self.voter.bound, self.voter.clock))
            case GetStatus(locks):
                return NodeStatus(report(self, locks=locks))
            case GetAbstention():
                return abstention(self)

    # Configurations

    def learn(self, configuration: Configuration) -> None:
        """Adopt a configuration, or show it to others if this node has no part in it."""
        check_heard(configuration, self.membership.configuration)
        before, shown_before = self.voter.number, self.membership.configuration.number
        self.host.step(self.voter.adopt, configuration)
        if configuration.number > self._shown.configuration.number:
            self._shown = self._founded.after(configuration)
        if self.voter.number < 0 <= before:
            self._hosted.recovers = False
            self.awaited = []
            named = any(member.name == self.node for member in configuration.members)
            logger.error(
                "node %(node)s does not vote: its data directory is not that of the voter of"
                " configuration %(number)d; after the loss of a disk, coterie cluster %(command)s makes"
                " it one again",
                {
                    "node": self.node,
                    "number": configuration.number,
                    "command": f"replace {self.node}" if named else f"add {self.node}=ADDRESS",
                },
                extra={"event": "node-not-voter"},
            )
        if self.voter.number > before:
            names = ", ".join(member.name for member in configuration.members)
            logger.info(
                "node %(node)s has adopted configuration %(number)d: %(voters)s",
                {"node": self.node, "number": self.voter.number, "voters": names},
                extra={"event": "configuration-adopted"},
            )
        if self.membership.configuration.number > shown_before:
            self._end_old_connections()
            self._announce(self._numbers.values())

    def _lowest_version(self) -> int:
        """Return the protocol of participants that have not called since our restart, at least."""
        return max(OLDEST_PROTOCOL, self.membership.configuration.protocol)

    def _end_old_connections(self) -> None:
        """Let no program go on that cannot read what it would have to be sent from now on.

        It calls again, and is refused with the reason. Until a configuration asks for another
        protocol its own number is served, and a participant that knows no other hears of none.
        """
        required = self.membership.configuration.protocol
        for identity, number in list(self._numbers.items()):
            line = self.lines.get(number)
            if isinstance(line, Connection) and self._versions.get(identity, required) < required:
                reason = _too_old(self.labels[identity], required)
                logger.warning(
                    "node %(node)s ends a connection: %(reason)s",
                    {"node": self.node, "reason": reason},
                    extra={"event": "program-too-old"},
                )
                line.close(reason)

    def _find_slowest(self) -> None:
        """Look which program keeps the protocol down.

        What one that is connected, or has a session, cannot understand must not be decided.
        """
        versions, unknown = self._versions, self._lowest_version()
        slow = (
            (spoken, label)
            for name, label in self.labels.items()
            if (spoken := versions.get(name, unknown)) < PROTOCOL
        )
        self.voter.protocol, self.voter.slowest = min(slow, default=(PROTOCOL, ""))

    def _announce(self, programs: Iterable[ProcessId]) -> None:
        """Tell programs of the newest configuration, also those that have nothing to say just now.

        One that hears of no change for long could find none of the voters that it knows.
        """
        newest = self.membership.decided
        if newest is not None:
            for number in programs:
                self._send(number, NewConfiguration(newest))

    def _receive_from_operator(
        self, number: ProcessId, frame: Ask | Impose | Reach | BreakHold
    ) -> None:
        """Handle what changes the cluster; only the question where we stand is open to others.

        Other programs do not make a node call what they name.
        """
        if number not in self._operators and not isinstance(frame, Query):
            raise ProtocolError(f"a {type(frame).__name__} of a program that is no operator")
        if self.recovers and isinstance(frame, Prepare | Accept):
            # What it promised would be on disk, and the next start would take that for a disk that
            # knows which numbers were used. Changers ask again.
            return
        match frame:
            case Impose(configuration):
                check_heard(configuration, self.membership.configuration)
                self.host.step(self.voter.impose, configuration)
                self._end_old_connections()
                self._announce(self._numbers.values())
                logger.critical(
                    "node %(node)s goes on by configuration %(number)d, which was not decided",
                    {"node": self.node, "number": configuration.number},
                    extra={"event": "configuration-forced"},
                )
            case BreakHold():
                self._break(number, frame)
            case Reach(name, address):
                self._reach(name, address, partial(self._send, number))
            case Query() | Close() | Prepare() | Accept():
                if isinstance(frame, Prepare | Accept):
                    check_attempt(frame.attempt)
                if isinstance(frame, Accept):
                    check_decided(frame.configuration)
                self._find_slowest()
                self.host.step(self.voter.receive, number, frame)

    def _break(self, number: ProcessId, order: BreakHold) -> None:
        """End the holds of a lock, as far as this node has given its vote to them."""
        lock = order.lock
        tenures = self.voter.revocable(lock, order.participants, order.token)
        owners = [tenure.claim.participant for tenure in tenures]
        unknown = self._lowest_version()
        labels = {name: self.labels.get(name, "unknown") for name in owners}
        too_old = tuple(
            labels[name] for name in owners if self._versions.get(name, unknown) < PROTOCOL
        )
        told = () if too_old else tuple(labels.values())
        if told:
            logger.warning(
                "node %(node)s: operator %(operator)s has ended the hold of lock %(lock)r by"
                " %(holders)s",
                {
                    "node": self.node,
                    "operator": self._operators[number],
                    "lock": lock,
                    "holders": ", ".join(told),
                },
                extra={"event": "hold-broken"},
            )
            self.host.step(self.voter.revoke, lock, tenures, order.token)
        self._send(number, HoldBroken(told, too_old))

    def _ask_around(self, number: ProcessId, asked: FindOwners) -> None:
        """Answer which participants have these locks or wait for them, and ask each of those."""
        most = 0 if asked.search else ASKED_MAX
        # A lock that is named many times costs the programs concerned no more than once. So does one
        # that many requesters are named for: a request to have it alone has none, and what blocks a
        # request to share it is the same for all tasks of a participant.
        if any(wanted.requester.participant and not wanted.shared for wanted in asked.locks):
            raise ProtocolError("a requester of a lock that is not to be shared")
        reports = self._describe_all(dict.fromkeys(asked.locks), most)
        concerns: dict[str, list[Wanted]] = {}  # the locks of each identity
        for known in reports:
            for identity in (*known.owners, *known.queue):
                concerns.setdefault(identity, []).append(known.wanted)
        labels = {name: self.labels[name] for name in concerns if name in self.labels}
        self._send(number, Owners(asked.question, reports, labels))
        for name, locks in concerns.items():
            to = self._numbers.get(name)
            if to is not None:
                self._send(to, AskOwner(number, asked.question, tuple(locks), asked.search))

    def _describe_all(self, asked: Iterable[Wanted], most: int) -> tuple[LockReport, ...]:
        obstacles: dict[tuple[str, str], LockReport] = {}  # by lock and participant
        reports = []
        for wanted in asked:
            ballot = self.voter.ballots.get(wanted.lock)
            if not wanted.shared:
                reports.append(describe(wanted, ballot, most))
                continue
            place = wanted.lock, wanted.requester.participant
            if place not in obstacles:
                obstacles[place] = describe_obstacles(wanted, ballot)
            reports.append(msgspec.structs.replace(obstacles[place], wanted=wanted))
        return tuple(reports)

    # What the voter wishes

    def _send(self, to: ProcessId, frame: Any) -> None:
        line = self.lines.get(to)
        if line is None or (type(frame) is NewConfiguration and self._is_told(to, frame)):
            return
        self.sent[type(frame).__name__] += 1
        line.send(frame)

    def _is_told(self, program: ProcessId, news: NewConfiguration) -> bool:
        """Return whether a program was told the same less than a heartbeat ago; else note it.

        One that cannot reach the new voters counts by the number before as long as that is served,
        and each of its frames asks for the news again. Nothing rests on it (19.3).
        """
        configuration, now = news.configuration, system.now()
        told, since = self._told.get(program, (None, now))
        if told is configuration and now < since + configuration.settings.heartbeat:
            return True
        self._told[program] = configuration, now
        return False

    def _hear(self, event: Event) -> None:
        raise AssertionError(f"a voter has no user, and told {event}")
