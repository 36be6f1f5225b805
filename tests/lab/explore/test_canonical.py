"""States that differ by a shift of time are one, and nothing is lost by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coterie.algorithms.mutex.permission.ricart_agrawala import Request, RicartAgrawala
from coterie.clocks import LogicalTime, Stamp
from coterie.errors import ConfigError
from coterie.lab.explore import Verdict, check
from coterie.lab.explore.budget import Budget, Watch
from coterie.lab.explore.canonical import Canonical
from coterie.lab.explore.properties import MUTEX
from coterie.lab.explore.search import Search
from coterie.lab.explore.tables.faults import Faults
from coterie.lab.explore.tables.hashing import HashIndex
from coterie.lab.explore.tables.moves import Moves
from coterie.lab.explore.tables.times import change_times, earliest
from coterie.process import Channel, Outbox, Payload, Process, ProcessId, seat

FIFO, UNORDERED = Channel.FIFO, Channel.UNORDERED


class TiesUnbroken(RicartAgrawala):
    """Takes the time of every request for one earlier than it is, if times are equal."""

    def receive(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
        if isinstance(message, Request) and self.stamp and message.stamp.time == self.stamp.time:
            message = Request(Stamp(message.stamp.time, 0))
        super().receive(sender, message, out)


class ClockNotMerged(RicartAgrawala):
    """Does not learn the time from requests."""

    def receive(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
        before = self.highest
        super().receive(sender, message, out)
        self.highest = before


class ForgetsDeferred(RicartAgrawala):
    """Leaves without a word."""

    def release(self, out: Outbox[Any]) -> None:
        self.deferred.clear()
        super().release(out)


def explore(
    kind: type[RicartAgrawala], size: int, entries: int | None, channel: Channel, **options: Any
) -> Verdict:
    processes: list[Process[Any]] = [kind(me, size) for me in range(1, size + 1)]
    return check(processes, entries=entries, channel=channel, **options)


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("size", "entries", "channel", "states"),
    [
        (2, 1, FIFO, (30, 27)),
        (2, 3, FIFO, (325, 187)),
        (2, 3, UNORDERED, (400, 235)),
        (3, 1, FIFO, (2_049, 1_927)),
        (3, 2, FIFO, (25_674, 14_995)),
    ],
)
def test_fewer_states_give_the_same_verdict(
    size: int, entries: int, channel: Channel, states: tuple[int, int], exact: bool
) -> None:
    plain = explore(RicartAgrawala, size, entries, channel)
    canonical = explore(RicartAgrawala, size, entries, channel, canonical=True, exact=exact)
    assert (plain.verdict, canonical.verdict) == ("verified", "verified")
    assert (plain.states, canonical.states) == states
    assert plain.depth == canonical.depth
    assert plain.sometimes == canonical.sometimes


@pytest.mark.slow
@pytest.mark.parametrize("channel", Channel)
@pytest.mark.parametrize(("size", "entries"), [(2, 3), (3, 2)])
def test_what_is_searched_is_the_canonical_form_of_all_there_is(
    size: int, entries: int, channel: Channel
) -> None:
    moves = Moves(
        [seat(RicartAgrawala(me + 1, size), entries) for me in range(size)], channel, Faults()
    )
    search = Search(moves, MUTEX, Watch(Budget()), exact=True)
    search.run(moves.start())
    assert isinstance(search.index, HashIndex)
    forms = np.unique(Canonical(moves)(search.index.rows), axis=1)
    canonical = explore(RicartAgrawala, size, entries, channel, canonical=True)
    assert forms.shape[1] == canonical.states


@pytest.mark.slow
@pytest.mark.parametrize("channel", Channel)
@pytest.mark.parametrize("kind", [TiesUnbroken, ClockNotMerged, ForgetsDeferred])
@pytest.mark.parametrize(("size", "entries"), [(2, 2), (2, 3), (3, 1)])
def test_a_mutant_is_caught_after_as_many_steps(
    kind: type[RicartAgrawala], size: int, entries: int, channel: Channel
) -> None:
    plain = explore(kind, size, entries, channel)
    canonical = explore(kind, size, entries, channel, canonical=True)
    assert plain.verdict == "violated"
    assert (plain.property, plain.depth) == (canonical.property, canonical.depth)
    assert canonical.counterexample is not None


def test_a_handler_that_raises_late_is_caught_and_replayed() -> None:
    class Tires(RicartAgrawala):
        def release(self, out: Outbox[Any]) -> None:
            super().release(out)
            if len(self.awaiting) < len(out.sends):
                raise ValueError("too many to answer")

    plain = explore(Tires, 2, 3, UNORDERED, duplicates=1)
    canonical = explore(Tires, 2, 3, UNORDERED, duplicates=1, canonical=True)
    assert (plain.property, plain.depth) == ("no error", canonical.depth)
    assert canonical.property == plain.property


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "channel", "states"),
    [(2, FIFO, 18), (3, FIFO, 1_833), (3, UNORDERED, 2_622)],
)
def test_any_number_of_entries_is_verified(size: int, channel: Channel, states: int) -> None:
    verdict = explore(RicartAgrawala, size, None, channel, canonical=True)
    assert (verdict.verdict, verdict.states) == ("verified", states)
    endless = explore(RicartAgrawala, size, None, channel, max_states=10 * states)
    assert endless.verdict == "unfinished"


def test_a_time_that_is_not_declared_is_noticed() -> None:
    class Undeclared(RicartAgrawala):
        seen: int = 0

        def receive(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
            if isinstance(message, Request):
                self.seen = message.stamp.time
            super().receive(sender, message, out)

    with pytest.raises(ConfigError, match="Undeclared has no canonical form"):
        explore(Undeclared, 2, 1, FIFO, canonical=True)


class Everything(Payload, frozen=True):
    plain: int
    time: LogicalTime
    maybe: LogicalTime | None
    stamps: tuple[Stamp, ...]
    pair: tuple[int, LogicalTime]
    table: dict[int, list[LogicalTime]]
    queue: list[Stamp] | None
    nothing: Stamp | None = None


def test_times_are_found_wherever_their_types_say_so() -> None:
    value = Everything(7, 8, 9, (Stamp(5, 1), Stamp(6, 2)), (7, 4), {7: [8]}, [Stamp(9, 9)])
    later = change_times(value, lambda time: time + 10)
    expected = ((Stamp(15, 1), Stamp(16, 2)), (7, 14), {7: [18]}, [Stamp(19, 9)])
    assert later == Everything(7, 18, 19, *expected)
    assert earliest(value) == 4
    assert earliest(Everything(1, 2, None, (), (1, 3), {}, None)) == 2


def test_a_message_without_times_has_no_earliest() -> None:
    class Bare(Payload, frozen=True):
        number: int

    assert earliest(Bare(3)) is None
