"""The atlas: every state within a bound, explored once, and the fate of each looked up.

A played world is brought into the form of the explorer's states and found among them by its hash. So
the fate of a state, and of each move that is possible there, is a look-up. Where the whole graph is
too large, the same is done from the present state as far as the budget goes: the horizon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.lab.explore.budget import Budget, Watch
from coterie.lab.explore.findings import (
    DEADLOCK,
    NO_ERROR,
    name_processes,
    say_forever,
    say_stalled,
)
from coterie.lab.explore.graph import explore_all
from coterie.lab.explore.properties import MUTUAL_EXCLUSION, Always, CanAlwaysStill, Settles
from coterie.lab.play.exploration.fate import OUTSIDE, SAFE, Fate, fate
from coterie.lab.play.exploration.scope import Scope
from coterie.trace import Violated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.explore.graph import StateGraph
    from coterie.lab.explore.tables.arrays import Flags, Numbers, Rows
    from coterie.lab.play.exploration.bound import Bound
    from coterie.lab.play.exploration.fate import Word
    from coterie.lab.play.exploration.goal import Goal
    from coterie.lab.scenario.play import Play
    from coterie.lab.scenario.world import Move

STATES_MAX = 400_000
SECONDS_MAX = 2.0
USUAL = Budget(STATES_MAX, SECONDS_MAX)
NO_GOOD_REST = "it can never come to a rest at which all is well, within the bound"
GOOD_REST_IF_ASKED = "it can come to a rest at which all is well only if a user asks"


class Searched(msgspec.Struct, frozen=True):
    """What was searched, in numbers and as a line: `306 states, 612 moves, 1 entry each, no faults`."""

    states: int = 0
    moves: int = 0
    depth: int = 0  # moves from where the search began to the farthest state
    complete: bool = False  # every state in reach was seen
    from_here: bool = False  # the search began in the present state, not in the first
    safety_only: bool = False
    text: str = "nothing was searched"


class Atlas:
    """A graph of states, in which plays are looked up."""

    def __init__(self, scope: Scope, graph: StateGraph, *, from_here: bool) -> None:
        """Look up what was explored in this scope."""
        self.scope = scope
        self.graph = graph
        self.searched = _searched(scope, graph, from_here=from_here)

    def find(self, play: Play) -> int | None:
        """Return the number of the state in which a play is, or None if it is not on the atlas."""
        return self.graph.find(self.scope.column(play))

    def look(self, play: Play) -> Fate | None:
        """Return the fate of a play; None if its state is not on the atlas."""
        if play.over:
            return ended(play)
        number = self.find(play)
        return None if number is None else self._fate(number)

    def look_ahead(self, play: Play, moves: Sequence[Move]) -> list[Fate]:
        """Return the fate that each of these moves leads to."""
        return [self._after(play, move) for move in moves]

    def way(self, play: Play) -> list[str] | None:
        """Return the fewest moves from here to a violation that shows, or to one that cannot be avoided.

        None if there is none, as far as was searched.
        """
        number = self.find(play)
        if play.over or number is None:
            return [] if play.over else None
        distances = self.graph.shown if self.graph.shown[number] >= 0 else self.graph.far
        return self._way(play, distances, int(distances[number]))

    def way_to(self, play: Play, goal: Goal) -> list[str] | None:
        """Return the fewest moves from here to a goal; None if there are none, as far as was searched."""
        number = None if play.over else self.find(play)
        if number is None:
            return None
        distances = self.graph.moves_to(goal.marks(self.graph, self.scope.bound.entries))
        return self._way(play, distances, int(distances[number]))

    def _way(self, play: Play, distances: Numbers, left: int) -> list[str] | None:
        if left < 0:
            return None
        play, texts = play.fork(), []
        while left:
            text, play = self._step_nearer(play, distances, left)
            texts.append(text)
            left -= 1
        return texts

    def _step_nearer(self, play: Play, distances: Numbers, left: int) -> tuple[str, Play]:
        for move in play.enabled():
            if not self.scope.allows(play, move):
                continue
            after = play.fork()
            after.move(move.text)
            raised = after.over and not _is_crowded(after)
            number = self.graph.size if raised else self.find(after)
            if number is not None and distances[number] == left - 1:
                return move.text, after
        raise AssertionError("no move leads nearer to a goal that is in reach")

    def _after(self, play: Play, move: Move) -> Fate:
        after = play.fork()
        after.move(move.text)
        if after.over:
            return ended(after)
        if not self.scope.allows(play, move):
            return OUTSIDE
        return self.look(after) or OUTSIDE

    def _fate(self, number: int) -> Fate:
        graph = self.graph
        if graph.broken[number]:
            return self._violation(number)
        if graph.wrong[number]:
            return self._loss(number)
        near, far, edge = (int(each[number]) for each in (graph.near, graph.far, graph.edge))
        if near >= 0 and graph.doomed[number]:
            text = f"every way goes wrong, the shortest in {_moves(near)}"
            return fate("doomed", text, near, is_final=True)
        return _danger(near, far, edge)

    def _loss(self, number: int) -> Fate:
        """Say which processes cannot get what they are owed, or only if a user asks, and when it shows."""
        graph = self.graph
        shown = int(graph.shown[number])
        shows = f"; it shows in {_moves(shown)}" if shown >= 0 else ""
        final = bool(graph.doomed[number])
        for item in self.scope.properties:
            stalled = _places(graph.stalled.get(item.name, []), number)
            lost = _places(graph.lost.get(item.name, []), number)
            if not stalled:
                continue
            if isinstance(item, CanAlwaysStill):
                text = self._say_lost(item, number) if lost else _say_asked(stalled, item.verb)
                processes = tuple(place + 1 for place in lost)
            else:
                text, processes = NO_GOOD_REST if lost else GOOD_REST_IF_ASKED, ()
            word: Word = "lost" if lost else "stalled"
            return fate(word, text + shows, max(shown, 0), item.name, processes, is_final=final)
        raise AssertionError("what is wrong is broken, lost or stalled")

    def _say_lost(self, item: CanAlwaysStill, number: int) -> str:
        """Say who can never get what it is owed: beyond the bound if no user is left who could ask."""
        lost = _places(self.graph.lost[item.name], number)
        within = " within the bound" * (lost != self.graph.live(number))
        return f"{name_processes(lost)} can never {item.verb}{within}"

    def _violation(self, number: int) -> Fate:
        """Name the property that is violated in a state, and say how."""
        graph = self.graph
        final = bool(graph.doomed[number])
        for item in self.scope.properties:
            if isinstance(item, Always) and graph.crowded[item.name][number]:
                return fate("broken", item.text, 0, item.name, is_final=True)
            if isinstance(item, CanAlwaysStill) and graph.stuck[number]:
                lost = _places(graph.lost[item.name], number)
                processes = tuple(place + 1 for place in lost)
                text = f"no message or timer is pending; {self._say_wait(item, number, lost)}"
                return fate("broken", text, 0, DEADLOCK, processes, is_final=final)
            if isinstance(item, Settles) and graph.unsettled[item.name][number]:
                text = f"no message or timer is pending, and {item.text}"
                return fate("broken", text, 0, item.name, is_final=final)
        return fate("broken", "a process raised an error", 0, NO_ERROR, is_final=True)

    def _say_wait(self, item: CanAlwaysStill, number: int, lost: list[int]) -> str:
        """Say how the wait can end in a state at rest, if it can."""
        owed = self.graph.owed(item, number)
        if owed == self.graph.live(number):
            return say_forever(owed)
        stalled = [place for place in owed if place not in lost]
        said = [self._say_lost(item, number)] if lost else []
        return "; ".join([*said, *([say_stalled(stalled, item.verb)] if stalled else [])])


def build(play: Play, bound: Bound, budget: Budget = USUAL) -> Atlas:
    """Explore from the first state of a play's processes, whatever has happened in the play."""
    scope = Scope(play, bound, whole=True)
    return _explore(scope, scope.moves.start(), budget, from_here=False)


