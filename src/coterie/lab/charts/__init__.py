"""Charts of measurements, and pictures of histories."""

from __future__ import annotations

from coterie.lab.charts.chart import Band, Panel, Series, chart

__all__ = ["Band", "Panel", "Series", "chart"]
