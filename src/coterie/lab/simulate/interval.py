"""Confidence intervals of means over seeds, by Student's t.

Runs of different seeds are independent, and what one run measures is itself a mean or a sum over
many entries, hence close to normal. So the mean over K seeds lies within t · s / √K of the mean over
all seeds, in the stated share of cases: s is the standard deviation between the runs, and t the
quantile of Student's distribution with K - 1 degrees of freedom.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import msgspec

from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95
TERMS_MAX = 300  # of a continued fraction that is exact to a double after some 50


class Interval(msgspec.Struct, frozen=True):
    """A number measured once per seed: its mean, and how far from it the true mean may be."""

    count: int
    mean: float
    half_width: float | None  # of the confidence interval; None for fewer than two values
    deviation: float | None  # standard deviation between seeds; None for fewer than two values
    min: float
    max: float

    @property
    def low(self) -> float:
        """The lower end of the interval; the mean where there is no interval."""
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        """The upper end of the interval; the mean where there is no interval."""
        return self.mean + (self.half_width or 0.0)


def interval_of(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Compute the mean with its confidence interval; None if nothing was measured."""
    if not values:
        return None
    count, least, most = len(values), min(values), max(values)
    if least == most:  # without the noise of a sum
        nothing = 0.0 if count > 1 else None
        return Interval(count, float(least), nothing, nothing, least, most)
    mean = math.fsum(values) / count
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    half_width = student_t(confidence, count - 1) * deviation / math.sqrt(count)
    return Interval(count, mean, half_width, deviation, least, most)


@functools.cache
def student_t(confidence: float, degrees: int) -> float:
    """Return the t that a variable of Student's distribution stays within, on both sides of 0."""
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie between 0 and 1, got {confidence}")
    if degrees < 1:
        raise UsageError(f"degrees of freedom must be at least 1, got {degrees}")
    low, high = 0.0, 1.0
    while _beyond(high, degrees) > 1 - confidence:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        if _beyond(middle, degrees) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _beyond(t: float, degrees: int) -> float:
    """Return the probability that a variable of Student's distribution is farther from 0 than t."""
    return _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Compute the regularised incomplete beta function I_x(a, b) by its continued fraction."""
    if x in (0.0, 1.0):
        return x
    scale = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The fraction converges fast below the mean; above it the complement does.
    if x < (a + 1) / (a + b + 2):
        return scale * _beta_fraction(x, a, b) / a
    return 1 - scale * _beta_fraction(1 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Evaluate the continued fraction of I_x(a, b) from its front, by Lentz's method."""
    tiny = 1e-300  # in place of a zero that would be divided by
    upper, lower = 1.0, 1 - (a + b) * x / (a + 1)
    lower = 1 / (lower or tiny)
    value = lower
    for term in range(1, TERMS_MAX):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        for coefficient in (even, odd):
            lower = 1 / (1 + coefficient * lower or tiny)
            upper = 1 + coefficient / upper or tiny
            change = upper * lower
            value *= change
        if abs(change - 1) < 1e-15:
            break
    return value
