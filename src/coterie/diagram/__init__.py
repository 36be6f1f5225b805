"""Pictures of runs and measurements, and exports for other viewers."""

from __future__ import annotations

from coterie.diagram.charts.chart import Band, Panel, Series, chart
from coterie.diagram.perfetto import perfetto
from coterie.diagram.shiviz import shiviz
from coterie.diagram.space_time import space_time

__all__ = ["Band", "Panel", "Series", "chart", "perfetto", "shiviz", "space_time"]
