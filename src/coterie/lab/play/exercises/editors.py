"""Goals of pages with an editor: what a wait-for graph, a schedule, quorums or clauses are to become."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.algorithms.deadlock.explanation import explain
from coterie.lab.play.exercises.graph import read_graph
from coterie.lab.play.exercises.quorums import judge_quorums
from coterie.lab.play.exercises.schedule import judge_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.play.proofs.solver_process import SolverProcess

GOALS: dict[str, dict[str, str]] = {
    "graph": {
        "no deadlock": "change the graph so that nothing is deadlocked",
        "cycle": "make a deadlock that is a cycle",
        "knot": "make a deadlock that is a knot",
        "b-knot": "make a deadlock that is neither a cycle nor a knot",
        "cycle without deadlock": "make a cycle that is no deadlock",
    },
    "history": {
        "serializable": "change the schedule so that it is serializable",
        "not serializable": "change the schedule so that it is not serializable",
        "every scheme": "change the schedule so that every scheme allows it as it is written",
    },
    "coterie": {
        "coterie": "make it a coterie",
        "dominated": "make it a coterie that another one dominates",
        "nondominated": "make it a coterie that no other one dominates",
        "tolerates 2": "make it a coterie that survives the failure of any two members",
    },
    "prove": {
        "proved": "find clauses with which it is proved",
        "lost": "leave out a clause without which it is not proved",
    },
}


def reaches(editor: str, goal: str, text: str, solver: SolverProcess) -> bool:
    """Return whether the text of an editor reaches a goal; refuse what cannot be read."""
    judge: dict[str, Callable[[str, str], bool]] = {
        "graph": _graph,
        "history": _history,
        "coterie": _coterie,
        "prove": lambda goal, text: _prove(goal, text, solver),
    }
    return judge[editor](goal, text)


def _graph(goal: str, text: str) -> bool:
    graph = read_graph(text)
    kinds = {explain(graph, core[0]).kind for core in graph.cores()}
    if goal == "no deadlock":
        return not kinds
    if goal == "cycle without deadlock":
        return bool(graph.cycles()) and not kinds
    return goal in kinds


def _history(goal: str, text: str) -> bool:
    answer = judge_schedule(text)
    if goal == "every scheme":
        return all(each.outcome == "as written" for each in answer.schemes)
    return answer.serializable is (goal == "serializable")


def _coterie(goal: str, text: str) -> bool:
    answer = judge_quorums(text)
    match goal:
        case "coterie":
            return answer.coterie
        case "tolerates 2":
            return answer.coterie and answer.failures >= 2
        case _:
            return answer.nondominated is (goal == "nondominated")


def _prove(goal: str, text: str, solver: SolverProcess) -> bool:
    answer = solver.proof(text, lambda: False).answer
    return answer == ("proved" if goal == "proved" else "not proved")
