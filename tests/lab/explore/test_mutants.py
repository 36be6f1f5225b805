"""Each rule of Ricart and Agrawala, broken, is caught with a shortest counterexample."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from coterie.algorithms.mutex.permission.ricart_agrawala import Reply, Request, RicartAgrawala
from coterie.lab.explore import Verdict, check
from coterie.process import Channel, Outbox, Process, ProcessId
from coterie.trace import Violated

Message: TypeAlias = Request | Reply
FIFO, UNORDERED = Channel.FIFO, Channel.UNORDERED


class Mutant(RicartAgrawala):
    """Handles requests by the textbook's words: while inside or with an older request, defer."""

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        match message:
            case Request(stamp):
                self.merge(stamp.time)
                if self.objects(message):
                    self.deferred.add(sender)
                else:
                    out.send(sender, Reply())
            case Reply():
                super().receive(sender, message, out)

    def merge(self, time: int) -> None:
        self.highest = max(self.highest, time)

    def objects(self, request: Request) -> bool:
        inside = self.stamp is not None and not self.awaiting
        return inside or (self.stamp is not None and self.stamp < request.stamp)


class TiesUnbroken(Mutant):
    """Compares times only."""

    def objects(self, request: Request) -> bool:
        return self.stamp is not None and self.stamp.time < request.stamp.time


class TiesBlockEachOther(Mutant):
    """Takes an equal time for an older one."""

    def objects(self, request: Request) -> bool:
        return self.stamp is not None and self.stamp.time <= request.stamp.time


class ClockNotMerged(Mutant):
    """Does not learn the time from requests."""

    def merge(self, time: int) -> None:
        pass


class NeverDefers(Mutant):
    """Always says yes."""

    def objects(self, request: Request) -> bool:
        return False


class ForgetsDeferred(Mutant):
    """Leaves without a word."""

    def release(self, out: Outbox[Message]) -> None:
        self.deferred.clear()
        super().release(out)


def explore(kind: type[RicartAgrawala], size: int, channel: Channel, entries: int = 1) -> Verdict:
    processes: list[Process[Any]] = [kind(me, size) for me in range(1, size + 1)]
    return check(processes, entries=entries, channel=channel)


@pytest.mark.parametrize("channel", Channel)
def test_the_textbook_form_is_the_same_algorithm(channel: Channel) -> None:
    ours, textbook = explore(RicartAgrawala, 3, channel), explore(Mutant, 3, channel)
    assert (ours.verdict, textbook.verdict) == ("verified", "verified")
    assert ours.states == textbook.states


@pytest.mark.parametrize(
    ("kind", "size", "channel", "violated", "steps"),
    [
        (TiesUnbroken, 2, FIFO, "mutual exclusion", 6),
        (TiesBlockEachOther, 2, FIFO, "no deadlock", 4),
        (ClockNotMerged, 3, FIFO, "mutual exclusion", 10),
        (ClockNotMerged, 2, UNORDERED, "mutual exclusion", 6),
        (NeverDefers, 2, FIFO, "mutual exclusion", 6),
        (ForgetsDeferred, 2, FIFO, "no deadlock", 6),
    ],
)
def test_a_broken_rule_is_caught(
    kind: type[Mutant], size: int, channel: Channel, violated: str, steps: int
) -> None:
    verdict = explore(kind, size, channel)
    assert (verdict.verdict, verdict.property, verdict.depth) == ("violated", violated, steps)
    assert verdict.counterexample is not None
    *_, last = verdict.counterexample.records
    assert last == Violated(steps - 1.0, violated, verdict.reason.removeprefix("deadlock: "))


@pytest.mark.parametrize("entries", [1, 2, 3])
def test_two_processes_on_fifo_links_do_not_show_that_the_clock_is_not_merged(entries: int) -> None:
    assert explore(ClockNotMerged, 2, FIFO, entries).verdict == "verified"
