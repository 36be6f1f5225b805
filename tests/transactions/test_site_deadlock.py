"""Deadlocks through several sites: found by asking twice, one victim, and nobody hurt in vain."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from coterie.cluster.store.node import SEARCH_SECONDS
from coterie.lab.simulate import Constant, Network
from coterie.lab.trials.clients import BusySite
from coterie.lab.trials.sites import build_sites, run_sites
from coterie.lab.trials.trial import program
from coterie.transactions.catalogue import scheme
from coterie.transactions.schemes.scheduler import Accepted, Refused
from coterie.transactions.site.deadlock_search import RINGS_MIN, DeadlockSearch
from coterie.transactions.site.messages import Collect, Collected, Sacrifice, Waiter
from coterie.transactions.site.site import BLOCKED, Site
from tests.harness import broken_class
from tests.transactions.broken_sites import broken_sites
from tests.transactions.site_world import World, key_at, world

if TYPE_CHECKING:
    from coterie.lab.trials.sites import Outcome
    from coterie.lab.trials.trial import Program

ACCOUNTS = [f"k{number}" for number in range(6)]
A, B, C = key_at(1, 3), key_at(2, 3), key_at(3, 3)


def crossed() -> tuple[World, str, str]:
    """Let a user of site 1 lock A and want B, and one of site 2 lock B and want A."""
    sites = world(sites=3)
    first, second = sites.call(1, "begin"), sites.call(2, "begin")
    sites.call(1, "write", first.name, A, b"1")
    sites.call(2, "write", second.name, B, b"2")
    sites.call(1, "write", first.name, B, b"1")
    sites.call(2, "write", second.name, A, b"2")
    sites.run()
    return sites, first.name, second.name


def test_no_site_sees_a_cycle_by_itself() -> None:
    sites, first, second = crossed()
    assert sites.site(1).facts()["waiting"] == {second: [first]}
    assert sites.site(2).facts()["waiting"] == {first: [second]}
    assert BLOCKED in sites.timers[1]
    assert BLOCKED in sites.timers[2]
    assert BLOCKED not in sites.timers[3]


def test_the_youngest_is_refused_and_the_other_goes_on() -> None:
    """2.7 g: the one with the larger stamp, named by everybody."""
    sites, first, second = crossed()
    sites.ring(1, BLOCKED)
    sites.run()
    refused = sites.answer(second)
    assert isinstance(refused, Refused)
    assert refused.rule == "a deadlock"
    assert refused.others == (first,)
    assert isinstance(sites.answer(first), Accepted)


def test_two_sites_that_search_at_once_abort_one_transaction() -> None:
    """2.7 g: all detect simultaneously, exactly one is aborted."""
    sites, first, second = crossed()
    for site in (1, 2):
        sites.ring(site, BLOCKED)
    sites.run()
    assert isinstance(sites.answer(second), Refused)
    assert isinstance(sites.answer(first), Accepted)
    for site in (1, 2, 3):
        if BLOCKED in sites.timers[site]:
            sites.ring(site, BLOCKED)
    sites.run()
    assert isinstance(sites.answer(first), Accepted)


def test_a_cycle_through_three_sites() -> None:
    sites = world(sites=3)
    keys = (A, B, C)
    attempts = [sites.call(site, "begin") for site in (1, 2, 3)]
    for round_ in (0, 1):
        for place, attempt in enumerate(attempts):
            sites.call(place + 1, "write", attempt.name, keys[(place + round_) % 3], b"1")
        sites.run()
    sites.ring(2, BLOCKED)
    sites.run()
    answers = [sites.answer(attempt.name) for attempt in attempts]
    assert sum(isinstance(answer, Refused) for answer in answers) == 1
    assert isinstance(answers[2], Refused)


def test_a_wait_that_ended_between_the_passes_makes_no_victim() -> None:
    """2.7 e: each edge is confirmed before anybody is hurt."""
    sites, first, second = crossed()
    sites.ring(1, BLOCKED)
    while not any(isinstance(message, Collected) for message in sites.mail.get((2, 1), [])):
        sites.deliver(1, 2)
    sites.deliver(2, 1)  # the first pass shows a deadlock, the second is under way
    assert sites.site(1).deadlock_search.suspects
    sites.call(2, "abort", second)
    sites.run()
    assert sites.count(Sacrifice) == 0
    assert isinstance(sites.answer(first), Accepted)


def test_a_late_sacrifice_hurts_nobody() -> None:
    """2.7 d: a wait is told by the count of its request, so another one is not meant."""
    sites, first, second = crossed()
    sites.call(1, "abort", first)
    sites.run()
    assert isinstance(sites.answer(second), Accepted)
    count = sites.site(1).resource.parts[second].count
    sites.mail[2, 1] = [Sacrifice(0, second, count, (first,))]
    sites.run()
    assert isinstance(sites.answer(second), Accepted)


def test_a_site_that_is_down_hides_no_deadlock_of_the_others() -> None:
    sites, first, second = crossed()
    sites.crash(3)
    sites.ring(2, BLOCKED)
    sites.run()
    assert isinstance(sites.answer(second), Refused)
    assert isinstance(sites.answer(first), Accepted)


def test_waiting_alone_is_no_deadlock() -> None:
    sites = world(sites=3)
    first = sites.write(1, {B: b"1"})
    second = sites.call(2, "begin")
    sites.call(2, "write", second.name, B, b"2")
    for _ in range(5):
        sites.ring(2, BLOCKED)
        sites.run()
    assert sites.count(Collect) == 10
    assert sites.count(Sacrifice) == 0
    assert sites.answer(second.name) is None
    sites.call(1, "commit", first.name)
    sites.run()
    assert isinstance(sites.answer(second.name), Accepted)


def bank(latency: float, seed: int, kind: type[BusySite] = BusySite) -> Outcome:
    """Let clients of three sites make transfers between few accounts; no client gives up."""
    dice = Random(f"{seed}/bank")

    def transfer() -> Program:
        return program("u({}) u({})".format(*dice.sample(ACCOUNTS, 2)))

    programs = [[[transfer() for _ in range(10)] for _ in range(2)] for _ in range(3)]
    build = scheme("two-phase-locking").variant("detection").build
    settings = {"patience": 2.5, "search_after": SEARCH_SECONDS}
    sites = build_sites(build, programs, left=10, kind=kind, **settings)
    return run_sites(sites, Network(Constant(latency)), seed=seed, until=60.0)


@pytest.mark.parametrize("latency", [0.001, 0.015, 0.06, 0.2])
def test_all_transfers_are_made_however_long_a_round_trip_takes(latency: float) -> None:
    """Also where two round trips take longer than the pause between two searches."""
    for seed in range(3):
        outcome = bank(latency, seed)
        assert outcome.refusals["a deadlock"], f"seed {seed} has no deadlock through several sites"
        assert outcome.commits == 60, f"seed {seed} stops after {outcome.commits} transfers"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if self.rings < self.allowed:", "if False:"),
        ("self.allowed = min(2 * self.allowed, RINGS_MAX)", "pass"),
        ("            self.silent.remove(sender)", "            pass"),
    ],
)
def test_a_search_that_is_replaced_too_soon_never_ends(old: str, new: str) -> None:
    kind = broken_sites(DeadlockSearch, old, new).busy_site
    assert min(bank(0.2, seed, kind).commits for seed in range(3)) < 60


def test_no_search_begins_while_one_is_under_way() -> None:
    sites, first, second = crossed()
    for _ in range(RINGS_MIN):
        sites.ring(1, BLOCKED)
    assert sites.count(Collect) == 2
    sites.run()
    assert isinstance(sites.answer(second), Refused)
    assert isinstance(sites.answer(first), Accepted)


def searches(sites: World, rings: int) -> int:
    """Let the timer of site 2 ring, and return how many searches that has begun."""
    before = sites.count(Collect)
    for _ in range(rings):
        sites.ring(2, BLOCKED)
        sites.run()
    return (sites.count(Collect) - before) // 2


def test_searches_wait_once_for_a_site_that_is_away() -> None:
    """Else each deadlock of the others would be found that much later."""
    sites = world(sites=3)
    sites.write(1, {B: b"1"})
    second = sites.call(2, "begin")
    sites.call(2, "write", second.name, B, b"2")
    sites.crash(3)
    assert searches(sites, RINGS_MIN + 1) == 2  # one is given up
    assert searches(sites, 5) == 5
    sites.start(3)
    assert searches(sites, 5) == 5
    sites.crash(3)
    assert searches(sites, RINGS_MIN) == 1  # it was heard, so it is waited for


def stale(kind: type[Site] = Site) -> tuple[World, str]:
    """Let a cycle be seen in the first pass that is broken before the second, though all wait on.

    The youngest wants a key that two others have read. One of them waits for the youngest
    elsewhere, so there is a cycle, and is aborted; the other reader stays, so the youngest waits.
    """
    sites = world(sites=3, kind=kind)
    first, reader = sites.call(1, "begin"), sites.call(3, "begin")
    sites.call(2, "begin")
    youngest = sites.call(2, "begin")  # by a larger stamp
    sites.call(1, "read", first.name, A)
    sites.call(3, "read", reader.name, A)
    sites.call(2, "write", youngest.name, B, b"1")
    sites.run()
    sites.call(2, "write", youngest.name, A, b"1")
    sites.call(1, "write", first.name, B, b"1")
    sites.run()
    assert sites.site(1).facts()["waiting"] == {youngest.name: [first.name, reader.name]}
    assert sites.site(2).facts()["waiting"] == {first.name: [youngest.name]}
    sites.ring(2, BLOCKED)
    sites.deliver(2, 1)
    sites.call(1, "abort", first.name)
    sites.run()
    return sites, youngest.name


def test_nobody_is_refused_for_a_cycle_that_is_broken_meanwhile() -> None:
    """2.7 e: the same wait, but not for the same others."""
    sites, youngest = stale()
    assert not isinstance(sites.answer(youngest), Refused)
    assert sites.site(1).facts()["waiting"]


def test_a_deadlock_that_is_believed_at_first_sight_hurts_in_vain() -> None:
    old = "self._begin_pass(core, sorted(sites), resource, step)"
    sites, youngest = stale(broken_sites(DeadlockSearch, old, "self._accuse(core, step)").site)
    assert isinstance(sites.answer(youngest), Refused)


def test_a_wait_that_counts_as_the_same_whatever_it_is_for_hurts_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = "return same and set(before.targets) <= set(self.targets)"
    monkeypatch.setattr(Waiter, "is_still", broken_class(Waiter, old, "return same").is_still)
    sites, youngest = stale()
    assert isinstance(sites.answer(youngest), Refused)


def test_a_sacrifice_of_another_wait_would_be_obeyed_without_its_count() -> None:
    old = "if (message.name, message.count) in waits:"
    broken = broken_sites(DeadlockSearch, old, "if message.name in resource.parts:")
    sites = world(sites=3, kind=broken.site)
    attempt = sites.write(1, {A: b"1"})
    sites.mail[2, 1] = [Sacrifice(0, attempt.name, 7, ())]
    sites.run()
    assert isinstance(sites.answer(attempt.name), Refused)
