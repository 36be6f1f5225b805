"""Each rule of the detectors, broken: some random system must end with a false victim or a hang."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from coterie.algorithms.deadlock.condition import all_of
from coterie.algorithms.deadlock.detectors.central import learn, settle
from coterie.algorithms.deadlock.detectors.detector import Detector
from coterie.algorithms.deadlock.detectors.diffusing import Diffusing
from coterie.algorithms.deadlock.detectors.hierarchical import Controller, undecided_waits
from coterie.algorithms.deadlock.detectors.party import ScriptStep
from coterie.algorithms.deadlock.detectors.waits import graph_of
from tests.algorithms.deadlock import systems
from tests.harness import broken_class


@dataclass(frozen=True)
class Case:
    """A rule that is broken, and the detector that suffers."""

    rule: Any  # a class, or a function
    old: str
    new: str
    method: str = ""  # of the class: the one in which the text stands
    detector: str = "diffusing"

    def broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Break it, wherever it has been imported."""
        made = broken_class(self.rule, self.old, self.new)
        original = getattr(self.rule, self.method) if self.method else self.rule
        changed = getattr(made, self.method) if self.method else made
        monkeypatch.setattr(original, "__code__", changed.__code__)


MUTANTS = {
    "members confirm what they are not asked": Case(
        Detector,
        "if not self._waits_in(number):\n            out.send(victim, Denied())\n        elif",
        "if",
        "_answer",
    ),
    "a pledge does not bind": Case(Detector, " and not self.pledges:", ":", "_stand_trial"),
    "one on trial answers at once": Case(
        Detector,
        "elif self.trial is not None and self._waits_in(self.trial.number):",
        "elif False:",
        "_answer",
    ),
    "one denial is overlooked": Case(
        Detector,
        "if len(trial.confirmed) == len(trial.accusation.members) - 1 and",
        "if",
        "_conclude_if_heard",
    ),
    "nobody looks again after a trial": Case(
        Detector, "            self.search(out)", "            pass", "_settled"
    ),
    "grants under way are not counted": Case(graph_of, ".without(_met(process, waits))", ""),
    "the search ends before all have reported": Case(
        Diffusing, "named <= self.heard", "named", "_collect"
    ),
    "one who waits does not pass probes on": Case(
        Diffusing,
        "        if self.wait is not None:\n            out.broadcast",
        "        if False:\n            out.broadcast",
        "_join",
    ),
    "only the first search of an initiator is joined": Case(
        Diffusing,
        "(last is not None and last.number >= search)",
        "last is not None",
        "_join",
    ),
    "an overtaken change counts": Case(
        learn, "change.count <= last.changes", "False", detector="central"
    ),
    "changes after the first are lost": Case(
        learn, "change.count <= last.changes", "True", detector="central"
    ),
    "no accusation after a trial": Case(settle, "accused.remove(victim)", "", detector="central"),
    "the parent hears of nothing": Case(
        undecided_waits,
        "for node in pessimist.deadlocked()",
        "for node in ()",
        detector="hierarchical",
    ),
    "the parent does not hear of changes": Case(
        Controller,
        "if wait == passed.get(process):",
        "if process in passed:",
        "_look",
        "hierarchical",
    ),
}


def dense(seed: int) -> list[tuple[Any, ...]]:
    """Draw the scripts of a few processes that wait again and again."""
    random = Random(seed)
    model = systems.MODELS[seed % len(systems.MODELS)]
    size = random.choice((3, 4, 5, 6, 8))
    return [
        tuple(
            ScriptStep(pause, systems.random_condition(model, size, me, random))
            for pause in random.choices((0.1, 0.5, 3.0), k=random.randint(2, 5))
        )
        for me in range(1, size + 1)
    ]


def shared(seed: int) -> list[tuple[Any, ...]]:
    """Two cycles that share process 2: with 1, where 2 is the victim, and later with 3, who is.

    If 2 is aborted for the first, 3 must not be for the second.
    """
    waits = ((0.0, all_of(2)), (0.0, all_of(3, 1)), (0.5 + seed % 16 / 8, all_of(2)))
    return [(ScriptStep(after, condition),) for after, condition in waits]


SHARED_SEED = (
    390  # shortly before one where 2 is accused between its pledge and the end of 3's trial
)


def notices(detector: str, seeds: int = 1500) -> bool:
    """Run little systems until a referee objects, a handler raises or somebody hangs."""
    for number in range(seeds):
        seed = SHARED_SEED + number // 2 if number % 2 else number // 2
        scripts = shared(seed) if number % 2 else dense(seed)
        processes = systems.build(detector, scripts)
        try:
            result, _ = systems.run(processes, seed, max_events=20_000)
        except AssertionError:
            return True
        if result.violations or result.stopped != "done" or systems.left_waiting(processes):
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = MUTANTS[name]
    case.broken(monkeypatch)
    assert notices(case.detector)


@pytest.mark.slow
@pytest.mark.parametrize("detector", ["diffusing", "central", "hierarchical"])
def test_nothing_is_noticed_where_nothing_is_broken(detector: str) -> None:
    assert not notices(detector, seeds=100)
