"""A voter among its connections: frames go to the protocol, questions are answered around it."""

from __future__ import annotations

import logging
import math
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from coterie import system
from coterie.algorithms.mutex.quorum.leased.configuration import FORCED_LEAP
from coterie.algorithms.mutex.quorum.leased.frames import (
    Accept,
    Beat,
    Bye,
    Close,
    CopyValue,
    Data,
    GetValue,
    ListValues,
    Look,
    NewConfiguration,
    Obituary,
    Prepare,
    Probe,
    Query,
    Term,
)
from coterie.algorithms.mutex.quorum.leased.saved import read_saved
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.cluster.membership.membership import check_heard, objection_to_meaning
from coterie.cluster.membership.proof import Prover, UnprovenError
from coterie.cluster.runtime import clock
from coterie.cluster.runtime.host import Host
from coterie.cluster.voter.deaths import DeathDesk
from coterie.cluster.voter.hosted_voter import HostedVoter
from coterie.cluster.voter.operator_desk import OperatorDesk
from coterie.cluster.voter.programs import Programs, too_old
from coterie.cluster.voter.report import abstention, describe, describe_obstacles, report
from coterie.cluster.voter.storage import NoDisk
from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.frames import GetMembership, MembershipReply
from coterie.cluster.wire.security import Security
from coterie.cluster.wire.voter_frames import (
    AskDeath,
    BreakHold,
    Deaths,
    EndAbstention,
    FindOwners,
    GetAbstention,
    GetStatus,
    GetTokenBound,
    Impose,
    NodeStatus,
    Reach,
    TokenBound,
    check_locks,
    decode_to_voter,
)
from coterie.errors import ConfigError, ProtocolError
from coterie.locks.leases.frames import AskOwner, OwnerReport, Owners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.algorithms.mutex.quorum.leased.frames import Session
    from coterie.algorithms.mutex.quorum.leased.saved import Saved
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.voter.deaths import AskNodes
    from coterie.cluster.voter.programs import FrameSink
    from coterie.cluster.voter.storage import Memory, Storage
    from coterie.cluster.wire.frames import Hello
    from coterie.cluster.wire.voter_frames import Reached, ToVoter
    from coterie.locks.deadlocks.reports import LockOwner, Wanted
    from coterie.locks.leases.frames import LockReport
    from coterie.process import Event, ProcessId

ASKED_MAX = 64  # waiting participants that a question about a lock is passed on to

logger = logging.getLogger("coterie.cluster")


def _owners(report: OwnerReport) -> Iterator[LockOwner]:
    for standing in report.locks:
        yield from standing.holders
        yield from standing.waiting


