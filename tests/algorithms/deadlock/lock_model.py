"""Workers that take locks, each a process with a detector: for exploring every interleaving.

A worker takes the locks of one step, waits until it has enough, goes on to the next step and at the
end lets go of everything. It begins no wait before every lock that it asked has answered the last.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from coterie.algorithms.deadlock.condition import Condition, all_of
from coterie.algorithms.deadlock.detectors.diffusing import Diffusing
from coterie.algorithms.deadlock.detectors.diffusing import Message as DetectorMessage
from coterie.algorithms.deadlock.detectors.trial import Deadlocked
from coterie.algorithms.deadlock.detectors.waits import WaitId
from coterie.process import Outbox, Payload, Process, ProcessId

STEP = "step"


class Ask(Payload, frozen=True):
    number: int


class Give(Payload, frozen=True):
    number: int


class Withdraw(Payload, frozen=True):
    number: int


class Withdrawn(Payload, frozen=True):
    pass


class LetGo(Payload, frozen=True):
    pass


Message: TypeAlias = Ask | Give | Withdraw | Withdrawn | LetGo | DetectorMessage


class Node(Process[Message]):
    """What workers and locks share: a detector, whose wishes are passed on."""

    detector: Diffusing

    def detect(self, sender: ProcessId, message: DetectorMessage, out: Outbox[Message]) -> None:
        inner: Outbox[Any] = Outbox(self.me)
        self.detector.receive(sender, message, inner)
        self.relay(inner, out)

    def relay(self, inner: Outbox[Any], out: Outbox[Message]) -> None:
        while inner.local:
            self.detector.receive(self.me, inner.local.pop(0), inner)
        for to, message in inner.sends:
            out.send(to, message)
        for event in inner.events:
            assert isinstance(event, Deadlocked)
            out.tell(event)
            self.give_up(out)

    def give_up(self, out: Outbox[Message]) -> None:
        raise AssertionError("only workers are aborted")


class Lock(Node):
    """A lock with a queue; it waits for its holder."""

    holder: WaitId | None = None
    queue: list[WaitId] = []
    withdrawn: list[WaitId] = []  # before the request arrived

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        match message:
            case Ask(number):
                self.queue.append(WaitId(sender, number))
                self.drop_withdrawn(out)
                if self.holder is None:
                    self.give_next(out)
            case Withdraw(number):
                if self.holder != WaitId(sender, number):  # else it comes back by itself
                    self.withdrawn.append(WaitId(sender, number))
                    self.drop_withdrawn(out)
            case LetGo():
                self.holder = None
                self.give_next(out)
            case Give() | Withdrawn():
                raise AssertionError("locks ask nobody")
            case _:
                self.detect(sender, message, out)

    def drop_withdrawn(self, out: Outbox[Message]) -> None:
        for wait in [wait for wait in self.withdrawn if wait in self.queue]:
            self.withdrawn.remove(wait)
            self.queue.remove(wait)
            out.send(wait.process, Withdrawn())

    def give_next(self, out: Outbox[Message]) -> None:
        inner: Outbox[Any] = Outbox(self.me)
        if self.queue:
            self.holder = self.queue.pop(0)
            out.send(self.holder.process, Give(self.holder.number))
            condition = all_of(self.holder.process)
            self.detector.begin(condition, inner, granted=(self.holder,))
            if self.queue:
                self.detector.search(inner)
        else:
            self.detector.end(inner)
        self.relay(inner, out)


class Worker(Node):
    """Someone who takes locks step by step."""

    steps: tuple[Condition[ProcessId], ...]
    done: int = 0
    awaiting: set[ProcessId] = set()  # locks that have not answered
    holding: list[ProcessId] = []
    finished: bool = False
    aborted: bool = False

    def start(self, out: Outbox[Message]) -> None:
        out.set_timer(STEP, 1.0)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        if self.done == len(self.steps):
            self.let_go(out)
            self.finished = True
            return
        condition = self.steps[self.done]
        self.done += 1
        inner: Outbox[Any] = Outbox(self.me)
        wait = self.detector.begin(condition, inner, born=self.me)
        self.awaiting = set(condition.targets())
        out.broadcast(self.awaiting, Ask(wait.number))
        self.detector.search(inner)
        self.relay(inner, out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        match message:
            case Give(number):
                self.awaiting.remove(sender)
                self.take(sender, number, out)
                self.go_on_if_answered(out)
            case Withdrawn():
                self.awaiting.remove(sender)
                self.go_on_if_answered(out)
            case Ask() | Withdraw() | LetGo():
                raise AssertionError("nobody asks a worker")
            case _:
                self.detect(sender, message, out)

    def take(self, lock: ProcessId, number: int, out: Outbox[Message]) -> None:
        wait = self.detector.wait
        if wait is None or wait.number != number:
            out.send(lock, LetGo())
            return
        self.holding.append(lock)
        if wait.condition.holds(self.holding):
            inner: Outbox[Any] = Outbox(self.me)
            self.detector.end(inner)
            self.relay(inner, out)
            out.broadcast(self.awaiting, Withdraw(number))

    def go_on_if_answered(self, out: Outbox[Message]) -> None:
        if not self.awaiting and self.detector.wait is None and not self.aborted:
            out.set_timer(STEP, 1.0)

    def give_up(self, out: Outbox[Message]) -> None:
        self.aborted = True
        out.broadcast(self.awaiting, Withdraw(self.detector.begun))
        self.let_go(out)

    def let_go(self, out: Outbox[Message]) -> None:
        out.broadcast(self.holding, LetGo())
        self.holding.clear()


class Mail(Payload, frozen=True):
    """All that one step sends to nodes at another site: sender, receiver and message of each."""

    letters: tuple[tuple[ProcessId, ProcessId, Message], ...]


class Site(Process[Mail]):
    """A worker and a lock in one place: what they send each other costs nothing.

    At site i of n live worker i and lock n + i.
    """

    size: int
    worker: Worker
    lock: Lock

    def start(self, out: Outbox[Mail]) -> None:
        self.worker.start(inner := Outbox[Message](self.me))
        self.carry_out(inner, out)

    def ring(self, timer: str, out: Outbox[Mail]) -> None:
        self.worker.ring(timer, inner := Outbox[Message](self.me))
        self.carry_out(inner, out)

    def receive(self, sender: ProcessId, message: Mail, out: Outbox[Mail]) -> None:
        self.carry_out(Outbox(self.me), out, list(message.letters))

    def carry_out(
        self,
        first: Outbox[Message],
        out: Outbox[Mail],
        arrived: list[tuple[ProcessId, ProcessId, Message]] | None = None,
    ) -> None:
        """Deliver what stays here until nothing does, and send the rest in one mail to each site."""
        leaving: dict[ProcessId, list[tuple[ProcessId, ProcessId, Message]]] = {}
        here = arrived or []
        inner = first
        while True:
            for to, message in [*inner.sends, *((inner.me, message) for message in inner.local)]:
                site = (to - 1) % self.size + 1
                mail = here if site == self.me else leaving.setdefault(site, [])
                mail.append((inner.me, to, message))
            for timer, after in inner.timers:
                out.set_timer(timer, after or 0.0)
            for event in inner.events:
                out.tell(event)
            if not here:
                break
            sender, receiver, message = here.pop(0)
            inner = Outbox(receiver)
            node = self.worker if receiver == self.me else self.lock
            node.receive(sender, message, inner)
        for site, letters in sorted(leaving.items()):
            out.send(site, Mail(tuple(letters)))


def sites(*workers: tuple[Condition[ProcessId], ...]) -> list[Process[Any]]:
    """As many sites as workers; lock i of n has the number n + i."""
    size = len(workers)
    return [
        Site(me, size, Worker(me, Diffusing(me), steps), Lock(size + me, Diffusing(size + me)))
        for me, steps in enumerate(workers, 1)
    ]