def horizon(play: Play, bound: Bound, budget: Budget = USUAL) -> Atlas:
    """Explore from the state in which a play is."""
    scope = Scope(play, bound)
    return _explore(scope, scope.column(play), budget, from_here=True)


def _explore(scope: Scope, initial: Rows, budget: Budget, *, from_here: bool) -> Atlas:
    graph = explore_all(scope.moves, initial, scope.properties, Watch(budget))
    return Atlas(scope, graph, from_here=from_here)


def _searched(scope: Scope, graph: StateGraph, *, from_here: bool) -> Searched:
    ahead = int(graph.edge[0])
    end = "complete" if graph.complete else f"{_moves(ahead)} ahead, then the search was cut"
    text = f"{graph.size:,} states, {graph.transitions:,} moves, {scope.bound}: {end}"
    if scope.safety_only:
        text += "; safety only, since the clock stands still"
    return Searched(
        states=graph.size,
        moves=graph.transitions,
        depth=graph.depth,
        complete=graph.complete,
        from_here=from_here,
        safety_only=scope.safety_only,
        text=text,
    )


def ended(play: Play) -> Fate:
    """Return the fate of a play that a violation has ended."""
    last = play.world.records[-1]
    assert isinstance(last, Violated), "a play is over when something was violated"
    return fate("broken", last.text, 0, last.name, is_final=True)


def _is_crowded(play: Play) -> bool:
    """Return whether a play has ended in a state, rather than by an error on the way to one."""
    return ended(play).violated == MUTUAL_EXCLUSION.name


def _danger(near: int, far: int, edge: int) -> Fate:
    """Say in how many moves it can go wrong, be it without showing yet: without a fault, with one, or as searched."""
    if near >= 0:
        return fate("risky", f"{_moves(near)} from going wrong, which can be avoided", near)
    if far >= 0:
        fine = "fine" if edge < 0 else f"nothing is wrong within {_moves(edge)}"
        text = f"{fine} unless there is another fault; then it goes wrong in {_moves(far)}"
        return fate("fragile", text, far)
    if edge >= 0:
        return fate("open", f"nothing is wrong within {_moves(edge)}; more was not searched", edge)
    return SAFE


def _places(flags: Sequence[Flags], number: int) -> list[int]:
    """Return the places that are marked in a state."""
    return [place for place, each in enumerate(flags) if each[number]]


def _say_asked(places: Sequence[int], verb: str) -> str:
    return f"{name_processes(places)} can {verb} only if another user asks"


def _moves(count: int) -> str:
    return "1 move" if count == 1 else f"{count} moves"
