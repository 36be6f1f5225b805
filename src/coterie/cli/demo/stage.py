"""Everything that takes part, and what has been done to it so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from coterie.cli.demo.crew import Worker
    from coterie.cli.demo.nodes import Node


class Act(NamedTuple):
    """A part of the demonstration, up to the next one."""

    title: str
    began_at: float  # by `time.monotonic()`


@dataclass
class Stage:
    """What the picture shows and the verdict judges."""

    began_at: float = field(default_factory=time.monotonic)
    nodes: list[Node] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)

    def begin(self, title: str) -> None:
        """Begin the next act."""
        self.acts.append(Act(title, time.monotonic()))

    @property
    def entries(self) -> int:
        """How many entries the workers have reported so far."""
        return sum(len(worker.written) for worker in self.workers)

    @property
    def holder(self) -> Worker | None:
        """Who holds the lock, as far as the workers say.

        A stopped worker believes that it holds until it wakes up; a larger token tells better.
        """
        latest = max(self.workers, key=lambda worker: worker.token, default=None)
        return latest if latest and latest.condition in ("holds", "stopped") else None
