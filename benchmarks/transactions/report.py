"""From results to tables: medians over the repetitions, and what was wanted beside what was found."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import msgspec

from benchmarks.transactions.measure import Result
from benchmarks.transactions.peers import PEERS
from benchmarks.transactions.skew import Skew

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LIGHT = ("two-phase-locking", "optimistic", "multiversion")


class Report(msgspec.Struct):
    """Everything that a run has found out."""

    date: str
    machine: str
    versions: dict[str, str]
    missing: dict[str, list[str]]  # what to install, by peer
    skews: list[Skew]
    results: list[Result]

    def middle(self, figure: str, peer: str, theta: float, pause: str) -> float | None:
        """Return the median of a figure over all repetitions, if there is any."""
        wanted = (peer, theta, pause)
        found = [
            getattr(result, figure)
            for result in self.results
            if (result.peer, result.theta, result.pause) == wanted
        ]
        return median(found) if found else None

    def cases(self) -> list[tuple[str, float]]:
        """List the pauses and thetas that were measured, in order."""
        return list(dict.fromkeys((result.pause, result.theta) for result in self.results))


def tables(report: Report, *, markdown: bool = False) -> str:
    """Lay out a table for each pause and theta."""
    head = ["", "commits/s", "aborted", "median ms", "p99 ms", "CPU s", "x dict", "fairness"]
    parts = []
    for pause, theta in report.cases():
        rows = [
            _row(report, peer, theta, pause)
            for peer in PEERS
            if report.middle("commits", peer, theta, pause) is not None
        ]
        work = "no pause" if pause == "none" else f"a pause of {pause}"
        parts.append(f"theta {theta:g}, {work}\n\n{laid_out(head, rows, markdown=markdown)}")
    return "\n".join(parts)


def _row(report: Report, peer: str, theta: float, pause: str) -> list[str]:
    def figure(name: str) -> float:
        value = report.middle(name, peer, theta, pause)
        assert value is not None, "it was measured"
        return value

    yardstick = report.middle("cpu", "dict", theta, pause)
    return [
        peer,
        f"{figure('commits'):,.0f}",
        f"{figure('aborted'):.1%}",
        f"{figure('median') * 1000:.2f}",
        f"{figure('p99') * 1000:.2f}",
        f"{figure('cpu'):.3f}",
        "-" if yardstick is None else f"{figure('cpu') / yardstick:.1f}",
        f"{figure('fairness'):.2f}",
    ]


def laid_out(head: Sequence[str], rows: Sequence[Sequence[str]], *, markdown: bool) -> str:
    if markdown:
        rule = ["---", *("---:" for _ in head[1:])]
        return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows))
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "".join(
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in (head, *rows)
    )


def skews(report: Report) -> str:
    """List which stores let write skew happen."""
    lines = ["write skew: of two that must not both get through"]
    width = max((len(skew.store) for skew in report.skews), default=0)
    for skew in report.skews:
        found = "not asked" if skew.through is None else f"{skew.through} did"
        lines.append(f"{skew.store.ljust(width)}  {found}")
    return "\n".join(lines) + "\n"


def reading(report: Report) -> list[str]:
    """Say what was wanted and whether it is so, and whether the books were right."""
    lines = [
        f"{'yes' if held else 'NO '} {text}"
        for held, text in (*_light(report), *_contended(report), *_fair(report))
    ]
    wrong = [result for result in report.results if not result.right]
    lines += [f"WRONG BALANCES: {result.peer}, theta {result.theta:g}" for result in wrong]
    if not wrong:
        lines.append(f"balances were right after all {len(report.results)} runs")
    foreign = median(result.foreign_cores for result in report.results)
    lines.append(f"others on this machine kept {foreign:.1f} cores busy meanwhile")
    return lines


def _light(report: Report) -> Iterator[tuple[bool, str]]:
    """Compare CPU time without a pause, where there is nothing else to wait for."""
    for scheme in LIGHT:
        factors: dict[str, list[float]] = {"dict": [], "zodb": []}
        for pause, theta in report.cases():
            ours = report.middle("cpu", scheme, theta, pause)
            for peer, found in factors.items():
                theirs = report.middle("cpu", peer, theta, pause)
                if pause == "none" and ours is not None and theirs is not None:
                    found.append(ours / theirs)
        if factors["dict"]:
            worst = max(factors["dict"])
            yield worst <= 10, f"{scheme}: {worst:.1f} times the CPU of the dict (10 at most)"
        if factors["zodb"]:
            worst = max(factors["zodb"])
            yield worst <= 0.5, f"{scheme}: {worst:.2f} times the CPU of ZODB (well under 1)"


def _contended(report: Report) -> Iterator[tuple[bool, str]]:
    """Compare waiting with trying again, where clients work inside and all want the same."""
    ours = report.middle("commits", "two-phase-locking", 0.99, "1ms")
    for peer in ("zodb", "redis"):
        theirs = report.middle("commits", peer, 0.99, "1ms")
        if ours is None or theirs is None:
            continue
        own, other = (
            report.middle("p99", each, 0.99, "1ms") or 0.0 for each in ("two-phase-locking", peer)
        )
        text = (
            f"two-phase-locking at theta 0.99 with 1 ms: {ours / theirs:.1f} times the commits of"
            f" {peer} (2 at least), p99 {own * 1000:.1f} ms against {other * 1000:.1f} ms"
        )
        yield ours >= 2 * theirs and own < other, text


def _fair(report: Report) -> Iterator[tuple[bool, str]]:
    least = [
        report.middle("fairness", "two-phase-locking", theta, pause)
        for pause, theta in report.cases()
    ]
    known = [each for each in least if each is not None]
    if known:
        yield min(known) >= 0.8, f"two-phase-locking: fairness {min(known):.2f} (0.8 at least)"
    aborted = [result.aborted for result in report.results if result.peer == "conservative"]
    if aborted:
        yield max(aborted) == 0, f"conservative: {max(aborted):.1%} aborted (never)"
    if report.skews:
        ours = [skew for skew in report.skews if skew.store.startswith("coterie ")]
        held = all(skew.through == 1 for skew in ours)
        yield held, "write skew: one of two gets through by every scheme of ours"
