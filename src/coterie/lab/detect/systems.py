"""Processes that wait by scripts, under each of the detectors of deadlocks."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of, some_of
from coterie.algorithms.deadlock.detectors.central import Coordinator, Reporting
from coterie.algorithms.deadlock.detectors.diffusing import Diffusing
from coterie.algorithms.deadlock.detectors.hierarchical import Controller
from coterie.algorithms.deadlock.detectors.party import (
    DiffusingParty,
    ReportingParty,
    ScriptStep,
    SurveyParty,
)
from coterie.algorithms.deadlock.detectors.survey import SurveyDetector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import Process

DETECTORS = ("diffusing", "central", "hierarchical", "survey")
GROUP = 10  # processes under one controller
STEPS = 5  # waits of each process of a random system
MODELS = ("AND", "OR", "2 of 3")


class Role(msgspec.Struct, frozen=True):
    """What one process does."""

    script: tuple[ScriptStep, ...]
    born: int | None  # the youngest is the victim; None: never this one, such as a lock


def build_system(
    detector: str, roles: Sequence[Role], *, group: int = GROUP, period: float | None = None
) -> list[Process[Any]]:
    """Build processes 1 to N with a detector, and behind them those that it needs besides.

    With a period those that search by themselves do so again and again while they wait, and not when
    a wait begins.
    """
    cast = list(enumerate(roles, 1))
    if detector == "diffusing":
        return [
            DiffusingParty(me, Diffusing(me), role.script, role.born, period) for me, role in cast
        ]
    if detector == "survey":
        return [
            SurveyParty(me, SurveyDetector(me), role.script, role.born, period) for me, role in cast
        ]
    return _reporting(roles, group if detector == "hierarchical" else None)


def _reporting(roles: Sequence[Role], group: int | None) -> list[Process[Any]]:
    """Let all report to one coordinator, or each group to a controller below one root."""
    size = len(roles)
    groups = 0 if group is None else (size + group - 1) // group
    parties = [
        ReportingParty(
            me,
            Reporting(me, coordinator=size + 1 + ((me - 1) // group if group else 0)),
            role.script,
            role.born,
        )
        for me, role in enumerate(roles, 1)
    ]
    if group is None:
        return [*parties, Coordinator(size + 1)]
    controllers = [
        Controller(
            size + 1 + place,
            below=frozenset(range(place * group + 1, min((place + 1) * group, size) + 1)),
            parent=size + groups + 1,
        )
        for place in range(groups)
    ]
    root = Controller(size + groups + 1, below=frozenset(range(1, size + 1)))
    return [*parties, *controllers, root]


def random_roles(size: int, seed: int) -> list[Role]:
    """Draw what each process does: a few waits at random times, of one model for all."""
    random, model = Random(seed), MODELS[seed % len(MODELS)]
    return [
        Role(
            tuple(
                ScriptStep(random.expovariate(0.1), random_condition(model, size, me, random))
                for _ in range(STEPS)
            ),
            born=me,
        )
        for me in range(1, size + 1)
    ]


def random_condition(model: str, size: int, me: int, random: Random) -> Condition[int]:
    """Draw a condition over one to three others."""
    others = random.sample([other for other in range(1, size + 1) if other != me], 3)
    if model == "AND":
        return all_of(*others[: random.randint(1, 3)])
    return any_of(*others) if model == "OR" else some_of(2, *others)
