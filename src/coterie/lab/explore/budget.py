"""How long a search may go on, and how it reports its progress."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from coterie.lab.explore.verdict import Progress

if TYPE_CHECKING:
    from collections.abc import Callable


class Counted(Protocol):
    """What numbers the states."""

    size: int


class Searching(Protocol):
    """What a watch needs to know of a search."""

    transitions: int
    depth: int

    @property
    def index(self) -> Counted:
        """Of the states seen."""

    @property
    def room(self) -> int | None:
        """About how many states fit into the memory that is used, if that is known."""


@dataclass(frozen=True)
class Budget:
    """When to give up, and where to report progress."""

    max_states: int | None = None
    max_seconds: float | None = None
    progress: Callable[[Progress], None] | None = None
    cancelled: Callable[[], bool] | None = None  # asked often, maybe set by another thread


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

    def spent(self, search: Searching) -> bool:
        """Report if it is time to, and return whether to stop."""
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
                room=search.room,
            )
            self._budget.progress(progress)
        if self._budget.cancelled is not None and self._budget.cancelled():
            return True
        max_states, max_seconds = self._budget.max_states, self._budget.max_seconds
        return (max_states is not None and states > max_states) or (
            max_seconds is not None and seconds > max_seconds
        )
