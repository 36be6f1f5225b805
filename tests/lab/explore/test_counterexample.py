"""A counterexample tells all that happened, in order, one step per unit of time."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.algorithms.mutex.permission.ricart_agrawala import RicartAgrawala
from coterie.errors import ConfigError
from coterie.lab.explore import Always, at_most, check, inside
from coterie.lab.explore.counterexample import Replay
from coterie.lab.explore.tables.inputs import Call
from coterie.lab.explore.tables.moves import Action
from coterie.lab.scenario.replay import replay
from coterie.process import Channel, Entered, Mutex, Outbox, Payload, Process, ProcessId, seat
from coterie.trace import (
    AnyRecord,
    Called,
    Crashed,
    Delivered,
    Dropped,
    Header,
    Noticed,
    Rang,
    Sent,
    Told,
    Trace,
    Violated,
)

NOBODY_INSIDE = Always("nobody inside", (at_most(0, inside),), "somebody is inside")


def processes(size: int = 2) -> list[Process[Any]]:
    return [RicartAgrawala(me, size) for me in range(1, size + 1)]


def story(trace: Trace | None) -> list[str]:
    assert trace is not None
    return [f"{record.time:g} {tell(record)}" for record in trace.records]


def tell(record: AnyRecord) -> str:
    told = ""
    match record:
        case Called(_, process, name) | Rang(_, process, name) | Told(_, process, _, name):
            told = f"{process} {name}"
        case Sent(_, number, sender, receiver, _, label):
            told = f"{sender}>{receiver} {label} #{number}"
        case Delivered(_, number, _, receiver):
            told = f"{receiver} gets #{number}"
        case Dropped(_, number, _, _, reason):
            told = f"#{number} {reason}"
        case Noticed(_, process, peer):
            told = f"{process} sees {peer} down"
        case Crashed(_, process):
            told = f"{process} crashes"
        case Violated(_, name, text):
            told = f"{name}: {text}"
        case _:
            raise AssertionError(f"the explorer tells no {record}")
    return told


def test_calls_messages_and_events_are_told() -> None:
    verdict = check(processes(), requesters=[1], properties=[NOBODY_INSIDE])
    assert story(verdict.counterexample) == [
        "0 1 acquire",
        "0 1>2 Request(1.1) #1",
        "1 2 gets #1",
        "1 2>1 Reply #2",
        "2 1 gets #2",
        "2 1 Entered",
        "2 nobody inside: somebody is inside: process 1",
    ]


def test_a_lost_message_is_told() -> None:
    verdict = check(processes(), requesters=[1], losses=1)
    assert story(verdict.counterexample) == [
        "0 1 acquire",
        "0 1>2 Request(1.1) #1",
        "1 #1 lost",
        "1 no deadlock: " + verdict.reason.removeprefix("deadlock: "),
    ]


@pytest.mark.parametrize("channel", Channel)
def test_a_duplicated_message_arrives_twice_under_one_number(channel: Channel) -> None:
    verdict = check(processes(), requesters=[1], duplicates=1, channel=channel)
    assert story(verdict.counterexample) == [
        "0 1 acquire",
        "0 1>2 Request(1.1) #1",
        "1 2 gets #1",
        "1 2>1 Reply #2",
        "2 1 gets #2",
        "2 1 Entered",
        "3 1 gets #2",
        "3 no error: " + verdict.reason,
    ]


def test_what_is_sent_to_a_crashed_one_vanishes() -> None:
    verdict = check(processes(2), requesters=[1], crashes=1)
    assert story(verdict.counterexample) == [
        "0 2 crashes",
        "1 1 acquire",
        "1 1>2 Request(1.1) #1",
        "1 #1 process 2 has crashed",
        "1 no deadlock: no message or timer is pending; process 1 waits forever",
    ]


def test_a_crash_takes_with_it_what_is_under_way_to_the_crashed_one() -> None:
    world = Replay([seat(process) for process in processes(2)])
    world.step(Action("own", 0), Call("acquire"))
    world.step(Action("crash", 1), None)
    assert story(Trace(Header(algorithm="", size=2), world.records)) == [
        "0 1 acquire",
        "0 1>2 Request(1.1) #1",
        "1 2 crashes",
        "1 #1 process 2 has crashed",
    ]


@pytest.mark.parametrize("fault", ["crashes", "losses", "duplicates"])
@pytest.mark.parametrize("canonical", [False, True])
def test_a_counterexample_can_be_replayed_elsewhere(fault: str, canonical: bool) -> None:
    header = Header(algorithm="ricart-agrawala", size=3)
    faults: dict[str, Any] = {fault: 1}
    verdict = check(processes(3), header=header, canonical=canonical, **faults)
    assert verdict.counterexample is not None
    replay(verdict.counterexample)


class Alarm(Payload, frozen=True):
    pass


class Sleeper(Mutex[Alarm]):
    """Enters when its timer rings."""

    def acquire(self, out: Outbox[Alarm]) -> None:
        out.set_timer("nap", 1.0)
        out.set_timer("night", 8.0)

    def release(self, out: Outbox[Alarm]) -> None:
        pass

    def ring(self, timer: str, out: Outbox[Alarm]) -> None:
        out.cancel_timer("night")
        out.tell(Entered())


def test_a_timer_rings_once_and_a_cancelled_one_never() -> None:
    verdict = check([Sleeper(1)], properties=[NOBODY_INSIDE])
    assert story(verdict.counterexample)[:3] == ["0 1 acquire", "1 1 nap", "1 1 Entered"]
    early = check([Sleeper(1)])  # "night" may ring first, and then "nap" tells it twice
    assert (early.property, early.depth) == ("no error", 3)


class Widow(Sleeper):
    """Enters when the other one is down."""

    def acquire(self, out: Outbox[Alarm]) -> None:
        out.watch(3 - self.me)

    def down(self, peer: ProcessId, out: Outbox[Alarm]) -> None:
        out.tell(Entered())


def test_a_crash_is_reported_to_whoever_watches_once_and_not_before() -> None:
    verdict = check([Widow(1), Widow(2)], requesters=[1], crashes=1, properties=[NOBODY_INSIDE])
    assert sorted(story(verdict.counterexample)[:2]) in (
        ["0 1 acquire", "1 2 crashes"],
        ["0 2 crashes", "1 1 acquire"],
    )
    assert story(verdict.counterexample)[2:4] == ["2 1 sees 2 down", "2 1 Entered"]
    assert (
        check([Widow(1), Widow(2)], requesters=[1], properties=[NOBODY_INSIDE]).verdict
        == "verified"
    )
    once = check([Widow(1), Widow(2)], requesters=[1], entries=2, crashes=1, properties=())
    assert once.verdict == "verified"


class Fickle(RicartAgrawala):
    """Remembers behind everybody's back how often it was asked."""

    def receive(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
        secret.append(sender)
        self.highest += len(secret)
        super().receive(sender, message, out)


secret: list[ProcessId] = []


def test_a_handler_that_does_not_do_the_same_twice_is_noticed() -> None:
    with pytest.raises(ConfigError, match="Fickle is not deterministic"):
        check([Fickle(1, 2), Fickle(2, 2)], properties=[NOBODY_INSIDE])
