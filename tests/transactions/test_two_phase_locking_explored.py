"""Two-phase locking at every point of all interleavings, and without a way out of deadlock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.lab.trials.trial import Trial, explore
from coterie.transactions.schemes.two_phase_locking import SCHEME, Claim, TwoPhaseLocking
from tests.transactions.leftovers import leftovers

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Answer

VARIANTS = [variant.name for variant in SCHEME.variants]


class Patient(TwoPhaseLocking):
    """Waits, whatever comes of it."""

    def _resolve(self, claim: Claim, out: list[Answer]) -> None:
        pass


def test_of_two_opposite_transactions_six_of_eight_interleavings_deadlock() -> None:
    """The figure for the survey's locks, of which there is one mode: algorithms.md 8.1.

    There, locking and accessing a key are two steps, and a step that has to wait is none. Here the
    second read of a key is the access; interleavings are told apart by the steps that were granted.
    """
    trial = Trial(Patient(), ("x", "y"))
    trial.add("T1", 1, "u(x) u(x) u(y) u(y)")
    trial.add("T2", 2, "u(y) u(y) u(x) u(x)")
    ends = {(granted(end), bool(end.waiting())) for end in explore(trial)}
    assert len(ends) == 8
    assert sum(deadlocked for _, deadlocked in ends) == 6


def granted(end: Trial) -> tuple[str, ...]:
    """Name who has read, in the order of the reads."""
    reads = [
        (doing.time, name)
        for name, runner in end.runners.items()
        for doing in runner.doings
        if doing.op == "read"
    ]
    return tuple(name for _, name in sorted(reads))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_transaction_can_be_given_up_at_any_point_and_nothing_of_it_is_left(variant: str) -> None:
    """2.0 d: at every point of every interleaving, whether it waits or not; the others end."""
    trial = Trial(SCHEME.build(variant), ("x", "y"))
    for stamp, text in enumerate(("r(x) w(x)", "s(,)", "w(x)"), start=1):
        trial.add(f"T{stamp}", stamp, text)
    points = [trial]
    for point in points:
        for name in [name for name, runner in point.runners.items() if not runner.over]:
            given_up = point.copy()
            given_up.abort(name)
            while movable := given_up.movable():
                given_up.move(movable[0])
            assert not given_up.waiting()
            assert not leftovers(given_up.scheduler)
        for name in point.movable():
            points.append(point.copy())
            points[-1].move(name)
    assert len(points) > 500
