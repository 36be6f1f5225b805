"""The command; see the package for how to use it."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks import locks
from benchmarks.locks.measure import Measurement, Pace, Result
from benchmarks.locks.peers import PEERS, make
from benchmarks.locks.peers.base import advice
from benchmarks.locks.report import Report, markdown, plain
from benchmarks.locks.workload import WORKLOADS, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICK, FULL = Pace(0.5, 1.5), Pace(1.0, 3.0)
FULL_REPETITIONS = 3


def main() -> int:
    options = parse()
    if options.source is not None:
        report = msgspec.json.decode(options.source.read_bytes(), type=Report)
    else:
        report = run(options)
    if options.output == "json":
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
        return 0
    print(markdown(report) if options.output == "markdown" else plain(report))
    return 1 if any(result.violations for result in report.results) else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.locks",
        description=locks.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    chosen = parser.add_argument
    chosen("-p", "--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    chosen("-w", "--workloads", default=",".join(WORKLOADS), help=f"of {', '.join(WORKLOADS)}")
    chosen("--full", action="store_true", help="longer windows and medians of several repetitions")
    chosen("--quick", action="store_true", help="one short repetition; this is the default")
    chosen("-o", "--output", choices=("table", "markdown", "json"), default="table")
    chosen("--from", dest="source", type=Path, help="show the results in this file again")
    options = parser.parse_args()
    for name, known in (("peers", PEERS), ("workloads", WORKLOADS)):
        asked = getattr(options, name).split(",")
        if unknown := [each for each in asked if each not in known]:
            parser.error(f"unknown {name}: {', '.join(unknown)}; choose from: {', '.join(known)}")
        setattr(options, name, asked)
    return options


def run(options: argparse.Namespace) -> Report:
    missing = look_around(options.peers)
    present = [key for key in options.peers if key not in missing]
    report = Report(
        dt.datetime.now(tz=dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        versions(),
        missing,
        [],
    )
    workloads = [WORKLOADS[key] for key in options.workloads]
    pace, repetitions = (FULL, FULL_REPETITIONS) if options.full else (QUICK, 1)
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as folder:
        Path(folder).chmod(0o755)  # a server may run as another user
        for repetition in range(repetitions):  # in turn, so that a noisy spell hits all alike
            for key in present:
                place = Path(folder, str(repetition), key)
                for result in measure_peer(key, workloads, place, pace):
                    result.repetition = repetition
                    report.results.append(result)
                    tell(result)
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
    found = {"Python": platform.python_version()}
    for package in ("coterie", "asyncpg", "grpcio", "kazoo", "redis"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    for package in ("etcd-server", "postgresql", "redis-server", "zookeeper"):
        query = ["dpkg-query", "-W", "-f", "${Version}", package]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            printed = subprocess.run(query, capture_output=True, text=True, check=True)
            found[package] = printed.stdout
    return found


def measure_peer(key: str, workloads: list[Workload], folder: Path, pace: Pace) -> Iterator[Result]:
    """Run all workloads on a peer; what kills a server gets servers of its own."""
    plain = [workload for workload in workloads if not workload.is_killing]
    killing = [workload for workload in workloads if workload.is_killing]
    if plain:
        yield from serve(key, plain, folder / "plain", pace)
    if killing and make(key).has_failover:
        yield from serve(key, killing, folder / "killing", pace)


def serve(key: str, workloads: list[Workload], folder: Path, pace: Pace) -> Iterator[Result]:
    """Start the servers, run workloads on them, and stop them; a failure ends this peer's turn."""
    peer = make(key)
    home = folder / "servers"
    home.mkdir(parents=True)
    current = workloads[0]
    try:
        say(f"{peer.label}: starting")
        peer.start(home)
        if peer.settling_seconds:
            settling = Pace(0.0, peer.settling_seconds)
            Measurement(peer, key, WORKLOADS["W4"], folder / "settling", settling).take()
        for current in workloads:
            yield Measurement(peer, key, current, folder / current.key, pace).take()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        yield Result(peer=key, workload=current.key, error=f"{type(error).__name__}: {error}")
    finally:
        peer.stop()


def tell(result: Result) -> None:
    figures = {
        "a second": result.operations,
        "hand-offs": result.handoffs,
        "fairness": result.fairness,
        "CPU s per 1,000": result.cpu_seconds,
        "gap": result.gap,
    }
    shown = ", ".join(f"{value:.4g} {name}" for name, value in figures.items() if value is not None)
    failures = f"; {sum(result.failures.values())} failures" if result.failures else ""
    say(f"  {result.workload}: {result.error or shown}{failures}")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
