"""Pictures of runs and of wait-for graphs, and exports of runs for other viewers."""

from __future__ import annotations

from coterie.diagram.perfetto import perfetto
from coterie.diagram.shiviz import shiviz
from coterie.diagram.space_time import space_time

__all__ = ["perfetto", "shiviz", "space_time"]
