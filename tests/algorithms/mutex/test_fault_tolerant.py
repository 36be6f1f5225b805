"""Every run of a few processes with a clock: the repaired rules hold, those of 1996 do not.

A tick is the time a message takes (sigma = 1), or half of it (sigma = 2), and answers take none
(lambda = 0), so that every bound is tight: what arrives in the last moment arrives before the timer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.algorithms.mutex.quorum.fault_tolerant.process import FaultTolerant
from coterie.algorithms.mutex.quorum.fault_tolerant.published import Published
from coterie.algorithms.mutex.quorum.fault_tolerant.settings import Settings
from coterie.catalogue import find
from coterie.coteries import parse_coterie
from coterie.lab.explore.timed.check import check_timed
from coterie.lab.scenario import from_trace
from coterie.trace import Header
from tests.algorithms.mutex import fault_tolerant_trials as trials

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

    from coterie.coteries import Keep
    from coterie.lab.explore import Verdict

WHEEL = "1,2 1,3 1,4 2,3,4"
SCENARIOS = Path(__file__).parents[2] / "scenarios"


@dataclass(frozen=True)
class Case:
    """What is explored."""

    size: int
    coterie: str
    crashes: int
    requesters: tuple[int, ...]
    returns: int = 0
    sigma: int = 1
    keep: Keep = "larger"
    lambda_: int = 0

    def check(self, process: type[FaultTolerant] = FaultTolerant) -> Verdict:
        coterie = parse_coterie(self.coterie, self.size)
        members = range(1, self.size + 1)
        settings = Settings(
            quorums=tuple(tuple(sorted(quorum)) for quorum in coterie.quorums),
            stand_ins=(*members[1:], 1),
            sigma=self.sigma,
            lambda_=self.lambda_,
            t_max=2 * self.sigma + self.lambda_ + 1,
            patience_max=2 * self.sigma + self.lambda_ + 1,
            keep=self.keep,
        )
        return check_timed(
            [process(me, (), settings=settings) for me in members],
            delays=(1, self.sigma),
            handling=self.lambda_,
            requesters=self.requesters,
            crashes=self.crashes,
            returns=self.returns,
        )


def slow(*values: object) -> ParameterSet:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "states", "transitions"),
    [
        (Case(3, "majority", 0, (1, 2, 3)), 29860, 36537),
        (Case(3, "majority", 1, (1, 2)), 7301, 9858),
        (Case(3, "majority", 2, (1, 2)), 11867, 19134),
        (Case(3, "majority", 1, (1, 2), sigma=2), 46048, 71278),
        (Case(3, "singleton", 1, (1, 2, 3)), 12802, 19885),
        (Case(3, "singleton", 2, (1, 2, 3)), 16630, 30674),
        (Case(3, "singleton", 1, (2, 3), sigma=2), 23465, 37279),
        (Case(3, "singleton", 1, (2, 3), returns=1), 38685, 49870),
        (Case(3, "singleton", 1, (2, 3), lambda_=1), 16114, 24826),
        (Case(3, "majority", 1, (1, 2), lambda_=1), 33506, 49877),
        (Case(4, "singleton", 2, (2, 3)), 14843, 21993),
        (Case(4, WHEEL, 1, (2, 3)), 10774, 13476),
        (Case(4, WHEEL, 2, (2, 3)), 43893, 58566),
        (Case(4, WHEEL, 2, (2, 3), keep="smaller"), 15868, 23279),
        slow(Case(3, "majority", 1, (1, 2, 3)), 110901, 160928),
        slow(Case(3, "majority", 2, (1, 2, 3)), 141026, 257780),
        slow(Case(4, WHEEL, 1, (1, 2, 3)), 211537, 270242),
        slow(Case(4, WHEEL, 2, (1, 2, 3)), 735999, 1040274),
        slow(Case(3, "majority", 1, (1, 2), returns=1), 64976, 83394),
        slow(Case(3, "singleton", 2, (2, 3), returns=1), 162910, 243285),
    ],
)
def test_repaired_nobody_meets_another_inside_and_nobody_is_stuck(
    case: Case, states: int, transitions: int
) -> None:
    verdict = case.check()
    assert verdict.verdict == "verified", verdict.reason
    assert verdict.sometimes["contention"]
    assert (verdict.states, verdict.transitions) == (states, transitions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "steps"),
    [
        (Case(3, "singleton", 1, (1, 2, 3)), 27),
        (Case(4, "singleton", 1, (2, 3)), 33),
        (Case(7, "plane", 1, (4, 6)), 69),
        (Case(3, "majority", 1, (1, 2, 3), keep="smaller"), 31),
        (Case(4, WHEEL, 1, (2, 3), keep="smaller"), 33),
    ],
)
def test_published_two_are_inside_after_one_crash(case: Case, steps: int) -> None:
    verdict = case.check(Published)
    assert verdict.property == "mutual exclusion"
    assert verdict.depth == steps


@pytest.mark.slow
def test_published_the_smallest_majority_bears_a_crash() -> None:
    """Q keeps the larger: the one quorum that is left contains whoever is inside."""
    assert Case(3, "majority", 2, (1, 2)).check(Published).verdict == "verified"


MUTANTS: dict[str, tuple[type[FaultTolerant], Case, str]] = {
    "no Hold": (trials.NoHold, Case(3, "singleton", 1, (2, 3)), "mutual exclusion"),
    "quarantine sigma": (
        trials.ShortQuarantine,
        Case(3, "singleton", 1, (2, 3)),
        "mutual exclusion",
    ),
    "quarantine without lambda": (
        trials.HandledAtOnce,
        Case(3, "singleton", 1, (2, 3), lambda_=1),
        "mutual exclusion",
    ),
    "request not sent to the new ones": (
        trials.RequestNotResent,
        Case(3, "majority", 1, (1, 2)),
        "entry stays possible",
    ),
    "owner of a Hold not watched": (
        trials.HolderNotWatched,
        Case(3, "singleton", 2, (2, 3)),
        "entry stays possible",
    ),
    "no Hold for who comes back": (
        trials.NoHoldForTheNewcomer,
        Case(3, "singleton", 1, (2, 3), returns=1),
        "mutual exclusion",
    ),
}


@pytest.mark.slow
def test_without_relay_a_detector_that_dies_half_way_lets_two_in() -> None:
    case = Case(4, "singleton", 2, (2, 3, 4))
    assert case.check(trials.NoRelay).property == "mutual exclusion"


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_rule_is_refuted(name: str) -> None:
    process, case, property_ = MUTANTS[name]
    assert case.check(process).property == property_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "delays", "requesters"),
    [
        ("published", (1, 1), (1, 2, 3)),
        ("published-plane", (1, 1), (4, 6)),
        slow("late", (1, 3), (2, 3)),
    ],
)
def test_the_recorded_counterexamples_are_the_shortest_there_are(
    name: str, delays: tuple[int, int], requesters: tuple[int, ...]
) -> None:
    recorded = (SCENARIOS / f"fault-tolerant-{name}.txt").read_text(encoding="utf-8")
    title, first, *_ = recorded.splitlines()
    _, size, *choices = first.split()
    chosen = dict(choice.split("=") for choice in choices)
    variant = chosen.pop("variant")
    entry = find("fault-tolerant")
    header = Header(
        algorithm=entry.name, size=int(size), variant=variant, parameters=chosen, title=title[2:]
    )
    verdict = check_timed(
        entry.build(entry.setup(int(size), variant, chosen)),
        delays=delays,
        requesters=requesters,
        crashes=0 if name == "late" else 1,
        header=header,
    )
    assert verdict.property == "mutual exclusion"
    assert verdict.counterexample is not None
    assert from_trace(verdict.counterexample) == recorded
