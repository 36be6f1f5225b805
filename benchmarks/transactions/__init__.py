"""Bank transfers by our schemes beside ZODB, SQLite, LMDB, Redis, PostgreSQL and a plain dict, in one run.

    python -m benchmarks.transactions                    everything once, about four minutes
    python -m benchmarks.transactions --full             five repetitions of longer windows, medians
    python -m benchmarks.transactions -p dict,two-phase-locking,zodb --theta 0.99 --pause 1ms
    python -m benchmarks.transactions -o json > results.json
    python -m benchmarks.transactions --from results.json -o markdown
    python -m benchmarks.transactions.crashes            a thousand commits, killed twenty times
    python -m benchmarks.transactions.sites              three sites beside one PostgreSQL server
    python -m benchmarks.transactions.checking           the checker over 100,000 transactions

1,000 accounts, 8 clients; a transfer reads two accounts and writes both. Accounts are drawn by
Zipf's law, and between the reads and the writes a client does nothing, or works for about 1 ms.
After each run every balance must be what the committed transfers add up to.

PostgreSQL is used twice: by asyncpg in serializable transactions, and by our store on the same server.

A transfer reads exactly what it writes, so it cannot tell snapshot isolation from serializability.
The write-skew probe can: two transactions read x and y, then one writes x and the other y.

A peer whose server or library is not installed is left out; the first lines say which, and what its
packages are called. Each measurement has a process of its own.

The modules: `workload` what is done, `peers` by what, `measure` one measurement, `skew` the probe,
`report` tables from numbers.
"""
