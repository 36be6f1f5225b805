"""Deadlocks: wait-for graphs and who is stuck in them, and processes that find out by messages.

The graph and its oracle are values (`wait_for`). Detectors are parts that a process holds: each is
told when a wait begins and ends, and tells when that wait is to be broken off. `Diffusing` is the
one to use; `Reporting` with a `Coordinator` or a tree of `Controller`, and `Survey`, are the others
of the literature. The lock service asks twice instead (`double_collect`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.deadlock.central import Coordinator, Reporting
    from coterie.deadlock.condition import Condition, all_of, any_of, some_of
    from coterie.deadlock.detector import Detector
    from coterie.deadlock.diffusing import Diffusing
    from coterie.deadlock.double_collect import Collection, Suspicion
    from coterie.deadlock.explanation import Explanation, explain
    from coterie.deadlock.graph_file import parse_graph
    from coterie.deadlock.hierarchical import Controller
    from coterie.deadlock.survey import Survey
    from coterie.deadlock.trial import Deadlocked
    from coterie.deadlock.wait_for import Graph
    from coterie.deadlock.waits import Member, Wait, WaitId, choose_victim

__all__ = [
    "Collection",
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
    "Suspicion",
    "Wait",
    "WaitId",
    "all_of",
    "any_of",
    "choose_victim",
    "explain",
    "parse_graph",
    "some_of",
]

MODULES = {
    "central": ("Coordinator", "Reporting"),
    "condition": ("Condition", "all_of", "any_of", "some_of"),
    "detector": ("Detector",),
    "diffusing": ("Diffusing",),
    "double_collect": ("Collection", "Suspicion"),
    "explanation": ("Explanation", "explain"),
    "graph_file": ("parse_graph",),
    "hierarchical": ("Controller",),
    "survey": ("Survey",),
    "trial": ("Deadlocked",),
    "wait_for": ("Graph",),
    "waits": ("Member", "Wait", "WaitId", "choose_victim"),
}


def __getattr__(name: str) -> Any:
    """Import on first use: programs that take locks need a small part of this."""
    for module, public in MODULES.items():
        if name in public:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
