"""Optimistic transactions that run alone, that meet at several sites, and with rules broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.lab.serializability import check
from coterie.lab.trials.trial import Trial, explore
from coterie.transactions.schemes.optimistic import Optimistic
from tests.transactions.desk import (
    Tally,
    all_orders,
    faulty,
    spread_over_two_sites,
    states,
    tally,
    trial_of,
)
from tests.transactions.mutants import Mutant, break_rule
from tests.transactions.scripts import (
    INSERTS,
    INSTALLS,
    KEYS,
    LOST_UPDATE,
    READERS,
    WRITE_SKEW,
)
from tests.transactions.spread import Spread, spread_storm
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Active, Answer, Number, Scheduler


def at_two_sites(**options: Any) -> list[Scheduler]:
    return [Optimistic(site=site, sites=2, **options) for site in (1, 2)]


@pytest.mark.slow
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


# Several sites, rule k


def test_of_two_that_were_validated_in_opposite_orders_at_most_one_commits() -> None:
    """2.6 k: T1 is validated first at one site, T2 at the other."""
    for first in ("T1", "T2"):
        spread = spread_over_two_sites(at_two_sites(), WRITE_SKEW)
        for name in ("T1", "T2") * 3:
            spread.move(name)
        assert all(spread.votes[name] == 1 for name in ("T1", "T2"))
        spread.move(first)
        assert spread.runners[first].state == "refused"
        [other] = spread.movable()
        while other in spread.movable():
            spread.move(other)
        assert spread.runners[other].state == "committed"


def agree(trial: Trial) -> bool:
    """Tell whether T2 has seen all of what T1 wrote or nothing of it, as far as it has read."""
    seen = [doing.value for doing in trial.runners["T2"].doings if doing.op == "read"]
    return len({value and value.split("/")[0] for value in seen}) <= 1


def test_no_state_shows_a_mix_of_what_was_before_and_after_a_transaction() -> None:
    """2.6 f: at one site, and whether T2 would be validated or not."""
    walked = list(states(trial_of(Optimistic(), ("w(x) w(y)", "r(x) r(y)"), KEYS)))
    assert len(walked) > 100
    assert all(agree(trial) for trial in walked)


def mixes() -> list[bool]:
    """Find all states in which T2, under way, has seen a mix; tell of each whether all sites call it valid."""
    walked = states(spread_over_two_sites(at_two_sites(), ("w(x) w(y)", "r(x) r(y)")))
    running = (spread for spread in walked if not spread.runners["T2"].over)
    mixed = (spread.scheduler for spread in running if not agree(spread))
    return [all(s.valid("T2") for s in here if "T2" in s.active) for here in mixed]


def test_over_two_sites_a_mix_can_be_seen_and_is_found_invalid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2.6 f: also when T1 has written at one site and is about to at the other; a mutant is not."""
    assert mixes() == [False] * 10
    mutant = Mutant(Optimistic, "return self.sites == 1 or not any(", "return True or any(")
    break_rule(mutant, monkeypatch)
    assert any(mixes())


def test_those_who_have_failed_often_do_not_wait_for_each_other_at_two_sites() -> None:
    """2.6 h, k: the older takes the section from the younger, at whichever site they meet."""
    spread = Spread(
        at_two_sites(patience=1),
        ("x", "y"),
        homes={"x": 0, "y": 1},
    )
    spread.add("T1", 1, "r(x) w(y)", failures=1)
    spread.add("T2", 2, "r(y) w(x)", failures=1)
    ends = list(explore(spread))
    assert tally(ends) == Tally(14, 22, 6, stuck=0, wrong=0)
    assert all(end.runners["T1"].state == "committed" for end in ends)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"serial": True}, {"patience": 1}])
def test_storms_over_two_sites_are_serializable(options: dict[str, Any]) -> None:
    for seed in range(300):
        spread = spread_storm(at_two_sites(**options), seed)
        assert check(spread.history()).serializable, f"seed {seed}"
        assert not spread.waiting(), f"seed {seed}"


