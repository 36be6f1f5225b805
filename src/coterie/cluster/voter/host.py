"""A voter among its connections: frames go to the protocol, questions are answered around it."""

from __future__ import annotations

import logging
import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from coterie.cluster.runtime import clock
from coterie.cluster.runtime.driver import ME, Driver
from coterie.cluster.voter.report import describe, describe_obstacles, report
from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.frames import (
    AskOwner,
    FindOwners,
    GetMembership,
    GetStatus,
    GetTokenBound,
    MembershipReply,
    NodeStatus,
    OwnerReport,
    Owners,
    TokenBound,
    decode_to_voter,
)
from coterie.errors import ProtocolError
from coterie.mutex.quorum.leased.frames import Beat, Bye, Data, Frame, Probe, Term
from coterie.mutex.quorum.leased.voter import VOTER, Voter
from coterie.process import Outbox

if TYPE_CHECKING:
    from coterie.cluster.client.participant import Attending
    from coterie.cluster.membership import Membership
    from coterie.cluster.voter.storage import Memory, Storage
    from coterie.cluster.wire.frames import Hello, LockReport, ToVoter
    from coterie.deadlock.service.lock_waits import Wanted
    from coterie.process import Event, ProcessId

ASKED_MAX = 64  # waiting participants that a question about a lock is passed on to

logger = logging.getLogger("coterie.cluster")


class Line(Protocol):
    """Somewhere to send frames: a connection, or the participant in this very process."""

    def send(self, frame: msgspec.Struct) -> None:
        """Send a frame."""


