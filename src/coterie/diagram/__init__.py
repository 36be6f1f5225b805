"""Pictures of runs and measurements, and exports for other viewers."""

from __future__ import annotations

from coterie.diagram.space_time import space_time

__all__ = ["space_time"]
