"""Read stamps of parts of the key space: never smaller than the truth, and never too many pieces."""

from __future__ import annotations

import random

import pytest

from coterie.clocks import Stamp
from coterie.lab.serializability import check
from coterie.transactions.schemes.scheduler import BEGINNING
from coterie.transactions.schemes.span import Span
from coterie.transactions.schemes.timestamp_ordering.read_stamps import ReadStamps
from tests.transactions.mutants import Mutant, break_rule
from tests.transactions.stamped import WATCHED
from tests.transactions.storms import storm

KEYS = [f"{first}{second}" for first in "abcdef" for second in "abcdef"]


def random_marks(seed: int, count: int) -> list[tuple[Span, Stamp]]:
    dice = random.Random(seed)
    marks = []
    for _ in range(count):
        low, high = dice.choice(KEYS), dice.choice([*KEYS, None])
        span = Span.of(low) if dice.random() < 0.5 else Span(low, high)
        marks.append((span, Stamp(dice.randrange(1, 100), 1)))
    return marks


@pytest.mark.parametrize("seed", range(50))
def test_each_key_has_the_largest_stamp_that_covered_it(seed: int) -> None:
    stamps = ReadStamps()
    marks = random_marks(seed, 40)
    for place, (span, stamp) in enumerate(marks, start=1):
        stamps.mark(span, stamp)
        for key in KEYS:
            covering = [other for where, other in marks[:place] if key in where]
            assert stamps.at(key) == max(covering, default=BEGINNING)
        assert stamps.lows == sorted(set(stamps.lows))
        assert all(a != b for a, b in zip(stamps.stamps, stamps.stamps[1:], strict=False))


@pytest.mark.parametrize("seed", range(50))
def test_coarser_pieces_never_know_less(seed: int) -> None:
    fine, coarse = ReadStamps(), ReadStamps(pieces_max=8)
    for span, stamp in random_marks(seed, 60):
        fine.mark(span, stamp)
        coarse.mark(span, stamp)
        assert len(coarse.lows) <= 8
        assert all(coarse.at(key) >= fine.at(key) for key in KEYS)


def test_half_of_the_pieces_are_left_and_the_newest_quarter_is_exact() -> None:
    stamps = ReadStamps(pieces_max=100)
    for number in range(50):
        stamps.mark(Span.of(f"k{number:02}"), Stamp(number + 1, 1))
    assert len(stamps.lows) <= 51
    assert stamps.at("k49") == Stamp(50, 1)
    assert stamps.at("k40") == Stamp(41, 1)
    assert stamps.at("zz") == stamps.at("k01")
    assert BEGINNING < stamps.at("zz") < Stamp(41, 1)


def test_a_span_without_keys_marks_nothing() -> None:
    stamps = ReadStamps()
    stamps.mark(Span("m", "a"), Stamp(5, 1))
    assert stamps.lows == [""]


MUTANTS = {
    "a smaller stamp replaces a larger": Mutant(
        ReadStamps, "if self.stamps[piece] < stamp:", "if True:"
    ),
    "a new piece begins with nothing": Mutant(
        ReadStamps,
        "self.stamps.insert(place, self.stamps[place - 1])",
        "self.stamps.insert(place, BEGINNING)",
    ),
    "coarser pieces take the smaller stamp": Mutant(
        ReadStamps, "max(stamp, floor)", "min(stamp, floor)"
    ),
    "pieces are joined whatever their stamps": Mutant(
        ReadStamps,
        "if self.stamps[piece] == self.stamps[piece - 1]:",
        "if True:",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def rules_hold() -> None:
        for seed in range(5):
            test_each_key_has_the_largest_stamp_that_covered_it(seed)
            test_coarser_pieces_never_know_less(seed)

    break_rule(MUTANTS[name], monkeypatch)
    with pytest.raises(AssertionError):
        rules_hold()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", WATCHED)
def test_with_coarse_pieces_storms_are_still_serializable(scheme: str) -> None:
    for seed in range(100):
        trial = storm(WATCHED[scheme](unwritten=ReadStamps(pieces_max=4)), seed)
        assert not trial.waiting(), f"seed {seed}"
        assert check(trial.history()).serializable, f"seed {seed}"
