"""From results to tables: medians over the repetitions, a line for each peer."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import msgspec

from benchmarks.locks.measure import Result
from benchmarks.locks.pairs import PAIRS, compare_pairs
from benchmarks.locks.peers import PEERS, make
from benchmarks.locks.workload import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

OURS = ("coterie-3", "coterie-3-uvloop", "coterie-embedded")
YARDSTICK = "table"


class Report(msgspec.Struct):
    """Everything that a run has found out."""

    date: str
    machine: str
    versions: dict[str, str]
    missing: dict[str, list[str]]  # what to install, by peer
    results: list[Result]
    loops: str = ""  # which event loops ran on what

    def middle(self, peer: str, workload: str, figure: str) -> float | None:
        """Give the median of a figure over all repetitions, if there is any."""
        found = [
            getattr(result, figure)
            for result in self.results
            if (result.peer, result.workload) == (peer, workload)
            and getattr(result, figure) is not None
        ]
        return median(found) if found else None

    def peers(self) -> list[str]:
        """List who was measured, in order."""
        measured = {result.peer for result in self.results}
        return [peer for peer in PEERS if peer in measured]


COLUMNS = (
    ("fresh/s", "W1", "operations"),
    ("CPU", "W1", "cpu_seconds"),
    ("again/s", "W2", "operations"),
    ("CPU", "W2", "cpu_seconds"),
    ("hand-offs/s", "W3", "handoffs"),
    ("fairness", "W3", "fairness"),
    ("CPU", "W3", "cpu_seconds"),
    ("kept/s", "W4", "operations"),
    ("CPU", "W4", "cpu_seconds"),
    ("shared out/s", "W4p", "operations"),
    ("CPU", "W4p", "cpu_seconds"),
    ("gap s", "W5", "gap"),
)


def plain(report: Report) -> str:
    """Write everything for a terminal."""
    legend = [f"{workload.key}: {workload.what}" for workload in WORKLOADS.values()]
    cpu = "CPU: seconds per 1,000 operations, servers and clients together"
    return "\n".join([_plain(*table(report)), cpu, *legend, "", *reading(report)])


def markdown(report: Report) -> str:
    """Write everything for a page."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    head = f"Measured {report.date} on {report.machine}, with {versions}.\n\n"
    return head + _markdown(*table(report)) + "".join(f"\n- {line}" for line in reading(report))


def table(report: Report) -> tuple[list[str], list[list[str]]]:
    """Lay out the medians, the head and a row for each peer."""
    shown = [c for c in COLUMNS if any(result.workload == c[1] for result in report.results)]
    head = ["", "servers that agree", *(title for title, _, _ in shown)]
    rows = [
        [
            make(peer).label,
            make(peer).servers_label,
            *(number(report.middle(peer, workload, figure)) for _, workload, figure in shown),
        ]
        for peer in report.peers()
    ]
    return head, rows


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", "---", *("---:" for _ in head[2:])]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows))


def _plain(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "".join(
        "  ".join(
            cell.ljust(width) if index < 2 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in (head, *rows)
    )


def number(value: float | None) -> str:
    """Write a figure with three digits or so."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def reading(report: Report) -> list[str]:
    """Say how ours stands to the best of the others, and whether anything was wrong."""
    others = [peer for peer in report.peers() if peer not in (*OURS, *PAIRS, YARDSTICK)]
    replicated = [peer for peer in others if make(peer).servers_label != "1"]
    lines = []
    for what, workload, figure in (("again", "W2", "operations"), ("hand-offs", "W3", "handoffs")):
        for whom, group in (("peer", others), ("peer on several servers", replicated)):
            lines += _compare(
                report, f"{what}: ours against the best {whom}", workload, figure, group
            )
    lines += compare_pairs(report)
    for result in report.results:
        where = f"{result.peer} {result.workload}"
        if result.error:
            lines.append(f"{where}: not measured: {result.error}")
        if result.violations:
            lines.append(f"{where}: EXCLUSION BROKEN {result.violations} times")
    if not any(result.violations for result in report.results):
        checked = sum(result.checked for result in report.results)
        lines.append(f"exclusion: {checked:,} entries of all peers looked at, none overlapped")
    if report.loops:
        lines.append(report.loops)
    foreign = max(0.0, median(result.foreign_cores for result in report.results))
    lines.append(f"others on this machine kept {foreign:.1f} cores busy meanwhile")
    return lines


def _compare(
    report: Report, what: str, workload: str, figure: str, group: Sequence[str]
) -> list[str]:
    """Set ours beside the fastest of a group; CPU is what a busy machine distorts least."""
    figures = {peer: report.middle(peer, workload, figure) or 0.0 for peer in group}
    best = max(figures, key=lambda peer: figures[peer], default=None)
    ours = report.middle(OURS[0], workload, figure)
    if best is None or not figures[best] or not ours:
        return []
    spent = [number(report.middle(peer, workload, "cpu_seconds")) for peer in (OURS[0], best)]
    times = f"{ours / figures[best]:.1f} times as many a second"
    return [f"{what} ({make(best).label}): {times}; CPU {spent[0]} against {spent[1]}"]
