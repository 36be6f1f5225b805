"""Figures in the text format of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coterie.telemetry.histogram import Histogram


class Sample(NamedTuple):
    """One value, for one value of each label."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""  # of the name: a histogram has several kinds of samples


class Metric(NamedTuple):
    """One figure, maybe for several values of its labels."""

    name: str
    kind: str  # counter, gauge or histogram
    help: str
    samples: list[Sample]


def gauge(name: str, text: str, value: float) -> Metric:
    """Make a figure that goes up and down."""
    return Metric(f"coterie_{name}", "gauge", text, [Sample({}, value)])


def counter(name: str, text: str, value: float) -> Metric:
    """Make a figure that only grows."""
    return Metric(f"coterie_{name}_total", "counter", text, [Sample({}, value)])


def histogram(
    name: str, text: str, series: Iterable[tuple[Mapping[str, str], Histogram]]
) -> Metric:
    """Make a figure of durations, for each value of its labels."""
    samples = []
    for labels, durations in series:
        below = {f"{bound:g}": count for bound, count in durations.buckets.items()}
        below["+Inf"] = durations.count
        samples += [Sample({**labels, "le": le}, count, "_bucket") for le, count in below.items()]
        samples.append(Sample(labels, durations.seconds, "_sum"))
        samples.append(Sample(labels, durations.count, "_count"))
    return Metric(f"coterie_{name}", "histogram", text, samples)


def render(metrics: Iterable[Metric]) -> str:
    """Write them all."""
    lines = []
    for name, kind, text, samples in metrics:
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{end}{_labels(labels)} {value:.17g}" for labels, value, end in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    escaped = (
        (key, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))
        for key, value in labels.items()
    )
    inside = ",".join(f'{key}="{value}"' for key, value in escaped)
    return f"{{{inside}}}" if inside else ""
