"""Stable storage as processes see it: a value, and records that are appended to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.clocks import Stamp
from coterie.lab.simulate import Crash, Fault, Restart, Simulation
from coterie.process import Outbox, Payload, Process, encode
from coterie.transactions.schemes.scheduler import Item
from coterie.transactions.site import journal
from coterie.transactions.site.records import AnyRecord, Reserved, Wrote, recall
from tests.transactions.site_world import key_at, world

if TYPE_CHECKING:
    import pytest


class Nothing(Payload, frozen=True):
    """A message that nobody sends."""


class Diarist(Process[Nothing]):
    """Appends a record every second, and a value instead of the first five."""

    found: tuple[bytes, tuple[bytes, ...]] = (b"", ())
    seconds: int = 0

    def start(self, out: Outbox[Nothing]) -> None:
        self.found = out.saved, tuple(out.log)
        out.set_timer("second", 1.0)

    def ring(self, timer: str, out: Outbox[Nothing]) -> None:
        self.seconds += 1
        out.append(b"lost" if self.seconds == 5 else str(self.seconds).encode())
        if self.seconds == 5:
            out.save(b"five")
            out.append(b"and")
        out.set_timer("second", 1.0)


def found_after(crash: float) -> tuple[bytes, tuple[bytes, ...]]:
    faults: list[Fault] = [Crash(1, crash), Restart(1, crash + 1)]
    simulation = Simulation([Diarist(1)], faults=faults, until=crash + 1.5)
    simulation.run()
    process = simulation.process(1)
    assert isinstance(process, Diarist)
    return process.found


def test_what_was_appended_comes_back_in_order() -> None:
    assert found_after(3.5) == (b"", (b"1", b"2", b"3"))


def test_a_value_takes_the_place_of_everything_before_it() -> None:
    """Also of what the same step has appended before."""
    assert found_after(5.5) == (b"five", (b"and",))
    assert found_after(7.5) == (b"five", (b"and", b"6", b"7"))


def test_the_log_of_a_site_is_replaced_when_it_is_longer_than_what_it_amounts_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "RECORDS_MAX", 20)
    sites = world(sites=2)
    here, there = key_at(1, 2), key_at(2, 2)
    for number in range(60):
        sites.put(1, {here: str(number).encode(), there: str(number).encode()})
    assert sites.saved[1]
    assert sites.saved[2]
    assert max(len(log) for log in sites.logs.values()) <= 30
    for site in (1, 2):
        sites.crash(site)
        sites.start(site)
    sites.settle()
    assert sites.value(1, there) == sites.value(2, here) == b"59"


def test_a_snapshot_keeps_what_is_in_doubt_and_what_is_not_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "RECORDS_MAX", 0)
    sites = world(sites=3)
    keys = [key_at(site, 3) for site in (1, 2, 3)]
    attempt = sites.write(1, dict.fromkeys(keys, b"1"))
    sites.call(1, "commit", attempt.name)
    for link in ((1, 2), (1, 3), (2, 1), (3, 1)):
        sites.deliver(*link)
    sites.lose(1, 2)
    sites.lose(1, 3)
    for site in (1, 2, 3):
        sites.put_snapshot(site)
        sites.crash(site)
    assert attempt.name in recall(sites.saved[2], sites.logs[2]).ready
    assert attempt.name in recall(sites.saved[1], sites.logs[1]).decided
    for site in (1, 2, 3):
        sites.start(site)
    sites.settle()
    assert [sites.value(2, key) for key in keys] == [b"1"] * 3


def test_the_newest_version_survives_whatever_the_order_of_the_records() -> None:
    """2.2 d: with stamps a later commit may have the smaller number."""
    records: list[AnyRecord] = [
        Reserved(1000),
        Wrote("20.1", Stamp(20, 1), {"x": b"20"}),
        Wrote("10.1", Stamp(10, 1), {"x": b"10", "y": None}),
    ]
    past = recall(b"", map(encode, records))
    assert past.items == {"x": Item(b"20", Stamp(20, 1)), "y": Item(None, Stamp(10, 1))}
    assert past.time == 1000
