"""The command; see the package for how to use it."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import multiprocessing
import os
import platform
import sqlite3
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks import transactions
from benchmarks.locks.peers.base import advice
from benchmarks.transactions.measure import Case, Pace, Result, measure
from benchmarks.transactions.peers import PEERS, make
from benchmarks.transactions.report import Report, reading, skews, tables
from benchmarks.transactions.skew import probe
from benchmarks.transactions.workload import PAUSES, THETAS

if TYPE_CHECKING:
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
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.transactions",
        description=transactions.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    chosen = parser.add_argument
    chosen("-p", "--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    chosen("--theta", default=",".join(f"{theta:g}" for theta in THETAS), help="the skews")
    chosen("--pause", default=",".join(PAUSES), help=f"of {', '.join(PAUSES)}")
    chosen("--full", action="store_true", help="longer windows and medians of several repetitions")
    chosen("-o", "--output", choices=("table", "markdown", "json"), default="table")
    chosen("--from", dest="source", type=Path, help="show the results in this file again")
    options = parser.parse_args()
    for name, known in (("peers", PEERS), ("pause", PAUSES)):
        asked = getattr(options, name).split(",")
        if unknown := [each for each in asked if each not in known]:
            parser.error(f"unknown {name}: {', '.join(unknown)}; choose from: {', '.join(known)}")
        setattr(options, name, asked)
    options.theta = [float(theta) for theta in options.theta.split(",")]
    return options


def run(options: argparse.Namespace) -> Report:
    report = Report(
        date=dt.datetime.now(tz=dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        versions=versions(),
        missing=look_around(options.peers),
        skews=[],
        results=[],
    )
    for skew in probe():
        report.skews.append(skew)
        say(f"write skew: {skew.store}: {'?' if skew.through is None else skew.through} of 2")
    for result in measurements(options, report.missing):
        report.results.append(result)
        say(
            f"{result.peer}, theta {result.theta:g}, pause {result.pause}:"
            f" {result.commits:,.0f} commits/s, {result.aborted:.1%} aborted,"
            f" {result.cpu:.3f} CPU s per 1,000"
        )
    return report


def look_around(keys: list[str]) -> dict[str, list[str]]:
    """Find out who cannot take part, and say how that can be changed."""
    missing = {}
    for key in keys:
        needs = [need for need in make(key).needs if not need.is_met()]
        if needs:
            missing[key] = [need.package for need in needs]
            say(f"{key} is left out; it needs: {advice(needs)}")
    return missing


def versions() -> dict[str, str]:
    """Tell what was measured, as far as it is installed."""
    found = {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version}
    for package in ("coterie", "ZODB", "lmdb", "redis"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def measurements(options: argparse.Namespace, missing: dict[str, list[str]]) -> Iterator[Result]:
    """Measure everybody in turn, so that a noisy spell hits all alike; each in a fresh process."""
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


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
