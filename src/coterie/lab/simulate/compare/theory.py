"""One cost as measured and as theory gives it, and whether the two agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from coterie.errors import ConfigError
from coterie.lab.simulate.interval import interval_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.catalogue import Cost
    from coterie.lab.simulate.metrics import Summary

# A mean of theory may lie outside of one interval in twenty, and of a hundred measurements five would
# "disagree". So agreement is judged by a wider interval than the one that is shown.
JUDGED = 0.999


class Measure(msgspec.Struct, frozen=True):
    """A cost as measured, as theory gives it, and whether the two agree."""

    measured: float
    low: float
    high: float
    theory: float | list[float | None]  # a number, or a range with None for no end
    formula: str
    agrees: bool
    judged: bool = True  # False: theory does not speak of these conditions
    half_width: float | None = None  # of the confidence interval of a mean over several seeds

    def to_dict(self) -> dict[str, Any]:
        """Return flat numbers and text, with the ends of theory apart."""
        ends = self.theory if isinstance(self.theory, list) else [self.theory, self.theory]
        return {
            "measured": self.measured,
            "half_width": self.half_width,
            "least": self.low,
            "most": self.high,
            "theory_low": ends[0],
            "theory_high": ends[1],
            "formula": self.formula,
            "agrees": self.agrees if self.judged else None,
        }


def judge_count(measured: int, cost: Cost) -> Measure:
    """Compare a count of messages, which no chance has a part in, with theory."""
    agrees = cost.allows(measured)
    return Measure(measured, measured, measured, cost.value(), cost.formula, agrees)


def judge_messages(
    per_entry: Sequence[float | None], cost: Cost, *, judged: bool, drawn: bool = False
) -> Measure:
    """Compare messages per entry with theory: those of each seed, or if `drawn`, their mean."""
    values = [value for value in per_entry if value is not None]
    found, wide = interval_of(values), interval_of(values, JUDGED)
    if found is None or wide is None:
        raise ConfigError("no process entered: there is no cost of an entry to compare")
    if drawn:
        agrees = cost.allows(min(max(cost.low, wide.low), wide.high))
    else:
        agrees = cost.allows(found.min) and cost.allows(found.max)
    return Measure(
        measured=found.mean,
        low=found.min,
        high=found.max,
        theory=cost.value(),
        formula=cost.formula,
        agrees=agrees,
        judged=judged,
        half_width=found.half_width,
    )


def judge_delays(summaries: Sequence[Summary | None], cost: Cost, *, judged: bool) -> Measure:
    """Compare the longest delay that was seen with theory, or under other conditions the mean."""
    seen = [summary for summary in summaries if summary is not None]
    assert seen, "the runs saw no such delay"
    if not judged:
        return mean_delay(seen, cost)
    low, high = min(each.min for each in seen), max(each.max for each in seen)
    agrees = cost.allows(low) and cost.allows(high)
    return Measure(high, low, high, cost.value(), cost.formula, agrees)


def mean_delay(seen: Sequence[Summary], cost: Cost) -> Measure:
    """Put the mean delay beside theory, which does not speak of it."""
    found = interval_of([each.mean for each in seen])
    assert found is not None
    low, high = min(each.min for each in seen), max(each.max for each in seen)
    return Measure(
        measured=found.mean,
        low=low,
        high=high,
        theory=cost.value(),
        formula=cost.formula,
        agrees=cost.allows(found.mean),
        judged=False,
        half_width=found.half_width,
    )
