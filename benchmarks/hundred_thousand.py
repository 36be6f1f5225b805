"""A hundred thousand processes in memory: Maekawa's algorithm with many requests at once.

Some processes, drawn at random, all ask at the same moment. Each asks a quorum of about the square
root of N, and the requests meet in the quorums' common members.

    python benchmarks/hundred_thousand.py [PROCESSES [REQUESTERS]]
"""

from __future__ import annotations

import resource
import sys
from random import Random
from time import process_time

from coterie import catalogue
from coterie.lab.simulate import Burst, Simulation


def main() -> None:
    size, requesters = [*map(int, sys.argv[1:]), *(100_000, 1_000)[len(sys.argv) - 1 :]]
    algorithm = catalogue.find("maekawa")
    started = process_time()
    simulation = Simulation(
        algorithm.build(algorithm.setup(size)),
        workload=Burst(1, Random(0).sample(range(1, size + 1), requesters), hold=1.0),
        max_events=1_000_000_000,
    )
    built = process_time()
    result = simulation.run()
    ran = process_time()
    assert result.stopped == "done"
    assert result.entries == requesters
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"maekawa, {size:,} processes, {requesters:,} of them ask at once")
    print(f"  entries        {result.entries:>12,}")
    print(f"  messages       {result.messages:>12,}   {result.messages_per_entry:,.1f} an entry")
    print(f"  peak memory    {peak:>12,.0f}   MiB")
    print(f"  to build       {built - started:>12.1f}   CPU seconds")
    rate = result.messages / (ran - built)
    print(f"  to run         {ran - built:>12.1f}   CPU seconds, {rate:,.0f} messages a second")


if __name__ == "__main__":
    main()
