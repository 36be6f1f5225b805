"""Every operation of a store over its sites, as it is shipped, judged serializable: until each scheme has so many commits.

    python -m benchmarks.sites_over_sockets [--commits 2000] [--jobs 1] [--tls]

Sites run on simulated sockets, disks and clocks, a seed for each run: `coterie simulate-stack --workload
store-mixture`. Every variant of every scheme runs with the faults of its seeds, kills and power cuts among them, and again
with the same seeds without any.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from coterie.lab.stack.campaign import Outcome, draw, run_plan, variants_of_schemes

WORKLOAD = "store-mixture"
KILLS = (
    "kill",
    "kill-in-sync",
    "kill-in-send",
    "power",
    "power-in-sync",
    "power-in-send",
    "blackout",
)


def perform(seed: int, variant: str, *, faults: bool, tls: bool) -> Outcome:
    """Run a seed."""
    plan = draw(seed, WORKLOAD, variant, tls=tls)
    return run_plan(plan if faults else plan.keeping(()))[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--commits", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tls", action="store_true")
    chosen = parser.parse_args()
    broken = 0
    print(
        "| scheme/variant | faults | runs | commits | refused | killed or without power | broken |"
    )
    print("|---|---|---:|---:|---:|---:|---:|")
    with ProcessPoolExecutor(chosen.jobs) as pool:
        for variant, faults in itertools.product(variants_of_schemes(), (True, False)):
            counts, wrong = Counter[str](), list[Outcome]()
            seeds = itertools.count()
            while counts["transactions"] < chosen.commits:
                some = itertools.islice(seeds, chosen.jobs)
                run = partial(perform, variant=variant, faults=faults, tls=chosen.tls)
                for outcome in pool.map(run, some):
                    counts.update(outcome.counts, runs=1)
                    if outcome.violation:
                        wrong.append(outcome)
            killed = sum(counts[name] for name in KILLS)
            print(
                f"| {variant} | {'yes' if faults else 'no'} | {counts['runs']} | {counts['transactions']:,} |"
                f" {counts['Conflict']:,} | {killed} | {len(wrong)} |",
                flush=True,
            )
            for outcome in wrong:
                print(f"{outcome.violation}: {outcome.text}\n  {outcome.command}", file=sys.stderr)
            broken += len(wrong)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
