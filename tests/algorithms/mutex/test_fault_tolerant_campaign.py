"""Random crashes and returns: the repaired rules bear them all, and each rule is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from coterie.algorithms.mutex.quorum.fault_tolerant.published import Published
from coterie.lab.simulate import Crash, campaign, run_trial
from tests.algorithms.mutex import fault_tolerant_trials as trials
from tests.algorithms.mutex.fault_tolerant_trials import Kind, Trials

if TYPE_CHECKING:
    from coterie.algorithms.mutex.quorum.fault_tolerant.process import FaultTolerant


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drawn", "seeds"),
    [
        (Trials(), 150),
        (Trials(size=3), 100),
        (Trials(size=7, coterie="plane"), 150),
        (Trials(size=13, coterie="plane"), 60),
        (Trials(size=5, coterie="singleton"), 100),
        (Trials(size=4, coterie="singleton", kind="aimed"), 200),
        (Trials(size=7, coterie="plane", kind="aimed"), 100),
        (Trials(kind="churn"), 50),
        (Trials(size=3, kind="churn"), 150),
        (Trials(size=7, coterie="plane", kind="churn"), 100),
    ],
)
def test_everybody_who_lives_is_served_and_nobody_meets_another_inside(
    drawn: Trials, seeds: int
) -> None:
    report = campaign(drawn, range(seeds))
    assert report.failures == []
    assert report.late == 0
    assert len(report.outages) >= seeds


@pytest.mark.slow
def test_nobody_who_lives_is_ever_taken_for_dead() -> None:
    noticed = 0
    for seed in range(40):
        trial = Trials(size=7, coterie="plane", kind="crashes")(seed)
        crashed = {fault.process for fault in trial.faults if isinstance(fault, Crash)}
        known = run_trial(trial, seed).facts["down"]
        views = known.values() if isinstance(known, dict) else [known]
        assert all(crashed.issuperset(view) for view in views)
        noticed += sum(map(len, views))
    assert noticed > 40


@dataclass(frozen=True)
class Mutant:
    """A rule that is missing or wrong; one of so many runs must notice."""

    process: type[FaultTolerant]
    seeds: int = 100
    size: int | None = 7
    coterie: str | None = "plane"
    keep: str | None = None
    kind: Kind = "random"
    first: int = 0  # seed

    def draw(self) -> Trials:
        return Trials(self.process, self.size, self.coterie, self.keep, self.kind)


MUTANTS = {
    "as published": Mutant(Published, keep="larger", kind="aimed"),
    "smaller quorum kept without the repair": Mutant(Published, keep="smaller", kind="aimed"),
    "no Hold": Mutant(trials.NoHold, kind="aimed"),
    "no Hold for who comes back": Mutant(
        trials.NoHoldForTheNewcomer, size=3, coterie="singleton", seeds=50
    ),
    "no relay": Mutant(trials.NoRelay, size=4, coterie="singleton", kind="aimed", seeds=300),
    "quarantine sigma": Mutant(
        trials.ShortQuarantine, size=4, coterie="singleton", kind="aimed", seeds=50
    ),
    "duplicates delete each other in Q": Mutant(
        trials.EqualImagesDeleteEachOther, size=3, coterie="majority", keep="larger", seeds=20
    ),
    "request not sent to the new ones": Mutant(trials.RequestNotResent, seeds=20),
    "queue entry of the dead kept": Mutant(trials.QueueOfTheDead, seeds=20),
    "owner of a Hold not watched": Mutant(trials.HolderNotWatched),
    "messages of earlier incarnations minded": Mutant(trials.AllAreKnown, seeds=20),
    "no time to join": Mutant(trials.NoJoining, seeds=40),
    "a Welcome of before a crash minded": Mutant(trials.AnyWelcome, kind="churn", seeds=100),
    "those who return together unwelcomed": Mutant(
        trials.NoWelcomeInJoining, size=None, coterie=None, kind="churn", first=65, seeds=10
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_rule_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    seeds = range(mutant.first, mutant.first + mutant.seeds)
    assert any(campaign(mutant.draw(), [seed]).failures for seed in seeds)
