"""Student's t against the printed tables, and the intervals that rest on it."""

from __future__ import annotations

import statistics
from random import Random

import pytest

from coterie.errors import UsageError
from coterie.lab.simulate.interval import Interval, interval_of, student_t

# Two-sided quantiles as every book of statistics prints them, to three decimals.
TABLE = {
    (0.90, 1): 6.314,
    (0.90, 4): 2.132,
    (0.90, 20): 1.725,
    (0.95, 1): 12.706,
    (0.95, 2): 4.303,
    (0.95, 3): 3.182,
    (0.95, 4): 2.776,
    (0.95, 5): 2.571,
    (0.95, 9): 2.262,
    (0.95, 10): 2.228,
    (0.95, 19): 2.093,
    (0.95, 29): 2.045,
    (0.95, 30): 2.042,
    (0.95, 60): 2.000,
    (0.95, 120): 1.980,
    (0.99, 1): 63.657,
    (0.99, 2): 9.925,
    (0.99, 5): 4.032,
    (0.99, 10): 3.169,
    (0.99, 30): 2.750,
    (0.999, 9): 4.781,
    (0.999, 30): 3.646,
}


@pytest.mark.parametrize(("confidence", "degrees"), TABLE)
def test_students_t_is_that_of_the_tables(confidence: float, degrees: int) -> None:
    assert round(student_t(confidence, degrees), 3) == TABLE[confidence, degrees]


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_with_many_degrees_of_freedom_it_is_the_normal_distribution(confidence: float) -> None:
    normal = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    assert student_t(confidence, 100_000) == pytest.approx(normal, abs=1e-4)


@pytest.mark.parametrize(("confidence", "degrees"), [(0.0, 3), (1.0, 3), (95.0, 3), (0.95, 0)])
def test_what_is_no_confidence_or_has_no_freedom_is_refused(
    confidence: float, degrees: int
) -> None:
    with pytest.raises(UsageError, match=r"must (lie between 0 and 1|be at least 1), got"):
        student_t(confidence, degrees)


def test_an_interval_is_that_of_the_books() -> None:
    """Mean 5, deviation 2 and 10 values: 2.262 · 2 / √10."""
    values = [5 - 2 * (9 / 10) ** 0.5, 5 + 2 * (9 / 10) ** 0.5] * 5
    found = interval_of(values)
    assert found is not None
    assert found.mean == pytest.approx(5)
    assert found.deviation == pytest.approx(2)
    width = 2.2622 * 2 / 10**0.5
    assert found.half_width == pytest.approx(width, abs=1e-4)
    assert (found.low, found.high) == pytest.approx((5 - width, 5 + width), abs=1e-4)


def test_one_value_has_no_interval_and_none_has_nothing() -> None:
    assert interval_of([]) is None
    assert interval_of([3.0]) == Interval(1, 3.0, None, None, 3.0, 3.0)


def test_nineteen_intervals_in_twenty_hold_the_true_mean() -> None:
    random = Random(1)
    held = 0
    for _ in range(2000):
        found = interval_of([random.gauss(10, 3) for _ in range(5)])
        assert found is not None
        held += found.low <= 10 <= found.high
    assert 0.935 < held / 2000 < 0.965
