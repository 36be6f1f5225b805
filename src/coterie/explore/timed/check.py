"""`check_timed`: every run of processes that rely on bounds of time, tick by tick.

The other explorer lets a timer ring at any moment, which is right for algorithms that must not rest
on durations. Those that do, because the delay of messages is bounded, are explored here.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from coterie.errors import UsageError
from coterie.explore.reachability import Backward
from coterie.explore.timed.trace import retell
from coterie.explore.timed.world import Bounds, Move, TickingWorld
from coterie.explore.verdict import Progress, Verdict
from coterie.process import seat
from coterie.trace import Header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coterie.explore.timed.world import State
    from coterie.process import Process, ProcessId

PROGRESS_INTERVAL_SECONDS = 0.5


def needs_clock(processes: Sequence[Process[Any]]) -> bool:
    """Return whether some process relies on a bound on the delay of messages."""
    return any(process.delay_max() is not None for process in processes)


def check_timed(
    processes: Sequence[Process[Any]],
    *,
    delays: tuple[int, int] = (1, 1),
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

    Two properties are judged: *mutual exclusion*, and *entry stays possible*: a process that waits
    can still enter without more faults. Links keep the order of messages.

    Args:
        processes: the processes 1 to N, as they are before their start; their timers must run for
            whole ticks. They are left untouched.
        delays: how many ticks a message takes, at least and at most; at least one.
        entries: how often each user asks for entry.
        requesters: ids of the processes whose users ask at all; all by default.
        crashes: at most so many crashes, each at any point, also half-way through a broadcast.
        returns: at most so many times a crashed process starts again, without memory.
        max_states: give up after so many states.
        max_seconds: give up after about so many seconds.
        header: goes on top of the counterexample's trace.
        progress: called about twice a second.
    """
    if not 1 <= delays[0] <= delays[1]:
        raise UsageError(
            f"a message takes one tick or more, and at most as many as at least: {delays}"
        )
    asking = set(requesters) if requesters is not None else {process.me for process in processes}
    seats = [seat(process, entries if process.me in asking else 0) for process in processes]
    world = TickingWorld(seats, Bounds(*delays, crashes, returns))
    header = header or Header(algorithm="?", size=len(processes))
    header = msgspec.structs.replace(header, clock="none")  # ticks are not shown to processes
    return _Search(world, max_states, max_seconds, progress).run(header)


@dataclass
class _Search:
    """A search in breadth, which keeps the whole graph."""

    world: TickingWorld
    max_states: int | None
    max_seconds: float | None
    progress: Callable[[Progress], None] | None
    numbers: dict[State, int] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    parents: list[tuple[int, Move]] = field(default_factory=list)
    depths: array[int] = field(default_factory=lambda: array("l"))
    sources: array[int] = field(default_factory=lambda: array("l"))  # of moves that are no faults
    targets: array[int] = field(default_factory=lambda: array("l"))
    transitions: int = 0
    contended: bool = False
    stopped: bool = False  # by the budget
    begun: float = field(default_factory=time.monotonic)
    reported: float = 0.0

    def run(self, header: Header) -> Verdict:
        """Search, and say what was found."""
        self._number(self.world.initial(), 0, Move("pass"), 0)
        finding = self._explore() or self._find_stuck()
        if finding is None:
            count = f"{len(self.states):,}"
            if self.stopped:
                reason = f"the budget ran out after {count} states; no violation was found so far"
                return self._verdict("unfinished", None, reason)
            reason = f"every property holds in all {count} reachable states"
            return self._verdict("verified", None, reason)
        name, reason, state, last = finding
        verdict = self._verdict("violated", name, reason)
        moves = self._path(state) + ([last] if last else [])
        verdict.depth = len(moves)
        verdict.counterexample = retell(self.world, moves, header, name, reason)
        return verdict

    def _explore(self) -> tuple[str, str, int, Move | None] | None:
        world = self.world
        current = 0
        while current < len(self.states) and not self.stopped:
            state = self.states[current]
            for move in world.moves(state):
                self.transitions += 1
                if move.kind not in ("pass", "crash", "lose"):
                    error = world.outcome(state, move).error
                    if error is not None:
                        return "no failure", error, current, move
                after = world.apply(state, move)
                number = self._number(after, current, move, self.depths[current] + 1)
                if not move.is_fault:
                    self.sources.append(current)
                    self.targets.append(number)
                if number == len(self.states) - 1:
                    inside = world.inside(after)
                    self.contended |= bool(inside and world.waiting(after))
                    if len(inside) > 1:
                        ids = " and ".join(map(str, inside))
                        return "mutual exclusion", f"{ids} are inside together", number, None
            current += 1
            self.stopped = self._is_spent()
            self._report(self.depths[current - 1])
        return None

    def _is_spent(self) -> bool:
        if self.max_states is not None and len(self.states) >= self.max_states:
            return True
        return self.max_seconds is not None and time.monotonic() - self.begun > self.max_seconds

    def _number(self, state: State, parent: int, move: Move, depth: int) -> int:
        number = self.numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
            self.parents.append((parent, move))
            self.depths.append(depth)
        return number

    def _find_stuck(self) -> tuple[str, str, int, Move | None] | None:
        """Find the first state from which a process that waits can never enter."""
        if self.stopped:
            return None
        sources, targets = (np.asarray(ends, np.int32) for ends in (self.sources, self.targets))
        graph = Backward(len(self.states), sources, targets)
        waiting = [self.world.waiting(state) for state in self.states]
        worst: tuple[int, int] | None = None
        for process in range(1, self.world.size + 1):
            goals = np.array([process not in who for who in waiting], np.bool_)
            stuck = np.flatnonzero(~graph.can_reach(goals))
            if len(stuck) and (worst is None or stuck[0] < worst[0]):
                worst = int(stuck[0]), process
        if worst is None:
            return None
        return "entry stays possible", f"process {worst[1]} can never enter", worst[0], None

    def _path(self, state: int) -> list[Move]:
        moves = []
        while state:
            state, move = self.parents[state]
            moves.append(move)
        return moves[::-1]

    def _verdict(self, verdict: Any, name: str | None, reason: str) -> Verdict:
        return Verdict(
            verdict=verdict,
            property=name,
            reason=reason,
            states=len(self.states),
            transitions=self.transitions,
            depth=self.depths[-1],
            seconds=time.monotonic() - self.begun,
            collision_probability=0.0,
            sometimes={"contention": self.contended},
        )

    def _report(self, depth: int) -> None:
        now = time.monotonic()
        if self.progress is None or now < self.reported + PROGRESS_INTERVAL_SECONDS:
            return
        self.reported = now
        seconds = now - self.begun
        self.progress(
            Progress(
                states=len(self.states),
                transitions=self.transitions,
                depth=depth,
                seconds=seconds,
                states_per_second=len(self.states) / max(seconds, 1e-9),
            )
        )
