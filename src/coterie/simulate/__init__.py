"""The simulated world: virtual time, one seed, faults, monitors and the measures of the literature.

result = Simulation(processes, workload=Closed(10), seed=7).run()
"""

from coterie.simulate.campaign import Failure, Report, Trial, campaign, random_crashes, run_trial
from coterie.simulate.faults import (
    Crash,
    Drift,
    Fault,
    Lose,
    Partition,
    Pause,
    Restart,
    parse_fault,
    random_faults,
)
from coterie.simulate.metrics import Fairness, Load, Result, Summary
from coterie.simulate.monitors import Violation
from coterie.simulate.network import (
    Constant,
    Exponential,
    Latency,
    LogNormal,
    Matrix,
    Network,
    Uniform,
    parse_latency,
)
from coterie.simulate.simulation import Simulation
from coterie.simulate.workload import (
    Burst,
    Closed,
    HandOver,
    HotSpot,
    OneAtATime,
    Poisson,
    Workload,
    World,
    make_workload,
)

__all__ = [
    "Burst",
    "Closed",
    "Constant",
    "Crash",
    "Drift",
    "Exponential",
    "Failure",
    "Fairness",
    "Fault",
    "HandOver",
    "HotSpot",
    "Latency",
    "Load",
    "LogNormal",
    "Lose",
    "Matrix",
    "Network",
    "OneAtATime",
    "Partition",
    "Pause",
    "Poisson",
    "Report",
    "Restart",
    "Result",
    "Simulation",
    "Summary",
    "Trial",
    "Uniform",
    "Violation",
    "Workload",
    "World",
    "campaign",
    "make_workload",
    "parse_fault",
    "parse_latency",
    "random_crashes",
    "random_faults",
    "run_trial",
]
