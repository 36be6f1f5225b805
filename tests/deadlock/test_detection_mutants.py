"""Each rule of the detectors, broken: some random system must end with a false victim or a hang."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from coterie.deadlock.condition import all_of
from tests.harness import Mutant, broken

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "coterie.deadlock.detectors"
CHAIN = [  # each imports some of those before it
    *(f"{PACKAGE}.{name}" for name in ("waits", "trial", "detector", "diffusing")),
    *(f"{PACKAGE}.{name}" for name in ("survey", "central", "hierarchical", "party")),
    "tests.deadlock.systems",
]


@dataclass(frozen=True)
class Case:
    """A rule that is broken, and the detector that suffers."""

    module: str
    old: str
    new: str
    detector: str = "diffusing"


MUTANTS = {
    "members confirm what they are not asked": Case(
        "detector",
        "if not self._waits_in(number):\n            out.send(victim, Denied())\n        elif",
        "if",
    ),
    "a pledge does not bind": Case("detector", " and not self.pledges:", ":"),
    "one on trial answers at once": Case(
        "detector",
        "elif self.trial is not None and self._waits_in(self.trial.number):",
        "elif False:",
    ),
    "one denial is overlooked": Case(
        "detector", "if len(trial.confirmed) == len(trial.accusation.members) - 1 and", "if"
    ),
    "nobody looks again after a trial": Case(
        "detector", "            self.search(out)", "            pass"
    ),
    "grants under way are not counted": Case("waits", ".without(_met(process, waits))", ""),
    "the search ends before all have reported": Case("diffusing", "named <= self.heard", "named"),
    "one who waits does not pass probes on": Case(
        "diffusing",
        "        if self.wait is not None:\n            out.broadcast",
        "        if False:\n            out.broadcast",
    ),
    "only the first search of an initiator is joined": Case(
        "diffusing", "(last is not None and last.number >= search)", "last is not None"
    ),
    "an overtaken change counts": Case("central", "count > last.changes", "True", "central"),
    "changes after the first are lost": Case("central", "count > last.changes", "False", "central"),
    "no accusation after a trial": Case("central", "self.accused.remove(victim)", "", "central"),
    "the parent hears of nothing": Case(
        "hierarchical", "for node in pessimist.deadlocked()", "for node in ()", "hierarchical"
    ),
    "the parent does not hear of changes": Case(
        "hierarchical", "if wait == passed.get(process):", "if process in passed:", "hierarchical"
    ),
}


@pytest.fixture
def mutate(monkeypatch: pytest.MonkeyPatch) -> Callable[[Case | None], Any]:
    """Import the detectors and the systems of the tests anew, with a rule broken."""

    def load(case: Case | None) -> Any:
        module = ModuleType("none")
        for name in CHAIN:
            original = importlib.import_module(name)
            broken_here = case is not None and name == f"{PACKAGE}.{case.module}"
            mutant = Mutant(_head(original), _head(original))  # as it is
            if case is not None and broken_here:
                mutant = Mutant(case.old, case.new)
            module = broken(name, mutant)
            monkeypatch.setitem(sys.modules, name, module)
            if name.startswith(PACKAGE):
                monkeypatch.setattr(PACKAGE + "." + name.rpartition(".")[2], module)
        return module

    return load


def _head(module: ModuleType) -> str:
    """A text that stands in the module once."""
    assert module.__doc__ is not None
    return module.__doc__


def dense(systems: Any, seed: int) -> list[tuple[Any, ...]]:
    """Draw the scripts of a few processes that wait again and again."""
    random = Random(seed)
    model = systems.MODELS[seed % len(systems.MODELS)]
    size = random.choice((3, 4, 5, 6, 8))
    return [
        tuple(
            systems.Step(pause, systems.random_condition(model, size, me, random))
            for pause in random.choices((0.1, 0.5, 3.0), k=random.randint(2, 5))
        )
        for me in range(1, size + 1)
    ]


def shared(systems: Any, seed: int) -> list[tuple[Any, ...]]:
    """Two cycles that share process 2: with 1, where 2 is the victim, and later with 3, who is.

    If 2 is aborted for the first, 3 must not be for the second.
    """
    waits = ((0.0, all_of(2)), (0.0, all_of(3, 1)), (0.5 + seed % 16 / 8, all_of(2)))
    return [(systems.Step(after, condition),) for after, condition in waits]


SHARED_SEED = (
    390  # shortly before one where 2 is accused between its pledge and the end of 3's trial
)


def notices(systems: Any, detector: str, seeds: int = 1500) -> bool:
    """Run little systems until a referee objects, a handler raises or somebody hangs."""
    for number in range(seeds):
        seed = SHARED_SEED + number // 2 if number % 2 else number // 2
        scripts = shared(systems, seed) if number % 2 else dense(systems, seed)
        processes = systems.build(detector, scripts)
        try:
            result, _ = systems.run(processes, seed, max_events=20_000)
        except AssertionError:
            return True
        if result.violations or result.stopped != "done" or systems.left_waiting(processes):
            return True
    return False


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str, mutate: Callable[[Case | None], Any]) -> None:
    case = MUTANTS[name]
    assert notices(mutate(case), case.detector)


@pytest.mark.parametrize("detector", ["diffusing", "central", "hierarchical"])
def test_nothing_is_noticed_where_nothing_is_broken(
    detector: str, mutate: Callable[[Case | None], Any]
) -> None:
    assert not notices(mutate(None), detector, seeds=100)
