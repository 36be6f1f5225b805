"""The state of the demonstration: nodes, workers and phases so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from coterie.cli.demo.nodes import Node
    from coterie.cli.demo.workers import Worker


class Phase(NamedTuple):
    """A phase of the demonstration; it lasts until the next one begins."""

    title: str
    began_at: float  # by `time.monotonic()`


@dataclass
class DemoState:
    """What the display shows and the verdict judges."""

    began_at: float = field(default_factory=time.monotonic)
    nodes: list[Node] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)

    def begin(self, title: str) -> None:
        """Begin the next phase."""
        self.phases.append(Phase(title, time.monotonic()))

    @property
    def entries(self) -> int:
        """How many entries the workers have reported so far."""
        return sum(len(worker.written) for worker in self.workers)

    @property
    def holder(self) -> Worker | None:
        """The worker that holds the lock, according to what the workers print.

        A stopped worker believes that it holds until it wakes up; the largest token is right.
        """
        latest = max(self.workers, key=lambda worker: worker.token, default=None)
        return latest if latest and latest.condition in ("holds", "stopped") else None
