"""Run stores over one to four sites through many random storms, and say which seed broke a promise.

    python benchmarks/sites_campaign.py --seeds 200
    python benchmarks/sites_campaign.py --seeds 200 --mixture
    python benchmarks/sites_campaign.py --replay multiversion 3 1072

Each seed runs once for every variant of every scheme and every number of sites: crashes in the middle
of steps, restarts, pauses, partitions, losses and duplicates. Afterwards the history has to be
serializable, everything settled, and the keys have to hold what the history says.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from coterie.lab.serializability import check
from coterie.transactions.catalogue import schemes
from tests.transactions.site_storms import draw, draw_mixture, judge, named_storm

SITES = (1, 2, 3, 4)


class Run(NamedTuple):
    """A scheme and its variant, a number of sites, and a seed."""

    scheme: str
    variant: str
    sites: int
    seed: int
    mixture: bool = False  # every operation on few keys, most of them for update


def perform(run: Run) -> tuple[Counter[str], str]:
    """Return the counts of a run, and what was wrong with it."""
    drawn = draw_mixture if run.mixture else draw
    outcome = named_storm(run.scheme, run.variant, run.sites, run.seed, drawn=drawn)
    counts = Counter(runs=1, commits=outcome.commits, refusals=outcome.aborts)
    try:
        judge(outcome)
    except AssertionError as error:
        return counts + Counter(broken=1), str(error)
    assert outcome.history is not None
    if not check(outcome.history, real_time=True).serializable:
        counts["late"] += 1  # serializable, but not in real time
    return counts, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed to begin with")
    parser.add_argument("--mixture", action="store_true", help="every operation on few keys")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--replay", nargs=3, metavar=("SCHEME[:VARIANT]", "SITES", "SEED"))
    parser.add_argument("-o", dest="output", choices=["table", "json"], default="table")
    chosen = parser.parse_args()
    if chosen.replay:
        name, _, variant = chosen.replay[0].partition(":")
        sites, seed = map(int, chosen.replay[1:])
        variant = variant or schemes()[name].variant().name
        run = Run(name, variant, sites, seed, chosen.mixture)
        counts, wrong = perform(run)
        print(run, dict(counts), wrong or "nothing is wrong", sep="\n")
        return 1 if wrong else 0
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    table = campaign(seeds, chosen.jobs, mixture=chosen.mixture)
    if chosen.output == "json":
        print(json.dumps(table))
    else:
        for name, counts in table.items():
            print(f"{name:32}", "  ".join(f"{counts[what]:7} {what}" for what in COLUMNS))
    return 1 if any(counts["broken"] for counts in table.values()) else 0


COLUMNS = ("runs", "commits", "refusals", "late", "broken")


def campaign(seeds: range, jobs: int, *, mixture: bool) -> dict[str, Counter[str]]:
    """Run all, and print what was wrong and how far it is."""
    table: dict[str, Counter[str]] = {}
    began = time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        for scheme in schemes().values():
            for variant in scheme.variants:
                runs = [
                    Run(scheme.name, variant.name, sites, seed, mixture)
                    for seed in seeds
                    for sites in SITES
                ]
                total = table[f"{scheme.name}:{variant.name}"] = Counter[str]()
                for run, (counts, wrong) in zip(
                    runs, pool.map(perform, runs, chunksize=20), strict=True
                ):
                    total.update(counts)
                    if wrong:
                        print(f"{run}: {wrong[:300]}", file=sys.stderr)
                seconds = time.monotonic() - began
                print(f"{scheme.name}:{variant.name} done after {seconds:.0f} s", file=sys.stderr)
    return table


if __name__ == "__main__":
    raise SystemExit(main())
