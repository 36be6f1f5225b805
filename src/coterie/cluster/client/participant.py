"""A participant of the leased lock among its links to the voters."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias

from coterie.algorithms.mutex.quorum.leased.frames import (
    Ack,
    Answer,
    Behind,
    Downward,
    ListValues,
    Nack,
    NewConfiguration,
    Reply,
    Seen,
    Stale,
    ValueList,
)
from coterie.algorithms.mutex.quorum.leased.participant import Forgotten, Learnt, Moved, participant
from coterie.cluster.client.news import News
from coterie.cluster.membership.abstention import no_votes
from coterie.cluster.membership.discovery import is_served, newest
from coterie.cluster.membership.membership import check_heard
from coterie.cluster.runtime import clock
from coterie.cluster.runtime.host import Host
from coterie.cluster.wire.connection import at_end_of_turn
from coterie.cluster.wire.voter_frames import Abstention, AskDeath, Deaths, GetAbstention
from coterie.errors import CoterieError, NoQuorum, ProtocolError
from coterie.locks.leases.frames import AskOwner, OwnerReport, Owners
from coterie.system.aio import Tasks
from coterie.system.witness import WITNESS_SECONDS, ends_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    import msgspec

    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.algorithms.mutex.quorum.leased.frames import Frame
    from coterie.algorithms.mutex.quorum.leased.participant import Participant
    from coterie.algorithms.mutex.quorum.leased.stored import StoredValue
    from coterie.cluster.membership.discovery import KnownMembership
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.wire.handshake import Identity
    from coterie.cluster.wire.link import VoterLink
    from coterie.cluster.wire.voter_frames import FromVoter
    from coterie.coteries import Coterie
    from coterie.process import Event, Outbox, ProcessId
    from coterie.telemetry.text import Metric


logger = logging.getLogger("coterie.cluster")

UNEXPLAINED = Abstention(math.inf, "it has not said why")

# Asks what nodes know; takes the configuration that is known.
AskAgain: TypeAlias = "Callable[[Membership], Awaitable[list[KnownMembership]]]"


class VoterLinks(Protocol):
    """Makes the link to each voter."""

    def note(self, membership: Membership) -> None:
        """Note where the voters of a newer configuration are on record."""

    def link(
        self,
        membership: Membership,
        voter: ProcessId,
        current: Callable[[], Membership],
        receive: Callable[[FromVoter], None],
        connected: Callable[[int], None],
    ) -> VoterLink:
        """Make a link to a voter of this configuration; each call is made by the `current` one.

        It passes on each frame, and the voter's clock at each new connection.
        """


class Upcalls(NamedTuple):
    """What a participant calls in the program above it."""

    tell: Callable[[Event], None]
    """Take an event: a lock was acquired or lost."""

    report: Callable[[AskOwner], OwnerReport]
    """Answer how the program stands to some locks."""

    learn: Callable[[ProcessId, Owners | OwnerReport], None]
    """Take the answer to a question of the program."""

    metrics: Callable[[], list[Metric]]
    """Collect the figures of the program."""

    follow: Callable[[Membership], bool]
    """Go over to another installation, unless something rests on the one of now; return whether it did."""


class HostedParticipant:
    """The participant as its host drives it: how it begins."""

    messages: ClassVar[Any] = Downward

    def __init__(self, participant: Participant, name: str) -> None:
        """Prepare; no other start of any process has had that name."""
        self._name = name
        self._participant = participant
        self.receive = participant.receive
        self.ring = participant.ring
        self.down = participant.down

    def start(self, out: Outbox[Frame]) -> None:
        """Begin."""
        self._participant.start(self._name, out)


class ParticipantHost:
    """One participant, with a link to every voter."""

    def __init__(
        self,
        membership: Membership,
        identity: Identity,
        home: ProcessId,
        links: VoterLinks,
        upcalls: Upcalls,
        *,
        lease: float | None = None,
        ask_again: AskAgain | None = None,
    ) -> None:
        """Begin to call the voters.

        Args:
            membership: The configuration of the cluster.
            identity: Of this start of the participant, and of no other.
            home: The voter whose quorum is asked first.
            links: Makes the link to each voter.
            upcalls: What goes up to the program.
            lease: A lease of its own, shorter than that of the cluster.
            ask_again: Asks what nodes know, where voters that are known are gone.
        """
        self.membership = membership
        self._ask_again = ask_again
        self._is_watched = False  # whether voters that are known are gone
        self.is_bound = False  # whether anything may rest on the installation that it goes by
        self._has_met_strangers = False  # whether another installation was the last to answer
        self._is_over = False
        self.identity = identity
        self.participant = participant(membership.configuration, home, lease)
        self.received: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self._upcalls = upcalls
        self._time = clock.RunningClock()
        self._abstentions: dict[ProcessId, Abstention] = {}  # as far as voters have answered
        self._news = News()  # what voters have told of, and is not confirmed
        self._awaited: Configuration | None = None  # that is confirmed, and is not passed on
        self._makes_links = links
        self._tasks = Tasks()
        self._pages: dict[tuple[ProcessId, str], asyncio.Future[ValueList]] = {}  # that are awaited
        self._leaving: list[str] = []  # locks that are given back at the end of this turn
        hosted = HostedParticipant(self.participant, identity.name)
        self._host = Host(hosted, self._send, self._hear, counts_sleep=True)
        self._host.start(clock.number())
        self.links: dict[ProcessId, VoterLink] = {}
        self._disks: dict[ProcessId, str] = {}  # of the voters that have a link, as far as known
        self._call_voters(membership)
        self._watch()

    @property
    def quorums(self) -> Coterie:
        """The coterie by which votes are counted now."""
        return self.participant.quorums

    @property
    def stock(self) -> Participant:
        """The locks that this process has, and may use again without a message."""
        return self.participant

    @property
    def name(self) -> str:
        """The name of this start of the participant."""
        return self.identity.name

    @property
    def lease(self) -> float:
        """The lease of the cluster; a shorter one of our own is the participant's business."""
        return self.membership.settings.lease

    def reachable(self) -> list[ProcessId]:
        """List the voters that are connected and answer."""
        silent = set(self.links) - set(self.participant.sessions.reachable())
        return [voter for voter, link in self.links.items() if link.is_up and voter not in silent]

    def abstaining(self) -> dict[ProcessId, Abstention]:
        """Return the voters that are reachable and give no votes, with what they say about it."""
        uplink = self.participant.sessions.uplink
        return {
            voter: self._abstentions.get(voter, UNEXPLAINED)
            for voter in self.reachable()
            if voter in self.membership.seats and uplink(voter).grace
        }

    def ask_why(self, voters: Iterable[ProcessId]) -> None:
        """Ask voters that abstain why they do."""
        for voter in voters:
            self._send(voter, GetAbstention())

    def delay(self) -> float:
        """Return for how long the event loop of this process did not run, within the last lease."""
        return self._host.delay(self.membership.settings.lease)

    def untried(self) -> list[ProcessId]:
        """List the voters that are called for the first time and may be there."""
        return [voter for voter, link in self.links.items() if link.is_untried]

    def troubles(self) -> list[str]:
        """Say for each voter that is not connected why it is not."""
        seats = self.membership.seats
        links = [(voter, link) for voter, link in sorted(self.links.items()) if voter in seats]
        name = self.membership.at
        return [f"{name(voter).name}: {link.trouble}" for voter, link in links if not link.is_up]

    def stop(self) -> None:
        """Say goodbye; nothing may be held or waited for any more."""
        self._is_over = True
        self._tasks.cancel()
        self._give_back()
        self._host.step(self.participant.close)
        self._host.stop()

    async def stop_links(self) -> None:
        """Call the voters no more, where others have taken their place; what was sent still leaves."""
        for link in list(self.links.values()):
            await link.stop()

    # What the program calls

    def live(self, life: str) -> None:
        """Say by which processes the end of this program can be seen."""
        self._host.step(self.participant.live, life)

    def age(self) -> int:
        """Return the age of a request that is made now; younger ones are larger.

        The logical clock of a participant that was idle is as old as what it heard last. Requests
        are served in the order of their ages, so the clock has to follow the time as well.
        """
        sessions = self.participant.sessions
        sessions.merge(self._time.read(sessions.clock))
        return sessions.clock

    def new_age(self) -> int:
        """Draw an age for a task that waits in the queue of this process."""
        self.participant.sessions.clock = self.age() + 1
        return self.participant.sessions.clock

    def acquire(self, lock: str, *, shared: bool, age: int = 0, writer: int = 0) -> None:
        """Ask for a lock, alone or shared, in the name of a task of some age; 0: it asks now."""
        if lock in self._leaving:
            self._leaving.remove(lock)
            self.reenter(lock, shared=shared, age=age, writer=writer)
            return
        self.age()
        acquire = partial(self.participant.acquire, shared=shared, age=age, writer=writer)
        self._host.step(acquire, lock)

    def release(self, lock: str) -> None:
        """Give a lock back, at the end of this turn: frames leave no earlier anyway.

        A program that asks for it again at once, behind those that wait, does both in one frame.
        """
        if not self._leaving:
            at_end_of_turn(self._give_back)
        self._leaving.append(lock)

    def _give_back(self) -> None:
        leaving, self._leaving = self._leaving, []
        for lock in leaving:
            self._host.step(self.participant.release, lock)

    def reenter(self, lock: str, *, shared: bool, age: int = 0, writer: int = 0) -> None:
        """Give a lock back and ask for it again, in one frame to each voter."""
        self.age()
        reenter = partial(self.participant.reenter, shared=shared, age=age, writer=writer)
        self._host.step(reenter, lock)

    def announce(self, lock: str, writer: int) -> None:
        """Say that a task of this age waits to be alone behind what is shared; 0: none any more."""
        self._host.step(self.participant.announce, lock, writer)

    def withdraw(self, lock: str) -> None:
        """Give up waiting for a lock."""
        self._host.step(self.participant.withdraw, lock)

    def read_value(self, lock: str) -> None:
        """Read the value of a lock that is held alone."""
        self._host.step(self.participant.read, lock)

    def write_value(self, lock: str, value: StoredValue) -> None:
        """Write the value of a lock that is held alone."""
        self._host.step(self.participant.write, lock, value)

    def look_at_value(self, lock: str, question: int, known: StoredValue, *, settles: bool) -> None:
        """Ask what the value of a lock is, without the lock."""
        look = partial(self.participant.look, settles=settles)
        self._host.step(look, lock, question, known)

    def forget_look(self, question: int) -> None:
        """Wait for no answer to a question any more."""
        self.participant.forget_look(question)

    async def names_of_values(self) -> list[str]:
        """Return the names that have values, or had: what a quorum of voters lists."""
        while self.reaches_a_quorum():
            names: set[str] = set()
            heard: list[ProcessId] = []
            for voter in self.reachable():
                listed = await self._list_values(voter)
                if listed is not None:
                    heard.append(voter)
                    names.update(listed)
            if self.quorums.contains_quorum(heard):
                return sorted(names)
        raise self.unavailable("values of locks")

    async def _list_values(self, voter: ProcessId) -> list[str] | None:
        """Return the names of the values at one voter, page by page; None if it does not answer in time."""
        names: list[str] = []
        while True:
            after = names[-1] if names else ""
            page: asyncio.Future[ValueList] = asyncio.get_running_loop().create_future()
            self._pages[voter, after] = page
            self._send(voter, ListValues(self.membership.configuration.number, after))
            try:
                async with asyncio.timeout(self.lease):
                    listed = await page
            except TimeoutError:
                return None
            finally:
                self._pages.pop((voter, after), None)
            names += [name for name, _ in listed.values]
            if not listed.more:
                return names

    def _take_page(self, voter: ProcessId, listed: ValueList) -> None:
        page = self._pages.get((voter, listed.after))
        if page is not None and not page.done():
            page.set_result(listed)

    def ask(self, voter: ProcessId, question: msgspec.Struct) -> None:
        """Send a question that is no part of the protocol."""
        self._send(voter, question)

    # No quorum

    def reaches_a_quorum(self) -> bool:
        """Return True if enough voters are connected and answer."""
        return self.quorums.contains_quorum(self.reachable())

    def unavailable(self, lock: str) -> NoQuorum:
        """Make the error that says for each voter why it is out of reach, or gives no vote."""
        troubles = self.troubles()
        quorum = f"lock {lock!r}: no quorum of cluster {self.membership.cluster!r}"
        abstaining = self.abstaining()
        if abstaining and self.reaches_a_quorum():
            named = {self.membership.at(voter).name: known for voter, known in abstaining.items()}
            formed = self.membership.decided is not None
            return NoQuorum(f"{quorum} votes ({no_votes(named, troubles, formed=formed)})")
        lease, paused = self.lease, self.delay()
        if paused > lease:
            reasons = f" ({'; '.join(troubles)})" if troubles else ""
            return NoQuorum(
                f"{quorum} could be heard: the event loop of this program did not run for"
                f" {paused:.1f} s, longer than the lease of {lease:g} s{reasons}"
            )
        return NoQuorum(f"{quorum} can be reached ({'; '.join(troubles) or 'nodes do not answer'})")

    def hopeless(self, lock: str) -> NoQuorum:
        """Return the same error for a claim that has waited for a lease: nodes that only restarted would vote."""
        return self.unavailable(lock)

    def obstacle(self, lock: str) -> NoQuorum | None:
        """Return what blocks a lock: nothing as long as a quorum votes or may turn out to."""
        perhaps = {*self.reachable(), *self.untried()} - set(self.abstaining())
        return None if self.quorums.contains_quorum(perhaps) else self.unavailable(lock)

    def may_grant(self) -> bool:
        """Return True if enough voters vote, or will when some time has passed.

        One whose disk is empty waits for other nodes, maybe forever. The others that abstain do so
        for about a lease after a restart.
        """
        abstaining = self.abstaining()
        self.ask_why(abstaining)
        lasting = {voter for voter, known in abstaining.items() if math.isinf(known.seconds)}
        return self.quorums.contains_quorum(set(self.reachable()) - lasting)

    # What the links call

    def _connected(self, voter: ProcessId, reading: int) -> None:
        """Go on over a new connection to a voter whose logical clock shows this.

        A participant that knows the clocks of all voters asks for tokens that all of them can
        support, however far apart their numbers are after starts at different times.
        """
        self._pass_on()
        if voter not in self.participant.sessions.voters:
            return
        self._abstentions.pop(voter, None)
        if self.quorums.contains_quorum([seat for seat, link in self.links.items() if link.is_up]):
            self.is_bound = True
        self.participant.sessions.merge(reading)
        self.age()
        self._host.step(self.participant.connected, voter)

    def receive(self, voter: ProcessId, frame: FromVoter) -> None:
        """Handle a frame from a voter."""
        self.received[type(frame).__name__] += 1
        match frame:
            case Reply() | Ack() | Answer() | Nack():
                self._receive_in_session(voter, frame)
            case NewConfiguration(configuration):
                if (confirmed := self._confirm(voter, configuration)) is not None:
                    self._await_voters(confirmed)
            case Stale() | Behind() | Seen():
                self._receive_about_configurations(voter, frame)
            case ValueList():
                self._take_page(voter, frame)
            case AskOwner():
                self._send(voter, self._upcalls.report(frame))
            case AskDeath():
                self._tasks.run(self._see_ends(voter, frame))
            case Abstention():
                self._abstentions[voter] = frame
            case Owners() | OwnerReport():
                self._upcalls.learn(voter, frame)
            case _:
                raise ProtocolError(f"a {type(frame).__name__} came without a question")

    def _receive_in_session(self, voter: ProcessId, frame: Reply | Ack | Answer | Nack) -> None:
        sessions = self.participant.sessions
        if voter not in sessions.voters:
            return  # it votes no more, and its link is being closed
        self._host.step(self.participant.receive, voter, frame)
        self.age()  # where the frame has moved the clock, time goes on from there
        is_left = voter not in sessions.voters  # that was the last word to hear from it
        if not is_left and sessions.uplink(voter).grace and voter not in self._abstentions:
            self.ask_why([voter])

    def _receive_about_configurations(self, voter: ProcessId, frame: Stale | Behind | Seen) -> None:
        if isinstance(frame, Stale):
            confirmed = self._confirm(voter, frame.configuration)
            if confirmed is None:
                return
            frame = Stale(confirmed)
        if voter in self.participant.sessions.voters:
            self._host.step(self.participant.receive, voter, frame)

    async def _see_ends(self, voter: ProcessId, asked: AskDeath) -> None:
        """Tell a voter which programs of our machine are gone, of those that it misses."""
        async for life in ends_of(asked.lives, WITNESS_SECONDS):
            self._send(voter, Deaths((life,)))

    def _send(self, voter: ProcessId, frame: Any) -> None:
        link = self.links.get(voter)
        if link is not None:  # else it is sent again when there is one
            self.sent[type(frame).__name__] += 1
            link.send(frame)

    # Configurations

    def _confirm(self, voter: ProcessId, told: Configuration) -> Configuration | None:
        """Return what a voter tells, as soon as it may be followed; others are asked about it first.

        A voter alone could make us count by voters of its own, beside a holder that counts by those of all.
        What is known already says nothing new.
        """
        check_heard(told, self.membership.configuration)
        awaited = self._awaited
        if told.number <= self.participant.sessions.known:
            return told
        if awaited is not None and awaited.is_same(told):
            return awaited
        is_new = self._news.take(voter, told)
        followed = (self.participant.configuration, self.participant.next, awaited)
        confirmed = self._news.confirmed(told, [each for each in followed if each is not None])
        if confirmed is None and is_new:
            for other in self._news.lacking(told, self.links):
                self._send(other, NewConfiguration(told))
        return confirmed

    def _await_voters(self, configuration: Configuration) -> None:
        """Call the voters of a newer configuration; it counts when a quorum of them is there.

        Nothing rests on when a participant hears of it, as long as its own number is served, and by
        that locks are granted meanwhile. Where it is refused, the participant hears of it at once.
        """
        if self._is_over:
            return  # links end one after the other, and one that was made now would stay
        newest = self.participant.sessions.known
        if configuration.number <= max(newest, self._awaited.number if self._awaited else 0):
            return
        self._awaited = configuration
        self._call_voters(self.membership.after(configuration))
        self._pass_on()

    def _pass_on(self) -> None:
        """Let the participant know of the configuration that is awaited, if its voters are there."""
        awaited = self._awaited
        up = [voter for voter, link in self.links.items() if link.is_up]
        if awaited is not None and awaited.quorums.contains_quorum(up):
            self._awaited = None
            told = NewConfiguration(awaited)
            self._host.step(self.participant.receive, self.participant.sessions.voters[0], told)

    def _hear(self, event: Event) -> None:
        match event:
            case Learnt(configuration):
                self._news.forget(configuration.number)
                if self._awaited is not None and self._awaited.number <= configuration.number:
                    self._awaited = None
                self._call_voters(self.membership.after(configuration))
                self._leave_others()
            case Moved(configuration):
                self.membership = self.membership.after(configuration)
                self._watch()
                logger.info(
                    "votes are counted by configuration %(number)d",
                    {"number": configuration.number},
                    extra={"event": "configuration-used"},
                )
            case Forgotten(voter):
                self._leave(voter)
            case _:
                self.is_bound = True  # a lock was granted
                self._upcalls.tell(event)

    def _watch(self) -> None:
        """Look after voters that go, from the first configuration on that can be changed."""
        if self._ask_again is not None and self.membership.decided and not self._is_watched:
            self._is_watched = True
            self._tasks.run(self._stay_informed(self._ask_again))

    async def _stay_informed(self, ask: AskAgain) -> None:
        """Ask again if no quorum can be reached: all voters may have been replaced meanwhile."""
        while True:
            await asyncio.sleep(self.lease)
            if self.reaches_a_quorum():
                continue
            with contextlib.suppress(CoterieError):
                answers = await ask(self.membership)
                identity = self.membership.configuration.cluster_identity
                found = newest(answers, identity, firmly=self.is_bound)
                if self._follows(found, answers):
                    return
                # Who can reach no quorum any more knows nothing but what the nodes answer that are there,
                # like a program that has just begun. After a force no more of them can say it.
                check_heard(found.configuration, self.membership.configuration)
                self._await_voters(found.configuration)

    def _follows(self, found: Membership, answers: Sequence[KnownMembership]) -> bool:
        """Return whether the program goes over to another installation, which is what answers now.

        It may have met nothing but a node with a wrong disk when it began. Without a quorum of that
        installation it was never granted a lock, and had no vote that another could be kept from; so
        nothing rests on it, and the quorum of another one says which is meant. Otherwise a lock that
        its user believes in, and tokens that are in use, belong to the first: that is said, once.
        """
        is_foreign = self.membership.configuration.is_foreign(found.configuration)
        served = is_foreign and is_served(answers, found.configuration.cluster_identity)
        if served and self._upcalls.follow(found):
            logger.warning(
                "this program goes by another installation of cluster %(cluster)s from now on: a quorum of it answers,"
                " and of the one that answered first it has never reached one",
                {"cluster": found.cluster},
                extra={"event": "other-installation"},
            )
            return True
        if is_foreign and self.is_bound and not self._has_met_strangers:
            logger.warning(
                "another installation of cluster %(cluster)s answers than this program goes by, of which no quorum"
                " can be reached: if that one is meant, start the program again",
                {"cluster": self.membership.cluster},
                extra={"event": "other-installation"},
            )
        self._has_met_strangers = is_foreign
        return False

    def _leave_others(self) -> None:
        """Leave the voters of a configuration that was awaited and has been overtaken."""
        awaited = self._awaited.seats if self._awaited else ()
        known = {*self.participant.sessions.voters, *awaited}
        for voter in [voter for voter in self.links if voter not in known]:
            self._leave(voter)

    def _leave(self, voter: ProcessId) -> None:
        # A step that learns may forget as well; then the link was left when the first was told.
        link = self.links.pop(voter, None)
        if link is not None:
            self._tasks.run(link.stop())
        self._abstentions.pop(voter, None)
        self._disks.pop(voter, None)

    def _leave_old_seats(self, membership: Membership) -> None:
        """Leave voters that have come back with their disks under other seats.

        A node keeps one connection of each participant, so those of both seats would end each other.
        No vote of the old seat counts any more: a node is added again when its removal is complete.
        """
        disks = {membership.disk(voter) for voter in membership.seats}
        others = [voter for voter in self.links if voter not in membership.seats]
        for voter in [voter for voter in others if self._disks.get(voter) in disks]:
            self._leave(voter)

    def _call_voters(self, membership: Membership) -> None:
        """Make a link to each voter that has none yet; none leads to another disk than is meant."""
        self._leave_old_seats(membership)
        self._makes_links.note(membership)
        for voter in membership.seats:
            is_new = voter not in self.links
            if is_new:
                receive, connected = partial(self.receive, voter), partial(self._connected, voter)
                link = self._makes_links.link(
                    membership, voter, lambda: self.membership, receive, connected
                )
                self.links[voter] = link
            if membership.disk(voter):
                self._disks[voter] = membership.disk(voter)
                self.links[voter].insist_on(membership.disk(voter))
            if is_new:
                self.links[voter].start()
