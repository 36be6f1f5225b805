"""Frames received and sent, by kind, as one metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.telemetry.text import Metric, Sample

if TYPE_CHECKING:
    from collections.abc import Mapping


def frame_counts(name: str, received: Mapping[str, int], sent: Mapping[str, int]) -> Metric:
    """Return the metric `coterie_NAME_total`."""
    samples = [
        Sample({"direction": direction, "kind": kind}, count)
        for direction, counts in (("received", received), ("sent", sent))
        for kind, count in sorted(counts.items())
    ]
    return Metric(f"coterie_{name}_total", "counter", "Frames by kind.", samples)
