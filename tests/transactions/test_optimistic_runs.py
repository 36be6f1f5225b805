"""Optimistic transactions in all interleavings and in storms, at one site and at several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.transactions.schemes.optimistic import SCHEME, Optimistic
from coterie.transactions.serializability import check
from coterie.transactions.trials.trial import Trial, explore
from tests.harness import Mutant, broken
from tests.transactions.desk import (
    Tally,
    all_orders,
    faulty,
    states,
    table_row,
    tally,
    trial_of,
)
from tests.transactions.spread import Spread, spread_storm
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.transactions.schemes.scheduler import Active, Answer, Number, Scheduler

DOCS = Path(__file__).parent.parent.parent / "docs"
KEYS = tuple("abcdxyz")

LOST_UPDATE = ("u(x) w(x)", "r(x) w(x)")
WRITE_SKEW = ("r(x) w(y)", "r(y) w(x)")
INSERTS = ("s(a,c) w(a)", "s(a,c) w(b)")
DELETES = ("s(a,c) w(c)", "s(c,d) w(a) d(b)")
INSTALLS = ("w(x)", "w(x) w(y)", "r(x) r(y)")
READERS = ("r(a) w(x)", "w(a)", "r(a) r(x)")
THREE_SKEWED = ("r(x) w(y)", "r(y) w(z)", "r(z) w(x)")
GIVEN_UP = ("w(x) a", "r(x) w(y)", "r(y)")


EXPLORED: list[tuple[tuple[str, ...], str, Tally]] = [
    (LOST_UPDATE, "parallel", Tally(50, 52, 48, stuck=0, wrong=0)),
    (LOST_UPDATE, "serial", Tally(50, 52, 48, stuck=0, wrong=0)),
    (WRITE_SKEW, "parallel", Tally(50, 52, 48, stuck=0, wrong=0)),
    (WRITE_SKEW, "serial", Tally(50, 52, 48, stuck=0, wrong=0)),
    (INSERTS, "parallel", Tally(50, 52, 48, stuck=0, wrong=0)),
    (INSERTS, "serial", Tally(50, 52, 48, stuck=0, wrong=0)),
    (DELETES, "parallel", Tally(91, 93, 89, stuck=0, wrong=0)),
    (DELETES, "serial", Tally(91, 93, 89, stuck=0, wrong=0)),
    (INSTALLS, "parallel", Tally(4026, 8675, 3403, stuck=0, wrong=0)),
    (INSTALLS, "serial", Tally(3518, 8297, 2257, stuck=0, wrong=0)),
    (READERS, "parallel", Tally(4834, 10232, 4270, stuck=0, wrong=0)),
    (READERS, "serial", Tally(3254, 6194, 3568, stuck=0, wrong=0)),
    (THREE_SKEWED, "parallel", Tally(14922, 30756, 14010, stuck=0, wrong=0)),
    (THREE_SKEWED, "serial", Tally(10590, 21840, 9930, stuck=0, wrong=0)),
    (GIVEN_UP, "parallel", Tally(1052, 1880, 224, stuck=0, wrong=0)),
    (GIVEN_UP, "serial", Tally(836, 1448, 224, stuck=0, wrong=0)),
]

EXPLORED_AT_TWO_SITES: list[tuple[tuple[str, ...], str, Tally]] = [
    (WRITE_SKEW, "parallel", Tally(168, 170, 166, stuck=0, wrong=0)),
    (WRITE_SKEW, "serial", Tally(168, 170, 166, stuck=0, wrong=0)),
    (("w(x) w(y)", "w(y) w(x)"), "parallel", Tally(168, 224, 112, stuck=0, wrong=0)),
    (("u(x) w(x) w(y)", "u(y) w(y) w(x)"), "parallel", Tally(660, 662, 658, stuck=0, wrong=0)),
    (("r(x) w(y)", "w(x)", "r(y) r(x)"), "parallel", Tally(33188, 69315, 30249, 0, 0)),
]


@pytest.mark.parametrize(("scripts", "variant", "expected"), EXPLORED)
def test_all_interleavings_are_serializable(
    scripts: tuple[str, ...], variant: str, expected: Tally
) -> None:
    assert all_orders(SCHEME.build(variant), scripts, KEYS) == expected


@pytest.mark.parametrize("serial", [False, True])
def test_whoever_runs_alone_is_never_refused_in_any_interleaving(serial: bool) -> None:
    """2.6 h: T1 and T2 have failed often; T3 has not."""
    trial = Trial(Optimistic(serial=serial, patience=1), ("x", "y"))
    trial.add("T1", 1, "r(x) w(y)", failures=1)
    trial.add("T2", 2, "r(y) w(x)", failures=1)
    trial.add("T3", 3, "r(x) w(x)")
    ends = list(explore(trial))
    assert all(end.runners[name].state == "committed" for end in ends for name in ("T1", "T2"))
    assert tally(ends) == Tally(1365, 2947, 1148, stuck=0, wrong=0)


@pytest.mark.parametrize("options", [{}, {"serial": True}, {"patience": 1}, {"history_max": 2}])
def test_storms_are_serializable_and_nobody_fails_more_often_than_is_bearable(
    options: dict[str, Any],
) -> None:
    """2.6 h: at one site whoever runs alone succeeds, so the failures are bounded."""
    worst = 0
    for seed in range(300):
        trial = storm(Optimistic(**options), seed)
        scheduler: Optimistic = trial.scheduler
        assert check(trial.history()).serializable, f"seed {seed}"
        assert not trial.waiting(), f"seed {seed}"
        left = (scheduler.active, scheduler.validated, scheduler.read_sets, scheduler.waiting)
        assert not any(left), f"seed {seed}"
        assert (scheduler.starving, scheduler.alone) == ({}, None), f"seed {seed}"
        assert len(scheduler.finished) <= 2 * scheduler.history_max
        worst = max(worst, *(runner.attempt.failures for runner in trial.runners.values()))
    assert worst == options.get("patience", 5)


def test_the_page_states_what_was_explored() -> None:
    page = (DOCS / "transactions" / "optimistic.md").read_text(encoding="utf-8").splitlines()
    assert all(table_row(*row) in page for row in [*EXPLORED, *EXPLORED_AT_TWO_SITES])


# Several sites, rule k


def sites(scripts: tuple[str, ...], build: Callable[[int], Scheduler]) -> Spread:
    spread = Spread([build(1), build(2)], ("x", "y"), homes={"x": 0, "y": 1})
    for number, text in enumerate(scripts, start=1):
        spread.add(f"T{number}", number, text)
    return spread


def test_of_two_that_were_validated_in_opposite_orders_at_most_one_commits() -> None:
    """2.6 k: T1 is validated first at one site, T2 at the other."""
    for first in ("T1", "T2"):
        spread = sites(("r(x) w(y)", "r(y) w(x)"), lambda site: Optimistic(site=site, sites=2))
        for name in ("T1", "T2") * 3:
            spread.move(name)
        assert all(spread.votes[name] == 1 for name in ("T1", "T2"))
        spread.move(first)
        assert spread.runners[first].state == "refused"
        [other] = spread.movable()
        while other in spread.movable():
            spread.move(other)
        assert spread.runners[other].state == "committed"


@pytest.mark.parametrize(("scripts", "variant", "expected"), EXPLORED_AT_TWO_SITES)
def test_all_interleavings_over_two_sites_are_serializable(
    scripts: tuple[str, ...], variant: str, expected: Tally
) -> None:
    """2.6 k: with every order of prepares and commits at the two sites."""
    spread = sites(scripts, lambda site: SCHEME.build(variant, site, 2))
    assert tally(explore(spread)) == expected


def agree(trial: Trial) -> bool:
    """Tell whether T2 has seen all of what T1 wrote or nothing of it, as far as it has read."""
    seen = [doing.value for doing in trial.runners["T2"].doings if doing.op == "read"]
    return len({value and value.split("/")[0] for value in seen}) <= 1


def test_no_state_shows_a_mix_of_what_was_before_and_after_a_transaction() -> None:
    """2.6 f: at one site, and whether T2 would be validated or not."""
    walked = list(states(trial_of(Optimistic(), ("w(x) w(y)", "r(x) r(y)"), KEYS)))
    assert len(walked) > 100
    assert all(agree(trial) for trial in walked)


def mixes(build: Callable[[int], Scheduler]) -> list[bool]:
    """Find all states in which T2, under way, has seen a mix; tell of each whether all sites call it valid."""
    walked = states(sites(("w(x) w(y)", "r(x) r(y)"), build))
    running = (spread for spread in walked if not spread.runners["T2"].over)
    mixed = (spread.scheduler for spread in running if not agree(spread))
    return [all(s.valid("T2") for s in here if "T2" in s.active) for here in mixed]


def test_over_two_sites_a_mix_can_be_seen_and_is_found_invalid() -> None:
    """2.6 f: also when T1 has written at one site and is about to at the other; a mutant is not."""
    assert mixes(lambda site: Optimistic(site=site, sites=2)) == [False] * 10
    mutant = Mutant("return self.sites == 1 or not any(", "return True or any(")
    module = broken(VALIDATION, mutant)
    assert any(mixes(lambda site: module.Optimistic(site=site, sites=2)))


def test_those_who_have_failed_often_do_not_wait_for_each_other_at_two_sites() -> None:
    """2.6 h, k: the older takes the section from the younger, at whichever site they meet."""
    spread = Spread(
        [Optimistic(site=site, sites=2, patience=1) for site in (1, 2)],
        ("x", "y"),
        homes={"x": 0, "y": 1},
    )
    spread.add("T1", 1, "r(x) w(y)", failures=1)
    spread.add("T2", 2, "r(y) w(x)", failures=1)
    ends = list(explore(spread))
    assert tally(ends) == Tally(14, 22, 6, stuck=0, wrong=0)
    assert all(end.runners["T1"].state == "committed" for end in ends)


@pytest.mark.parametrize("options", [{}, {"serial": True}, {"patience": 1}])
def test_storms_over_two_sites_are_serializable(options: dict[str, Any]) -> None:
    for seed in range(300):
        spread = spread_storm([Optimistic(site=site, sites=2, **options) for site in (1, 2)], seed)
        assert check(spread.history()).serializable, f"seed {seed}"
        assert not spread.waiting(), f"seed {seed}"


# Mutants

VALIDATION = "coterie.transactions.schemes.optimistic.validation"
SECTION = "coterie.transactions.schemes.optimistic.section"

MUTANTS = {
    "write sets are not compared": (
        Mutant("keys += [key for key in theirs if key in active.writes]", "pass"),
        INSTALLS,
    ),
    "the active set is not compared with the reads": (
        Mutant("keys = read_set.among(theirs)", "keys: list[str] = []"),
        WRITE_SKEW,
    ),
    "those who committed since are not looked at": (
        Mutant("if refusal is not None:", "if False:"),
        LOST_UPDATE,
    ),
    "readers are not validated": (
        Mutant(
            "        if not self._has_turn(active, out):\n            return\n",
            "        if not active.writes:\n"
            "            active.prepared = True\n"
            "            self.highest += 1\n"
            "            number = Stamp(self.highest, self.site)\n"
            "            out.append(Prepared(active.attempt.name, number, {}))\n"
            "            return\n",
        ),
        READERS,
    ),
    "ranges are not in the read set": (
        Mutant("read_set.cover(listed.covered, active.writes)", "pass"),
        INSERTS,
    ),
    "an empty result is no range": (
        Mutant(
            "read_set.cover(listed.covered, active.writes)",
            "read_set.keys.update(found.key for found in listed.items)",
        ),
        INSERTS,
    ),
    "what will be written does not count as read": (
        Mutant("read_set.keys.add(key)", "update or read_set.keys.add(key)"),
        ("u(x) w(x)", "u(x) w(x)"),
    ),
    "absent keys leave no trace": (
        Mutant(
            "read_set.keys.add(key)", "key in self.newest.table.items and read_set.keys.add(key)"
        ),
        LOST_UPDATE,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_rule_is_needed(name: str) -> None:
    mutant, scripts = MUTANTS[name]
    scheduler = broken(VALIDATION, mutant).Optimistic()
    assert faulty(explore(trial_of(scheduler, scripts, KEYS)))


def test_forgotten_commits_are_not_harmless() -> None:
    """2.6 g: a mutant."""
    module = broken(VALIDATION, Mutant("return TOO_OLD, [], ()", "return None"))
    trials = [storm(module.Optimistic(history_max=1), seed) for seed in range(20)]
    assert not all(check(trial.history()).serializable for trial in trials)


class NumberedEarly(Optimistic):
    """Counts a transaction among the commits before its write phase has ended."""

    def _prepare(self, active: Active, out: list[Answer]) -> None:
        super()._prepare(active, out)
        if active.prepared:
            self.commits += 1
            self.finished.append((active.attempt.name, tuple(active.writes)))

    def _commit(self, active: Active, number: Number, out: list[Answer]) -> None:
        super()._commit(active, number, out)
        if active.writes:
            self.commits -= 1
            self.finished.pop()


def test_a_number_before_the_write_phase_has_ended_is_too_early() -> None:
    """2.6 e: a mutant."""
    assert all_orders(Optimistic(), ("w(x) w(y)", "r(x) r(y)"), KEYS).wrong == 0
    assert faulty(explore(trial_of(NumberedEarly(), ("w(x) w(y)", "r(x) r(y)"), KEYS)))


def test_at_two_sites_the_test_of_one_site_is_not_enough() -> None:
    """2.6 k: a mutant; the largest proposal as the number does not help."""
    mutant = Mutant("            if self.sites > 1:\n", "            if False:\n")
    module = broken(VALIDATION, mutant)
    spread = sites(WRITE_SKEW, lambda site: module.Optimistic(site=site, sites=2))
    assert tally(explore(spread)) == Tally(528, 930, 126, stuck=0, wrong=400)


SECTION_MUTANTS = {
    "the active set leaks": Mutant("        self.validated.pop(name, None)\n", ""),
    "runs alone beside write phases": Mutant(
        "if self.serial or name == self.alone:", "if self.serial:"
    ),
    "the section is kept": Mutant("            self.alone = None\n", "            pass\n"),
    "nobody who waits is asked again": Mutant("if in_the_way and self.waiting:", "if False:"),
}


def with_section(mutant: Mutant) -> Any:
    """Build the scheduler on a broken section."""
    broken(SECTION, mutant)
    line = "from coterie.transactions.schemes.optimistic.section import Held, Section"
    return broken(VALIDATION, Mutant(line, line.replace(".section", ".section_broken"))).Optimistic


@pytest.mark.parametrize("name", SECTION_MUTANTS)
def test_each_rule_of_the_section_is_needed(name: str) -> None:
    """2.6 d, h: somebody waits for ever, or fails though it ran alone, or stays in the active set."""
    build = with_section(SECTION_MUTANTS[name])
    for seed in range(20):
        try:
            trial = storm(build(patience=1), seed)
        except KeyError:  # the active set names somebody who has ended
            return
        failures = max(runner.attempt.failures for runner in trial.runners.values())
        if trial.waiting() or trial.scheduler.validated or failures > 1:
            return
    pytest.fail("nobody has noticed")


@pytest.mark.parametrize(
    ("mutant", "options"),
    [
        (
            Mutant(
                "        if self.sites > 1:\n            self.refuse",
                "        if False:\n            self.refuse",
            ),
            {"serial": True},
        ),
        (
            Mutant("elif self.sites > 1 and self._gives_way", "elif False and self._gives_way"),
            {"patience": 0},
        ),
    ],
    ids=["prepares wait", "the older waits for the younger"],
)
def test_at_two_sites_waiting_like_at_one_ends_in_deadlock(
    mutant: Mutant, options: dict[str, Any]
) -> None:
    """2.6 c, h, k: mutants."""
    build = with_section(mutant)
    spread = sites(WRITE_SKEW, lambda site: build(site=site, sites=2, **options))
    assert tally(explore(spread)).stuck > 0
