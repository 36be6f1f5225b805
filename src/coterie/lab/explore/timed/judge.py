"""What is judged in states with a clock, beside mutual exclusion: what the classes of processes declare, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.errors import UsageError
from coterie.lab.explore.judge import Judge
from coterie.lab.explore.properties import (
    CONTENTION,
    ENTRY,
    UNJUDGED,
    WAITED,
    Always,
    CanAlwaysStill,
    Eventually,
    Exercised,
    Settles,
    Sometimes,
    declared,
)
from coterie.process import Mutex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from coterie.lab.explore.properties import Property
    from coterie.lab.explore.tables.arrays import Flags, Rows
    from coterie.lab.explore.timed.local import Lives
    from coterie.process import Process


class Broken(NamedTuple):
    """A property that does not hold, the words for it, and the first of some states in which it does not."""

    name: str
    text: str
    state: int


class TimedJudge:
    """Judges states, and notes what was seen in some of them."""

    def __init__(self, processes: Sequence[Process[Any]], lives: Lives) -> None:
        """Refuse what only fair runs decide: in ticks, time alone can go on forever."""
        properties = _properties_of(processes)
        for item in properties:
            if isinstance(item, Eventually | Settles):
                raise UsageError(
                    f"the property {item.name!r} is about fair runs, which a search with a clock does"
                    " not judge: declare Always, Sometimes, Exercised or CanAlwaysStill"
                )
        self._judge = Judge(lives, len(processes))
        self._always = [item for item in properties if isinstance(item, Always)]
        self._unseen = [item for item in properties if isinstance(item, Sometimes | Exercised)]
        self._possible = [item for item in properties if isinstance(item, CanAlwaysStill)]
        self._owed: list[list[Flags]] = [[] for _ in self._possible]  # by property and note
        self.sometimes = {item.name: False for item in properties if isinstance(item, Sometimes)}

    @property
    def vacuous(self) -> str | None:
        """Why what was seen shows nothing, or None if it does."""
        return next((item.text for item in self._unseen if isinstance(item, Exercised)), None)

    @property
    def liveness(self) -> str:
        """What stays possible, once all states were seen and nothing was found."""
        names = " and ".join(item.name for item in self._possible)
        return f"{names}; whether every wait ends is not decided with a clock" if names else ""

    def broken(self, rows: Rows) -> Broken | None:
        """Return what should always hold and does not, in the first of these states where that is so."""
        found = None
        for item in self._always:
            held = self._judge.holds(item.conditions, rows)
            if not held.all() and (found is None or int(held.argmin()) < found.state):
                found = Broken(item.name, item.text, int(held.argmin()))
        return found

    def note(self, rows: Rows) -> None:
        """Note of new states what is seen in them, and which processes are owed something."""
        for item in self._unseen.copy():
            if self._judge.holds(item.conditions, rows).any():
                self._unseen.remove(item)
                if isinstance(item, Sometimes):
                    self.sometimes[item.name] = True
        for possible, owed in zip(self._possible, self._owed, strict=True):
            owed.append(self._judge.owed(possible.predicate, rows))

    def owed(self) -> Iterator[tuple[CanAlwaysStill, Flags]]:
        """Return for each process and state noted whether it is owed what should stay possible."""
        for possible, owed in zip(self._possible, self._owed, strict=True):
            yield possible, np.concatenate(owed, axis=1)


def _properties_of(processes: Sequence[Process[Any]]) -> tuple[Property, ...]:
    if all(isinstance(process, Mutex) for process in processes):
        return (CONTENTION, ENTRY, WAITED, *declared(processes))
    return declared(processes) or (UNJUDGED,)
