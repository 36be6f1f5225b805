"""The chart of `coterie compare`: each cost over the number of processes, theory as lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.lab.charts.chart import Band, Panel, Series, chart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.simulate.compare import Comparison, Measure


FEW = 6  # algorithms whose ranges can be told apart in one picture


def comparison_chart(comparisons: Sequence[Comparison]) -> str:
    """Draw messages per entry, idle and saturated, and the two delays.

    Ranges of theory are drawn as bands as long as there are few algorithms; exact formulas always.
    """
    kinds: list[tuple[str, Callable[[Comparison], Measure | None]]] = [
        ("messages per entry, one at a time", lambda comparison: comparison.idle),
        ("messages per entry, saturated", lambda comparison: comparison.saturated),
        ("client delay", lambda comparison: comparison.client_delay),
        ("synchronisation delay", lambda comparison: comparison.synchronisation_delay),
    ]
    panels = [_panel(title, _series(comparisons, measure)) for title, measure in kinds]
    return chart(panels, title="Cost of one entry: measured (marks) and theory (lines)")


def _panel(title: str, series: Sequence[Series]) -> Panel:
    """Choose a logarithmic scale where costs range over decades, if nothing costs nothing."""
    measured = [value for line in series for _, value in line.measured]
    lowest = min(measured + [band.low for line in series for band in line.theory])
    decades = lowest > 0 and max(measured) > 10 * lowest
    return Panel(title, series, log_x=True, log_y=decades)


def _series(
    comparisons: Sequence[Comparison], measure_of: Callable[[Comparison], Measure | None]
) -> list[Series]:
    names = dict.fromkeys(comparison.algorithm for comparison in comparisons)
    return [
        _one_series(
            name, [c for c in comparisons if c.algorithm == name], measure_of, len(names) <= FEW
        )
        for name in names
    ]


def _one_series(
    name: str,
    comparisons: Sequence[Comparison],
    measure_of: Callable[[Comparison], Measure | None],
    bands: bool,
) -> Series:
    points = [(comparison.processes, measure_of(comparison)) for comparison in comparisons]
    known = [(float(size), measure) for size, measure in points if measure is not None]
    measured = [(size, measure.measured) for size, measure in known]
    theory = [_band(size, measure) for size, measure in known]
    return Series(name, measured, [band for band in theory if bands or band.low == band.high])


def _band(size: float, measure: Measure) -> Band:
    if not isinstance(measure.theory, list):
        return Band(size, measure.theory, measure.theory)
    low, high = measure.theory
    return Band(size, low or 0.0, math.inf if high is None else high)
