"""The command; see the package for how to use it."""

from __future__ import annotations

import multiprocessing
import sqlite3
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from benchmarks import command, transactions
from benchmarks.transactions.measure import Case, Pace, Result, measure
from benchmarks.transactions.peers import PEERS, make
from benchmarks.transactions.report import Report, reading, skews, tables
from benchmarks.transactions.skew import probe
from benchmarks.transactions.workload import PAUSES, THETAS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

QUICK, FULL = Pace(0.3, 1.5), Pace(0.5, 3.0)
FULL_REPETITIONS = 5


def main() -> int:
    options = parse()
    if options.source is not None:
        report = msgspec.json.decode(options.source.read_bytes(), type=Report)
    else:
        report = run(options)
    if options.output == "json":
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        print(tables(report, markdown=options.output == "markdown"))
        print("CPU: seconds per 1,000 commits, clients and servers; x dict: times that of the dict")
        print("fairness: commits of the least served client over those of the most served\n")
        print(skews(report))
        print("\n".join(reading(report)))
    return 0 if all(result.right for result in report.results) else 1


def parse() -> argparse.Namespace:
    parser = command.make_parser("benchmarks.transactions", transactions.__doc__, PEERS)
    chosen = parser.add_argument
    chosen("--theta", default=",".join(f"{theta:g}" for theta in THETAS), help="the skews")
    chosen("--pause", default=",".join(PAUSES), help=f"of {', '.join(PAUSES)}")
    options = command.parse(parser, peers=PEERS, pause=PAUSES)
    options.theta = [float(theta) for theta in options.theta.split(",")]
    return options


def run(options: argparse.Namespace) -> Report:
    report = Report(
        date=command.date(),
        machine=command.machine(),
        versions={
            **command.versions(("coterie", "ZODB", "lmdb", "redis")),
            "SQLite": sqlite3.sqlite_version,
        },
        missing=command.unmet({key: make(key).needs for key in options.peers}),
        skews=[],
        results=[],
    )
    for skew in probe():
        report.skews.append(skew)
        command.say(
            f"write skew: {skew.store}: {'?' if skew.through is None else skew.through} of 2"
        )
    for result in measurements(options, report.missing):
        report.results.append(result)
        command.say(
            f"{result.peer}, theta {result.theta:g}, pause {result.pause}:"
            f" {result.commits:,.0f} commits/s, {result.aborted:.1%} aborted,"
            f" {result.cpu:.3f} CPU s per 1,000"
        )
    return report


def measurements(options: argparse.Namespace, missing: dict[str, list[str]]) -> Iterator[Result]:
    """Measure all in turn, so that a noisy spell hits all alike; each in a fresh process."""
    pace, repetitions = (FULL, FULL_REPETITIONS) if options.full else (QUICK, 1)
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh, max_tasks_per_child=1) as pool:
        for repetition in range(repetitions):
            for pause in options.pause:
                for theta in options.theta:
                    for peer in options.peers:
                        if peer not in missing:
                            case = Case(peer, theta, pause, repetition)
                            yield pool.submit(measure, case, pace).result()


if __name__ == "__main__":
    sys.exit(main())
