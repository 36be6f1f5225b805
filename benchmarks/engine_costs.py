"""What a fresh lock costs on the servers of others: python -m benchmarks.engine_costs [-e ENGINES] [--rounds N].

For each engine one server, and on it in turns for a second each: the lock that its users have without us, what else
stands beside it in `ROWS`, and ours, all with one client that takes a fresh lock each time. Machines change
their speed while others work on them, so a figure is compared with those of the same round: what is said of several rounds
is the median of each, and the median of the ratios.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.locks.machine import cpu_seconds
from benchmarks.locks.measure import WorkerProcess
from benchmarks.locks.peers import make
from benchmarks.locks.worker import Begin, Connect, Run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.locks.peers.base import Peer

# Of each engine ours, which starts the server; its users' own lock; and what else is measured on the same server.
ROWS: dict[str, tuple[str, ...]] = {
    "redis": ("coterie-on-redis", "redis"),
    "etcd": ("coterie-on-etcd", "etcd-3"),
    "zookeeper": ("coterie-on-zookeeper", "zookeeper-3"),
    "postgresql": ("coterie-on-postgresql", "postgres", "postgres-rows"),
    "mariadb": ("coterie-on-mariadb", "mariadb", "mariadb-rows"),
    "nats": ("coterie-on-nats", "nats"),
}
SAMPLE_BYTES = 6 * 8
WINDOW_SECONDS = 1.0


class Cost(NamedTuple):
    """CPU seconds of one lock, taken and given back."""

    client: float
    server: float

    @property
    def both(self) -> float:
        return self.client + self.server


class Contestant:
    """A process with one client."""

    def __init__(self, key: str, served: Peer, folder: Path, index: int) -> None:
        self.key = key
        self.label = make(key).label
        self._served = served
        self._worker = WorkerProcess(folder, index, on_uvloop=False)
        self._ask(Begin(key, served.settings(), index))
        self._ask(Connect(0, 1, shared=False))
        self.measure(WINDOW_SECONDS / 4)  # which loads code, and prepares statements

    def _ask(self, command: Begin | Connect | Run) -> dict[str, int]:
        self._worker.tell(command)
        return self._worker.answer().failures

    def measure(self, seconds: float) -> Cost:
        """Take fresh locks for that time."""
        client, servers = self._worker.process.pid, [s.process.pid for s in self._served.servers]
        name = f"cost-{uuid.uuid4().hex[:6]}"
        spent = cpu_seconds([client]), cpu_seconds(servers)
        until = time.monotonic() + seconds
        failures = self._ask(Run(name, None, until, None, False, str(self._worker.samples), None))
        if failures:
            raise RuntimeError(f"{self.key}: {failures}")
        count = self._worker.samples.stat().st_size / SAMPLE_BYTES
        return Cost(
            (cpu_seconds([client]) - spent[0]) / count, (cpu_seconds(servers) - spent[1]) / count
        )

    def end(self) -> None:
        self._worker.kill()


def compare(engine: str, rounds: int, folder: Path) -> Iterator[str]:
    """Measure one engine; say a line for each that was measured there."""
    ours, *others = ROWS[engine]
    served = make(ours)
    folder.mkdir()
    contestants: list[Contestant] = []
    try:
        served.start(folder)
        contestants += [
            Contestant(key, served, folder, index) for index, key in enumerate((*others, ours))
        ]
        costs = [[each.measure(WINDOW_SECONDS) for each in contestants] for _ in range(rounds)]
    finally:
        for each in contestants:
            each.end()
        served.stop()
    for place, each in enumerate(contestants):
        column = [costs_of_round[place] for costs_of_round in costs]
        first = [costs_of_round[0] for costs_of_round in costs]
        middle = [statistics.median(1e6 * cost[part] for cost in column) for part in (0, 1)]
        times = [
            statistics.median(
                getattr(a, part) / getattr(b, part) for a, b in zip(column, first, strict=True)
            )
            for part in ("both", "client", "server")
        ]
        yield (
            f"| {each.label} | {middle[0]:.0f} | {middle[1]:.0f} | {times[0]:.2f} | {times[1]:.2f} | {times[2]:.2f} |"
        )


def main(engines: list[str], rounds: int) -> None:
    """Print a table."""
    print("|  | client µs | server µs | both, in times of the first | client | server |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # a server of PostgreSQL does not run as root
        for engine in engines:
            for line in compare(engine, rounds, Path(folder) / engine):
                print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-e", "--engines", default=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    main(given.engines.split(","), given.rounds)
