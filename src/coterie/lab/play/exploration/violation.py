"""The nearest violation from the start, by a search that ends as soon as it has found one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coterie.lab.explore import check
from coterie.lab.play.exploration.atlas import STATES_MAX, Searched
from coterie.lab.play.exploration.scope import Scope, build
from coterie.lab.play.runs.fork import address_of
from coterie.lab.play.runs.refusal import Refusal, Superseded

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.explore import Progress, Verdict
    from coterie.lab.play.exploration.bound import Bound
    from coterie.lab.scenario.play import Play


class Found(NamedTuple):
    """The moves that lead there; None: there is none, as far as was searched."""

    moves: list[str] | None
    searched: Searched


def first_violation(
    play: Play, bound: Bound, seconds: float, cancelled: Callable[[], bool]
) -> Found:
    """Search the processes of a play from their start; raise `Superseded` if that was cancelled."""
    scope = Scope(play, bound, whole=True)

    def progress(_: Progress) -> None:
        if cancelled():
            raise Superseded

    verdict = check(
        build(play),
        **bound.arguments(),
        channel=play.channel,
        properties=scope.properties,
        max_states=STATES_MAX,
        max_seconds=seconds,
        header=play.header,
        progress=progress,
    )
    if cancelled():
        raise Superseded
    return Found(_moves(verdict), _searched(verdict, scope))


def _moves(verdict: Verdict) -> list[str] | None:
    if verdict.counterexample is None:
        return None
    try:
        address = address_of(verdict.counterexample)
    except Refusal:
        return None
    return _without_needless_drops(address.moves)


def _without_needless_drops(moves: list[str]) -> list[str]:
    """Leave out that messages to a crashed process are lost: a play need not say so."""
    crashed: set[str] = set()
    kept = []
    for move in moves:
        verb, process, *rest = move.split()
        if verb == "crash":
            crashed.add(process)
        if verb != "drop" or rest[1] not in crashed:
            kept.append(move)
    return kept


def _searched(verdict: Verdict, scope: Scope) -> Searched:
    ends = {
        "verified": "complete",
        "violated": f"a violation after {verdict.depth} moves",
        "unfinished": f"{verdict.depth} moves from the start, then the search was cut",
    }
    return Searched(
        states=verdict.states,
        moves=verdict.transitions,
        depth=verdict.depth,
        complete=verdict.verdict == "verified",
        safety_only=scope.safety_only,
        text=f"{verdict.states:,} states, {verdict.transitions:,} moves, {scope.bound}:"
        f" {ends[verdict.verdict]}",
    )
