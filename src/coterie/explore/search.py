"""Breadth-first search through all reachable states, a level at a time.

The states of one level are a matrix. Every move is made from all of them at once, the hashes of
the states it leads to are looked up in one go, and only those never seen before are built. So the
first violation found is a nearest one.

Whether everybody can still get in is decided in one of two ways. As long as each step leads exactly
one level on, the graph has no cycle: every path ends in a state where nothing can happen, and it is
enough to look at those. Once a step leads elsewhere the edges are needed too, all of them, so the
search is made again with edges kept, and at its end goes backward from where nobody waits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from coterie.explore.findings import Inspector
from coterie.explore.hashing import HashIndex
from coterie.explore.verdict import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from coterie.explore.arrays import Keys, Numbers, Rows
    from coterie.explore.canonical import Canonical
    from coterie.explore.moves import Batch, Moves
    from coterie.explore.properties import Property

CHUNK = 1 << 16  # states expanded at once: bounds the memory that a level takes on the way


@dataclass(frozen=True)
class Budget:
    """When to give up, and whom to tell how far the search has come."""

    max_states: int | None = None
    max_seconds: float | None = None
    progress: Callable[[Progress], None] | None = None


class Watch:
    """Tells when the budget is spent, and reports about twice a second until then."""

    INTERVAL_SECONDS = 0.5

    def __init__(self, budget: Budget) -> None:
        """Start the clock."""
        self._budget = budget
        self._began = time.perf_counter()
        self._reported = (0.0, 0)  # seconds and states

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self._began

    def spent(self, search: Search) -> bool:
        """Report if it is time to, and tell whether to stop."""
        seconds, states = self.seconds, search.index.size
        if self._budget.progress and seconds - self._reported[0] >= self.INTERVAL_SECONDS:
            before, states_before = self._reported
            self._reported = (seconds, states)
            progress = Progress(
                states=states,
                transitions=search.transitions,
                depth=search.depth,
                seconds=seconds,
                states_per_second=max(0, states - states_before) / (seconds - before),
            )
            self._budget.progress(progress)
        max_states, max_seconds = self._budget.max_states, self._budget.max_seconds
        return (max_states is not None and states > max_states) or (
            max_seconds is not None and seconds > max_seconds
        )


Level: TypeAlias = "list[Rows]"  # the states of a level, in the order of their numbers


class Chunk(NamedTuple):
    """Some states of a level, with their hashes and the number of the first."""

    rows: Rows
    hashes: Keys
    first: int


class Search:
    """One search. `run` makes it; the attributes tell what came of it."""

    def __init__(
        self,
        moves: Moves,
        properties: Sequence[Property],
        watch: Watch,
        *,
        exact: bool = False,
        canonical: Canonical | None = None,
        keep_edges: bool = False,
    ) -> None:
        """Prepare to look for violations of `properties`."""
        self._moves = moves
        self._watch = watch
        self._exact = exact
        self._canonical = canonical
        self._edges: list[tuple[Numbers, Numbers]] | None = [] if keep_edges else None
        self._locals: list[Rows] = []  # of all levels, while edges are kept
        self.inspector = Inspector(moves, properties)
        self.index = HashIndex()
        self.parents: list[Numbers] = []
        self.transitions = 0
        self.depth = 0
        self._level_end = 0
        self.stopped = False  # by the budget
        self.needs_edges = False  # and does not have them: the search has to be made again

    def run(self, initial: Rows) -> None:
        """Search until every state is seen, a violation is found or the budget is spent."""
        level, first = [self.canonical(initial)], 0
        self.index.add(self._moves.hashes(level[0]), level[0] if self._exact else None)
        self.parents.append(np.array([-1], np.int32))
        while level:
            self._look(level, first)
            if self.inspector.finding or self.stopped:
                return
            first, level = self.index.size, self._expand(level, first)
            if self.inspector.finding or self.needs_edges:
                return
            self.depth += bool(level)
        if self._edges:
            sources, targets = map(np.concatenate, zip(*self._edges, strict=True))
            self.inspector.look_back(np.concatenate(self._locals, axis=1), sources, targets)

    def canonical(self, rows: Rows) -> Rows:
        """The states that stand for these in the search."""
        return rows if self._canonical is None else self._canonical(rows)

    def _look(self, level: Level, first: int) -> None:
        """Judge the states of a level."""
        for rows in _parts(level):
            if self._edges is not None:
                self._locals.append(rows[: self._moves.size])
            self.inspector.look(rows, first)
            first += rows.shape[1]

    def _expand(self, level: Level, first: int) -> Level:
        """Make every move from every state of a level, which is used up, and build the next one."""
        self._level_end = self.index.size
        next_level: Level = []
        while level and not self.stopped and not self.needs_edges:
            for rows in _parts([level.pop(0)]):
                end = first + rows.shape[1]
                found = self._expand_chunk(Chunk(rows, self.index.keys[first:end].copy(), first))
                _extend(next_level, found)
                first = end
        return next_level

    def _expand_chunk(self, chunk: Chunk) -> list[Rows]:
        found = []
        busy = np.zeros(len(chunk.hashes), np.bool_)
        for batch in self._moves.expand(chunk.rows):
            if not batch.sources.size:
                continue
            found.append(self._visit(batch, chunk))
            if not batch.action.is_fault:
                busy[batch.sources] = True
            self.stopped = self._watch.spent(self)
            if self.stopped or self.needs_edges:
                return found
        self.inspector.look_for_deadlock(chunk.rows, busy, chunk.first)
        return found

    def _visit(self, batch: Batch, chunk: Chunk) -> Rows:
        """Number the states that a move leads to, and build those that are new."""
        self.inspector.look_for_errors(batch, chunk.first)
        self.transitions += batch.sources.size
        if self._exact or self._canonical:
            rows = self.canonical(batch.rows(chunk.rows, slice(None), self._moves.dtype))
            keys = self._moves.hashes(rows)
            targets, fresh = self.index.add(keys, rows if self._exact else None)
            rows = rows.take(fresh, axis=1)
        else:
            targets, fresh = self.index.add(batch.hashes(chunk.hashes, self._moves.zobrist))
            rows = batch.rows(chunk.rows, fresh, self._moves.dtype)
        sources = batch.sources.astype(np.int32) + np.int32(chunk.first)
        self.parents.append(sources[fresh])
        if not batch.action.is_fault:
            self._keep_edges(sources, targets)
        return rows

    def _keep_edges(self, sources: Numbers, targets: Numbers) -> None:
        """Keep the edges if they are wanted, or see whether they should be."""
        if self._edges is not None:
            self._edges.append((sources, targets))
        elif self.inspector.possible and targets.min() < self._level_end:
            self.needs_edges = True


def _parts(level: Level) -> Iterator[Rows]:
    """Cut matrices into chunks."""
    for rows in level:
        for start in range(0, rows.shape[1], CHUNK):
            yield rows[:, start : start + CHUNK]


def _extend(level: Level, found: list[Rows]) -> None:
    """Add to a level what was found, in matrices that are neither tiny nor as large as the level."""
    if level and level[-1].shape[1] < CHUNK:
        found = [level.pop(), *found]
    if any(rows.shape[1] for rows in found):
        level.append(np.concatenate(found, axis=1))
