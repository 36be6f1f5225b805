"""Breadth-first search through all reachable states, a level at a time.

The states of one level are a matrix. Every move is made from all of them at once, the hashes of
the states it leads to are looked up in one go, and only those never seen before are built. So the
first violation found is a nearest one.

Whether all processes can still get in is decided in one of two ways, looking only at steps that are
sure to happen (no faults, and no requests, which users may never make). As long as each of them
leads exactly one level on, they make no cycle: every path ends in a state where nothing is sure to
happen, and it is enough to look at those. Once a step leads elsewhere, or a call where users call
without end, the edges are needed too, all of them. So the search is made again with edges kept; at
its end it goes backward from where none waits, and looks for cycles in which a process waits on.

With a device, the search moves there at the first level that is worth it, and stays: what comes
before is done sooner than a device is asked. States, their hashes and their parents are in its
memory; the edges, if they are kept, go back to the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from coterie.lab.explore.findings import Inspector
from coterie.lab.explore.tables.arrays import namespace, number_type, on_host
from coterie.lab.explore.tables.device_index import DeviceIndex
from coterie.lab.explore.tables.hashing import HashIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.explore.budget import Watch
    from coterie.lab.explore.canonical import Canonical
    from coterie.lab.explore.device import Gpu
    from coterie.lab.explore.liveness.transitions import Transitions
    from coterie.lab.explore.properties import Property
    from coterie.lab.explore.tables.arrays import Keys, Numbers, Positions, Rows
    from coterie.lab.explore.tables.moves import Batch, Moves

CHUNK = 1 << 16  # states expanded at once: bounds the memory that a level takes on the way
WORTH_MOVING = 1 << 16  # states of a level; a smaller one is expanded sooner on the host


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
        transitions: Transitions | None = None,
        endless: bool = False,
        device: Gpu | None = None,
    ) -> None:
        """Prepare to look for violations of `properties`, and to keep all transitions if asked to.

        It is `endless` if users may call again and again: then their calls may be part of cycles.
        """
        self._moves = moves
        self._watch = watch
        self._exact = exact
        self._canonical = canonical
        self.kept = transitions
        self._endless = endless
        self._locals: list[Rows] = []  # of all levels, while transitions are kept
        self._device = device
        self._chunk = CHUNK
        self.inspector = Inspector(moves, properties)
        self.index: HashIndex | DeviceIndex = HashIndex()
        self.parents: list[Numbers] = []
        self.transitions = 0
        self.depth = 0
        self._level_end = 0
        self.stopped = False  # by the budget, or because the memory is full
        self.full = False  # the memory is
        self.needs_edges = False  # and does not have them: the search has to be made again

    def run(self, initial: Rows) -> None:
        """Search until every state is seen, a violation is found or the budget is spent."""
        level, first = [self.canonical(initial)], 0
        self.index.add(self._moves.hashes(level[0]), level[0] if self._exact else None)
        self.parents.append(np.array([-1], np.int32))
        try:
            self._search(level, first)
        except MemoryError:  # CuPy's is one, too
            self.stopped = self.full = True

    def _search(self, level: Level, first: int) -> None:
        while level:
            self._settle_down(level)
            self._look(level, first)
            if self.inspector.finding or self.stopped:
                return
            first, level = self.index.size, self._expand(level, first)
            if self.inspector.finding or self.needs_edges:
                return
            self.depth += bool(level)
        if self.kept is not None:
            rows = np.concatenate(self._locals, axis=1)
            self.inspector.look_back(rows, self.kept, endless=self._endless)

    def parent(self, state: int) -> int:
        """Return the number of the state from which this one was found; -1 for the initial one."""
        for numbers in self.parents:
            if state < len(numbers):
                return int(numbers[state])
            state -= len(numbers)
        raise AssertionError("no state has that number")

    def key(self, state: int) -> int:
        """Return the hash of the state with this number."""
        return int(self.index.span(state, state + 1)[0])

    @property
    def room(self) -> int | None:
        """About how many states fit into the memory of the device, if the search is there."""
        if not isinstance(self.index, DeviceIndex):
            return None
        height, kind = self._moves.budget_row + 1, self._moves.dtype
        parent = number_type(self.index.size)
        return self.index.room(height * kind.itemsize + parent.itemsize)  # in its level, at worst

    def _settle_down(self, level: Level) -> None:
        """Move a level to the device if that pays, and what is known of other levels with it."""
        if self._device is None:
            return
        if isinstance(self.index, HashIndex):
            if sum(rows.shape[1] for rows in level) < WORTH_MOVING:
                return
            self.index = DeviceIndex(self._device, self.index.keys)
            level[:] = map(self._device.xp.asarray, level)
        self._chunk = self._device.chunk(level[0])

    def canonical(self, rows: Rows) -> Rows:
        """Return the states that stand for these in the search."""
        return rows if self._canonical is None else self._canonical(rows)

    def _look(self, level: Level, first: int) -> None:
        """Judge the states of a level."""
        for rows in self._parts(level):
            if self.kept is not None:
                self._locals.append(on_host(rows[: self._moves.size]))
            self.inspector.look(rows, first)
            first += rows.shape[1]

    def _expand(self, level: Level, first: int) -> Level:
        """Make every move from every state of a level, which is used up, and build the next one."""
        self._level_end = self.index.size
        next_level: Level = []
        while level:
            for rows in self._parts([level.pop(0)]):
                end = first + rows.shape[1]
                found = self._expand_chunk(Chunk(rows, self.index.span(first, end), first))
                self._extend(next_level, found)
                first = end
                if self.stopped or self.needs_edges:
                    return next_level
        return next_level

    def _expand_chunk(self, chunk: Chunk) -> list[Rows]:
        found = []
        busy = namespace(chunk.rows).zeros(len(chunk.hashes), np.bool_)
        for batch in self._moves.expand(chunk.rows):
            if not batch.sources.size:
                continue
            found.append(self._visit(batch, chunk))
            if batch.action.is_certain:
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
        shifted = None
        if self._exact or self._canonical:
            reached = batch.rows(chunk.rows, slice(None), self._moves.dtype)
            rows = self.canonical(reached)
            if self.kept is not None:
                shifted = (rows != reached).any(axis=0)
            keys = self._moves.hashes(rows)
            targets, fresh = self.index.add(keys, rows if self._exact else None)
            rows = rows.take(fresh, axis=1)
        else:
            targets, fresh = self.index.add(batch.hashes(chunk.hashes, self._moves.zobrist))
            rows = batch.rows(chunk.rows, fresh, self._moves.dtype)
        self.parents.append(_numbers(batch.sources.take(fresh), chunk))
        if batch.action.is_certain or (self._endless and batch.action.kind == "ask"):
            if self.kept is not None:
                kind = number_type(self.index.size)
                ends = (_numbers(batch.sources, chunk), targets.astype(kind, copy=False))
                self.kept.add(batch, chunk.rows, ends, shifted)
            elif self.inspector.looks_back and targets.min() < self._level_end:
                self.needs_edges = True
        return rows

    def _parts(self, level: Level) -> Iterator[Rows]:
        """Cut matrices into chunks."""
        for rows in level:
            for start in range(0, rows.shape[1], self._chunk):
                yield rows[:, start : start + self._chunk]

    def _extend(self, level: Level, found: list[Rows]) -> None:
        """Add to a level what was found, in matrices neither tiny nor as large as the level."""
        if level and level[-1].shape[1] < self._chunk:
            found = [level.pop(), *found]
        if any(rows.shape[1] for rows in found):
            level.append(namespace(found[0]).concatenate(found, axis=1))


def _numbers(sources: Positions, chunk: Chunk) -> Numbers:
    """Return the numbers of states of a chunk."""
    kind = number_type(chunk.first + len(chunk.hashes))
    numbers: Numbers = sources.astype(kind) + kind.type(chunk.first)
    return numbers
