"""Judging states as a search brings them up, and wording what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from coterie.lab.explore.judge import Judge
from coterie.lab.explore.properties import (
    Always,
    CanAlwaysStill,
    Count,
    Eventually,
    Exercised,
    Settles,
    Sometimes,
    inside,
    liveness,
    may_ask,
    not_waiting,
)
from coterie.lab.explore.reachability import Backward
from coterie.lab.explore.tables.arrays import namespace, on_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.explore.liveness.lasso import Turn
    from coterie.lab.explore.liveness.transitions import Transitions
    from coterie.lab.explore.properties import Property
    from coterie.lab.explore.tables.arrays import Flags, Numbers, Positions, Rows
    from coterie.lab.explore.tables.moves import Batch, Moves

DEADLOCK = "no deadlock"  # as properties, both say what should hold
NO_ERROR = "no error"


@dataclass(frozen=True)
class Finding:
    """A violation, and the number of the state where it shows."""

    name: str
    reason: str
    state: int
    raised: bool = False  # by a handler, on the way out of that state
    cycle: tuple[Turn, ...] = ()  # from that state to it again, without end


class Inspector:
    """Looks at states; keeps the finding nearest to the initial state, and what was seen at all."""

    def __init__(self, moves: Moves, properties: Sequence[Property]) -> None:
        """Look out for violations of these properties, and for handlers that raise."""
        self._moves = moves
        self._properties = properties
        self._judge = Judge(moves.seats, moves.size)
        self._always = [item for item in properties if isinstance(item, Always)]
        self._sometimes = [item for item in properties if isinstance(item, Sometimes)]
        self.possible = [item for item in properties if isinstance(item, CanAlwaysStill)]
        self._settles = [item for item in properties if isinstance(item, Settles)]
        self._eventually = [item for item in properties if isinstance(item, Eventually)]
        self._exercised = [item for item in properties if isinstance(item, Exercised)]
        self.sometimes = {item.name: False for item in self._sometimes}
        self.finding: Finding | None = None
        self.overtaking: int | Literal["unbounded"] | None = None  # None: not looked for
        self._decided = True  # what fair runs come to

    @property
    def vacuous(self) -> str | None:
        """Why what was seen shows nothing, or None if it does."""
        return next((item.text for item in self._exercised), None)

    @property
    def liveness(self) -> str:
        """What every fair run is sure to come to, once all states were seen and nothing was found."""
        return liveness(self._properties, decided=self._decided)

    @property
    def looks_back(self) -> bool:
        """Whether what can come after a state matters, unless every path comes to an end."""
        return bool(self.possible or self._settles or self._eventually)

    def look(self, rows: Rows, first: int) -> None:
        """Judge states, which are numbered from `first` on."""
        for item in self._sometimes:
            if not self.sometimes[item.name]:
                reached = self._judge.holds(item.conditions, rows)
                self.sometimes[item.name] = bool(reached.any())
        for exercised in self._exercised.copy():
            if self._judge.holds(exercised.conditions, rows).any():
                self._exercised.remove(exercised)
        for always in self._always:
            holds = self._judge.holds(always.conditions, rows)
            if self.finding is None and not holds.all():
                state = int(holds.argmin())
                reason = self._explain(always, rows[:, state])
                self.finding = Finding(always.name, reason, first + state)

    def look_for_errors(self, batch: Batch, first: int) -> None:
        """Report a handler that raised."""
        errors = self._moves.steps.errors
        if not errors or batch.results is None or self.finding is not None:
            return
        xp = namespace(batch.results)
        failed = xp.flatnonzero(xp.isin(batch.results, xp.asarray(list(errors))))
        if failed.size:
            text = errors[int(batch.results[failed[0]])]
            reason = f"process {batch.action.place + 1} raised {text}"
            state = first + int(batch.sources[failed[0]])
            self.finding = Finding(NO_ERROR, reason, state, raised=True)

    def look_for_deadlock(self, rows: Rows, busy: Flags, first: int) -> None:
        """Report a state where nothing is sure to happen any more, though a process is owed something.

        It is one step nearer than a handler that raised on the way out of the same level.
        """
        if self.finding is not None and not self.finding.raised:
            return
        ends = namespace(rows).flatnonzero(~busy)
        rows, ends = on_host(rows.take(ends, axis=1)), on_host(ends)
        # A run that ends is fair, as no step stays possible. ENTRY and PROGRESS owe the same: once is enough.
        promised = {item.predicate: item.verb for item in self.possible}
        for item in self._eventually:
            promised.setdefault(item.predicate, "go on")
        for predicate, verb in promised.items():
            owed = self._judge.owed(predicate, rows)
            stuck = np.flatnonzero(owed.any(axis=0))
            if stuck.size:
                places = np.flatnonzero(owed[:, stuck[0]]).tolist()
                others = self._judge.places(may_ask, rows[:, stuck[0]])
                waits = say_stalled(places, verb) if others else say_forever(places)
                reason = f"no message or timer is pending; {waits}"
                self.finding = Finding(DEADLOCK, reason, first + int(ends[stuck[0]]))
                return
        for settles in self._settles:
            holds = self._judge.holds(settles.conditions, rows)
            if not holds.all():
                reason = f"no message or timer is pending, and {settles.text}"
                state = first + int(ends[np.argmin(holds)])
                self.finding = Finding(settles.name, reason, state)
                return

    def look_back(self, rows: Rows, transitions: Transitions, *, endless: bool) -> None:
        """Report what cannot come by itself, or need never come, in a graph with cycles.

        It is `endless` if users may call again and again.
        """
        sources, targets, steps, _ = transitions.arrays()
        cyclic = transitions.on_cycles(rows.shape[1], asks=False)
        if cyclic.size:  # without cycles each run ends where `look_for_deadlock` has looked
            certain = steps != 0
            self._look_for_stalled(rows, sources[certain], targets[certain])
        self._decided = transitions.complete
        if self.finding is None and self._decided:
            self._look_for_cycles(rows, transitions, cyclic, endless=endless)
        if self.finding is None and self._decided and endless:
            self._count_overtaking(rows, transitions)

    def _look_for_stalled(self, rows: Rows, sources: Numbers, targets: Numbers) -> None:
        """Report the first state from which a process cannot get what it is owed unless a user asks."""
        graph = Backward(rows.shape[1], sources, targets)
        for item in self.possible:
            for place, owed in enumerate(self._judge.owed(item.predicate, rows)):
                stalled = np.flatnonzero(~graph.can_reach(~owed))
                if not stalled.size:
                    continue
                state = int(stalled[0])
                if self.finding is None or state < self.finding.state:
                    reason = say_stalled([place], item.verb)
                    self.finding = Finding(item.name, reason, state)
        for settles in self._settles:
            rest = np.ones(rows.shape[1], np.bool_)
            rest[sources] = False
            restless = np.flatnonzero(~graph.can_reach(rest))
            if restless.size and (self.finding is None or restless[0] < self.finding.state):
                others = self._judge.places(may_ask, rows[:, restless[0]])
                rests = "comes to rest only if a user asks" if others else "never comes to rest"
                reason = f"from here on it {rests}"
                self.finding = Finding(settles.name, reason, int(restless[0]))

    def _look_for_cycles(
        self, rows: Rows, transitions: Transitions, cyclic: Positions, *, endless: bool
    ) -> None:
        """Report the nearest cycle of a fair run in which a process waits without end.

        `cyclic` are the moves on cycles as long as no user asks.
        """
        from coterie.lab.explore.liveness.lasso import fair_cycle  # noqa: PLC0415 - few need it
        from coterie.lab.explore.liveness.starvation import fair_component  # noqa: PLC0415

        moves = transitions.on_cycles(rows.shape[1], asks=True) if endless else cyclic
        for item in self._eventually:
            for place, owed in enumerate(self._judge.owed(item.predicate, rows)):
                found = fair_component(transitions, owed, moves)
                if found and (self.finding is None or found.first < self.finding.state):
                    cycle = fair_cycle(transitions, found)
                    text = f"{name_processes([place])} {item.text}"
                    self.finding = Finding(item.name, _again(text, cycle), found.first, cycle=cycle)
        for settles in self._settles:
            found = fair_component(transitions, np.ones(rows.shape[1], np.bool_), cyclic)
            if found and (self.finding is None or found.first < self.finding.state):
                cycle = fair_cycle(transitions, found)
                text = _again("it need never come to rest", cycle)
                self.finding = Finding(settles.name, text, found.first, cycle=cycle)

    def _count_overtaking(self, rows: Rows, transitions: Transitions) -> None:
        """Count how often others enter while a process waits for what it is promised."""
        from coterie.lab.explore.liveness.overtaking import overtaking  # noqa: PLC0415 - few need it

        if not any(item.predicate is not_waiting for item in self._eventually):
            return
        waits = self._judge.owed(not_waiting, rows)
        most = overtaking(transitions, waits, self._judge.each(inside, rows))
        self.overtaking = "unbounded" if most is None else most

    def _explain(self, always: Always, state: Rows) -> str:
        """Name the processes that fulfil a predicate too often."""
        for condition in always.conditions:
            if isinstance(condition, Count) and condition.high is not None:
                places = self._judge.places(condition.predicate, state)
                if len(places) > condition.high:
                    return f"{always.text}: {name_processes(places)}"
        return always.text


def _again(text: str, cycle: Sequence[Turn]) -> str:
    steps = "1 step" if len(cycle) == 1 else f"{len(cycle)} steps"
    return f"{text}, in a fair cycle of {steps}"


def name_processes(places: Sequence[int]) -> str:
    """Write the processes at these places: `processes 1, 2 and 3`."""
    ids = [str(place + 1) for place in places]
    if len(ids) == 1:
        return f"process {ids[0]}"
    return f"processes {', '.join(ids[:-1])} and {ids[-1]}"


def say_stalled(places: Sequence[int], verb: str) -> str:
    """Say that processes get no further by what is sure to happen; a request may help them or not."""
    are = "is" if len(places) == 1 else "are"
    return f"{name_processes(places)} {are} stalled and can {verb} only if another user asks"


def say_forever(places: Sequence[int]) -> str:
    """Say that processes wait in a state at rest in which no user is left who could ask."""
    return f"{name_processes(places)} {'waits' if len(places) == 1 else 'wait'} forever"
