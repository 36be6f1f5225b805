"""The whole graph of states within a budget, and what each state can still come to.

A search stops at the first violation. Here all states and all moves between them are kept, and then
asked backward: what is wrong already, what can no longer be put right, how far the next violation
is, with and without another fault. Where the budget ran out some states were not expanded; what lies
behind these is not known, and no answer pretends to know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from coterie.lab.explore.judge import Judge
from coterie.lab.explore.properties import Always, CanAlwaysStill, Settles
from coterie.lab.explore.reachability import Backward
from coterie.lab.explore.tables.hashing import HashIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.explore.budget import Watch
    from coterie.lab.explore.properties import Property, SeatPredicate
    from coterie.lab.explore.tables.arrays import Flags, Numbers, Positions, Rows
    from coterie.lab.explore.tables.moves import Batch, Moves

CHUNK = 1 << 13  # states expanded at once: a budget of time is looked at in between
RAISED = np.int32(-1)  # in place of the state that a move leads to, until that has its number

Edges = tuple["Numbers", "Numbers"]  # from, to


@dataclass(frozen=True)
class StateGraph:
    """States, numbered from 0 on in the order of their distance, and the moves between them.

    One number more stands for every place where a handler raised.
    """

    moves: Moves
    properties: Sequence[Property]
    index: HashIndex
    locals: Rows  # the local states of the processes, in each state
    expanded: Flags
    certain: Edges  # deliveries, timers and the like
    asked: Edges  # calls that a user may make or not
    faults: Edges
    depth: int

    @property
    def size(self) -> int:
        """The number of states."""
        return self.index.size

    @property
    def transitions(self) -> int:
        """The number of moves."""
        return sum(len(sources) for sources, _ in (self.certain, self.asked, self.faults))

    @property
    def complete(self) -> bool:
        """Whether every state that can be reached was seen."""
        return not self.unknown.any()

    def find(self, state: Rows) -> int | None:
        """Return the number of a state, or None if it was never seen."""
        number = int(self.index.find(self.moves.hashes(state))[0])
        return None if number < 0 else number

    @cached_property
    def crowded(self) -> dict[str, Flags]:
        """Where each property that should always hold does not."""
        broken = {}
        for item in self.properties:
            if isinstance(item, Always):
                broken[item.name] = self._padded(~self._judge.holds(item.conditions, self.locals))
        return broken

    def fulfil(self, predicate: SeatPredicate) -> Flags:
        """Return for each place and each state whether the process there lives and fulfils it."""
        flags = self._judge.marks(predicate).take(self.locals[: self.moves.size])
        return np.pad(flags.astype(np.bool_), ((0, 0), (0, 1)))

    def moves_to(self, goals: Flags) -> Numbers:
        """Return for each state how many moves it is to the nearest goal, or -1."""
        return self._all.distances(goals)

    def owed(self, item: CanAlwaysStill, number: int) -> list[int]:
        """Return the places of the processes that are owed something in one state."""
        owed = self._judge.owed(item.predicate, self.locals[:, number : number + 1])
        return np.flatnonzero(owed).tolist()

    def live(self, number: int) -> list[int]:
        """Return the places of the processes that live in one state."""
        return self._judge.live(self.locals[:, number])

    @cached_property
    def stuck(self) -> Flags:
        """Where nothing is sure to happen any more, though a process is owed something."""
        owed = np.zeros(self.size + 1, np.bool_)
        for item in self.properties:
            if isinstance(item, CanAlwaysStill):
                of_each = self._judge.owed(item.predicate, self.locals)
                owed |= self._padded(np.logical_or.reduce(of_each))
        return owed & self._rests

    @cached_property
    def unsettled(self) -> dict[str, Flags]:
        """Where it is at rest, and not as it should be at rest, for each such property."""
        found = {}
        for item in self.properties:
            if isinstance(item, Settles):
                bad = self._padded(~self._judge.holds(item.conditions, self.locals))
                found[item.name] = bad & self._rests
        return found

    @cached_property
    def broken(self) -> Flags:
        """Where a violation shows."""
        broken = self.stuck.copy()
        broken[self.size] = True
        for flags in (*self.crowded.values(), *self.unsettled.values()):
            broken |= flags
        return broken

    @cached_property
    def stalled(self) -> dict[str, list[Flags]]:
        """Where a process cannot get what it is owed unless a user asks, by property and place.

        A property of the whole system at rest has one entry.
        """
        return self._unreachable(self._backward(self.certain))

    @cached_property
    def lost(self) -> dict[str, list[Flags]]:
        """Where a process can never get what it is owed, even if others ask: not without a fault."""
        return self._unreachable(self._without_faults)

    def _unreachable(self, graph: Backward) -> dict[str, list[Flags]]:
        """Return from where no way in this graph leads to what is owed."""
        found: dict[str, list[Flags]] = {}
        for item in self.properties:
            if isinstance(item, CanAlwaysStill):
                owed = self._judge.owed(item.predicate, self.locals)
                goals = [self._padded(~each) | self.unknown for each in owed]
                found[item.name] = [~graph.can_reach(self._with_sink(goal)) for goal in goals]
            if isinstance(item, Settles):
                good = self._rests & ~self.unsettled[item.name]
                found[item.name] = [~graph.can_reach(self._with_sink(good | self.unknown))]
        return found

    @cached_property
    def wrong(self) -> Flags:
        """Where a violation shows, or can no longer be avoided unless a user asks."""
        wrong = self.broken.copy()
        for places in self.stalled.values():
            for flags in places:
                wrong |= flags
        return wrong

    @cached_property
    def near(self) -> Numbers:
        """Moves to the nearest state that is wrong, without any fault."""
        return self._without_faults.distances(self.wrong)

    @cached_property
    def far(self) -> Numbers:
        """Moves to the nearest state that is wrong, faults being moves too."""
        return self._all.distances(self.wrong)

    @cached_property
    def shown(self) -> Numbers:
        """Moves to the nearest state where a violation shows."""
        return self._all.distances(self.broken)

    @cached_property
    def edge(self) -> Numbers:
        """Moves to the nearest state of which it is not known what comes after it."""
        return self._all.distances(self.unknown)

    @cached_property
    def doomed(self) -> Flags:
        """Where, without faults, no state is in reach from which nothing can go wrong without faults."""
        return ~self._without_faults.can_reach(self.near < 0)

    @cached_property
    def unknown(self) -> Flags:
        """States that were not expanded, though no property is broken there."""
        unknown = self._padded(~self.expanded)
        for flags in self.crowded.values():
            unknown &= ~flags
        return unknown

    @cached_property
    def _judge(self) -> Judge:
        return Judge(self.moves.seats, self.moves.size)

    @cached_property
    def _rests(self) -> Flags:
        """States after which nothing is sure to happen."""
        rests = self._padded(self.expanded)
        rests[self.certain[0]] = False
        return rests

    @cached_property
    def _without_faults(self) -> Backward:
        return self._backward(self.certain, self.asked)

    @cached_property
    def _all(self) -> Backward:
        return self._backward(self.certain, self.asked, self.faults)

    def _backward(self, *edges: Edges) -> Backward:
        sources, targets = map(np.concatenate, zip(*edges, strict=True))
        return Backward(self.size + 1, sources, targets)

    def _padded(self, flags: Flags) -> Flags:
        """Add the number where handlers raised, as False."""
        return np.append(flags, False)

    def _with_sink(self, flags: Flags) -> Flags:
        """What raises is broken, not stalled."""
        flags[self.size] = True
        return flags


def explore_all(
    moves: Moves, initial: Rows, properties: Sequence[Property], watch: Watch
) -> StateGraph:
    """Explore from one state in breadth, to the end or until the budget is spent."""
    return _Builder(moves, properties, watch).build(initial)


class _Builder:
    """A search in breadth that keeps everything."""

    def __init__(self, moves: Moves, properties: Sequence[Property], watch: Watch) -> None:
        self._moves = moves
        self._properties = properties
        self._always = [item for item in properties if isinstance(item, Always)]
        self._judge = Judge(moves.seats, moves.size)
        self._watch = watch
        self._locals: list[Rows] = []
        self._expanded: list[Numbers] = []
        self._edges: dict[str, list[Edges]] = {"certain": [], "asked": [], "faults": []}
        self.index = HashIndex()
        self.room = None  # on the host: not known
        self.transitions = 0
        self.depth = 0

    def build(self, initial: Rows) -> StateGraph:
        self.index.add(self._moves.hashes(initial))
        self._locals.append(initial[: self._moves.size])
        level, first, stopped = [initial], 0, False
        while level and not stopped:
            found: list[Rows] = []
            for rows in _parts(level):
                stopped = self._expand(rows, first, found)
                first += rows.shape[1]
                if stopped:
                    break
            level = [np.concatenate(found, axis=1)] if any(x.shape[1] for x in found) else []
            self.depth += bool(level)
        return self._finish()

    def _expand(self, rows: Rows, first: int, found: list[Rows]) -> bool:
        """Make every move from these states, and return whether the budget is spent on the way."""
        fine = np.ones(rows.shape[1], np.bool_)
        for item in self._always:
            fine &= self._judge.holds(item.conditions, rows)
        places = np.flatnonzero(fine)
        rows, numbers = rows[:, places], (places + first).astype(np.int32)
        keys = self.index.keys[numbers]
        for batch in self._moves.expand(rows):
            if not batch.sources.size:
                continue
            targets = np.full(len(batch.sources), RAISED)
            done = self._done(batch)
            hashes = batch.hashes(keys, self._moves.zobrist)
            targets[done], fresh = self.index.add(hashes.take(done))
            new = batch.rows(rows, done.take(fresh), self._moves.dtype)
            found.append(new)
            self._locals.append(new[: self._moves.size])
            self._keep(batch, numbers, targets)
            if self._watch.spent(self):
                return True
        self._expanded.append(numbers)
        return False

    def _done(self, batch: Batch) -> Positions:
        """Return which of the moves did not raise."""
        errors = self._moves.steps.errors
        if not errors or batch.results is None:
            return np.arange(len(batch.sources))
        return np.flatnonzero(~np.isin(batch.results, list(errors)))

    def _keep(self, batch: Batch, numbers: Numbers, targets: Numbers) -> None:
        action = batch.action
        kind = "faults" if action.is_fault else "certain" if action.is_certain else "asked"
        self._edges[kind].append((numbers.take(batch.sources), targets))
        self.transitions += batch.sources.size

    def _finish(self) -> StateGraph:
        expanded = np.zeros(self.index.size, np.bool_)
        for numbers in self._expanded:
            expanded[numbers] = True
        return StateGraph(
            moves=self._moves,
            properties=self._properties,
            index=self.index,
            locals=np.concatenate(self._locals, axis=1),
            expanded=expanded,
            certain=self._joined("certain"),
            asked=self._joined("asked"),
            faults=self._joined("faults"),
            depth=self.depth,
        )

    def _joined(self, kind: str) -> Edges:
        nothing = np.zeros(0, np.int32)
        sources, targets = zip((nothing, nothing), *self._edges[kind], strict=True)
        ends = np.concatenate(targets)
        ends[ends == RAISED] = self.index.size
        return np.concatenate(sources), ends


def _parts(level: list[Rows]) -> Iterator[Rows]:
    for rows in level:
        for start in range(0, rows.shape[1], CHUNK):
            yield rows[:, start : start + CHUNK]
