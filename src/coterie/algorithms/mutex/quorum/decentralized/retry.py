"""Mutual exclusion by votes of replicas in a hash table (Lin and others, 2004): 3n messages, idle.

A resource has n replicas on a Chord ring, each with one vote. Ask all of them and enter with m of
the votes, more than half; with fewer, give them back, pause and try again. A replica keeps its vote
in memory only: one that crashes and comes back may give it away a second time.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from msgspec import field

from coterie.algorithms.mutex.quorum.decentralized.chord import CIRCLE, point
from coterie.errors import ProtocolError
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId

PAUSE = "PAUSE"  # before the next try
SILENCE = "SILENCE"  # some replica has not answered
ABSTENTION = "ABSTENTION"  # since our start, when we may have forgotten a vote
PAUSE_MIN = 0.001  # in units of time, on average, where a try takes no time


class Ask(Payload, frozen=True):
    """May I have your vote?"""

    attempt: int


class Vote(Payload, frozen=True):
    """You have it."""

    attempt: int


class Deny(Payload, frozen=True):
    """Another has it."""

    attempt: int


class Return(Payload, frozen=True):
    """I give your vote back."""

    attempt: int


Message: TypeAlias = Ask | Vote | Deny | Return


class Decentralized(Mutex[Message]):
    """A client, and one of the replicas if the ring says so."""

    messages: ClassVar[Any] = Message
    every_wait_ends: ClassVar[bool] = False  # tries of two may meet each time: pauses are random

    replicas: tuple[ProcessId, ...]  # all of them, as the ring places them
    needed: int  # votes to enter with; only more than half of them exclude each other
    patience: float | None = None  # how long to wait for an answer; None trusts that one comes
    abstention: float = 0.0  # how long we give no vote after a start

    attempt: int = 0  # number of the latest try, which all its messages carry
    since: float = 0.0  # when our request was made, by our clock
    awaiting: set[ProcessId] = field(default_factory=set)  # replicas who have not answered the try
    votes: set[ProcessId] = field(default_factory=set)  # replicas whose votes we have

    given: tuple[ProcessId, int] | None = None  # as a replica: to whom, for which try
    abstains: bool = False  # as a replica: gives no votes yet

    def start(self, out: Outbox[Message]) -> None:
        """Abstain for a while: a vote given before a crash is forgotten."""
        if self.abstention:
            self.abstains = True
            out.set_timer(ABSTENTION, self.abstention)

    def acquire(self, out: Outbox[Message]) -> None:
        """Make the first try, under a new number: answers to the last request may still come."""
        self.since = out.now
        self.attempt += 1
        self._ask(out)

    def release(self, out: Outbox[Message]) -> None:
        """Give the votes back."""
        self._give_back(out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a question or a returned vote as a replica, an answer as a client."""
        match message:
            case Ask(attempt):
                self._vote_or_deny(sender, attempt, out)
            case Vote(attempt):
                self._count(sender, attempt, out)
            case Deny(attempt):
                if self._is_awaited(sender, attempt):
                    self._back_off_if_denied(out)
            case Return(attempt):
                # Not so if the vote was forgotten; another may have it now.
                if self.given == (sender, attempt):
                    self.given = None

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Try again, give up a try that some replica does not answer, or begin to vote."""
        if timer == PAUSE:
            self._try_again(out)
        elif timer == SILENCE:
            self._back_off(out)
        else:
            self.abstains = False

    def _ask(self, out: Outbox[Message]) -> None:
        self.awaiting = set(self.replicas)
        if self.patience is not None:
            out.set_timer(SILENCE, self.patience)
        out.broadcast(self.replicas, Ask(self.attempt))

    def _vote_or_deny(self, client: ProcessId, attempt: int, out: Outbox[Message]) -> None:
        if self.given is None and not self.abstains:
            self.given = (client, attempt)
            out.send(client, Vote(attempt))
        else:
            out.send(client, Deny(attempt))

    def _count(self, replica: ProcessId, attempt: int, out: Outbox[Message]) -> None:
        if attempt == self.attempt and replica in self.votes:
            raise ProtocolError(f"replica {replica} gave its vote to try {attempt} a second time")
        if not self._is_awaited(replica, attempt):
            out.send(replica, Return(attempt))  # it comes after we have left or given up
            return
        self.votes.add(replica)
        if len(self.votes) == self.needed:
            self._stop_the_clock(out)
            out.tell(Entered())
        else:
            self._back_off_if_denied(out)  # inside, we just keep what is more than needed

    def _is_awaited(self, replica: ProcessId, attempt: int) -> bool:
        """Return whether this answers the try we make now, and cross it off if so."""
        if attempt != self.attempt or replica not in self.awaiting:
            return False
        self.awaiting.remove(replica)
        return True

    def _back_off_if_denied(self, out: Outbox[Message]) -> None:
        if not self.awaiting and len(self.votes) < self.needed:
            self._back_off(out)

    def _back_off(self, out: Outbox[Message]) -> None:
        self._give_back(out)
        self._stop_the_clock(out)
        out.set_timer(PAUSE, self._pause(out.now))

    def _pause(self, now: float) -> float:
        """Derive a pause from client and time, so that pauses differ; it grows with the wait.

        The first is about as long as a try takes on this network, whatever a unit of time is there.
        """
        share = point(f"{self.me}|{now}") / CIRCLE
        return (0.5 + share) * max(PAUSE_MIN, now - self.since)

    def _try_again(self, out: Outbox[Message]) -> None:
        # Without faults all answers are in, and a replica that still waits for its vote denies
        # it: one number serves all tries of a request, and the states to explore are finite.
        if self.patience is not None:
            self.attempt += 1
        self._ask(out)

    def _stop_the_clock(self, out: Outbox[Message]) -> None:
        if self.patience is not None:
            out.cancel_timer(SILENCE)

    def _give_back(self, out: Outbox[Message]) -> None:
        out.broadcast(self.votes, Return(self.attempt))
        self.votes.clear()
        self.awaiting.clear()
