from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import coterie.lab.scenario.world
from coterie.catalogue import find
from coterie.errors import UsageError
from coterie.lab.scenario import from_trace, perform
from coterie.lab.scenario.replay import replay
from coterie.process import Event, Outbox, Payload, Process, ProcessId
from coterie.trace import Rang, Told, parse_trace


class Ping(Payload, frozen=True):
    pass


class Late(Event, frozen=True):
    at: float


class Watchdog(Process[Ping]):
    """Greets the others as it begins, and tells its clock when one has been silent for long."""

    size: int

    def start(self, out: Outbox[Ping]) -> None:
        out.broadcast({peer for peer in range(1, self.size + 1) if peer != self.me}, Ping())
        out.set_timer("SILENCE", 5)

    def receive(self, sender: ProcessId, message: Ping, out: Outbox[Ping]) -> None:
        out.cancel_timer("SILENCE")

    def ring(self, timer: str, out: Outbox[Ping]) -> None:
        out.tell(Late(out.now))
        out.set_timer(timer, 2.5)


@pytest.fixture(autouse=True)
def watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the watchdog into the catalogue, as far as the manual world can see."""
    entry = replace(
        find("ricart-agrawala"),
        name="watchdog",
        process=Watchdog,
        build=lambda setup: [Watchdog(me, setup.size) for me in range(1, setup.size + 1)],
    )

    def find_with_watchdog(name: str) -> Any:
        return entry if name == "watchdog" else find(name)

    monkeypatch.setattr(coterie.lab.scenario.world, "find", find_with_watchdog)
    monkeypatch.setattr(coterie.lab.scenario.script, "find", find_with_watchdog)


SILENT = """\
watchdog 2
  1 > 2  Ping
  1 sets SILENCE to 5
  2 > 1  Ping
  2 sets SILENCE to 5
deliver 1 > 2
  2 cancels SILENCE
ring 1 SILENCE
  1 sets SILENCE to 2.5
  1 Late(2.0)
show
  timers: 1 SILENCE
  on its way: 2 > 1  Ping
"""


def test_what_processes_do_as_they_begin_stands_under_the_first_line() -> None:
    assert perform(SILENT).transcript == SILENT


def test_a_timer_that_is_not_set_cannot_ring() -> None:
    with pytest.raises(UsageError, match=r"cannot 'ring 2 SILENCE' here; possible: .*ring 1 SIL"):
        perform(SILENT + "ring 2 SILENCE\n")


def test_a_process_that_takes_no_calls_refuses_them() -> None:
    with pytest.raises(UsageError, match="cannot 'acquire 1' here"):
        perform(SILENT + "acquire 1\n")


def test_the_timers_of_a_crashed_process_die_with_it() -> None:
    with pytest.raises(UsageError, match="cannot 'ring 1 SILENCE' here"):
        perform(SILENT + "crash 1\nring 1 SILENCE\n")


def test_a_trace_with_timers_and_clocks_replays_and_leads_through_again() -> None:
    trace = perform(SILENT).trace
    assert trace.records[-2] == Rang(2, 1, "SILENCE")
    assert trace.records[-1] == Told(2, 1, ["Late", 2.0], "Late(2.0)")
    replay(parse_trace(trace.to_lines()))
    assert perform(from_trace(trace)).trace == trace


def test_a_start_that_is_not_recorded_replays_all_the_same() -> None:
    trace = perform(SILENT).trace
    trace.records = [record for record in trace.records if type(record).__name__ != "Started"]
    replay(trace)
