"""`check_timed`: every run of processes that rely on bounds of time, tick by tick.

The other explorer lets a timer ring at any moment, which is right for algorithms that must not rest
on durations. Those that do, because the delay of messages is bounded, are explored here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from coterie.errors import UsageError
from coterie.lab.explore.reachability import Backward
from coterie.lab.explore.tables.hashing import HashIndex, scatter_all
from coterie.lab.explore.timed.judge import Broken, TimedJudge
from coterie.lab.explore.timed.moves import Bounds
from coterie.lab.explore.timed.trace import retell
from coterie.lab.explore.timed.world import TickingWorld
from coterie.lab.explore.verdict import Progress, Verdict
from coterie.process import seat
from coterie.trace import Header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coterie.lab.explore.tables.arrays import Keys, Numbers, Positions, Rows
    from coterie.lab.explore.timed.moves import Move
    from coterie.lab.explore.timed.world import Transitions
    from coterie.process import Process, ProcessId

PROGRESS_INTERVAL_SECONDS = 0.5
CHUNK = 1 << 14  # states expanded at once: bounds the memory that a level takes on the way


def check_timed(
    processes: Sequence[Process[Any]],
    *,
    delays: tuple[int, int] | None = None,
    handling: int = 0,
    entries: int = 1,
    requesters: Iterable[ProcessId] | None = None,
    crashes: int = 0,
    returns: int = 0,
    max_states: int | None = None,
    max_seconds: float | None = None,
    header: Header | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Verdict:
    """Try every run in which time is counted in ticks, and judge every state.

    Two properties of mutexes are judged: *mutual exclusion*, and *entry stays possible*: a process that
    waits can still enter without more faults. So are those that the classes of the processes declare,
    except what is about fair runs, which is refused. Links keep the order of messages.

    Args:
        processes: the processes 1 to N, as they are before their start; their timers must run for
            whole ticks. They are left untouched.
        delays: how many ticks a message takes, at least and at most; at least one. By default all
            that the processes allow, also for `handling`.
        handling: how many ticks a message waits where it has arrived, at most, before it is handled.
        entries: how often each user asks for entry.
        requesters: ids of the processes whose users ask at all; all by default.
        crashes: how many processes may crash, each at any point, also half-way through a broadcast.
        returns: how many times a crashed process may start again, without memory.
        max_states: the number of states after which to give up.
        max_seconds: the number of seconds after which to give up, roughly.
        header: goes on top of the counterexample's trace.
        progress: called about twice a second.
    """
    if delays is None:
        delays = _declared_delays(processes)
        handling = int(min(process.handling_max() for process in processes))
    if not 1 <= delays[0] <= delays[1]:
        raise UsageError(f"delays must satisfy 1 <= LOW <= HIGH, got {delays[0]} and {delays[1]}")
    asking = set(requesters) if requesters is not None else {process.me for process in processes}
    seats = [seat(process, entries if process.me in asking else 0) for process in processes]
    world = TickingWorld(seats, Bounds(*delays, crashes, returns, handling))
    judge = TimedJudge(processes, world.lives)
    header = header or Header(algorithm="?", size=len(processes))
    header = msgspec.structs.replace(header, clock="none")  # ticks are not shown to processes
    return _Search(world, judge, max_states, max_seconds, progress).run(header)


def _declared_delays(processes: Sequence[Process[Any]]) -> tuple[int, int]:
    bounds = [bound for process in processes if (bound := process.delay_max()) is not None]
    return 1, int(min(bounds, default=1))


class _Finding(NamedTuple):
    """A violation, and the state where it shows."""

    name: str
    reason: str
    state: int
    last: Move | None = None  # out of that state, if its handler raised


@dataclass
class _Search:
    """A search in breadth, which keeps the whole graph.

    States are numbered in the order in which a search of one state at a time would come to them, so
    what is found first, and the way there, are the same.
    """

    world: TickingWorld
    judge: TimedJudge
    max_states: int | None
    max_seconds: float | None
    progress: Callable[[Progress], None] | None
    index: HashIndex = field(default_factory=HashIndex)
    numbers: Numbers = field(default_factory=lambda: np.zeros(0, np.int32))  # by that in the index
    parents: list[Numbers] = field(default_factory=list)
    moves: list[tuple[Numbers, Numbers]] = field(default_factory=list)  # input, messages sent
    edges: list[tuple[Numbers, Numbers]] = field(
        default_factory=list
    )  # of moves that are no faults
    states: int = 0
    transitions: int = 0
    depth: int = 0
    finding: _Finding | None = None
    stopped: bool = False  # by the budget
    begun: float = field(default_factory=time.monotonic)
    reported: float = 0.0

    def run(self, header: Header) -> Verdict:
        """Search, and say what was found."""
        self._explore(self.world.initial())
        if self.finding is None and not self.stopped:
            self._find_stuck()
        if self.finding is None:
            count = f"{self.states:,}"
            if self.stopped:
                reason = f"the budget ran out after {count} states; no violation was found so far"
                return self._verdict("unfinished", None, reason)
            if self.judge.vacuous is not None:
                reason = f"nothing was shown: {self.judge.vacuous}, in any of {count} states"
                return self._verdict("vacuous", None, reason)
            reason = f"every property holds in all {count} reachable states"
            verdict = self._verdict("verified", None, reason)
            verdict.liveness = self.judge.liveness
            return verdict
        name, reason, state, last = self.finding
        verdict = self._verdict("violated", name, reason)
        moves = self._path(state) + ([last] if last else [])
        verdict.depth = len(moves)
        verdict.counterexample = retell(self.world, moves, header, name, reason)
        return verdict

    def _explore(self, initial: Rows) -> None:
        nothing = np.zeros(1, np.int32)
        self._number(initial)
        self._note(initial, nothing, (nothing, nothing))
        broken = self._broken(initial)
        if broken is not None:
            self.finding = _Finding(broken.name, broken.text, 0)
            return
        level, first = initial, 0
        while level.shape[1]:
            found = []
            for start in range(0, level.shape[1], CHUNK):
                found.append(self._expand(level[:, start : start + CHUNK], first + start))
                self._report()
                if self.finding or self._is_spent():
                    return
            first, level = first + level.shape[1], np.concatenate(found, axis=1)
            self.depth += bool(level.shape[1])

    def _expand(self, rows: Rows, first: int) -> Rows:
        """Make every move from these states, and return the new states that they lead to."""
        made = self.world.transitions(rows)
        after = self.world.apply(rows, made)
        targets, fresh = self._number(after)
        end = self._look(made, after, fresh, first)
        fresh = fresh[: np.searchsorted(fresh, end)]
        sources = made.sources[:end].astype(np.int32) + np.int32(first)
        new = after.take(fresh, axis=1)
        self.transitions += end
        self._note(new, sources.take(fresh), (made.inputs.take(fresh), made.sent.take(fresh)))
        steps, results = self.world.steps, made.results[:end]
        usual = np.flatnonzero(steps.dies.take(results) + steps.returns.take(results) == 0)
        self.edges.append((sources.take(usual), targets.take(usual)))
        return new

    def _number(self, rows: Rows) -> tuple[Numbers, Positions]:
        """Number states, and return where each new one comes first, in the order of numbers."""
        known = self.index.size
        entries, fresh = self.index.add(_keys(rows), rows)
        if self.index.size > len(self.numbers):
            more = np.empty(2 * self.index.size, np.int32)
            more[:known] = self.numbers[:known]
            self.numbers = more
        new = np.flatnonzero(entries >= known)[::-1]
        first = np.empty(len(fresh), np.intp)
        first[entries.take(new) - known] = new  # of several, the one written last stays
        order = np.argsort(first)
        self.numbers[known + order] = np.arange(known, self.index.size, dtype=np.int32)
        return self.numbers.take(entries), first.take(order)

    def _look(self, made: Transitions, after: Rows, fresh: Positions, first: int) -> int:
        """Look for a violation; return how many transitions are made until then, or in all."""
        end = self._end(made, fresh)
        errors = self.world.steps.errors
        raised = np.zeros(0, np.intp)
        if errors:
            raised = np.flatnonzero(np.isin(made.results[:end], list(errors)))
        if raised.size:
            end = int(raised[0])
        broken = self._broken(after.take(fresh[: np.searchsorted(fresh, end)], axis=1))
        if broken is not None:
            self.finding = _Finding(broken.name, broken.text, self.states + broken.state)
            return int(fresh[broken.state]) + 1
        if raised.size:
            move = self.world.move(int(made.inputs[end]), 0)
            state = first + int(made.sources[end])
            self.finding = _Finding("no failure", errors[int(made.results[end])], state, move)
            self.transitions += 1  # it leads nowhere
        return end

    def _broken(self, new: Rows) -> Broken | None:
        """Return what does not hold in the first of these states in which something does not."""
        inside = self.world.inside(new)
        crowded = np.flatnonzero(inside.sum(axis=0) > 1)
        broken = self.judge.broken(new)
        if not crowded.size or (broken is not None and broken.state < crowded[0]):
            return broken
        ids = " and ".join(str(place + 1) for place in np.flatnonzero(inside[:, crowded[0]]))
        return Broken("mutual exclusion", f"{ids} are inside together", int(crowded[0]))

    def _end(self, made: Transitions, fresh: Positions) -> int:
        """Return how many transitions the budget of states allows; it ends with a whole state."""
        left = len(fresh) + 1 if self.max_states is None else self.max_states - self.states
        if left > len(fresh):
            return len(made.sources)
        last = fresh[left - 1] if left > 0 else 0
        return int(np.searchsorted(made.sources, made.sources[last], side="right"))

    def _is_spent(self) -> bool:
        if self.max_states is not None and self.states >= self.max_states:
            self.stopped = True
        elif self.max_seconds is not None:
            self.stopped = time.monotonic() - self.begun > self.max_seconds
        return self.stopped

    def _note(self, new: Rows, parents: Numbers, moves: tuple[Numbers, Numbers]) -> None:
        """Keep what is needed of new states: how one comes there, and what is seen in them."""
        self.judge.note(new)
        self.states += new.shape[1]
        self.parents.append(parents)
        self.moves.append(moves)

    def _find_stuck(self) -> None:
        """Find the first state from which a process can never get to what it is owed."""
        sources, targets = map(np.concatenate, zip(*self.edges, strict=True))
        graph = Backward(self.states, sources, targets)
        for item, owed in self.judge.owed():
            for process, waits in enumerate(owed, 1):
                stuck = np.flatnonzero(~graph.can_reach(~waits))
                if stuck.size and (self.finding is None or stuck[0] < self.finding.state):
                    reason = f"process {process} can never {item.verb}"
                    self.finding = _Finding(item.name, reason, int(stuck[0]))

    def _path(self, state: int) -> list[Move]:
        parents = np.concatenate(self.parents)
        inputs, sent = map(np.concatenate, zip(*self.moves, strict=True))
        moves = []
        while state:
            moves.append(self.world.move(int(inputs[state]), int(sent[state])))
            state = int(parents[state])
        return moves[::-1]

    def _verdict(self, verdict: Any, name: str | None, reason: str) -> Verdict:
        return Verdict(
            verdict=verdict,
            property=name,
            reason=reason,
            states=self.states,
            transitions=self.transitions,
            depth=self.depth,
            seconds=time.monotonic() - self.begun,
            collision_probability=0.0,
            sometimes=self.judge.sometimes,
        )

    def _report(self) -> None:
        now = time.monotonic()
        if self.progress is None or now < self.reported + PROGRESS_INTERVAL_SECONDS:
            return
        self.reported = now
        seconds = now - self.begun
        self.progress(
            Progress(
                states=self.states,
                transitions=self.transitions,
                depth=self.depth,
                seconds=seconds,
                states_per_second=self.states / max(seconds, 1e-9),
            )
        )


def _keys(rows: Rows) -> Keys:
    """Hash whole states."""
    keys: Keys = np.zeros(rows.shape[1], np.uint64)
    for row in rows:
        keys = keys * np.uint64(0x9E3779B97F4A7C15) + row.astype(np.uint64)
    return scatter_all(keys)
