"""What the dashboard shows while workers and nodes come and go: python -m benchmarks.dashboard_churn [--looks N] [--seed N].

Three nodes and four workers are processes on loopback. Workers are killed and paused, nodes are killed and started again,
and replaced by others. Each look is judged by the notes of the workers and of those who let it happen: a holder, its
token, since when, a waiter, a silent program, a node that votes, one that is down. It must have been true at some
moment between the beginning of the look and its stamp. Exit status 1: something was shown that was not.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from pathlib import Path

from tests.cluster.local_cluster import processes
from tests.dashboard.churn import Churn, lies, looks_under_churn


def main(arguments: list[str]) -> int:
    """Run the trial, and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard_churn")
    parser.add_argument("--looks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, processes(Path(name)) as cluster:
        churn = Churn(cluster, Path(name), options.seed)
        url = cluster.url
        try:
            shown, troubles = asyncio.run(looks_under_churn(churn, url, options.looks))
        finally:
            chronicle = churn.end()
    found = [(look.at, lie) for look in shown for lie in lies(look, chronicle)]
    holds = sum(len(lock.holders) for look in shown for lock in look.locks.values())
    waits = sum(len(lock.waiters) for look in shown for lock in look.locks.values())
    down = sum(node.look == "bad" for look in shown for node in look.nodes.values())
    print(f"seed {options.seed}: {len(shown)} looks, {troubles} without an answer")
    print(f"shown: {holds} holds, {waits} waits, {down} nodes that are down")
    print(
        f"a look took {statistics.median(look.took for look in shown):.3f} s,"
        f" at most {max(look.took for look in shown):.3f} s"
    )
    print("faults:", ", ".join(f"{kind}: {count}" for kind, count in sorted(churn.faults.items())))
    print(f"not true at its stamp: {len(found)}")
    for at, lie in found[:20]:
        print(f"  {at:.3f} {lie}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
