"""The chart of `coterie compare-schemes`: commits per second over what is varied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.charts.chart import Panel, Series, chart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.trials.comparison import Measurement

AXES = {"theta": "skew (theta)", "sites": "sites", "clients": "clients"}


def schemes_chart(measurements: Sequence[Measurement]) -> str:
    """Draw one panel for each workload and setting, over the axis with the most values."""
    axis = max(AXES, key=lambda each: len({_value(m, each) for m in measurements}))
    settings = dict.fromkeys(_setting(m, axis) for m in measurements)
    panels = [
        _panel(title, [m for m in measurements if _setting(m, axis) == title], axis)
        for title in settings
    ]
    return chart(panels, title="Commits per second")


def _value(measurement: Measurement, axis: str) -> float:
    value: float = getattr(measurement.conditions, axis)
    return value


def _setting(measurement: Measurement, axis: str) -> str:
    conditions = measurement.conditions
    parts = [conditions.workload]
    if axis != "theta":
        parts.append(f"theta {conditions.theta:g}")
    if axis != "sites":
        parts.append(f"{conditions.sites} site{'s' if conditions.sites > 1 else ''}")
    if axis != "clients":
        parts.append(f"{conditions.clients} clients")
    if conditions.work:
        parts.append(f"{conditions.work:g} ms of work")
    return ", ".join(parts)


def _panel(title: str, measurements: Sequence[Measurement], axis: str) -> Panel:
    lines: dict[str, list[tuple[float, float]]] = {}
    for each in measurements:
        points = lines.setdefault(each.name, [])
        points.append((_value(each, axis), each.commits_per_second))
    series = [Series(name, points, joined=True) for name, points in lines.items()]
    return Panel(title, series, x_name=AXES[axis])
