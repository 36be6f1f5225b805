"""The chart of `coterie compare`: each cost over the number of processes, theory as lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.diagram.chart import Band, Panel, Series, chart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.compare import Comparison, Measure


def comparison_chart(comparisons: Sequence[Comparison]) -> str:
    """Draw messages per entry, idle and saturated, and the two delays."""
    kinds: list[tuple[str, Callable[[Comparison], Measure | None]]] = [
        ("messages per entry, one at a time", lambda comparison: comparison.idle),
        ("messages per entry, saturated", lambda comparison: comparison.saturated),
        ("client delay", lambda comparison: comparison.client_delay),
        ("synchronisation delay", lambda comparison: comparison.synchronisation_delay),
    ]
    panels = [Panel(title, _series(comparisons, measure), log_x=True) for title, measure in kinds]
    return chart(panels, title="Cost of one entry: measured (marks) and theory (lines)")


def _series(
    comparisons: Sequence[Comparison], measure_of: Callable[[Comparison], Measure | None]
) -> list[Series]:
    names = dict.fromkeys(comparison.algorithm for comparison in comparisons)
    return [
        _one_series(name, [c for c in comparisons if c.algorithm == name], measure_of)
        for name in names
    ]


def _one_series(
    name: str,
    comparisons: Sequence[Comparison],
    measure_of: Callable[[Comparison], Measure | None],
) -> Series:
    points = [(comparison.processes, measure_of(comparison)) for comparison in comparisons]
    known = [(float(size), measure) for size, measure in points if measure is not None]
    measured = [(size, measure.measured) for size, measure in known]
    return Series(name, measured, [_band(size, measure) for size, measure in known])


def _band(size: float, measure: Measure) -> Band:
    if not isinstance(measure.theory, list):
        return Band(size, measure.theory, measure.theory)
    low, high = measure.theory
    return Band(size, low or 0.0, math.inf if high is None else high)
