"""What the options of `simulate` and `compare` have in common."""

from __future__ import annotations

from coterie.lab.simulate.workload import WORKLOADS

INTERRUPTED = 130  # exit status of a command that reports on what was done until an interrupt
LATENCY_HELP = (
    "Delay of a message: 1, uniform:LOW,HIGH, exponential:MEAN, lognormal:MEDIAN,SIGMA,"
    " matrix:1,9;9,1 or a file such as delays.csv; ~0.1 behind a matrix or file lets each delay"
    " vary by 10 %."
)
MULTICAST_HELP = "Count a message to several at once as one, as where the network copies it."
WORKLOAD_HELP = "; ".join(f"{name}: {summary}" for name, summary in WORKLOADS.items()) + "."
