"""A participant among its links: it takes locks, and answers for itself when others ask."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from coterie.cluster.runtime.driver import Driver
from coterie.cluster.wire.frames import (
    PROTOCOL,
    AskOwner,
    Hello,
    OwnerReport,
    Owners,
    decode_from_voter,
)
from coterie.errors import ProtocolError
from coterie.mutex.quorum.leased.frames import Ack, Answer, Nack, Reply
from coterie.mutex.quorum.leased.participant import participant

if TYPE_CHECKING:
    import msgspec

    from coterie.cluster.client.claims import Queues
    from coterie.cluster.membership import Membership
    from coterie.cluster.voter.host import Voting
    from coterie.cluster.wire.frames import FromVoter
    from coterie.cluster.wire.handshake import Identity
    from coterie.cluster.wire.link import Link
    from coterie.deadlock.service.local_waits import Waits
    from coterie.process import Event, ProcessId


class Line(Protocol):
    """The way to a voter: a link, or the voter in this very process."""

    @property
    def is_up(self) -> bool:
        """Tell whether frames can be sent now."""

    @property
    def trouble(self) -> str:
        """Say why not."""

    @property
    def is_untried(self) -> bool:
        """Tell whether the first call has not come to an end yet."""

    def send(self, frame: msgspec.Struct) -> None:
        """Send a frame."""


class Host(Protocol):
    """What stands above a participant."""

    def hear(self, event: Event) -> None:
        """Take note of a lock that was acquired or lost."""

    def standings(self, asked: AskOwner) -> OwnerReport:
        """Say how we stand to locks."""

    def learn(self, voter: ProcessId, answer: Owners | OwnerReport) -> None:
        """Take the answer to a question of ours."""

    @property
    def queues(self) -> Queues:
        """The claims of this process."""

    @property
    def waits(self) -> Waits:
        """Who of this process waits."""


class Attending:
    """The participant of one process."""

    def __init__(
        self,
        membership: Membership,
        identity: Identity,
        home: ProcessId,
        host: Host,
        lease: float | None = None,
    ) -> None:
        """Prepare; `home` is the voter whose quorum is asked first, `lease` one of our own."""
        self.membership = membership
        self.identity = identity
        self.participant = participant(membership.settings, home, lease)
        self.lines: dict[ProcessId, Line] = {}
        self.received: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.host = host
        self._driver = Driver(self._send, self.participant.ring, host.hear, _save_nothing)
        self._driver.step(self.participant.start, identity.name)

    def join(self, voter: ProcessId, link: Link) -> None:
        """Reach a voter over a link from now on."""
        self.lines[voter] = link
        link.receive = lambda frame: self.receive(voter, decode_from_voter(frame))
        link.connected = lambda welcome: self.connected(voter, welcome.clock)
        link.start()

    def join_here(self, voter: ProcessId, voting: Voting) -> None:
        """Reach the voter of this very process."""
        self.lines[voter] = _Inside(self, voter, voting)
        if voting.companion is None:
            voting.companion = self
        self.connected(voter, voting.clock())

    def connected(self, voter: ProcessId, clock: int) -> None:
        """Go on over a new connection to a voter whose logical clock shows this.

        Who knows the clocks of all voters asks for tokens that all of them can support, however
        far apart their numbers are after starts at different times.
        """
        self.participant.sessions.merge(clock)
        self._driver.step(self.participant.connected, voter)

    def reachable(self) -> list[ProcessId]:
        """List the voters that are connected and answer."""
        silent = set(self.lines) - set(self.participant.sessions.reachable())
        return [voter for voter, line in self.lines.items() if line.is_up and voter not in silent]

    def untried(self) -> list[ProcessId]:
        """List the voters that are called for the first time and may be there."""
        return [voter for voter, line in self.lines.items() if line.is_untried]

    def troubles(self) -> list[str]:
        """Say for each voter that is not connected why it is not."""
        names = [member.name for member in self.membership.members]
        lines = sorted(self.lines.items())
        return [f"{names[voter - 1]}: {line.trouble}" for voter, line in lines if not line.is_up]

    def stop(self) -> None:
        """Say goodbye; nothing may be held or waited for any more."""
        self._driver.step(self.participant.close)
        self._driver.stop()

    # What the host calls

    def acquire(self, lock: str, *, shared: bool) -> None:
        """Ask for a lock, alone or shared."""
        self._driver.step(partial(self.participant.acquire, lock, shared=shared))

    def release(self, lock: str) -> None:
        """Give a lock back."""
        self._driver.step(self.participant.release, lock)

    def reenter(self, lock: str, *, shared: bool) -> None:
        """Give a lock back and ask for it again, for another task, in one frame to each voter."""
        self._driver.step(partial(self.participant.reenter, lock, shared=shared))

    def withdraw(self, lock: str) -> None:
        """Give up waiting for a lock."""
        self._driver.step(self.participant.withdraw, lock)

    # What the links call

    def receive(self, voter: ProcessId, frame: FromVoter) -> None:
        """Handle a frame from a voter."""
        self.received[type(frame).__name__] += 1
        match frame:
            case Reply() | Ack() | Answer() | Nack():
                self._driver.step(self.participant.receive, voter, frame)
            case AskOwner():
                self._send(voter, self.host.standings(frame))
            case Owners() | OwnerReport():
                self.host.learn(voter, frame)
            case _:
                raise ProtocolError(f"nobody has asked for a {type(frame).__name__}")

    def _send(self, voter: ProcessId, frame: Any) -> None:
        self.sent[type(frame).__name__] += 1
        self.lines[voter].send(frame)

    def ask(self, voter: ProcessId, question: msgspec.Struct) -> None:
        """Send a question that is no part of the protocol."""
        self._send(voter, question)


class _Inside:
    """The way between a participant and a voter in the same process: no socket, one turn of delay."""

    is_up = True
    is_untried = False
    trouble = ""

    def __init__(self, attending: Attending, voter: ProcessId, voting: Voting) -> None:
        self._attending = attending
        self._voter = voter
        self._voting = voting
        self._loop = asyncio.get_running_loop()
        self._identity = attending.identity.name
        label = attending.identity.label
        hello = Hello(PROTOCOL, "", "", "participant", self._identity, label, b"")
        self._number = voting.attach(hello, _Back(attending, voter, self._loop))

    def send(self, frame: Any) -> None:
        self._loop.call_soon(self._voting.receive, self._number, self._identity, frame)


class _Back(NamedTuple):
    attending: Attending
    voter: ProcessId
    loop: asyncio.AbstractEventLoop

    def send(self, frame: Any) -> None:
        self.loop.call_soon(self.attending.receive, self.voter, frame)


def _save_nothing(_: bytes) -> None:
    raise AssertionError("a participant saves nothing")
