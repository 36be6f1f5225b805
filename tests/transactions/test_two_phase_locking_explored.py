"""Two-phase locking in all interleavings of small histories, and in many random ones of larger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.transactions.schemes.two_phase_locking import SCHEME, Claim, TwoPhaseLocking
from coterie.transactions.serializability import check
from coterie.transactions.trials.trial import Trial, explore
from tests.transactions.desk import Tally, all_orders
from tests.transactions.locking_faults import Watched, is_idle
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Answer

ROOT = Path(__file__).parent.parent.parent
VARIANTS = [variant.name for variant in SCHEME.variants]
SEEDS = range(300)

# For each set of transactions the ends of all interleavings by detection, wait-die and wound-wait:
# how many, and how many transactions were committed and refused in them.
EXPLORED = {
    ("r(x) w(y)", "r(y) w(x)"): ((10, 16, 4), (10, 14, 6), (10, 15, 5)),
    ("r(x) w(x)", "r(x) w(x)"): ((10, 16, 4), (10, 14, 6), (10, 15, 5)),
    ("u(x) w(x)", "u(x) w(x)"): ((8, 16, 0), (8, 13, 3), (8, 14, 2)),
    ("s(a,b) w(x)", "s(x,y) w(a)"): ((10, 16, 4), (10, 14, 6), (10, 15, 5)),
    ("s(a,c) w(a)", "s(a,c) w(b)"): ((10, 16, 4), (10, 14, 6), (10, 15, 5)),
    ("r(x) w(y)", "w(x)", "w(y) r(x)"): ((570, 1686, 24), (320, 832, 128), (463, 1249, 140)),
    ("r(x) w(y)", "r(y) w(x)", "w(x) w(y)"): ((226, 540, 138), (163, 319, 170), (201, 434, 169)),
    ("r(x) w(x)", "r(x) w(x)", "w(x)"): ((128, 340, 44), (112, 218, 118), (118, 275, 79)),
    ("r(x) w(x)", "u(x)", "u(x)"): ((1234, 3702, 0), (943, 2669, 160), (731, 2088, 105)),
    ("r(x) w(x)", "w(x)", "s(,)"): ((363, 1089, 0), (249, 619, 128), (231, 646, 47)),
    ("w(x) w(y)", "s(,)", "w(y)"): ((361, 1082, 1), (256, 667, 101), (259, 723, 54)),
    ("s(a,b) w(x)", "s(x,y) w(a)", "w(a)"): ((307, 822, 99), (186, 425, 133), (274, 684, 138)),
    ("r(x) w(x)", "u(x) w(x)", "s(x,)"): ((714, 1902, 240), (552, 1312, 344), (464, 1160, 232)),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("scripts", EXPLORED, ids="; ".join)
def test_every_interleaving_is_serializable_and_ends(
    scripts: tuple[str, ...], variant: str
) -> None:
    """Nobody waits for ever: every deadlock is broken, and no wake-up is lost."""
    ends, committed, refused = EXPLORED[scripts][VARIANTS.index(variant)]
    expected = Tally(ends, committed, refused, stuck=0, wrong=0)
    assert all_orders(SCHEME.build(variant), scripts, "abxy") == expected


def test_the_page_tells_what_was_explored() -> None:
    page = (ROOT / "docs" / "transactions" / "two-phase-locking.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{'; '.join(scripts)}` | "
        + " | ".join(f"{n:,}, {c:,}, {r:,}" for n, c, r in found)
        + " |"
        for scripts, found in EXPLORED.items()
    ]


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
            assert is_idle(given_up.scheduler)
        for name in point.movable():
            points.append(point.copy())
            points[-1].move(name)
    assert len(points) > 500


@pytest.mark.parametrize("variant", VARIANTS)
def test_storms_are_serializable_and_nobody_is_stuck(variant: str) -> None:
    """Random transactions, aborts and restarts."""
    committed = refused = 0
    for seed in SEEDS:
        scheduler: Any = Watched(SCHEME.build(variant), variant)
        trial = storm(scheduler, seed)
        report = check(trial.history())
        assert report.serializable, f"seed {seed}: {report}"
        assert not trial.waiting(), f"seed {seed}"
        assert is_idle(scheduler.scheduler), f"seed {seed}"
        states = [runner.state for runner in trial.runners.values()]
        committed += states.count("committed")
        refused += states.count("refused")
    assert committed > 15 * len(SEEDS)
    assert refused > len(SEEDS)  # else there was nothing to resolve
