"""The costs of an algorithm, measured in runs made for that, beside those of theory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.catalogue import Costs, find
from coterie.coteries.coterie import shorter_lists
from coterie.errors import UsageError
from coterie.lab.play.exercises.quorums import LISTED_IDS_MAX
from coterie.lab.play.trials.trial import COSTS
from coterie.lab.scenario.play import read_first_line
from coterie.lab.simulate.compare import compare, compare_election

if TYPE_CHECKING:
    from coterie.lab.simulate.compare import Measure

PROCESSES_MAX = 16  # the runs of more take seconds


class MeasureQuestion(msgspec.Struct, frozen=True):
    """An algorithm, as the first line of a scenario names it."""

    first: str


class MeasuredCost(msgspec.Struct, frozen=True):
    """One cost; `high` None: theory sets no end."""

    name: str
    text: str
    measured: float
    formula: str
    low: float
    high: float | None
    agrees: bool


class Measured(msgspec.Struct, frozen=True):
    """All costs of an algorithm."""

    first: str
    costs: list[MeasuredCost]


@shorter_lists(LISTED_IDS_MAX)
def measure(question: MeasureQuestion) -> Measured:
    """Run an algorithm as its costs are defined: without contention, with it, at a hand-over."""
    header, _ = read_first_line(question.first)
    if header.size > PROCESSES_MAX:
        raise UsageError(f"at most {PROCESSES_MAX} processes are measured here")
    entry = find(header.algorithm)
    setup = entry.setup(header.size, header.variant or None, header.parameters)
    variant = entry.variant(setup.variant)
    if not variant.sound:
        raise UsageError(f"{variant.name} is flawed: its costs are not measured")
    compared = (compare if isinstance(entry.costs, Costs) else compare_election)(entry, setup)
    names = entry.costs.__struct_fields__
    found: list[tuple[str, Measure | None]] = [(name, getattr(compared, name)) for name in names]
    return Measured(question.first, [_cost(name, cost) for name, cost in found if cost is not None])


def _cost(name: str, cost: Measure) -> MeasuredCost:
    theory = cost.theory
    low, high = theory if isinstance(theory, list) else (theory, theory)
    assert low is not None, "a cost has a least value"
    return MeasuredCost(
        name, COSTS[name], cost.measured, cost.formula, low, high, agrees=cost.agrees
    )
