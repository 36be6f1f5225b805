"""Leases that are counted by those who wait, explored: each rule holds, and each rule broken is noticed.

The worlds are small, so that all of them are visited in seconds; no one of them has all that may happen.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from coterie.engines.queue import observation
from coterie.engines.queue.observation import Observation, Observations
from tests.engines import lease_world
from tests.engines.lease_world import RATE_ERROR, Bounds, LeaseWorld, Records, explore
from tests.harness import broken_class

if TYPE_CHECKING:
    from collections.abc import Callable

WORLDS = {
    "losses": Bounds(renewals=(0, 2), losses=1),
    "renewals": Bounds(renewals=(1, 1)),
    "late": Bounds(renewals=(0, 1), late=1),
    "another session": Bounds(renewals=(0, 1), sessions=(2, 1)),
    "a session late": Bounds(renewals=(0, 0), sessions=(1, 2), late=1),
    "another attempt": Bounds(renewals=(0, 0), attempts=(2, 1), late=1),
    "neighbours": Bounds(renewals=(0, 2), neighbours=True),
    "restart": Bounds(renewals=(0, 1), faults=("restart",)),
    "restart without memory": Bounds(renewals=(0, 1), faults=("restart without memory",)),
    "emptied": Bounds(renewals=(0, 1), faults=("emptied",)),
    "rates": Bounds(renewals=(0, 1), hold=6),
    "condemned": Bounds(renewals=(1, 1), condemns=True),
    "condemned late": Bounds(renewals=(1, 0), late=1, condemns=True),
}
SLOW_FIRST, FAST_FIRST = (2, 3), (3, 2)


@pytest.fixture(autouse=True)
def coarse_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "CLOCK_RATE_ERROR", RATE_ERROR)


@pytest.mark.parametrize(
    ("name", "rates", "states", "grants"),
    [
        ("losses", SLOW_FIRST, 59_027, 3_636),
        ("renewals", SLOW_FIRST, 23_439, 1_455),
        ("late", SLOW_FIRST, 41_584, 2_404),
        ("late", FAST_FIRST, 38_944, 2_315),
        ("another session", SLOW_FIRST, 20_974, 865),
        ("another session", FAST_FIRST, 19_209, 798),
        ("a session late", SLOW_FIRST, 27_391, 1_146),
        ("another attempt", SLOW_FIRST, 18_331, 1_339),
        ("neighbours", SLOW_FIRST, 20_149, 1_279),
        ("neighbours", FAST_FIRST, 18_458, 1_247),
        ("restart", SLOW_FIRST, 40_858, 1_640),
        ("restart without memory", SLOW_FIRST, 39_697, 1_609),
        ("emptied", SLOW_FIRST, 43_927, 1_744),
        ("rates", SLOW_FIRST, 11_044, 872),
        ("condemned", SLOW_FIRST, 55_126, 3_398),
        ("condemned", FAST_FIRST, 55_126, 3_398),
        ("condemned late", SLOW_FIRST, 87_992, 5_304),
    ],
)
def test_all_rules_kept(name: str, rates: tuple[int, int], states: int, grants: int) -> None:
    found = explore(LeaseWorld(WORLDS[name], rates))
    assert not found.violation, found.way
    assert (found.states, found.grants) == (states, grants)


class Broken(NamedTuple):
    """A line of a rule, broken, and how that is noticed."""

    kind: type
    old: str
    new: str
    world: str
    noticed: str = "two valid holders"


BROKEN = {
    "the holder counts from the answer to a renewal": Broken(
        LeaseWorld,
        "counter=counter, age=sent_age",
        "counter=counter, age=arrival",
        "renewals",
    ),
    "the observer counts from the sending of its look": Broken(
        LeaseWorld, "arrival = 0", "arrival = sent_age", "neighbours"
    ),
    "a removal does not compare the counter": Broken(
        Records, "if self.counter(session) != counter:", "if not self.counter(session):", "renewals"
    ),
    "no room for the rates of clocks": Broken(
        Observation, "(1 + CLOCK_RATE_ERROR)", "(1 - CLOCK_RATE_ERROR)", "rates"
    ),
    "the count goes on although the counter has changed": Broken(
        Observations,
        "Observation(counter, lease, now, self",
        "Observation(counter, lease, seen.since if seen else now, self",
        "renewals",
    ),
    "an answer is believed after the lease": Broken(
        LeaseWorld, "min(hold, program.age)", "program.age % hold", "renewals"
    ),
    "lost memory does not close the server": Broken(
        Records, "closed=session, sessions=()", "closed=0, sessions=()", "emptied"
    ),
    "the name of a session is used again": Broken(
        LeaseWorld,
        "(place + 1) * 10 + program.sessions",
        "(place + 1) * 10",
        "a session late",
        "an entry that nobody knows",
    ),
    "a join that is late enters": Broken(
        LeaseWorld,
        'return late.session != request.session or late.kind == "remove"',
        "return True",
        "another attempt",
        "an entry that nobody knows",
    ),
    "numbers begin again without memory": Broken(
        Records,
        "number=self.number + 100",
        "number=1",
        "restart without memory",
        "a token went back",
    ),
    "a condemned session is over at once": Broken(
        Records,
        "return made._replace(condemned=(*self.condemned, session))",
        "return made.remove(session, made.counter(session))[0]",
        "condemned",
    ),
    "entries outlive their session": Broken(
        Records,
        "sessions=kept, queue=queue",
        "sessions=kept",
        "renewals",
        "an entry outlives its session",
    ),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_that_is_broken_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = BROKEN[rule]
    made: Any = broken_class(mutant.kind, mutant.old, mutant.new)
    world, observations = LeaseWorld, Observations
    if mutant.kind is LeaseWorld:
        world = made
    elif mutant.kind is Records:
        monkeypatch.setattr(lease_world, "Records", made)
    else:
        module = sys.modules[made.__module__]
        monkeypatch.setattr(module, "CLOCK_RATE_ERROR", RATE_ERROR)
        observations = module.Observations
    assert noticed(world, mutant.world, observations) == mutant.noticed


def noticed(
    world: type[LeaseWorld], name: str, observations: Callable[[], Observations] = Observations
) -> str:
    for rates in (SLOW_FIRST, FAST_FIRST):
        if violation := explore(world(WORLDS[name], rates, observations)).violation:
            return violation
    return ""


def test_a_server_that_ends_sessions_by_itself_is_noticed() -> None:
    world = LeaseWorld(Bounds(ends_sessions=True), SLOW_FIRST)
    assert explore(world).violation == "two valid holders"


def test_a_removal_of_another_past_opens_nothing() -> None:
    """One that is late, and was meant for what was closed before the server was emptied."""
    closed = Records(noted=1, closed=11)
    opened, _ = closed.remove(lease_world.PAST, 11)
    again, _ = closed.emptied().open(20, 0)
    late, _ = again.remove(lease_world.PAST, 11)
    assert (opened.closed, again.closed, late.closed) == (0, 20, 20)
