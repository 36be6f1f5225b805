"""The ends of programs: found by who is near them, and told to the voter, so that no lease has to pass.

Nothing is watched while all is well. A program that ends has its connections closed by its kernel; when
that happens to one that has a session here, this node finds out whether the program is dead. If it runs on
this machine, the node looks itself. Otherwise it asks the other nodes, and programs of that machine that are
connected here, also those that come later, as one that was started again does. Rules: section 20 of the
protocol.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coterie import system
from coterie.algorithms.mutex.quorum.leased.frames import is_whole
from coterie.cluster.wire.voter_frames import LIVES_MAX, AskDeath, Deaths
from coterie.errors import ProtocolError
from coterie.system.aio import Tasks
from coterie.system.witness import WITNESS_SECONDS, ends_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.algorithms.mutex.quorum.leased.voter import Voter
    from coterie.cluster.voter.programs import Programs
    from coterie.process import ProcessId
    from coterie.system import LifeWatch

PROGRAMS_ASKED_MAX = 4  # on the machine of one that may be dead
ASKS_MAX = 4  # at a time: a node that is down, or a program that lives, makes one last for seconds
DEATHS_SHOWN = 16

logger = logging.getLogger("coterie.cluster")


class AskNodes(Protocol):
    """Asks the other nodes which of some lives have ended."""

    async def __call__(self, lives: Sequence[str], tell: Callable[[str, str], None]) -> None:
        """Call all of them; `tell` takes the life and the node that has seen its end."""


class Death(NamedTuple):
    """A program whose end was seen."""

    label: str
    witness: str
    time: float


class DeathDesk:
    """Finds out which programs are dead, and has their sessions ended."""

    def __init__(
        self,
        node: str,
        programs: Programs,
        voter: Callable[[], Voter],
        bury: Callable[[str, str], None],
        ask_nodes: AskNodes,
        *,
        trusts_programs: bool,
    ) -> None:
        """Prepare.

        Args:
            node: The name of the node.
            programs: The programs that are connected.
            voter: Returns the voter of the node.
            bury: Ends the session of a participant whose life has ended.
            ask_nodes: Asks the other nodes.
            trusts_programs: Whether programs may be witnesses: not where an operator secret keeps
                them from ending the holds of others.
        """
        self.seen: deque[Death] = deque(maxlen=DEATHS_SHOWN)
        self._node = node
        self._programs = programs
        self._voter = voter
        self._bury = bury
        self._ask_nodes = ask_nodes
        self._trusts_programs = trusts_programs
        self._watch: LifeWatch | None = None
        self._missing: dict[str, None] = {}  # lives with a session and without a connection
        self._unasked: dict[
            str, None
        ] = {}  # of them, those that the other nodes were not asked about
        self._asks = 0  # rounds of questions to the other nodes that are under way
        self._is_over = False
        self._tasks = Tasks()

    def close(self) -> None:
        """Look for no death any more."""
        self._is_over = True
        self._tasks.cancel()
        if self._watch is not None:
            self._watch.close()

    # Programs that come and go

    def lose(self, identity: str) -> None:
        """Find out what has become of a participant that has no connection any more."""
        link = self._voter().sessions.get(identity)
        if self._is_over or link is None or not is_whole(link.life):
            return
        self._missing[link.life] = None
        if system.is_near(link.life):
            if self._watch is None:
                self._watch = system.watch(lambda life: self._end(life, f"node {self._node}"))
            self._watch.add(link.life)
            return
        self._ask_programs(link.life)
        self._unasked[link.life] = None
        if self._asks < ASKS_MAX:
            self._asks += 1
            self._tasks.run(self._ask_all())

    def find(self, identity: str) -> None:
        """Note that a participant is connected again: no word of others ends its session now."""
        link = self._voter().sessions.get(identity)
        if link is not None:
            self._missing.pop(link.life, None)

    def meet(self, number: ProcessId, life: str) -> None:
        """Ask a program that has said its life about others of its machine that are missing."""
        if self._missing and self._trusts_programs:
            here = _surroundings(life)
            lives = [other for other in self._missing if _surroundings(other) == here]
            if lives:
                self._programs.send(number, AskDeath(tuple(lives[:LIVES_MAX])))

    def tidy(self) -> None:
        """Forget those whose sessions have expired, or that are connected again."""
        if not self._missing:
            return
        sinks, sessions = self._programs.sinks, self._voter().sessions.values()
        missing = {link.life for link in sessions if link.peer not in sinks}
        for life in [life for life in self._missing if life not in missing]:
            del self._missing[life]
            if self._watch is not None:
                self._watch.remove(life)

    # Questions to others

    def _ask_programs(self, life: str) -> None:
        if not self._trusts_programs:
            return
        asked = 0
        for link in self._voter().sessions.values():
            is_there = link.peer in self._programs.sinks
            if is_there and link.life and _surroundings(link.life) == _surroundings(life):
                self._programs.send(link.peer, AskDeath((life,)))
                asked += 1
                if asked == PROGRAMS_ASKED_MAX:
                    return

    async def _ask_all(self) -> None:
        """Ask the other nodes: about all that are missing by then, however many that are."""
        try:
            while self._unasked:
                lives = list(self._unasked)[:LIVES_MAX]
                for life in lives:
                    del self._unasked[life]
                await self._ask_nodes(lives, lambda life, node: self._end(life, f"node {node}"))
        finally:
            self._asks -= 1

    def hear(self, number: ProcessId, identity: str, deaths: Deaths) -> None:
        """Take the answer of a program that was asked."""
        if not self._trusts_programs:
            raise ProtocolError("deaths are seen by nodes alone where there is an operator secret")
        link = self._voter().sessions.get(identity)
        if link is None or link.peer != number:
            return  # its own session has ended meanwhile, and with it what we know of its machine
        for life in deaths.lives:
            # Only who is near can have seen it, and only what is missing was asked about.
            if life in self._missing and _surroundings(life) == _surroundings(link.life):
                self._end(life, self._programs.labels.get(identity, "unknown"))

    # Questions of others

    def answer(self, number: ProcessId, asked: AskDeath) -> None:
        """Answer another node; programs on other machines are not for us to judge."""
        self._tasks.run(self._answer(number, asked))

    async def _answer(self, number: ProcessId, asked: AskDeath) -> None:
        async for life in ends_of(asked.lives, WITNESS_SECONDS):
            self._programs.send(number, Deaths((life,)))
        self._programs.send(number, Deaths(()))

    # What came of it

    def _end(self, life: str, witness: str) -> None:
        """End all sessions of a program that is gone."""
        self._missing.pop(life, None)
        for identity, link in list(self._voter().sessions.items()):
            if link.life == life:
                label = self._programs.labels.get(identity, "unknown")
                self.seen.append(Death(label, witness, system.now()))
                logger.warning(
                    "node %(node)s: program %(label)s is dead, as %(witness)s has seen: its locks are free",
                    {"node": self._node, "label": label, "witness": witness},
                    extra={"event": "program-dead"},
                )
                self._bury(identity, life)


def _surroundings(life: str) -> str:
    """Return the kernel and the namespaces of a life."""
    return life.rpartition(" ")[0]
