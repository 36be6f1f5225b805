"""Run the leased lock through many random worlds with faults, and say which seed broke a promise.

    python benchmarks/leased_campaign.py --seeds 20000
    python benchmarks/leased_campaign.py --replay wild 96

The seeds go in turn to the profiles calm, crash, net, pause, mixed, wild, oneway and mesh; every other
eight have participants with leases of their own. `campaign`
takes any `concurrent.futures.Executor`, so a cluster of machines serves as well as this one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parent.parent))

from coterie.cli.common.progress import ProgressLine
from tests.algorithms.mutex.leased_faults import FAULTS_END
from tests.algorithms.mutex.leased_world import PROFILES, World

CHUNK = 80  # seeds in one task


class Tally(NamedTuple):
    """What some runs came to."""

    counts: Counter[str]
    slowest: float  # time from the last fault to the last entry
    failures: list[tuple[str, int, str]]


def make(seed: int, profile: str) -> World:
    return World(seed, profile, mixed_leases=bool(seed // len(PROFILES) % 2))


def run_chunk(seeds: range) -> Tally:
    """Run some seeds, one after another."""
    counts: Counter[str] = Counter()
    slowest, failures = 0.0, []
    for seed in seeds:
        profile = PROFILES[seed % len(PROFILES)]
        world = make(seed, profile)
        try:
            world.run()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is the finding
            failures.append((profile, seed, f"{type(error).__name__}: {error}"))
        counts.update(
            runs=1,
            events=world.events,
            entries=world.entries,
            free=world.free,
            lost=world.losses,
            rejected=world.promises.rejected,
            shared=world.promises.together,
        )
        slowest = max(slowest, world.now - FAULTS_END)
    return Tally(counts, slowest, failures)


def campaign(
    seeds: range, executor: Executor, progress: Callable[[Counter[str]], None] | None = None
) -> Tally:
    """Spread the seeds over an executor, and add up."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    tasks = [executor.submit(run_chunk, chunk) for chunk in chunks]
    total = Tally(Counter(), 0.0, [])
    for task in as_completed(tasks):
        part = task.result()
        counts = total.counts + part.counts
        failures = sorted(total.failures + part.failures)
        total = Tally(counts, max(total.slowest, part.slowest), failures)
        if progress is not None:
            progress(counts)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--replay", nargs=2, metavar=("PROFILE", "SEED"))
    arguments = parser.parse_args()
    if arguments.replay:
        profile, seed = arguments.replay
        print(vars(make(int(seed), profile).run().plan))
        return 0
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    begun = time.monotonic()
    line = ProgressLine()
    with ProcessPoolExecutor(arguments.workers) as executor:
        total = campaign(
            seeds, executor, lambda counts: line.show(f"{counts['runs']} of {len(seeds)} runs")
        )
    line.close()
    print(dict(total.counts))
    print(f"{time.monotonic() - begun:.0f} s; slowest end {total.slowest:.0f} after the last fault")
    for profile, seed, text in total.failures:
        print(f"{text}\n  replay: python benchmarks/leased_campaign.py --replay {profile} {seed}")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
