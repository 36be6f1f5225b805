"""The simulated world: virtual time, one seed, faults, monitors and the measures of the literature.

result = Simulation(processes, workload=Closed(10), seed=7).run()
"""

from coterie.lab.simulate.campaign import (
    Failure,
    Report,
    Trial,
    campaign,
    random_crashes,
    run_trial,
)
from coterie.lab.simulate.faults import (
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
from coterie.lab.simulate.interval import Interval, interval_of, student_t
from coterie.lab.simulate.latency import parse_latency, read_latency, read_matrix
from coterie.lab.simulate.metrics import Fairness, Load, Result, Summary
from coterie.lab.simulate.monitors import Violation
from coterie.lab.simulate.network import (
    Constant,
    Exponential,
    Latency,
    LogNormal,
    Matrix,
    Network,
    Uniform,
)
from coterie.lab.simulate.rows import to_csv, to_dicts, totals
from coterie.lab.simulate.simulation import Simulation
from coterie.lab.simulate.trial_builder import TrialBuilder
from coterie.lab.simulate.workload import (
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
    "Interval",
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
    "TrialBuilder",
    "Uniform",
    "Violation",
    "Workload",
    "World",
    "campaign",
    "interval_of",
    "make_workload",
    "parse_fault",
    "parse_latency",
    "random_crashes",
    "random_faults",
    "read_latency",
    "read_matrix",
    "run_trial",
    "student_t",
    "to_csv",
    "to_dicts",
    "totals",
]
