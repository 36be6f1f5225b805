"""Who is down? Ask whoever keeps us waiting (1996, step 1).

Whoever waits for a process waits T_max, asks it, and takes it for dead if no answer comes within
T_d. That is accurate because an answer takes no longer than T_d: two messages and a reply.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from msgspec import field

from coterie.mutex.quorum.fault_tolerant.messages import IsAllright
from coterie.mutex.quorum.fault_tolerant.settings import Settings
from coterie.mutex.quorum.maekawa.eager import Maekawa
from coterie.process import Outbox, ProcessId

T_MAX = "T_max-"  # and the process awaited
T_D = "T_d-"


class Detector(Maekawa, kw_only=True):
    """Maekawa's algorithm that notices when it waits for somebody who is down."""

    settings: Settings
    patience: list[float] = field(default_factory=list)  # of 1 to N: until we ask; 0: not awaited
    probed: set[ProcessId] = field(default_factory=set)  # whom we have asked

    def __post_init__(self) -> None:
        """Begin by waiting for nobody."""
        self.patience = self.patience or [0.0] * len(self.settings.members)

    def delay_max(self) -> float:
        """Give sigma: an answer that comes later is taken for a crash."""
        return self.settings.sigma

    @abstractmethod
    def _awaited(self) -> set[ProcessId]:
        """Name those without whose message we do not get on."""

    @abstractmethod
    def _declare_down(self, peer: ProcessId, out: Outbox[Any]) -> None:
        """Act on a crash that we have detected."""

    def _watch(self, out: Outbox[Any]) -> None:
        """Start a timer for each whom we begin to wait for, and stop those that are out of date."""
        awaited = self._awaited()
        for peer, patience in enumerate(self.patience, 1):
            if patience and peer not in awaited:
                self._unwatch(peer, out)
        for peer in sorted(awaited):
            if not self.patience[peer - 1]:
                self._wait(peer, self.settings.t_max, out)

    def _wait(self, peer: ProcessId, patience: float, out: Outbox[Any]) -> None:
        self.patience[peer - 1] = patience
        out.set_timer(f"{T_MAX}{peer}", patience)

    def _unwatch(self, peer: ProcessId, out: Outbox[Any]) -> None:
        if self.patience[peer - 1]:
            self.patience[peer - 1] = 0.0
            out.cancel_timer(f"{T_D if peer in self.probed else T_MAX}{peer}")
            self.probed.discard(peer)

    def _ask(self, peer: ProcessId, out: Outbox[Any]) -> None:
        self.probed.add(peer)
        out.send(peer, IsAllright())
        out.set_timer(f"{T_D}{peer}", self.settings.t_d)

    def _wait_on(self, peer: ProcessId, out: Outbox[Any]) -> None:
        """Wait again, twice as long: what keeps us waiting is not a crash."""
        if peer in self.probed:  # else we have stopped waiting since we asked
            self.probed.remove(peer)
            out.cancel_timer(f"{T_D}{peer}")
            patience = 2 * self.patience[peer - 1]
            self._wait(peer, min(patience, self.settings.patience_max), out)

    def _ring_for(self, timer: str, out: Outbox[Any]) -> None:
        if timer.startswith(T_MAX):
            self._ask(int(timer.removeprefix(T_MAX)), out)
        else:
            self._declare_down(int(timer.removeprefix(T_D)), out)
