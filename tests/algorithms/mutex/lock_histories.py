"""Could a mutex have answered so? A checker of what the clients of one lock saw.

A history is accepted if its calls can be put into an order that respects real time, so that a call
which returned before another was made comes first, and in which the model gives each answer (Herlihy
and Wing, 1990). What a killed client had called may have its effect at any later time, or never.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ACQUIRE, RELEASE = "acquire", "release"
END = "end"  # of a hold, however deep: it is lost, or its client is dead
NEVER = math.inf


class Call(NamedTuple):
    """One call of one client; the loss of a hold counts as one, made when it was last seen valid."""

    client: str
    kind: str
    called: float
    returned: float = NEVER
    token: int = 0  # of an acquire that returned


class State(NamedTuple):
    """A lock between two calls."""

    owner: str | None = None
    depth: int = 0
    token: int = 0  # of the hold; 0 if no task was told
    highest: int = 0  # token so far

    def free(self) -> State:
        return State(highest=self.highest)


class Model(NamedTuple):
    """What a lock promises."""

    name: str
    reentrant: bool = False  # its owner may enter again, and leaves as often
    fenced: bool = False  # tokens grow from hold to hold, and re-entry keeps them

    def after(self, state: State, call: Call) -> State | None:
        """Return the state after a call; None if the model would not answer so."""
        if call.kind == ACQUIRE:
            return self._entered(state, call)
        if state.owner != call.client:
            return None
        if call.kind == END or state.depth == 1:
            return state.free()
        return state._replace(depth=state.depth - 1)

    def _entered(self, state: State, call: Call) -> State | None:
        known = self.fenced and call.token > 0
        if state.owner is None:
            if known and call.token <= state.highest:
                return None
            return State(call.client, 1, call.token, max(state.highest, call.token))
        if not self.reentrant or state.owner != call.client:
            return None
        if known and call.token != state.token:
            return None
        return state._replace(depth=state.depth + 1)


MUTEX = Model("mutex")
REENTRANT = Model("re-entrant mutex", reentrant=True)
FENCED = Model("fenced mutex", reentrant=True, fenced=True)


def complaint(history: Iterable[Call], model: Model) -> str:
    """Say which calls no order explains; nothing if there is an order of all that returned."""
    lines: dict[str, list[Call]] = {}
    for call in history:
        lines.setdefault(call.client, []).append(call)
    for line in lines.values():
        assert all(one.returned <= other.returned for one, other in pairwise(line)), line
    return _search(list(lines.values()), model)


def _search(lines: Sequence[Sequence[Call]], model: Model) -> str:
    """Try all orders, depth first; who calls one after the other needs but a place in its line."""
    start = (0,) * len(lines), State()
    stack, seen, furthest = [start], {start}, start
    while stack:
        places, state = stack.pop()
        heads = [
            (number, line[place])
            for number, (line, place) in enumerate(zip(lines, places, strict=True))
            if place < len(line)
        ]
        first_return = min((call.returned for _, call in heads), default=NEVER)
        if first_return == NEVER:
            return ""
        if sum(places) > sum(furthest[0]):
            furthest = places, state
        for number, call in heads:
            after = model.after(state, call) if call.called <= first_return else None
            moved = tuple(place + (each == number) for each, place in enumerate(places))
            if after is not None and (moved, after) not in seen:
                seen.add((moved, after))
                stack.append((moved, after))
    stuck = [line[place] for line, place in zip(lines, furthest[0], strict=True) if line[place:]]
    return f"no {model.name} answers so: after {furthest[1]} none of {stuck} can follow"


def overlap(holds: Iterable[tuple[str, float, float]]) -> str:
    """Say which clients held at the same time; holds are given by who, from when, and until when."""
    for one, other in pairwise(sorted(holds, key=lambda hold: hold[1])):
        if other[1] < one[2]:
            return f"{other} began while {one} held"
    return ""
