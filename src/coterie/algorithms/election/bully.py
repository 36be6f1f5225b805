"""Election of the highest process by asking all higher ones: N to N(N - 1) messages.

A process that misses the leader asks every higher one. If none is there, it wins and tells all
others; if one answers, it has lost, and the one that answered goes on in the same way. Being down,
not to answer and to be reported by the failure detector are the same thing here, as in a
synchronous system where a time-out is never wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from msgspec import field

from coterie.algorithms.election.watches import watch_only
from coterie.catalogue import Algorithm, Cost, ElectionCosts, Flaw, Setup, Variant, exactly
from coterie.errors import ProtocolError
from coterie.process import Elected, Outbox, Payload, ProcessId
from coterie.process import Election as Elector

if TYPE_CHECKING:
    from collections.abc import Iterable


class Election(Payload, frozen=True):
    """Is anyone there who is higher than I am?"""


class Ok(Payload, frozen=True):
    """I am, so it will not be you."""


class Coordinator(Payload, frozen=True):
    """I am the leader now."""

    returned: bool = False  # I was down before: news of another leader may be older than this


Message: TypeAlias = Election | Ok | Coordinator


class Bully(Elector[Message]):
    """A process that follows the highest live one, beginning with the last of all."""

    messages: ClassVar[Any] = Message
    one_leads: ClassVar[bool] = True
    highest_leads: ClassVar[bool] = True

    size: int  # processes are 1 to size
    leader: ProcessId | None = None  # the one we follow; None while an election goes on
    answered: bool = False  # in an election: a higher process has, so we have lost
    watched: set[ProcessId] = field(default_factory=set)
    """The leader; in an election those asked; once lost, those that answered."""
    returned: bool = False  # after a restart: this process has been down before
    leader_returned: bool = False  # the one we follow has, by its own word

    def start(self, out: Outbox[Message]) -> None:
        """Follow the highest process there is; after a crash, find out who leads by now."""
        if out.incarnation:
            self.returned = True
            self._begin(out)
        else:
            self._follow(self.size, out)

    def elect(self, out: Outbox[Message]) -> None:
        """Begin an election unless we are in one."""
        if self.leader is not None or not self.watched:
            self._begin(out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a question from below, an answer from above, or a new leader."""
        match message:
            case Election():
                self._answer(sender, out)
            case Ok():
                self._lose(sender, out)
            case Coordinator():
                self._follow_or_challenge(sender, message, out)

    def down(self, peer: ProcessId, out: Outbox[Message]) -> None:
        """Do without that process: the leader, one that was asked, or one that had answered."""
        self.watched.discard(peer)
        if self.watched:
            return
        if self.leader is None and not self.answered:
            self._win(out)
        else:
            self._begin(out)

    def _begin(self, out: Outbox[Message]) -> None:
        """Ask all higher processes."""
        self.leader, self.answered = None, False
        higher = range(self.me + 1, self.size + 1)
        self._watch(higher, out)
        out.broadcast(higher, Election())
        if not higher:
            self._win(out)

    def _answer(self, sender: ProcessId, out: Outbox[Message]) -> None:
        if sender > self.me:
            raise ProtocolError(f"process {sender} asked process {self.me}, which is lower")
        out.send(sender, Ok())
        self.elect(out)

    def _lose(self, sender: ProcessId, out: Outbox[Message]) -> None:
        """Leave it to the one that answered; begin again if it is down before there is a leader."""
        if self.leader is None:
            responders = self.watched | {sender} if self.answered else {sender}
            self.answered = True
            self._watch(responders, out)

    def _follow_or_challenge(
        self, sender: ProcessId, message: Coordinator, out: Outbox[Message]
    ) -> None:
        """Follow a higher one; a lower one has missed us, because we have just come back.

        One that is lower than the leader we follow has won because that one was down. If the leader
        has returned since, this may be news from before; if it is down again, it is not. So ask.
        """
        if sender < self.me:
            self.elect(out)
        elif self.leader is not None and sender < self.leader and self.leader_returned:
            self._begin(out)
        else:
            self._follow(sender, out)
            self.leader_returned = self.leader_returned or message.returned

    def _win(self, out: Outbox[Message]) -> None:
        others = set(range(1, self.size + 1)) - {self.me}
        out.broadcast(others, Coordinator(self.returned))
        self._follow(self.me, out)

    def _follow(self, leader: ProcessId, out: Outbox[Message]) -> None:
        if leader != self.leader:
            self.leader, self.answered, self.leader_returned = leader, False, False
            self._watch({leader} - {self.me}, out)
            out.tell(Elected(leader))

    def _watch(self, peers: Iterable[ProcessId], out: Outbox[Message]) -> None:
        self.watched = watch_only(peers, self.watched, out)


class AsTold(Bully):
    """A loser whose job is over, as the lectures say: if none wins, it waits forever."""

    def _lose(self, sender: ProcessId, out: Outbox[Message]) -> None:
        if self.leader is None:
            self.answered = True
            self._watch((), out)


VARIANTS: dict[str, type[Bully]] = {"watching": Bully, "as-told": AsTold}


def _build(setup: Setup) -> list[Bully]:
    return [VARIANTS[setup.variant](me, setup.size) for me in range(1, setup.size + 1)]


def _everyone(setup: Setup) -> Cost:
    """Count one election of each process that lives: N(N - 1) / 2 questions, the rest is replies."""
    return exactly(setup.size * (setup.size - 1), "N(N - 1)")


ALGORITHM = Algorithm(
    name="bully",
    family="election",
    summary="ask all that are higher; the one that gets no answer leads",
    citation=(
        "H. Garcia-Molina. Elections in a distributed computing system. IEEE Transactions on"
        " Computers C-31(1), 1982; as the lectures tell it, repaired."
    ),
    process=Bully,
    build=_build,
    costs=ElectionCosts(
        best=lambda setup: exactly(setup.size if setup.size > 1 else 0, "N"),
        worst=_everyone,
        together=_everyone,
    ),
    assumes=("reliable links", "a perfect failure detector"),
    tolerates=("reordering", "crash", "recovery without memory"),
    causal=False,
    variants=(
        Variant("watching", "a loser watches those that answered, and may begin again"),
        Variant(
            "as-told",
            "a loser has nothing more to do, and may wait forever",
            sound=False,
            flaw=Flaw(size=3, steps=5, entries=0, crashes=2),
        ),
    ),
)
