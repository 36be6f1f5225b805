"""Locks that one process gives out, and the clients that take them, under each way to deal with deadlocks.

A client runs its jobs one after the other. A job takes its locks one by one, works after each, and
gives all back at its end. The allocator has the table of all locks; its `Strategy` says when a free lock
is given, to whom first, and which jobs are refused. A job that is refused gives back what it has
and begins again, as old as it was.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import msgspec

from coterie.algorithms.deadlock.strategies import STRATEGIES, Contender, LockId, Table
from coterie.process import Channel, Event, Outbox, Payload, Process, ProcessId

NEXT = "next"  # time to begin a job, to ask for its next lock, or to end it
LOOK = "look"  # time to look for deadlocks


class Want(Payload, frozen=True):
    """Give this attempt one lock more."""

    attempt: int
    lock: LockId
    born: float  # when its job began
    claim: tuple[LockId, ...]  # all locks that its job may take


class Given(Payload, frozen=True):
    """That attempt has the lock that it wanted."""

    attempt: int


class Refused(Payload, frozen=True):
    """That attempt must give back all that it has."""

    attempt: int


class Ended(Payload, frozen=True):
    """That attempt gives all its locks back."""

    attempt: int


class JobDone(Event, frozen=True):
    """A job has done its work."""

    attempts: int
    began: float


Message: TypeAlias = Want | Given | Refused | Ended


class Job(msgspec.Struct, frozen=True, array_like=True):
    """Begin so long after the last job, take these locks in this order, and work after each."""

    after: float
    locks: tuple[LockId, ...]
    work: float
    claim: tuple[LockId, ...] = ()  # locks that it might have taken besides


class Client(Process[Message]):
    """Runs jobs, one after the other."""

    channel: ClassVar[Channel] = Channel.FIFO  # a request must not overtake the end of an attempt
    messages: ClassVar[Any] = Message

    allocator: ProcessId
    jobs: tuple[Job, ...]
    pause: float = 1.0  # before a refused job begins again
    ended: int = 0  # jobs
    born: float | None = None  # when the present job began
    attempt: int = 0  # a number over all jobs
    tries: int = 0  # attempts of the present job
    trying: bool = False  # whether an attempt is under way
    taken: int = 0  # its locks

    @property
    def finished(self) -> bool:
        """Whether all jobs are done."""
        return self.ended == len(self.jobs)

    def start(self, out: Outbox[Message]) -> None:
        """Begin the first job when its time has come."""
        self._look_ahead(out)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Begin an attempt if none is under way; then ask for the next lock, or end the job."""
        job = self.jobs[self.ended]
        if not self.trying:
            self.born = out.now if self.born is None else self.born
            self.trying, self.taken = True, 0
            self.attempt += 1
            self.tries += 1
        if self.taken < len(job.locks):
            claim = tuple(sorted({*job.locks, *job.claim}))
            want = Want(self.attempt, job.locks[self.taken], self._age(), claim)
            out.send(self.allocator, want)
        else:
            self._end_job(out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Work with the lock that was given, or give back all and begin again later."""
        match message:
            case Given(attempt) if self._concerns(attempt):
                self.taken += 1
                out.set_timer(NEXT, self.jobs[self.ended].work)
            case Refused(attempt) if self._concerns(attempt):
                self._end_attempt(out)
                out.set_timer(NEXT, self.pause)
            case _:
                pass  # it crossed the end of that attempt

    def _concerns(self, attempt: int) -> bool:
        return self.trying and attempt == self.attempt

    def _age(self) -> float:
        assert self.born is not None
        return self.born

    def _end_job(self, out: Outbox[Message]) -> None:
        self._end_attempt(out)
        out.tell(JobDone(self.tries, self._age()))
        self.ended, self.tries, self.born = self.ended + 1, 0, None
        self._look_ahead(out)

    def _end_attempt(self, out: Outbox[Message]) -> None:
        out.send(self.allocator, Ended(self.attempt))
        self.trying = False

    def _look_ahead(self, out: Outbox[Message]) -> None:
        if not self.finished:
            out.set_timer(NEXT, self.jobs[self.ended].after)


class Allocator(Process[Message]):
    """Has the table of all locks, and keeps to a strategy."""

    channel: ClassVar[Channel] = Channel.FIFO
    messages: ClassVar[Any] = Message

    strategy: str  # its name
    period: float | None = None  # for `detect`: look for deadlocks so often, and not at each wait
    table: Table = msgspec.field(default_factory=Table)
    refused: set[ProcessId] = set()  # clients that were told so, and have not answered
    held_back: int = 0  # requests for a free lock that had to wait

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Put a request into the table, or take an attempt out of it, and see who is next."""
        match message:
            case Want(attempt, lock, born, claim):
                asker = self.table.ask(sender, attempt, lock, born, claim)
                free = self.table.holder(lock) is None
                self._give(out)
                if asker.wants is not None:
                    self.held_back += free
                    self._look_after_wait(asker, out)
            case Ended():
                self.table.forget(sender)
                self.refused.discard(sender)
                self._give(out)
            case _:
                raise AssertionError("clients ask, the allocator answers")

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Look for deadlocks."""
        for victim in self.table.victims_of_deadlocks():
            self._refuse(victim, out)
        if self.table.waiting():
            self._look_later(out)

    def _give(self, out: Outbox[Message]) -> None:
        """Give each free lock that the strategy lets go, in its order."""
        strategy = STRATEGIES[self.strategy]
        for asker in sorted(self.table.waiting(), key=strategy.turn):
            assert asker.wants is not None
            if self.table.holder(asker.wants) is None and strategy.may_take(self.table, asker):
                asker.take()
                out.send(asker.client, Given(asker.attempt))

    def _look_after_wait(self, asker: Contender, out: Outbox[Message]) -> None:
        if self.period is not None:
            self._look_later(out)
            return
        for victim in STRATEGIES[self.strategy].victims(self.table, asker):
            self._refuse(victim, out)

    def _look_later(self, out: Outbox[Message]) -> None:
        assert self.period is not None
        out.set_timer(LOOK, self.period)

    def _refuse(self, victim: Contender, out: Outbox[Message]) -> None:
        """Tell a client; what it holds stays taken until it has given it back."""
        if victim.client not in self.refused:
            self.refused.add(victim.client)
            victim.wants = None
            out.send(victim.client, Refused(victim.attempt))