class Voting:
    """The voter of one node, with everybody who is connected to it."""

    def __init__(self, membership: Membership, node: str, storage: Storage | None) -> None:
        """Prepare; without storage, numbers go on from the time of day."""
        self.membership = membership
        self.node = node
        self.started = clock.now()
        self.voter = Voter(membership.settings)
        self.labels: dict[str, str] = {}  # of participants with a session or a connection
        self.lines: dict[ProcessId, Line] = {}  # by number
        self.received: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.expired = 0  # sessions
        self.companion: Attending | None = None  # the participant in this very process
        self._numbers: dict[str, ProcessId] = {}  # of participants, by identity
        self._last_number = 0
        self._storage = storage
        self.recovers = False  # the disk is empty, and nobody can say that it always was
        self.driver = Driver(self._send, self._ring, self._hear, self._save)

    def start(self, name: str, *, new_cluster: bool = False) -> None:
        """Begin under a name that no other start has had.

        The voter abstains for a lease, unless it remembers everything since an orderly end, or the
        operator vouches that no program has been granted anything before.
        """
        memory = self._storage and self._storage.recall(self.membership.digest)
        if memory:
            self._resume(memory)
            return
        out: Outbox[Frame] = Outbox(ME, self.started)
        bound = self._storage.read() if self._storage else b""
        by_time = self._number_by_time()
        out.saved = bound or (b"" if new_cluster else str(by_time).encode())
        self.voter.start(name, out)
        if not out.saved:
            self.voter.floor = self.voter.clock = by_time
        self.recovers = self._storage is not None and not bound and not new_cluster
        if self.recovers:
            self.voter.abstains_until = math.inf
        self.driver.carry_out(out)
        if self.voter.abstains() and not self.recovers:
            seconds = self.voter.abstains_until - self.started
            logger.info("node %s abstains from voting for %.2f s", self.node, seconds)

    def _number_by_time(self) -> int:
        """Give a number above all that were used, as far as everybody's time of day is right.

        Programs refuse nodes further away than the error, so nodes are two of them apart at most.
        """
        settings = self.membership.settings
        error = clock.error_borne(settings.lease)
        return clock.number() + int(2 * error * clock.NUMBERS_PER_SECOND) + settings.interval

    def raise_floor(self, floor: int) -> None:
        """Give no token up to this one: another node may have supported it together with us."""
        self.voter.raise_floor(floor)

    def end_recovery(self) -> None:
        """Vote as soon as the abstention of every restart is over."""
        self.recovers = False
        settings = self.membership.settings
        self.voter.abstains_until = self.started + settings.expiry + settings.lock_delay
        self.driver.step(self.voter.ring, VOTER)

    def _resume(self, memory: Memory) -> None:
        """Go on where an orderly end has stopped: for everybody else this was a pause."""
        self.voter, self.labels = memory.voter, memory.labels
        for identity, link in self.voter.sessions.items():
            self._numbers[identity] = link.peer
            self._last_number = max(self._last_number, link.peer)
        self.voter.armed = float("inf")
        self.driver.step(self.voter.ring, VOTER)
        logger.info("node %s goes on with %d sessions", self.node, len(self._numbers))

    def clock(self) -> int:
        """Give the voter's logical clock: no token above it is used unless its voter gave it."""
        return self.voter.clock

    def stop(self) -> None:
        """End in good order, remembering everything if there is a disk."""
        self.driver.stop()
        if self._storage is None or self.driver.failed or self.recovers:
            return  # what could not be saved, or is not known, must not be remembered as if it were
        try:
            self._storage.remember(self.membership.digest, self.voter, self.labels)
        except OSError as error:
            logger.warning("node %s abstains after its next start: %s", self.node, error)

    # Connections

    def admit(self, connection: Connection, hello: Hello) -> None:
        """Serve somebody who has proven itself."""
        if hello.role == "peer":
            raise ProtocolError("peers belong to classic algorithms, and here voters are asked")
        if hello.role == "admin":
            # What it calls itself is not proven: it speaks in nobody's name.
            number, identity = self._new_number(), ""
            connection.on_close = lambda _: self._dismiss(number)
        else:
            number, identity = self._number(hello.identity), hello.identity
            before = self.lines.get(number)
            if isinstance(before, Connection):
                before.close("its owner has opened another one")
            connection.on_close = lambda _: self.leave(identity, connection)
        connection.receive = lambda frame: self.receive(number, identity, decode_to_voter(frame))
        self.enter(number, hello, connection)

    def _number(self, identity: str) -> ProcessId:
        if identity not in self._numbers:
            self._numbers[identity] = self._new_number()
        return self._numbers[identity]

    def _new_number(self) -> ProcessId:
        self._last_number += 1
        return self._last_number

    def attach(self, hello: Hello, line: Line) -> ProcessId:
        """Serve the participant of this very process; gives the number for `receive`."""
        number = self._number(hello.identity)
        self.enter(number, hello, line)
        return number

    def enter(self, number: ProcessId, hello: Hello, line: Line) -> None:
        """Send what belongs to that number there from now on."""
        self.lines[number] = line
        if hello.role == "participant":
            self.labels[hello.identity] = hello.label
            self.driver.step(self.voter.connected, hello.identity)

    def _dismiss(self, number: ProcessId) -> None:
        self.lines.pop(number, None)

    def leave(self, identity: str, line: Line) -> None:
        """Forget a connection, unless a newer one of the same participant has taken its place."""
        number = self._numbers[identity]
        if self.lines.get(number) is line:
            del self.lines[number]
            self._forget_stranger(identity)

    def _forget_stranger(self, identity: str) -> None:
        """Keep nothing about a participant that has neither a connection nor a session."""
        if self._numbers[identity] not in self.lines and identity not in self.voter.sessions:
            del self._numbers[identity]
            self.labels.pop(identity, None)

    # Frames

    def receive(self, number: ProcessId, identity: str, frame: ToVoter) -> None:
        """Handle a frame of whoever has that number."""
        self.received[type(frame).__name__] += 1
        match frame:
            case Data() | Beat() | Probe() | Term() | Bye():
                if not identity or frame.session.participant != identity:
                    raise ProtocolError(f"a frame in the name of {frame.session.participant!r}")
                self.driver.step(self.voter.receive, number, frame)
            case FindOwners():
                self._ask_around(number, frame)
            case OwnerReport():
                if not identity or frame.identity != identity:
                    raise ProtocolError(f"a standing in the name of {frame.identity!r}")
                self._send(frame.route, frame)
            case GetMembership():
                self._send(number, MembershipReply(msgspec.msgpack.encode(self.membership)))
            case GetTokenBound():
                self._send(number, TokenBound(self.node, max(self.voter.bound, self.voter.clock)))
            case GetStatus(locks):
                self._send(number, NodeStatus(report(self, locks=locks)))

    def _ask_around(self, number: ProcessId, asked: FindOwners) -> None:
        """Say who is concerned with these locks, and let them speak for themselves."""
        most = 0 if asked.search else ASKED_MAX
        reports = tuple(self._describe(wanted, most) for wanted in asked.locks)
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

    def _describe(self, wanted: Wanted, most: int) -> LockReport:
        ballot = self.voter.ballots.get(wanted.lock)
        if wanted.shared:
            return describe_obstacles(wanted, ballot)
        return describe(wanted, ballot, most)

    # What the voter wishes

    def _send(self, to: ProcessId, frame: Any) -> None:
        line = self.lines.get(to)
        if line is not None:
            self.sent[type(frame).__name__] += 1
            line.send(frame)

    def _ring(self, timer: str, out: Outbox[Frame]) -> None:
        sessions = len(self.voter.sessions)
        self.voter.ring(timer, out)
        self.expired += sessions - len(self.voter.sessions)
        for identity in list(self._numbers):
            self._forget_stranger(identity)

    def _save(self, bound: bytes) -> None:
        if self._storage:
            self._storage.save(bound)

    def _hear(self, event: Event) -> None:
        raise AssertionError(f"a voter has no user, and told {event}")
