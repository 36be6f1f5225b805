"""A mutex that is safe and never stuck, and unfair: the newest request is served first.

Process 1 coordinates and keeps the requests on a stack. As long as others keep asking, the one at
the bottom waits.
"""

from __future__ import annotations

from typing import TypeAlias

from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId


class Request(Payload, frozen=True):
    """May I enter?"""


class Grant(Payload, frozen=True):
    """You may."""


class Release(Payload, frozen=True):
    """I have left."""


Message: TypeAlias = Request | Grant | Release


class LastCome(Mutex[Message]):
    """A user of the critical section; process 1 is the coordinator as well."""

    size: int
    busy: bool = False  # as the coordinator: a process is inside, or was told to enter
    stack: list[ProcessId] = []  # as the coordinator: those that wait, the newest last

    def acquire(self, out: Outbox[Message]) -> None:
        """Ask the coordinator."""
        out.send(1, Request())

    def release(self, out: Outbox[Message]) -> None:
        """Tell the coordinator."""
        out.send(1, Release())

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Coordinate, or enter."""
        match message:
            case Request():
                self.stack.append(sender)
                self._grant_if_free(out)
            case Release():
                self.busy = False
                self._grant_if_free(out)
            case Grant():
                out.tell(Entered())

    def _grant_if_free(self, out: Outbox[Message]) -> None:
        if self.stack and not self.busy:
            self.busy = True
            out.send(self.stack.pop(), Grant())  # pop(0) would serve the oldest first
