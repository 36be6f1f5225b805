"""The `file:` engine beside other file locks, and under kill -9.

    make bench-files
    python -m benchmarks.files --rounds 5 --seconds 2
    python -m benchmarks.files.stress --grants 50000 --kills 500
    python -m benchmarks.files.held                     a free lock while thousands of others are held

A row has the CPU time of taking and giving back a lock, in microseconds: by one process whose lock no other
wants (alone), by 64 processes with a lock each, and by 8 processes that all want one lock (hand-off), with
the entries of the least served over those of the most served (fairness). Peers alternate in each round.
"""
