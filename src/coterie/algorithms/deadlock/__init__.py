"""Deadlocks: wait-for graphs and which nodes are stuck in them, and processes that find out by messages.

The graph and its oracle are values (`wait_for`). Detectors are parts that a process holds: each is
told when a wait begins and ends, and tells when that wait is to be broken off. `Diffusing` is the
one to use; `Reporting` with a `Coordinator` or a tree of `Controller`, and `SurveyDetector`, are the others
of the literature. The lock service asks twice instead (`double_collect`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.algorithms.deadlock.condition import Condition, all_of, any_of, some_of
    from coterie.algorithms.deadlock.detectors.central import Coordinator, Reporting
    from coterie.algorithms.deadlock.detectors.detector import Detector
    from coterie.algorithms.deadlock.detectors.diffusing import Diffusing
    from coterie.algorithms.deadlock.detectors.hierarchical import Controller
    from coterie.algorithms.deadlock.detectors.survey import SurveyDetector
    from coterie.algorithms.deadlock.detectors.trial import Deadlocked
    from coterie.algorithms.deadlock.detectors.waits import (
        StuckProcess,
        Wait,
        WaitId,
        choose_victim,
    )
    from coterie.algorithms.deadlock.explanation import Explanation, explain
    from coterie.algorithms.deadlock.graph_file import parse_graph
    from coterie.algorithms.deadlock.wait_for import Graph

__all__ = [
    "Condition",
    "Controller",
    "Coordinator",
    "Deadlocked",
    "Detector",
    "Diffusing",
    "Explanation",
    "Graph",
    "Reporting",
    "StuckProcess",
    "SurveyDetector",
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
    "condition": ("Condition", "all_of", "any_of", "some_of"),
    "detectors.central": ("Coordinator", "Reporting"),
    "detectors.detector": ("Detector",),
    "detectors.diffusing": ("Diffusing",),
    "detectors.hierarchical": ("Controller",),
    "detectors.survey": ("SurveyDetector",),
    "detectors.trial": ("Deadlocked",),
    "detectors.waits": ("StuckProcess", "Wait", "WaitId", "choose_victim"),
    "explanation": ("Explanation", "explain"),
    "graph_file": ("parse_graph",),
    "wait_for": ("Graph",),
}


def __getattr__(name: str) -> Any:
    """Import on first use: programs that take locks need a small part of this."""
    for module, public in MODULES.items():
        if name in public:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name what a program may use, imported or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
