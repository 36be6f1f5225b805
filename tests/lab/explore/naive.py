"""A search of one state at a time over plain tuples, written for clarity only, to compare with."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from coterie.process import (
    Channel,
    MutexUser,
    Outbox,
    Phase,
    Process,
    ProcessId,
    SeatCodec,
    encode,
    seat,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.explore.tables.faults import Faults

Step = tuple[Any, ...] | Literal["ask", "fault"]  # a tuple must be taken if it stays possible
Queue = tuple[Any, ...]


class Local(NamedTuple):
    saved: tuple[bytes, bytes]
    armed: tuple[str, ...] = ()
    watched: tuple[ProcessId, ...] = ()


class State(NamedTuple):
    locals: tuple[Local | None, ...]  # None: crashed
    queues: tuple[tuple[ProcessId, ProcessId, Queue], ...]
    faults: Faults


class Naive:
    """Breadth-first search over states in plain tuples, one at a time."""

    def __init__(
        self,
        processes: list[Process[Any]],
        entries: Sequence[int | None],
        channel: Channel,
        faults: Faults,
    ) -> None:
        self.fifo = channel is Channel.FIFO
        seats = [seat(*pair) for pair in zip(processes, entries, strict=True)]
        self.codec = SeatCodec(seats[0])
        pairs = itertools.permutations(range(1, len(seats) + 1), 2)
        queues: dict[tuple[int, int], Queue] = dict.fromkeys(pairs, ())
        self.errors: list[int] = []
        self.known_phases: dict[tuple[bytes, bytes], Phase] = {}
        blank = tuple(Local(self.codec.save(each)) for each in seats)
        state = State(blank, tuple((a, b, q) for (a, b), q in queues.items()), faults)
        for place in range(len(seats)):
            started = self.step(state, place, "start")
            assert started is not None
            state = started
        self.depths = {state: 0}
        self.moves: dict[State, list[tuple[Step, State]]] = {}
        self.busy: set[State] = set()
        self.transitions = 0
        border = [state]
        while border:
            border = [new for state in border for new in self.visit(state)]

    def visit(self, state: State) -> Iterator[State]:
        for step, new in self.successors(state):
            self.transitions += 1
            if isinstance(step, tuple):
                self.busy.add(state)
            if new is None:
                self.errors.append(self.depths[state] + 1)
                continue
            self.moves.setdefault(state, []).append((step, new))
            if new not in self.depths:
                self.depths[new] = self.depths[state] + 1
                yield new

    def successors(self, state: State) -> Iterator[tuple[Step, State | None]]:
        for place, local in enumerate(state.locals):
            if local is None:
                continue
            for name in self.codec.restore(local.saved).user.calls():
                step: Step = ("release", place) if name == "release" else "ask"
                yield step, self.step(state, place, "call", name)
            for timer in local.armed:
                yield ("ring", place, timer), self.step(state, place, "ring", timer)
            for peer in local.watched:
                if state.locals[peer - 1] is None:
                    yield ("down", place, peer), self.step(state, place, "down", peer)
            if state.faults.crash:
                yield "fault", self.crash(state, place)
        yield from self.deliveries(state)

    def deliveries(self, state: State) -> Iterator[tuple[Step, State | None]]:
        for index, (sender, receiver, queue) in enumerate(state.queues):
            if state.locals[receiver - 1] is None:
                continue
            for message in queue[:1] if self.fifo else sorted(set(queue), key=encode):
                rest = list(queue)
                rest.remove(message)
                queues = list(state.queues)
                queues[index] = (sender, receiver, tuple(rest))
                without = state._replace(queues=tuple(queues))
                step = ("deliver", sender, receiver, "" if self.fifo else encode(message))
                yield step, self.step(without, receiver - 1, "receive", sender, message)
                if state.faults.lose:
                    yield "fault", without._replace(faults=spend(state.faults, "lose"))
                if state.faults.duplicate:
                    kept = state._replace(faults=spend(state.faults, "duplicate"))
                    yield "fault", self.step(kept, receiver - 1, "receive", sender, message)

    def step(self, state: State, place: int, verb: str, *given: Any) -> State | None:
        local = state.locals[place]
        assert local is not None
        here, out = self.codec.restore(local.saved), Outbox[Any](place + 1)
        armed = set(local.armed) - set(given[:1] if verb == "ring" else ())
        watched = set(local.watched) - set(given[:1] if verb == "down" else ())
        try:
            getattr(here, verb)(*given, out)
        except Exception:  # noqa: BLE001 - as the explorer does
            return None
        for timer, wait in out.timers:
            (armed.discard if wait is None else armed.add)(timer)
        for peer, wanted in out.watches:
            (watched.add if wanted else watched.discard)(peer)
        after = list(state.locals)
        after[place] = Local(self.codec.save(here), tuple(sorted(armed)), tuple(sorted(watched)))
        queues = []
        for sender, receiver, queue in state.queues:
            more = tuple(m for to, m in out.sends if sender == place + 1 and to == receiver)
            new = queue if state.locals[receiver - 1] is None else queue + more
            queues.append((sender, receiver, new if self.fifo else tuple(sorted(new, key=encode))))
        return State(tuple(after), tuple(queues), state.faults)

    def crash(self, state: State, place: int) -> State:
        after = list(state.locals)
        after[place] = None
        queues = tuple((a, b, () if b == place + 1 else queue) for a, b, queue in state.queues)
        return State(tuple(after), queues, spend(state.faults, "crash"))

    def phases(self, state: State) -> list[Phase | None]:
        return [None if local is None else self.phase(local.saved) for local in state.locals]

    def phase(self, saved: tuple[bytes, bytes]) -> Phase:
        if saved not in self.known_phases:
            user = self.codec.restore(saved).user
            assert isinstance(user, MutexUser)
            self.known_phases[saved] = user.phase
        return self.known_phases[saved]

    def violations(self, *, safety: bool = True) -> list[tuple[int, str]]:
        """List the nearest violations with their depth, mere stalling only if nothing else."""
        found = [(depth, "no error") for depth in self.errors]
        for state, depth in self.depths.items():
            phases = self.phases(state)
            if safety and phases.count(Phase.INSIDE) > 1:
                found.append((depth, "mutual exclusion"))
            elif state not in self.busy and Phase.WAITING in phases:
                found.append((depth, "no deadlock"))
        if not found:
            found = [(depth, "entry stays possible") for depth in self.stalled()]
        return [item for item in found if item[0] == min(found)[0]]

    def stalled(self) -> Iterator[int]:
        before: dict[State, list[State]] = {}
        for source, moves in self.moves.items():
            for step, target in moves:
                if isinstance(step, tuple):
                    before.setdefault(target, []).append(source)
        phases = {state: self.phases(state) for state in self.depths}
        for place in range(len(next(iter(self.depths)).locals)):
            good = {state for state in self.depths if phases[state][place] is not Phase.WAITING}
            border = list(good)
            while border:
                for source in before.get(border.pop(), []):
                    if source not in good:
                        good.add(source)
                        border.append(source)
            yield from (depth for state, depth in self.depths.items() if state not in good)

    def starves(self) -> bool:
        """Return whether a process waits on in some fair run, which may end."""
        if any(Phase.WAITING in self.phases(each) for each in self.depths if each not in self.busy):
            return True
        numbers = {state: number for number, state in enumerate(self.depths)}
        graph: Graph = [
            [(step, numbers[new]) for step, new in self.moves.get(state, []) if step != "fault"]
            for state in numbers
        ]
        phases = [self.phases(state) for state in numbers]
        return any(
            has_fair_run(
                graph, {n for n, each in enumerate(phases) if each[place] is Phase.WAITING}
            )
            for place in range(len(phases[0]))
        )


Graph = list[list[tuple[Step, int]]]  # the moves from each state


def has_fair_run(graph: Graph, states: set[int]) -> bool:
    """Return whether a run can stay in these states, by fixed points (Emerson and Lei, 1986)."""
    steps = {step for state in states for step, _ in graph[state] if step != "ask"}
    size = -1
    while len(states) != size:
        size = len(states)
        for step in steps:
            states = _going_on(graph, states, step)
    return bool(states)


def _going_on(graph: Graph, states: set[int], step: Step) -> set[int]:
    """Return those from which a path stays here, to where the step is taken or impossible."""
    good, before = set(), {state: list[int]() for state in states}
    for state in states:
        inner = [(taken, target) for taken, target in graph[state] if target in states]
        for _, target in inner:
            before[target].append(state)
        possible = any(taken == step for taken, _ in graph[state])
        if inner and (not possible or any(taken == step for taken, _ in inner)):
            good.add(state)
    border = list(good)
    while border:
        fresh = [state for state in before[border.pop()] if state not in good]
        good.update(fresh)
        border += fresh
    return good


def spend(faults: Faults, kind: str) -> Faults:
    return faults._replace(**{kind: getattr(faults, kind) - 1})