# Mutants

MUTANTS = {
    "write sets are not compared": (
        Mutant(Optimistic, "keys += [key for key in theirs if key in active.writes]", "pass"),
        INSTALLS,
    ),
    "the active set is not compared with the reads": (
        Mutant(Optimistic, "keys = read_set.among(theirs)", "keys: list[str] = []"),
        WRITE_SKEW,
    ),
    "those who committed since are not looked at": (
        Mutant(Optimistic, "if refusal is not None:", "if False:"),
        LOST_UPDATE,
    ),
    "readers are not validated": (
        Mutant(
            Optimistic,
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
        Mutant(Optimistic, "read_set.cover(listed.covered, active.writes)", "pass"),
        INSERTS,
    ),
    "an empty result is no range": (
        Mutant(
            Optimistic,
            "read_set.cover(listed.covered, active.writes)",
            "read_set.keys.update(found.key for found in listed.items)",
        ),
        INSERTS,
    ),
    "what will be written does not count as read": (
        Mutant(Optimistic, "read_set.keys.add(key)", "update or read_set.keys.add(key)"),
        ("u(x) w(x)", "u(x) w(x)"),
    ),
    "absent keys leave no trace": (
        Mutant(
            Optimistic,
            "read_set.keys.add(key)",
            "key in self.newest.table.items and read_set.keys.add(key)",
        ),
        LOST_UPDATE,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_rule_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, scripts = MUTANTS[name]
    break_rule(mutant, monkeypatch)
    assert faulty(explore(trial_of(Optimistic(), scripts, KEYS)))


def test_forgotten_commits_are_not_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.6 g: a mutant."""
    break_rule(Mutant(Optimistic, "return TOO_OLD, [], ()", "return None"), monkeypatch)
    trials = [storm(Optimistic(history_max=1), seed) for seed in range(20)]
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


def test_at_two_sites_the_test_of_one_site_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.6 k: a mutant; the largest proposal as the number does not help."""
    mutant = Mutant(Optimistic, "            if self.sites > 1:\n", "            if False:\n")
    break_rule(mutant, monkeypatch)
    spread = spread_over_two_sites(at_two_sites(), WRITE_SKEW)
    assert tally(explore(spread)) == Tally(528, 930, 126, stuck=0, wrong=400)


SECTION_MUTANTS = {
    "the active set leaks": Mutant(Optimistic, "        self.validated.pop(name, None)\n", ""),
    "runs alone beside write phases": Mutant(
        Optimistic, "if self.serial or name == self.alone:", "if self.serial:"
    ),
    "the section is kept": Mutant(
        Optimistic, "            self.alone = None\n", "            pass\n"
    ),
    "nobody who waits is asked again": Mutant(
        Optimistic, "if in_the_way and self.waiting:", "if False:"
    ),
}


@pytest.mark.parametrize("name", SECTION_MUTANTS)
def test_each_rule_of_the_section_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """2.6 d, h: somebody waits for ever, or fails though it ran alone, or stays in the active set."""
    break_rule(SECTION_MUTANTS[name], monkeypatch)
    for seed in range(20):
        try:
            trial = storm(Optimistic(patience=1), seed)
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
                Optimistic,
                "        if self.sites > 1:\n            self.refuse",
                "        if False:\n            self.refuse",
            ),
            {"serial": True},
        ),
        (
            Mutant(
                Optimistic,
                "elif self.sites > 1 and self._gives_way",
                "elif False and self._gives_way",
            ),
            {"patience": 0},
        ),
    ],
    ids=["prepares wait", "the older waits for the younger"],
)
def test_at_two_sites_waiting_like_at_one_ends_in_deadlock(
    mutant: Mutant, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.6 c, h, k: mutants."""
    break_rule(mutant, monkeypatch)
    spread = spread_over_two_sites(at_two_sites(**options), WRITE_SKEW)
    assert tally(explore(spread)).stuck > 0
