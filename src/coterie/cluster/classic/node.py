"""A node of a classic algorithm: one process of it for every lock that a program has named."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from coterie.catalogue import Algorithm, Setup, algorithm
from coterie.cluster.runtime.durable import FolderLock
from coterie.cluster.runtime.host import Host
from coterie.cluster.runtime.incarnation import count_start
from coterie.cluster.wire.peers import Handlers, Peers
from coterie.errors import Unavailable
from coterie.process import Seat, encode, seat

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.config import Config
    from coterie.cluster.wire.frames import Letter
    from coterie.process import Event, ProcessId

RETURN = "recovery without memory"  # as the catalogue calls it

logger = logging.getLogger("coterie.cluster")


def choose(config: Config) -> tuple[Algorithm, Setup]:
    """Return the algorithm of a configuration, and what was chosen about it."""
    choice = config.membership.algorithm
    assert choice is not None, "the leased lock has nodes of its own"
    entry = algorithm(choice.name)
    size = len(config.membership.members)
    return entry, entry.setup(size, choice.variant, dict(choice.parameters))


class LockProcess(NamedTuple):
    """The process of one lock at this node, with its user."""

    seat: Seat
    host: Host

    def call(self, verb: str) -> None:
        """Let the user acquire or release."""
        self.host.step(self.seat.call, verb)


def _no_user_waits() -> None:
    """Begin at a node whose processes have no users."""


class Classic:
    """One node; all have to run for a lock to be granted, unless the algorithm tolerates less."""

    def __init__(
        self,
        config: Config,
        name: str,
        on_event: Callable[[str, Event], None],
        on_failure: Callable[[Unavailable], None],
        on_ready: Callable[[], None] = _no_user_waits,
    ) -> None:
        """Prepare; `on_event` hears what the processes tell their users.

        `on_failure` is called if the other nodes do not have this one any more, `on_ready` when
        processes can be used.
        """
        self.name = name
        self.me = config.membership.voter(name)
        self.algorithm, self.setup = choose(config)
        self.processes: dict[str, LockProcess] = {}  # by lock
        self.lost: set[ProcessId] = set()  # peers that are away, or were
        self.has_failed = False  # the others do not have it any more
        self._on_event = on_event
        self._on_failure = on_failure
        self._on_ready = on_ready
        self._strangers = set(range(1, self.setup.size + 1)) - {self.me}  # not met so far
        self._early: list[tuple[ProcessId, Letter]] = []  # came before we were ready
        self._data = config.options(name).data
        self._folder = None if self._data is None else FolderLock(self._data, "node")
        self._incarnation = 0
        self.peers = Peers(
            config,
            name,
            Handlers(
                letter=self._deliver,
                lost=self._lose,
                met=self._meet,
                restarted=self._meet_again,
                refused=self._fail,
            ),
            f"{self.algorithm.name} has no programs outside its nodes: join it",
        )

    @property
    def tolerates_restarts(self) -> bool:
        """Whether a node may return: the algorithm has a rule for it, and disks count the starts.

        Without a directory a node cannot know that it has been here before. Its configuration says
        whether this one has, and all have or none.
        """
        return self._data is not None and self._has_rule_for_return()

    def _has_rule_for_return(self) -> bool:
        return RETURN in self.algorithm.faults_tolerated(self.setup.variant)

    @property
    def is_ready(self) -> bool:
        """Whether processes can be used: all nodes know each other, or this one returns.

        A node that was restarted cannot know it. So none acts before every other one has let it
        in: those that know an earlier start of it do not. A node whose disk says that it was here
        before is let in, and begins with the rule of its algorithm for that.
        """
        return not self._strangers or (self._incarnation > 0 and self.tolerates_restarts)

    async def start(self) -> None:
        """Listen, call the others, and say what this algorithm tolerates."""
        if self._folder is not None:
            self._folder.take()
        try:
            # Without a directory it stays 0: the others refuse a second start, so this is the only.
            if self._data is not None:
                self._incarnation = count_start(self._data)
            await self.peers.start(self._incarnation)
        except BaseException:
            await self.stop()
            raise
        logger.warning(
            "node %s runs %s: it assumes %s, and tolerates %s; there are no leases and no fence",
            self.name,
            self.algorithm.name,
            ", ".join(self.algorithm.assumes) or "nothing",
            ", ".join(self.algorithm.tolerates) or "nothing else",
        )

    async def stop(self) -> None:
        """End; the others find this node lost."""
        for running in self.processes.values():
            running.host.stop()
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
        seated = seat(self.algorithm.build(self.setup)[self.me - 1])
        host = Host(
            seated,
            lambda to, message: self.peers[to].send(lock, encode(message)),
            lambda event: self._on_event(lock, event),
            me=self.me,
            lost=self.lost,
        )
        self.processes[lock] = LockProcess(seated, host)
        host.start(self._incarnation)

    def _deliver(self, peer: ProcessId, letter: Letter) -> None:
        if not self.is_ready:
            self._early.append((peer, letter))
            return
        if letter.lock not in self.processes:
            self._make(letter.lock)
        if letter.content:
            self.processes[letter.lock].host.deliver(peer, letter.content)

    # Nodes that come, go, and come back

    def _meet(self, peer: ProcessId) -> None:
        if self.is_ready:
            return
        self._strangers.discard(peer)
        if not self.is_ready:
            return
        logger.info("node %s has met all others", self.name)
        early, self._early = self._early, []
        for sender, letter in early:
            self._deliver(sender, letter)
        self._on_ready()

    def _lose(self, peer: ProcessId) -> None:
        if peer in self.lost:
            return
        logger.error("node %s is lost to node %s", self.peers[peer].name, self.name)
        self.lost.add(peer)
        for _, running in sorted(self.processes.items()):
            running.host.down(peer)

    def _meet_again(self, peer: ProcessId, incarnation: int) -> str | None:
        """Return why a node that was restarted is not spoken with, if the algorithm has no rule for it.

        Its new start has forgotten what the one before has promised: with its initial state it
        could let in a second process, or claim a token that is elsewhere. The others know its old
        start, so it is up to them to refuse it.
        """
        name = self.peers[peer].name
        if not self.tolerates_restarts or not incarnation:
            self._lose(peer)
            only = " of nodes without a data directory" if self._has_rule_for_return() else ""
            return (
                f"node {name!r} was restarted: {self.algorithm.name} does not tolerate"
                f" restarts{only}; restart all nodes"
            )
        logger.warning("node %s has returned to node %s", name, self.name)
        for lock in sorted(self.processes):
            self.peers[peer].send(lock, b"")
        return None

    def _fail(self, reason: str) -> None:
        if self.has_failed:
            return
        self.has_failed = True
        logger.critical("node %s ends: %s", self.name, reason)
        for running in self.processes.values():
            running.host.stop()
        self._on_failure(Unavailable(reason))
