"""Three mutexes that are safe, never stuck, and unfair: a process may wait without end."""

from __future__ import annotations

import msgspec

from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId


class Request(Payload, frozen=True):
    pass


class Grant(Payload, frozen=True):
    pass


class Release(Payload, frozen=True):
    pass


Message = Request | Grant | Release


class LastComeFirstServed(Mutex[Message]):
    """Process 1 coordinates, and serves the newest request first."""

    busy: bool = False
    queue: list[ProcessId] = msgspec.field(default_factory=list)

    def acquire(self, out: Outbox[Message]) -> None:
        out.send(1, Request())

    def release(self, out: Outbox[Message]) -> None:
        out.send(1, Release())

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        match message:
            case Request():
                self.queue.append(sender)
            case Release():
                self.busy = False
            case Grant():
                out.tell(Entered())
                return
        if self.queue and not self.busy:
            self.busy = True
            out.send(self.next(), Grant())

    def next(self) -> ProcessId:
        return self.queue.pop()


class Fair(LastComeFirstServed):
    """The same, oldest first: no process starves."""

    def next(self) -> ProcessId:
        return self.queue.pop(0)


class StrictPriority(LastComeFirstServed):
    """The same, highest process first."""

    def next(self) -> ProcessId:
        best = max(self.queue)
        self.queue.remove(best)
        return best


class Token(Payload, frozen=True):
    pass


class LastComeRaymond(Mutex[Request | Token]):
    """Raymond's tree, a star round process 1 that has the token first; newest neighbour first."""

    holder: ProcessId  # the neighbour in whose direction the token is, or itself
    using: bool = False
    asked: bool = False
    queue: list[ProcessId] = msgspec.field(default_factory=list)

    def acquire(self, out: Outbox[Request | Token]) -> None:
        self.queue.append(self.me)
        self.go_on(out)

    def release(self, out: Outbox[Request | Token]) -> None:
        self.using = False
        self.go_on(out)

    def receive(
        self, sender: ProcessId, message: Request | Token, out: Outbox[Request | Token]
    ) -> None:
        match message:
            case Request():
                self.queue.append(sender)
            case Token():
                self.holder, self.asked = self.me, False
        self.go_on(out)

    def go_on(self, out: Outbox[Request | Token]) -> None:
        if self.holder == self.me and not self.using and self.queue:
            self.holder = self.queue.pop()
            self.asked = False
            if self.holder == self.me:
                self.using = True
                out.tell(Entered())
            else:
                out.send(self.holder, Token())
        if self.holder != self.me and self.queue and not self.asked:
            self.asked = True
            out.send(self.holder, Request())


def star(size: int) -> list[LastComeRaymond]:
    """Build the tree with process 1 in the middle."""
    return [LastComeRaymond(me, 1) for me in range(1, size + 1)]
