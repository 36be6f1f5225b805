"""Deadlocks: wait-for graphs and who is stuck in them, and processes that find out by messages.

The graph and its oracle are values (`wait_for`). Detectors are parts that a process holds: each is
told when a wait begins and ends, and tells when that wait is to be broken off. `Diffusing` is the
one to use; `Reporting` with a `Coordinator` or a tree of `Controller`, and `Survey`, are the others
of the literature.
"""

from coterie.deadlock.central import Coordinator, Reporting
from coterie.deadlock.condition import Condition, all_of, any_of, some_of
from coterie.deadlock.detector import Detector
from coterie.deadlock.diffusing import Diffusing
from coterie.deadlock.explanation import Explanation, explain
from coterie.deadlock.graph_file import parse_graph
from coterie.deadlock.hierarchical import Controller
from coterie.deadlock.survey import Survey
from coterie.deadlock.trial import Deadlocked
from coterie.deadlock.wait_for import Graph
from coterie.deadlock.waits import Member, Wait, WaitId, choose_victim

__all__ = [
    "Condition",
    "Controller",
    "Coordinator",
    "Deadlocked",
    "Detector",
    "Diffusing",
    "Explanation",
    "Graph",
    "Member",
    "Reporting",
    "Survey",
    "Wait",
    "WaitId",
    "all_of",
    "any_of",
    "choose_victim",
    "explain",
    "parse_graph",
    "some_of",
]
