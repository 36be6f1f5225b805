"""Leases of foreign sessions, counted by the one who waits: each rule, and each rule broken."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import pytest

from coterie.engines.queue import observation
from coterie.engines.queue.observation import PAST, Observations
from tests.harness import broken_class

if TYPE_CHECKING:
    from collections.abc import Callable

LEASE = 12.0  # the rate error is 0.6 s of it, and a look may be made every 2 s
OVER = 12.6


def the_count_starts_at_the_arrival_of_the_first_answer_that_showed_the_counter(
    seen: Observations,
) -> None:
    seen.saw("a", 7, LEASE, 100.0)
    seen.saw("a", 7, LEASE, 104.0)
    assert not seen.due(100.0 + OVER - 0.01)
    assert seen.due(100.0 + OVER) == [("a", 7)]


def the_rates_of_two_clocks_may_differ(seen: Observations) -> None:
    seen.saw("a", 7, LEASE, 100.0)
    assert not seen.due(100.0 + LEASE)


def another_counter_starts_the_count_anew(seen: Observations) -> None:
    seen.saw("a", 7, LEASE, 100.0)
    seen.saw("a", 8, LEASE, 110.0)
    assert not seen.due(110.0 + OVER - 0.01)
    assert seen.due(110.0 + OVER) == [("a", 8)]


def an_answer_that_is_old_starts_the_count_anew_too(seen: Observations) -> None:
    seen.saw("a", 8, LEASE, 100.0)
    seen.saw("a", 7, LEASE, 110.0)
    assert not seen.due(110.0 + OVER - 0.01)
    assert seen.due(110.0 + OVER) == [("a", 7)]


def the_lease_is_that_of_the_session(seen: Observations) -> None:
    seen.saw("short", 1, LEASE / 2, 100.0)
    seen.saw("long", 1, LEASE, 100.0)
    assert seen.due(100.0 + OVER / 2) == [("short", 1)]
    seen.forget("short")
    assert seen.due(100.0 + OVER) == [("long", 1)]


def the_longest_lease_that_the_record_has_shown_counts(seen: Observations) -> None:
    seen.saw(PAST, "run 2", LEASE, 100.0)
    seen.saw(PAST, "run 2", 2 * LEASE, 101.0)
    seen.saw(PAST, "run 2", LEASE, 102.0)
    assert not seen.due(100.0 + 2 * OVER - 0.01)
    assert seen.due(100.0 + 2 * OVER) == [(PAST, "run 2")]


def a_run_that_ends_while_it_is_closed_leaves_another_past(seen: Observations) -> None:
    seen.saw(PAST, "run 2", LEASE, 100.0)
    seen.saw(PAST, "run 3", LEASE, 110.0)
    assert not seen.due(110.0 + OVER - 0.01)
    assert seen.due(110.0 + OVER) == [(PAST, "run 3")]


def a_removal_that_may_be_lost_is_due_again_a_sixth_of_a_lease_later(seen: Observations) -> None:
    seen.saw("a", 7, LEASE, 100.0)
    assert seen.due(120.0) == [("a", 7)]
    assert not seen.due(121.9)
    assert seen.due(122.0) == [("a", 7)]
    seen.saw("a", 8, LEASE, 122.5)
    assert not seen.due(124.0)
    seen.forget("a")
    assert not seen.due(1000.0)


def each_session_is_looked_at_once_in_a_sixth_of_its_lease(seen: Observations) -> None:
    seen.saw("a", 1, LEASE, 100.0)
    assert not seen.looks(101.9)
    assert seen.looks(102.0) == ["a"]
    assert not seen.looks(103.9)
    seen.saw(
        "a", 1, LEASE, 103.9
    )  # what another answer has shown needs no look before the next beat
    assert seen.looks(104.0) == ["a"]
    assert not seen.looks(104.0)


def sessions_of_one_lease_share_a_request(seen: Observations) -> None:
    seen.saw("a", 1, LEASE, 100.0)
    seen.saw("b", 1, LEASE, 100.7)
    seen.saw("c", 1, 2 * LEASE, 101.9)
    assert seen.looks(102.0) == ["a", "b"]
    assert seen.looks(104.0) == ["a", "b", "c"]


def the_next_step_is_a_look_or_a_removal(seen: Observations) -> None:
    assert seen.next_at() == math.inf
    seen.saw("a", 1, LEASE, 100.0)
    assert seen.next_at() == 102.0
    for beat in range(1, 7):
        assert seen.looks(100.0 + 2 * beat) == ["a"]
        seen.saw("a", 1, LEASE, 100.0 + 2 * beat + 0.1)
    assert seen.next_at() == seen.next_removal_at() == 100.0 + OVER


def a_neighbour_that_died_is_due_within_one_and_a_half_leases(seen: Observations) -> None:
    """Each renewal of ours, a third of a lease after the one before, shows it; the first after its last one."""
    just_died = 96.0
    for renewal in (100.0, 104.0, 108.0, 112.0):
        seen.keep(["a"])
        seen.saw("a", 7, LEASE, renewal)
    assert seen.next_removal_at() < just_died + 1.5 * LEASE
    assert seen.due(just_died + 1.5 * LEASE) == [("a", 7)]


def only_the_sessions_before_our_own_entries_are_kept(seen: Observations) -> None:
    for name in "abc":
        seen.saw(name, 1, LEASE, 100.0)
    seen.keep(["b", "d"])
    seen.saw("c", 1, LEASE, 110.0)
    assert seen.due(100.0 + OVER) == [("b", 1)]
    seen.forget("b")
    assert seen.due(110.0 + OVER) == [("c", 1)]


RULES: list[Callable[[Observations], None]] = [
    the_count_starts_at_the_arrival_of_the_first_answer_that_showed_the_counter,
    the_rates_of_two_clocks_may_differ,
    another_counter_starts_the_count_anew,
    an_answer_that_is_old_starts_the_count_anew_too,
    the_lease_is_that_of_the_session,
    the_longest_lease_that_the_record_has_shown_counts,
    a_run_that_ends_while_it_is_closed_leaves_another_past,
    a_removal_that_may_be_lost_is_due_again_a_sixth_of_a_lease_later,
    each_session_is_looked_at_once_in_a_sixth_of_its_lease,
    sessions_of_one_lease_share_a_request,
    the_next_step_is_a_look_or_a_removal,
    a_neighbour_that_died_is_due_within_one_and_a_half_leases,
    only_the_sessions_before_our_own_entries_are_kept,
]

# The rule that notices it, the class that is broken, its line, and what stands there instead.
MUTANTS: dict[str, tuple[Callable[[Observations], None], str, str, str]] = {
    "the count goes on although the counter has changed": (
        another_counter_starts_the_count_anew,
        "Observations",
        "if seen is None or seen.counter != counter:",
        "if seen is None:",
    ),
    "counters are compared for their order": (
        an_answer_that_is_old_starts_the_count_anew_too,
        "Observations",
        "seen.counter != counter:",
        "seen.counter < counter:",
    ),
    "each answer starts the count": (
        the_count_starts_at_the_arrival_of_the_first_answer_that_showed_the_counter,
        "Observations",
        "        seen.lease = max(seen.lease, lease)",
        "        seen.since = now",
    ),
    "no rate error": (
        the_rates_of_two_clocks_may_differ,
        "Observation",
        "self.lease * (1 + CLOCK_RATE_ERROR)",
        "self.lease",
    ),
    "the lease that was shown last": (
        the_longest_lease_that_the_record_has_shown_counts,
        "Observations",
        "seen.lease = max(seen.lease, lease)",
        "seen.lease = lease",
    ),
    "a removal is sent again and again": (
        a_removal_that_may_be_lost_is_due_again_a_sixth_of_a_lease_later,
        "Observations",
        "seen.tried_at = now",
        "pass",
    ),
    "a removal that is lost is not sent again": (
        a_removal_that_may_be_lost_is_due_again_a_sixth_of_a_lease_later,
        "Observations",
        "seen.tried_at = now",
        "seen.tried_at = math.inf",
    ),
    "looks without a bound": (
        each_session_is_looked_at_once_in_a_sixth_of_its_lease,
        "Observations",
        "            seen = self._seen[session]\n            seen.look_at = self._next_beat(seen.lease, now)",
        "            pass",
    ),
    "a look for each session": (
        sessions_of_one_lease_share_a_request,
        "Observations",
        "if not self._seen:",
        "if True:",
    ),
    "a removal waits for the next look": (
        the_next_step_is_a_look_or_a_removal,
        "Observations",
        "min(self.next_removal_at(), min(looks, default=math.inf))",
        "min(looks, default=math.inf)",
    ),
    "a session that is in no one's way is watched for good": (
        only_the_sessions_before_our_own_entries_are_kept,
        "Observations",
        "del self._seen[session]",
        "pass",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: Callable[[Observations], None]) -> None:
    rule(Observations())


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant(name: str) -> None:
    rule, kind, old, new = MUTANTS[name]
    made: type[Any] = broken_class(getattr(observation, kind), old, new)
    with pytest.raises(AssertionError):
        rule(sys.modules[made.__module__].Observations())
