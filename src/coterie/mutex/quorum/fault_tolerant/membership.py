"""Who is down, who is back, and which quorums follow: the same at everybody, soon after.

News of a process is a version: twice its incarnation, plus one while it is down. The higher version
is the newer, so news may come late, twice or from anybody. Each process relays what is new to it
before it does anything else; so all who live hear of it, or nobody does. The coterie depends only
on who is down, not on the order in which one hears of it (lemma 4).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from msgspec import field

from coterie.errors import ProtocolError
from coterie.mutex.quorum.fault_tolerant.detection import Detector
from coterie.mutex.quorum.fault_tolerant.messages import Down, News, Up, Welcome
from coterie.process import Outbox, ProcessId

if TYPE_CHECKING:
    from coterie.coteries import Coterie

JOINING = "JOINING"  # we are back without memory, and do not know yet who else is there


class Membership(Detector, kw_only=True):
    """A process that knows who is down."""

    versions: list[int] = field(default_factory=list)  # of 1 to N
    strangers: set[ProcessId] = field(default_factory=set)  # what they send is for, or of, the dead
    joining: bool = False

    def __post_init__(self) -> None:
        """Begin with everybody up for the first time."""
        super().__post_init__()
        self.versions = self.versions or [0] * len(self.settings.members)

    def start(self, out: Outbox[Any]) -> None:
        """Begin; without memory, with everybody else still to be met."""
        if out.incarnation:
            self.versions[self.me - 1] = 2 * out.incarnation
            self.strangers = self._alive()
            self.joining = True
            out.broadcast(self._alive(), Up(self.me, out.incarnation))
            out.set_timer(JOINING, self.settings.t_d)

    def coterie(self) -> Coterie:
        """Give the coterie in which others stand in for those who are down."""
        return self.settings.coterie(frozenset(self._down()))

    def _down(self) -> set[ProcessId]:
        return {peer for peer, version in enumerate(self.versions, 1) if version % 2}

    def _alive(self) -> set[ProcessId]:
        """Name all others who are up, as far as we know."""
        return set(self.settings.members) - self._down() - {self.me}

    def _take_news(self, sender: ProcessId, news: News, out: Outbox[Any]) -> None:
        match news:
            case Down(process, incarnation):
                self._hear(process, 2 * incarnation + 1, out)
            case Up(process, incarnation):
                self._hear(process, 2 * incarnation, out)
                self._meet(sender, process, 2 * incarnation)
            case Welcome():
                self._join(sender, news, out)

    def _declare_down(self, peer: ProcessId, out: Outbox[Any]) -> None:
        self._learn(peer, self.versions[peer - 1] + 1, out)

    def _hear(self, process: ProcessId, version: int, out: Outbox[Any]) -> None:
        if version > self.versions[process - 1]:
            self._learn(process, version, out)

    def _learn(self, process: ProcessId, version: int, out: Outbox[Any]) -> None:
        """Pass news on, then act on it. To come back is also to have been down."""
        if process == self.me:
            raise ProtocolError(f"process {self.me} was taken for dead: a message came too late")
        self._announce(process, version, out)
        self._note(process, version, out)
        self._react(process, out)

    def _announce(self, process: ProcessId, version: int, out: Outbox[Any]) -> None:
        kind = Down if version % 2 else Up
        out.broadcast(self._alive() - {process}, kind(process, version // 2))

    def _note(self, process: ProcessId, version: int, out: Outbox[Any]) -> None:
        """Know a process as what it is now; it listens to us from our Welcome on."""
        self.versions[process - 1] = version
        self.strangers.add(process)
        self._unwatch(process, out)
        self._forget(process, out)
        if version % 2 == 0:
            out.send(process, Welcome(version // 2, self.highest, tuple(self.versions)))

    @abstractmethod
    def _forget(self, process: ProcessId, out: Outbox[Any]) -> None:
        """Drop all that we have from a process that has lost it, or owe to it."""

    @abstractmethod
    def _react(self, process: ProcessId, out: Outbox[Any]) -> None:
        """Change over to the coterie after this news."""

    def _meet(self, sender: ProcessId, process: ProcessId, version: int) -> None:
        """Listen to a process from when it speaks as what we know it to be; links keep the order."""
        if sender == process and version == self.versions[process - 1]:
            self.strangers.discard(sender)

    def _join(self, sender: ProcessId, welcome: Welcome, out: Outbox[Any]) -> None:
        """Learn from whoever knows that we are back; what it sent before was for who we were."""
        if 2 * welcome.incarnation != self.versions[self.me - 1]:
            return
        self.highest = max(self.highest, welcome.time)
        for process, version in enumerate(welcome.versions, 1):
            if not self.joining:
                self._hear(process, version, out)
            elif version > self.versions[process - 1]:
                self._note(process, version, out)  # who lives has been told by whoever relayed it
        self._meet(sender, sender, welcome.versions[sender - 1])
