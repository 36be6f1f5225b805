"""What a caller of `check` may ask for, and what it gets."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.algorithms.mutex.permission.ricart_agrawala import Reply, RicartAgrawala
from coterie.clocks import Stamp
from coterie.errors import UsageError
from coterie.lab.explore import (
    Always,
    CanAlwaysStill,
    Count,
    Progress,
    Property,
    Sometimes,
    Together,
    Verdict,
    at_least,
    at_most,
    check,
    declared_channel,
    inside,
    waiting,
)
from coterie.lab.explore.budget import Watch
from coterie.lab.explore.properties import MUTEX
from coterie.process import Channel, Entered, Mutex, Outbox, Payload, Process, ProcessId, Seat
from coterie.trace import Header, Sent, Violated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def processes(size: int = 2) -> list[Process[Any]]:
    return [RicartAgrawala(me, size) for me in range(1, size + 1)]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: check([]), "takes 1 to 64 processes, got 0"),
        (lambda: check(processes()[::-1]), "numbered 1 to 2 in order, got [2, 1]"),
        (lambda: check(processes(), entries=-1), "entries must be 0 or more, got -1"),
        (lambda: check(processes(), losses=-2), "losses must be 0 or more, got -2"),
        (lambda: check(processes(), max_seconds=-1.0), "max_seconds must be 0 or more, got -1.0"),
        (lambda: check(processes(), requesters=[1, 7]), "requesters must be among 1 to 2, got [7]"),
    ],
)
def test_a_wrong_argument_is_named(call: Callable[[], Verdict], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert text in str(caught.value)


def test_the_processes_are_left_as_they_were() -> None:
    mine = processes()
    check(mine)
    assert mine == processes()


def test_only_requesters_ask() -> None:
    verdict = check(processes(3), requesters=[2])
    assert verdict.depth == 6  # a call, two requests, two replies, a call
    assert verdict.sometimes == {"contention": False}


def test_the_weakest_declared_channel_is_the_default() -> None:
    class Ordered(RicartAgrawala):
        channel = Channel.FIFO

    assert declared_channel(processes()) is RicartAgrawala.channel
    assert declared_channel([RicartAgrawala(1, 2), Ordered(2, 2)]) is Channel.FIFO
    assert check([Ordered(1, 2), Ordered(2, 2)]).states == 30


def test_a_spent_budget_is_no_proof() -> None:
    few = check(processes(3), max_states=100)
    assert (few.verdict, few.property, few.counterexample) == ("unfinished", None, None)
    assert 100 < few.states < 2_000
    assert check(processes(3), max_seconds=0.0).verdict == "unfinished"
    enough = check(processes(3), max_states=10_000)
    assert enough.verdict == "verified"


def test_progress_tells_how_far_the_search_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "INTERVAL_SECONDS", 0.0)
    heard: list[Progress] = []
    verdict = check(processes(3), progress=heard.append)
    assert [each.states for each in heard] == sorted(each.states for each in heard)
    assert heard[-1].states == verdict.states
    assert heard[-1].transitions == verdict.transitions
    assert all(each.states_per_second >= 0 for each in heard)


def test_a_verdict_is_json_with_the_trace_under_the_given_header() -> None:
    header = Header(algorithm="ricart-agrawala", size=2, title="one message lost")
    verdict = check(processes(), losses=1, header=header)
    again = msgspec.json.decode(msgspec.json.encode(verdict), type=dict[str, Any])
    assert again["verdict"] == "violated"
    assert again["property"] == "no deadlock"
    assert again["counterexample"]["header"]["title"] == "one message lost"


def test_without_a_header_the_algorithm_is_named_after_its_class() -> None:
    trace = check(processes(), losses=1).counterexample
    assert trace is not None
    assert trace.header == Header(algorithm="ricart-agrawala", size=2, clock="none")


def asked(seat: Seat) -> bool:
    return waiting(seat) or inside(seat)


def test_own_properties_are_judged_beside_the_usual_ones() -> None:
    def first_is_older(seats: Sequence[Seat | None]) -> bool:
        first, second = (seat.process for seat in seats if seat is not None)
        assert isinstance(first, RicartAgrawala)
        assert isinstance(second, RicartAgrawala)
        return bool(first.stamp and second.stamp and first.stamp < second.stamp)

    mine: tuple[Property, ...] = (
        Sometimes("both asked", (at_least(2, asked),)),
        Sometimes("first older", (Together(first_is_older),)),
        Sometimes("three asked", (at_least(3, asked),)),
    )
    verdict = check(processes(), properties=(*MUTEX, *mine))
    expected = {"contention": True, "both asked": True, "first older": True, "three asked": False}
    assert verdict.sometimes == expected


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ((at_most(1, asked),), "not alone: processes 1 and 2"),
        ((Count(asked, 0, 1), at_most(2, inside)), "not alone: processes 1 and 2"),
        ((Together(lambda seats: sum(asked(seat) for seat in seats if seat) < 2),), "not alone"),
    ],
)
def test_a_violated_condition_is_found_after_the_fewest_steps(
    conditions: tuple[Count | Together, ...], reason: str
) -> None:
    verdict = check(processes(), properties=[Always("alone", conditions, "not alone")])
    assert (verdict.property, verdict.reason, verdict.depth) == ("alone", reason, 2)


def test_what_should_stay_possible_is_asked_of_live_seats_only() -> None:
    hope = CanAlwaysStill("hope", lambda seat: seat.process.me == 1, "hope")
    verdict = check(processes(), requesters=[1], properties=[hope])
    assert (verdict.property, verdict.depth) == ("no deadlock", 0)
    assert verdict.reason == (
        "deadlock: no message or timer is pending;"
        " process 2 is stalled and can hope only if another user asks"
    )
    assert check(processes(1), crashes=1, properties=[hope]).verdict == "verified"


def test_a_crash_ends_the_wait_of_the_crashed_one_only() -> None:
    verdict = check(processes(), requesters=[1], crashes=1)
    assert (verdict.verdict, verdict.property, verdict.depth) == ("violated", "no deadlock", 2)
    assert verdict.reason == "deadlock: no message or timer is pending; process 1 waits forever"


class Courteous(RicartAgrawala):
    """Answers requests only when it asks for itself: nobody should have to wait for that."""

    def acquire(self, out: Outbox[Any]) -> None:
        super().acquire(out)
        super().release(out)

    def receive(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
        if isinstance(message, Reply):
            super().receive(sender, message, out)
        else:
            self.deferred.add(sender)


def test_nobody_is_expected_to_ask_so_that_others_get_in() -> None:
    verdict = check([Courteous(1, 2), Courteous(2, 2)])
    assert (verdict.property, verdict.depth) == ("no deadlock", 2)
    assert verdict.reason == (
        "deadlock: no message or timer is pending;"
        " process 1 is stalled and can enter only if another user asks"
    )


class Hello(Payload, frozen=True):
    pass


class Greeter(Process[Hello]):
    """Greets the next process at its start and counts greetings."""

    next: ProcessId
    heard: int = 0

    def start(self, out: Outbox[Hello]) -> None:
        out.send(self.next, Hello())
        out.send(self.me, Hello())

    def receive(self, sender: ProcessId, message: Hello, out: Outbox[Hello]) -> None:
        self.heard += 1


def greeted(seat: Seat) -> bool:
    return isinstance(seat.process, Greeter) and seat.process.heard > 1


def test_what_processes_send_at_their_start_is_under_way_in_the_initial_state() -> None:
    verdict = check([Greeter(1, 2), Greeter(2, 1)], properties=())
    assert (verdict.verdict, verdict.states, verdict.transitions) == ("verified", 4, 4)
    lonely = Always("lonely", (at_most(0, greeted),), "greeted")
    trace = check([Greeter(1, 2), Greeter(2, 1)], properties=[lonely]).counterexample
    assert trace is not None
    assert [type(record) for record in trace.records[:2]] == [Sent, Sent]


def test_without_a_property_nothing_is_shown_of_processes_of_no_known_kind() -> None:
    verdict = check([Greeter(1, 2), Greeter(2, 1)])
    assert (verdict.verdict, verdict.states, verdict.transitions) == ("vacuous", 4, 4)
    assert verdict.reason == (
        "nothing was shown: no property says what these processes should do, in any of 4 reachable"
        " states"
    )


def test_a_start_that_raises_is_a_violation_too() -> None:
    class Broken(Greeter):
        def start(self, out: Outbox[Hello]) -> None:
            raise ValueError("no")

    verdict = check([Broken(1, 2), Broken(2, 1)])
    assert (verdict.verdict, verdict.property) == ("violated", "no error")
    assert verdict.counterexample is not None
    assert verdict.counterexample.records == [Violated(0.0, "no error", verdict.reason)]
    stray = check([Greeter(1, 3), Greeter(2, 1)])
    assert (
        "ProtocolError: process 1 sent Hello() to process 3, which does not exist" in stray.reason
    )


SCRIPT = """
from coterie.lab.explore import check
from coterie.algorithms.mutex.permission.ricart_agrawala import RicartAgrawala
verdict = check([RicartAgrawala(me, 3) for me in (1, 2, 3)], losses=1, crashes=1, duplicates=1)
print(verdict.states, verdict.transitions, verdict.counterexample.to_lines())
"""


@pytest.mark.slow
def test_the_same_question_gets_the_same_bytes_whatever_the_hash_seed() -> None:
    answers = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: check(processes(3), entries=0), "nothing was shown: nothing ever happens"),
        (
            lambda: check(processes(1)),
            "nothing was shown: no process ever waits, in any of 3 reachable states",
        ),
    ],
)
def test_a_search_in_which_no_process_waits_verifies_nothing(
    call: Callable[[], Verdict], reason: str
) -> None:
    verdict = call()
    assert (verdict.verdict, verdict.reason, verdict.liveness) == ("vacuous", reason, "")


class Counting(Mutex[Any]):
    """Enters at once, counts how often, and keeps that where it does harm."""

    size: int
    entered: int = 0
    of_late: int = 0  # begins again, and so has an end
    log: tuple[Any, ...] = ()

    def acquire(self, out: Outbox[Any]) -> None:
        self.entered += 1
        self.of_late = (self.of_late + 1) % 100
        out.tell(Entered())

    def release(self, out: Outbox[Any]) -> None: ...

    def receive(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None: ...


class Logging(Counting):
    def acquire(self, out: Outbox[Any]) -> None:
        self.log = (*self.log, {"stamp": Stamp(3, 1)})
        out.tell(Entered())


@pytest.mark.parametrize(("kind", "field"), [(Counting, "entered"), (Logging, "log")])
def test_a_search_that_is_stopped_names_the_field_that_grows(
    kind: type[Counting], field: str
) -> None:
    verdict = check([kind(1, 1)], entries=None, max_states=500)
    assert verdict.verdict == "unfinished"
    assert f"; field {field!r} grows (2" in verdict.reason


def test_and_none_where_states_come_again() -> None:
    verdict = check(processes(3), entries=3, max_states=500)
    assert verdict.verdict == "unfinished"
    assert verdict.reason.endswith("no violation was found so far")