class VoterHost:
    """The voter of one node: its start and end, its connections, and the questions to it."""

    def __init__(
        self,
        membership: Membership,
        node: str,
        storage: Storage | None,
        on_disk_failure: Callable[[OSError], None],
        *,
        reach: Callable[[str, str, Callable[[Reached], None]], None],
        prover: Prover | None = None,
        new_cluster: bool = False,
        ask_nodes: AskNodes | None = None,
        trusts_programs: bool = True,
        adopted: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; without storage, numbers go on from the time of day.

        `adopted` is called when the voter may go by another configuration.
        `reach` calls another node and passes on what came of it. Without a `prover` all are operators.
        `ask_nodes` asks the other nodes which programs are dead; None: none is taken for dead before its
        lease is over. Programs are asked too if they are trusted with that.
        """
        self.node = node
        self._adopted = adopted
        self._prover = prover or Prover(membership.cluster, Security())
        self._founded = self._shown = membership  # shown: the newest that it knows
        self._considered: Configuration | None = None  # that of the voter, as `_shown` knows it
        self.started = system.now()
        self._outlasts = -math.inf  # until when nodes abstain that were asked during recovery
        self.awaited: list[str] = []  # nodes that have to say first which numbers were used
        self.programs = Programs(node)
        self.received: Counter[str] = Counter()  # frames, by kind
        self._runs, self._time = False, clock.RunningClock()
        self._storage, self._new_cluster = storage, new_cluster
        self._hosted = HostedVoter(
            Voter(None if membership.decided else membership.configuration),
            self._after_ring,
            has_disk=storage is not None,
            new_cluster=new_cluster,
        )
        disk = storage or NoDisk()
        self.host = Host(
            self._hosted,
            self.programs.send,
            self._hear,
            storage=disk,
            log=disk,
            on_disk_failure=on_disk_failure,
        )
        self._operator_desk = self._make_operator_desk(reach)
        self.deaths = self._make_death_desk(ask_nodes, trusts_programs) if ask_nodes else None

    def _make_operator_desk(
        self, reach: Callable[[str, str, Callable[[Reached], None]], None]
    ) -> OperatorDesk:
        return OperatorDesk(
            self.node,
            self._hosted,
            self.host,
            self.programs,
            membership=lambda: self.membership,
            prover=self._prover,
            reach=reach,
            adopted=self._adopted,
        )

    def _make_death_desk(self, ask_nodes: AskNodes, trusts_programs: bool) -> DeathDesk:
        return DeathDesk(
            self.node,
            self.programs,
            lambda: self.voter,
            self._bury,
            ask_nodes,
            trusts_programs=trusts_programs,
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
    def is_forced(self) -> bool:
        """Whether it goes by a configuration that no quorum has decided, or by a later one."""
        return self.voter.number >= FORCED_LEAP

    @property
    def disk_owner(self) -> str | None:
        """The name of another voter whose disk this node was started with, or with a copy of it."""
        adopted, identity = self.voter.configuration, self.voter.identity
        members = adopted.members if adopted is not None else ()
        owners = [member.name for member in members if member.identity == identity]
        return owners[-1] if owners and self.node not in owners else None

    @property
    def expired(self) -> int:
        """How many sessions have expired."""
        return self._hosted.expired

    @property
    def resumed(self) -> bool:
        """Whether it went on from an orderly end, as the same voter with all its sessions."""
        return self._hosted.resumed

    @property
    def recovers(self) -> bool:
        """Whether other nodes have to say first which numbers may have been used."""
        return self._hosted.recovers

    def start(self) -> None:
        """Go on from an orderly end, or begin; maybe by abstaining."""
        self.started = system.now()
        memory = self._recall()
        numbers: dict[str, ProcessId] = {}
        if memory is not None:
            self._hosted.resume(memory.voter)
            numbers = {name: link.peer for name, link in memory.voter.sessions.items()}
            self.programs.restore(numbers, memory.labels)
        if self._storage is not None:
            self.voter.identity = self._storage.identity
            self.voter.is_old = self._storage.is_old
            self._take_vouch(self._storage)
        self.voter.is_witness = self.deaths is not None
        self.host.start(clock.number())
        self._prove()
        self._runs = True
        if self._hosted.resumed:
            logger.info(
                "node %(node)s goes on with %(sessions)d sessions",
                {"node": self.node, "sessions": len(numbers)},
                extra={"event": "node-resumes"},
            )
            self._look_for_ends(numbers)
        elif self.voter.abstains() and not self.recovers:
            seconds = self.voter.abstains_until - self.started
            logger.info(
                "node %(node)s abstains from voting for %(seconds).2f s",
                {"node": self.node, "seconds": seconds},
                extra={"event": "node-abstains"},
            )

    def _look_for_ends(self, participants: Iterable[str]) -> None:
        """Look which programs have ended while this node was not there."""
        for identity in participants:
            if self.deaths is not None:
                self.deaths.lose(identity)

    def _take_vouch(self, storage: Storage) -> None:
        """Note the word of the operator, or go by that of an earlier start which gave no vote."""
        if self._new_cluster:
            storage.vouch()
        if storage.is_vouched:
            self._hosted.vouch()

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

    def outlast(self, seconds: float) -> None:
        """Abstain for as long as another node still does: our disk may have known of its reason.

        The file may have had a longer lease before. A hold by that one ends with its last vote, and
        one of its votes is from a node that was asked.
        """
        if math.isfinite(seconds):  # else that node has lost its disk, and knows no more than we do
            self.voter.abstention = max(self.voter.abstention, seconds)
            self._outlasts = max(self._outlasts, system.now() + seconds)

    def end_recovery(self) -> None:
        """Vote as soon as the abstention of every restart is over."""
        self._hosted.recovers = False
        self.awaited = []
        own = self.started + self.voter.abstention
        self.voter.abstains_until = max(own, self._outlasts)
        self.host.step(self._hosted.ring, VOTER)

    def clock(self) -> int:
        """Return the voter's logical clock, which goes on with time for those that compare it.

        No token above it is used unless its voter gave it.
        """
        return self._time.read(self.voter.clock)

    def stop(self) -> None:
        """End in good order, remembering everything if there is a disk."""
        if self.deaths is not None:
            self.deaths.close()
        self.host.stop()
        runs, self._runs = self._runs, False
        is_spare = self.voter.configuration is None
        if self._storage is None or not runs or self.host.failed or self.recovers or is_spare:
            # What could not be saved, or is not known yet, must not be remembered as if it were: the
            # next start would go on from it, and vote at once.
            return
        try:
            self._storage.remember(self.membership.digest, self.voter, self.programs.labels)
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
            raise ProtocolError(too_old(hello.label, required))
        if hello.role in ("admin", "operator"):
            # What it calls itself is not proven, so it speaks for no participant.
            number, identity = self.programs.new_number(), ""
        else:
            number, identity = self.programs.number_of(hello.identity), hello.identity
            before = self.programs.sinks.get(number)
            if isinstance(before, Connection):
                before.close("its owner has opened another one")
        connection.use(
            lambda frame: self.receive(number, identity, decode_to_voter(frame)),
            lambda _: (
                self.leave(identity, connection) if identity else self.programs.dismiss(number)
            ),
        )
        self.enter(number, hello, connection)

    def attach(self, hello: Hello, sink: FrameSink) -> ProcessId:
        """Serve the participant of this very process; return the number for `receive`."""
        number = self.programs.number_of(hello.identity)
        self.enter(number, hello, sink)
        return number

    def enter(self, number: ProcessId, hello: Hello, sink: FrameSink) -> None:
        """Send what belongs to that number there from now on."""
        self.programs.enter(number, hello, sink)
        if hello.role == "participant":
            if hello.number < self.membership.configuration.number:
                self.programs.tell(number, self.membership)
            self.host.step(self.voter.connected, hello.identity)
            if self.deaths is not None:
                self.deaths.find(hello.identity)

    def leave(self, identity: str, sink: FrameSink) -> None:
        """Forget a connection, unless a newer one of the same participant has taken its place."""
        self.programs.leave(identity, sink, self.voter.sessions)
        number = self.programs.find(identity)
        if self.deaths is not None and number is not None and number not in self.programs.sinks:
            self.deaths.lose(identity)

    def _bury(self, identity: str, life: str) -> None:
        """End the session of a participant whose program is gone."""
        number = self.programs.find(identity)
        sink = self.programs.sinks.get(number) if number is not None else None
        if isinstance(sink, Connection):
            sink.abort("its program is gone")  # before its votes are free: nothing comes from there
        self.host.step(self.voter.receive, 0, Obituary(identity, life))

    def _after_ring(self) -> None:
        self.clock()
        self.programs.forget_strangers(self.voter.sessions)
        if self.deaths is not None:
            self.deaths.tidy()

    # Frames

    def receive(self, number: ProcessId, identity: str, frame: ToVoter) -> None:
        """Handle a frame of the program with that number, and with that identity if it has one."""
        self.received[type(frame).__name__] += 1
        match frame:
            case NewConfiguration(configuration):
                self._take_news(number, identity, configuration)
            case (
                Query()
                | Reach()
                | Close()
                | Prepare()
                | Accept()
                | CopyValue()
                | Impose()
                | BreakHold()
                | EndAbstention()
            ):
                self._operator_desk.receive(number, frame)
            case Data() | Beat() | Probe() | Term() | Bye():
                self._take(number, identity, frame)
            case Look() | ListValues() | GetValue():
                self.host.step(self.voter.receive, number, frame)
            case AskDeath() | Deaths():
                self._hear_of_death(number, identity, frame)
            case FindOwners():
                self._ask_around(number, frame)
            case OwnerReport():
                if not identity or frame.identity != identity:
                    raise ProtocolError(
                        f"a report in the name of another participant, {frame.identity!r}"
                    )
                if any(owner.wait and owner.wait.condition.groups for owner in _owners(frame)):
                    raise ProtocolError("a wait for groups of locks, which no program has")
                self.programs.send(frame.route, frame)
            case GetMembership() | GetTokenBound() | GetStatus() | GetAbstention():
                self.programs.send(number, self._answer(frame))

    def _take(self, number: ProcessId, identity: str, frame: Session) -> None:
        """Hand a frame of a session to the voter."""
        if not identity or frame.session.participant != identity:
            raise ProtocolError(
                f"a frame in the name of another participant, {frame.session.participant!r}"
            )
        voter = self._hosted.voter
        if isinstance(frame, Data):
            check_locks(frame, voter.ballots)
        reading = self._time.read(voter.clock)
        voter.advance(reading)
        self.host.step(voter.receive, number, frame)
        if voter.clock > reading:
            self.clock()  # time goes on from where the frame has moved the logical clock
        if self.deaths is not None and isinstance(frame, Data | Beat) and frame.life:
            self.deaths.meet(number, frame.life)

    def _hear_of_death(self, number: ProcessId, identity: str, frame: AskDeath | Deaths) -> None:
        match frame:
            case AskDeath():
                if not self.programs.is_operator(number):
                    raise ProtocolError(
                        "a question about programs by a program that is not an operator"
                    )
                if self.deaths is None:
                    self.programs.send(number, Deaths(()))
                else:
                    self.deaths.answer(number, frame)
            case Deaths():
                if not identity:
                    raise ProtocolError("deaths of a program that was not asked")
                if self.deaths is not None:
                    self.deaths.hear(number, identity, frame)

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

    def _take_news(self, number: ProcessId, identity: str, configuration: Configuration) -> None:
        """Learn of a configuration from an operator, or from a program that passes on its proof."""
        if self.programs.is_operator(number):
            self.learn(self._prover.prove(configuration))
        elif not identity:
            raise ProtocolError("a configuration of a program that is not an operator")
        elif self._prover.is_proven(configuration):
            # Programs that take locks pass on what they have heard from voters: without that, a
            # voter that was away would not learn of a change whose changer is gone.
            self.learn(configuration)
        elif configuration.number > self.membership.configuration.number:
            # Its connection stays: an honest program of an earlier version passes on no proofs.
            self.programs.doubt(identity, str(UnprovenError(configuration.number)))

    def _prove(self) -> None:
        """Prove what this node goes by, as far as it came without a proof: from its disk, or merged."""
        adopted, shown = self.voter.configuration, self._shown.decided
        if adopted is not None and not self._prover.is_proven(adopted):
            self.voter.configuration = self._prover.prove(adopted)
        if shown is not None and not self._prover.is_proven(shown):
            self._shown = self._founded.after(self._prover.prove(shown))

    def learn(self, configuration: Configuration) -> None:
        """Adopt a configuration, or show it to others if this node has no part in it.

        Raise `ProtocolError` if nothing may follow from it, or if it is not proven.
        """
        check_heard(configuration, self.membership.configuration)
        self._prover.check(configuration)
        before, shown_before = self.voter.number, self.membership.configuration.number
        self.host.step(self.voter.adopt, configuration)
        self._prove()
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
        if before > 0 and self.voter.number - before >= FORCED_LEAP // 2 and not self.votes:
            logger.critical(
                "node %(node)s votes no more: a force has given up configuration %(former)d, by which it went, and"
                " goes on by %(number)d; programs that held locks by the two may have held the same ones",
                {"node": self.node, "former": before, "number": self.voter.number},
                extra={"event": "configuration-given-up"},
            )
        if self.voter.number > before:
            self._adopted()
            names = ", ".join(member.name for member in configuration.members)
            logger.info(
                "node %(node)s has adopted configuration %(number)d: %(voters)s",
                {"node": self.node, "number": self.voter.number, "voters": names},
                extra={"event": "configuration-adopted"},
            )
        if self.membership.configuration.number > shown_before:
            self.programs.announce(self.membership)

    # Questions about locks

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
        known_labels = self.programs.labels
        labels = {name: known_labels[name] for name in concerns if name in known_labels}
        self.programs.send(number, Owners(asked.question, reports, labels))
        for name, locks in concerns.items():
            to = self.programs.find(name)
            if to is not None:
                self.programs.send(to, AskOwner(number, asked.question, tuple(locks), asked.search))

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

    def _hear(self, event: Event) -> None:
        raise AssertionError(f"a voter has no user, and told {event}")
