"""Ricart and Agrawala with denials: rule by rule, every interleaving, every run with a clock, mutants."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.algorithms.mutex.permission.ricart_agrawala import Denied, Denying, Reply, Request
from coterie.catalogue import find
from coterie.clocks import Stamp
from coterie.errors import ConfigError, UsageError
from coterie.lab.explore.timed.check import check_timed
from coterie.lab.simulate import Closed, Crash, Network, Simulation, Uniform
from coterie.process import Channel, Entered
from tests.harness import Hand, Mutant, broken_class, build
from tests.suites import Explored, broken_lines, every_interleaving


def asking(*, size: int = 3, patience: float | None = 4) -> Hand:
    """Return process 1, which has asked all others."""
    hand = Hand(Denying(1, size, patience))
    hand.call("acquire")
    return hand


def test_who_wants_nothing_replies_at_once() -> None:
    assert Hand(Denying(1, 2)).receive(2, Request(Stamp(7, 2))) == [(2, Reply())]


def test_who_is_inside_denies_at_once_and_replies_on_release() -> None:
    hand = asking(size=2)
    assert hand.receive(2, Reply()) == [Entered()]
    assert hand.receive(2, Request(Stamp(2, 2))) == [(2, Denied(Stamp(2, 2)))]
    assert hand.call("release") == [(2, Reply())]


def test_who_waits_with_an_older_request_denies_as_well() -> None:
    """The lecture lets only those inside answer; then silence would still have two meanings."""
    assert asking().receive(2, Request(Stamp(1, 2))) == [(2, Denied(Stamp(1, 2)))]


def test_who_waits_with_a_younger_request_replies() -> None:
    hand = Hand(Denying(2, 2, highest=9))
    hand.call("acquire")
    assert hand.receive(1, Request(Stamp(9, 1))) == [(1, Reply())]


def test_a_denied_request_needs_the_reply_all_the_same() -> None:
    hand = asking(size=2)
    assert hand.receive(2, Denied(Stamp(1, 1))) == []
    assert hand.receive(2, Reply()) == [Entered()]


def test_without_patience_silence_means_nothing() -> None:
    processes = build("ricart-agrawala", 3, "denied")
    assert all(process.delay_max() is None for process in processes)
    result = Simulation(processes, workload=Closed(1), faults=[Crash(3, 0)]).run()
    assert result.unserved == 2


def test_who_is_silent_for_too_long_has_crashed_and_is_not_asked_again() -> None:
    hand = asking()
    assert hand.receive(2, Reply()) == []
    assert hand.ring("SILENCE") == [Entered()]
    hand.call("release")
    assert hand.call("acquire") == [(2, Request(Stamp(2, 1)))]


def test_who_has_denied_is_awaited_however_long_it_is_silent() -> None:
    hand = asking()
    hand.receive(2, Denied(Stamp(1, 1)))
    assert hand.ring("SILENCE") == []
    assert hand.receive(2, Reply()) == [Entered()]


def test_a_denial_of_an_earlier_request_is_no_sign_of_life() -> None:
    hand = Hand(Denying(1, 2, 4, highest=5))
    hand.call("acquire")
    assert hand.receive(2, Denied(Stamp(3, 1))) == []
    assert hand.ring("SILENCE") == [Entered()]


def test_a_new_request_is_younger_than_every_request_seen() -> None:
    hand = Hand(Denying(1, 2))
    hand.receive(2, Request(Stamp(41, 2)))
    assert hand.call("acquire") == [(2, Request(Stamp(42, 1)))]


def test_alone_it_enters_at_once() -> None:
    assert Hand(Denying(1, 1, 4)).call("acquire") == [Entered()]


@pytest.mark.parametrize("variant", ["plain", "keeping"])
def test_patience_is_refused_where_a_live_process_may_be_silent(variant: str) -> None:
    with pytest.raises(ConfigError, match=f"in {variant} a live process may be silent"):
        build("ricart-agrawala", 3, variant, patience="4")


@pytest.mark.parametrize("text", ["0", "-1", "inf", "nan", "soon"])
def test_patience_is_a_time(text: str) -> None:
    with pytest.raises(UsageError, match="expected a time greater than 0"):
        find("ricart-agrawala").setup(3, "denied", {"patience": text})


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 1, Channel.UNORDERED, 53, 78, variant="denied"),
    Explored(2, 2, Channel.UNORDERED, 563, 1232, variant="denied"),
    Explored(3, 1, Channel.FIFO, 5042, 14861, variant="denied"),
    Explored(3, 2, Channel.FIFO, 91540, 283864, variant="denied"),
    Explored(3, 1, Channel.UNORDERED, 10743, 39088, variant="denied"),
]

test_every_interleaving_is_safe_and_live = every_interleaving("ricart-agrawala", EXPLORED)


@pytest.mark.parametrize(
    ("size", "requesters", "crashes", "states", "transitions"),
    [
        (2, [1, 2], 0, 592, 753),
        (3, [1, 2, 3], 0, 44939, 61924),
        (3, [1], 2, 348, 548),
    ],
)
def test_every_run_with_a_clock_is_safe(
    size: int, requesters: list[int], crashes: int, states: int, transitions: int
) -> None:
    """With crashes, where none denies: a silence means a crash, and one that asks enters."""
    processes = build("ricart-agrawala", size, "denied", patience="2")
    verdict = check_timed(processes, requesters=requesters, crashes=crashes, entries=2)
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (states, transitions)


def test_what_it_cannot_decide_is_a_crash_after_a_denial() -> None:
    verdict = check_timed(build("ricart-agrawala", 2, "denied", patience="2"), crashes=1)
    assert verdict.reason == "process 2 can never enter"


@pytest.mark.slow
def test_crashes_never_let_two_inside() -> None:
    """Those that are left wait forever, or are served: 300 runs with a crash at any moment."""
    stuck = 0
    for seed in range(300):
        result = Simulation(
            build("ricart-agrawala", 4, "denied", patience="4"),
            seed=seed,
            workload=Closed(3, hold=1.0),
            network=Network(latency=Uniform(0.1, 2)),
            faults=[Crash(1 + seed % 4, seed / 10)],
        ).run()
        assert result.late == 0
        assert {each.name for each in result.violations} <= {"stuck"}, f"seed {seed}"
        stuck += bool(result.violations)
    assert 0 < stuck < 300


MUTANTS = {
    "ties unbroken": Mutant("self.stamp < stamp", "self.stamp.time < stamp.time", size=2),
    "never defer": Mutant("self.stamp is not None and self.stamp < stamp", "False", size=2),
    "always defer": Mutant(
        "self.stamp is not None and self.stamp < stamp", "self.stamp is not None", size=2
    ),
    "clock not merged": Mutant("max(self.highest, stamp.time)", "self.highest"),
    "deferred forgotten": Mutant("out.broadcast(self.deferred, Reply())", "pass", size=2),
    "deferred kept": Mutant("self.deferred.clear()", "pass", size=2, entries=2),
    "stamp kept": Mutant("self.stamp = None\n", "pass\n", size=2),
    "one reply is enough": Mutant("if not self.awaiting:", "if len(self.awaiting) < 2:"),
}


def seats(kind: type[Any], size: int) -> list[Any]:
    return [kind(me, size) for me in range(1, size + 1)]


test_a_broken_line_is_noticed = broken_lines(Denying, MUTANTS, seats)

WITH_A_CLOCK = {
    "no denial": ("out.send(sender, Denied(stamp))", "pass", 0),
    "a denial is no sign of life": ("if stamp == self.stamp:", "if False:", 0),
    "a reply is no sign of life": (
        "remove(sender)\n                self._hear(sender, out)",
        "remove(sender)",
        0,
    ),
    "silence means nothing": ("self.awaiting -= self.silent", "pass", 1),
    "silence is never noticed": ("out.set_timer(SILENCE, self.patience)", "pass", 1),
    "the clock runs on": ("out.cancel_timer(SILENCE)", "pass", 0),
    "too impatient": (
        "out.set_timer(SILENCE, self.patience)",
        "out.set_timer(SILENCE, self.patience - 1)",
        0,
    ),
}


@pytest.mark.parametrize("name", WITH_A_CLOCK)
def test_a_broken_line_is_noticed_with_a_clock(name: str) -> None:
    old, new, crashes = WITH_A_CLOCK[name]
    made = broken_class(Denying, old, new)
    processes = [made(me, 2, 4) for me in (1, 2)]
    requesters = [1] if crashes else [1, 2]
    verdict = check_timed(processes, requesters=requesters, crashes=crashes)
    assert verdict.verdict == "violated"
