"""The command; see the package for what it measures."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.files.crowd import Crowd
from benchmarks.files.peers import PEERS, present

ALONE, MANY, FEW = 1, 64, 8
COLUMNS = ("alone", f"{MANY} locks", "hand-off", "fairness")
COMMANDS = {
    "coterie lock": [sys.executable, "-m", "coterie", "lock", "x", "--", "true"],
    "flock(1)": ["flock", "x", "true"],
}


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.files", description=__doc__)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-s", "--seconds", type=float, default=1.0, help="of each measurement")
    given = parser.parse_args()
    peers = present()
    figures: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="coterie-files-") as folder:
        os.environ["COTERIE_URL"] = f"file:{folder}/commands"
        for number in range(given.rounds):
            for (
                name
            ) in peers:  # one after the other in each round, so that all see the same machine
                for column, value in measure(name, Path(folder, f"{name}-{number}"), given.seconds):
                    figures.setdefault((name, column), []).append(value)
            for name, words in COMMANDS.items():
                figures.setdefault((name, "command"), []).append(command(words, folder))
    report(peers, figures)


def measure(name: str, folder: Path, seconds: float) -> list[tuple[str, float]]:
    """Return the figures of one peer in one round."""
    folder.mkdir()
    peer = PEERS[name]
    alone = Crowd(peer, folder, ALONE, own_locks=True).run(seconds)
    many = Crowd(peer, folder, MANY, own_locks=True).run(seconds)
    few = Crowd(peer, folder, FEW, own_locks=False).run(seconds)
    values = (alone.microseconds, many.microseconds, few.microseconds, few.fairness)
    return list(zip(COLUMNS, values, strict=True))


def command(words: list[str], folder: str) -> float:
    """Return the CPU time of a command that takes a lock, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(5):
        subprocess.run(words, check=True, cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 5 * 1e3


def report(peers: list[str], figures: dict[tuple[str, str], list[float]]) -> None:
    """Print the medians."""
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores; CPU µs an entry, medians")
    print(f"{'':18}" + "".join(f"{column:>12}" for column in COLUMNS))
    for name in peers:
        cells = [median(figures[name, column]) for column in COLUMNS]
        shown = [f"{cell:12.2f}" if cell <= 1 else f"{cell:12.1f}" for cell in cells]
        print(f"{name:18}" + "".join(shown))
    for name in COMMANDS:
        print(
            f"{name:18}{median(figures[name, 'command']):12.1f} ms for a command that does nothing"
        )


if __name__ == "__main__":
    main()
