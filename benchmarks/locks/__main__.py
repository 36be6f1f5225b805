"""The command; see the package for how to use it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks import command, locks
from benchmarks.locks import programs
from benchmarks.locks.measure import Measurement, Pace, Result
from benchmarks.locks.peers import PEERS, make
from benchmarks.locks.report import Report, markdown, plain
from benchmarks.locks.workload import WORKLOADS, Workload
from coterie.system.aio import new_event_loop

if TYPE_CHECKING:
    import argparse
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
    parser = command.make_parser("benchmarks.locks", locks.__doc__, PEERS)
    every = ",".join(WORKLOADS)
    parser.add_argument("-w", "--workloads", default=every, help=f"of {', '.join(WORKLOADS)}")
    return command.parse(parser, peers=PEERS, workloads=WORKLOADS)


def run(options: argparse.Namespace) -> Report:
    missing = command.unmet({key: make(key).needs for key in options.peers})
    present = [key for key in options.peers if key not in missing]
    report = Report(
        command.date(),
        command.machine(),
        versions(),
        missing,
        [],
        loops(),
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


def versions() -> dict[str, str]:
    """Tell what was measured, as far as it is installed."""
    found = command.versions(
        ("coterie", "asyncpg", "grpcio", "kazoo", "nats-py", "pymysql", "redis")
    )
    for package in (
        "etcd-server",
        "mariadb-server-core",
        "postgresql",
        "redis-server",
        "zookeeper",
    ):
        query = ["dpkg-query", "-W", "-f", "${Version}", package]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            printed = subprocess.run(query, capture_output=True, text=True, check=True)
            found[package] = printed.stdout
    return found | programs.versions()


def loops() -> str:
    """Say which event loops run on uvloop: it is our servers that take it where it is installed."""
    with contextlib.closing(new_event_loop()) as loop:
        ours = type(loop).__module__.partition(".")[0]
    return f"event loops: {ours}'s in the voters that are servers, asyncio's in clients unless their row says so"


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
        command.say(f"{peer.label}: starting")
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
    command.say(f"  {result.workload}: {result.error or shown}{failures}")


if __name__ == "__main__":
    sys.exit(main())
