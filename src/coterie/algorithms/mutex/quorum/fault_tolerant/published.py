"""The algorithm as it was published in 1996, which does not exclude.

A process that is inside by a quorum of before the crash is forgotten: theorem 3 looks only at
processes that are about to enter. So there is no Hold and no relay, and the quarantine is as long as
a message takes. Processes that come back are not provided for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.algorithms.mutex.quorum.fault_tolerant.process import FaultTolerant

if TYPE_CHECKING:
    from coterie.process import Outbox, ProcessId


class Published(FaultTolerant):
    """Flawed: two processes can be inside after a crash."""

    def start(self, out: Outbox[Any]) -> None:
        """Begin, for the first time or as if it were."""

    def _hear(self, process: ProcessId, version: int, out: Outbox[Any]) -> None:
        if self.membership.is_news(process, version):
            self._note(process, version, out)
            self._react(process, out)

    def _hold_if_inside(self, process: ProcessId, out: Outbox[Any], *, back: bool) -> None:
        pass

    def _quarantine(self) -> float:
        return self.settings.sigma
