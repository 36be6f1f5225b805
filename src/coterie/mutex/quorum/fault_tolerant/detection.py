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
    watched: dict[ProcessId, float] = field(default_factory=dict)  # awaited: how long before we ask
    probed: set[ProcessId] = field(default_factory=set)  # of them, those whom we have asked

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
        """Start a timer for whom we have begun to wait for, stop it for whom no longer."""
        awaited = self._awaited()
        for peer in sorted(self.watched.keys() - awaited):
            self._unwatch(peer, out)
        for peer in sorted(awaited - self.watched.keys()):
            self.watched[peer] = self.settings.t_max
            out.set_timer(f"{T_MAX}{peer}", self.settings.t_max)

    def _unwatch(self, peer: ProcessId, out: Outbox[Any]) -> None:
        if self.watched.pop(peer, None) is not None:
            out.cancel_timer(f"{T_D if peer in self.probed else T_MAX}{peer}")
            self.probed.discard(peer)

    def _ask(self, peer: ProcessId, out: Outbox[Any]) -> None:
        self.probed.add(peer)
        out.send(peer, IsAllright())
        out.set_timer(f"{T_D}{peer}", self.settings.t_d)

    def _wait_on(self, peer: ProcessId, out: Outbox[Any]) -> None:
        """Wait again, twice as long: what keeps us waiting is not a crash."""
        if peer not in self.probed:  # we have stopped waiting since we asked
            return
        self.probed.remove(peer)
        self.watched[peer] = min(2 * self.watched[peer], self.settings.patience_max)
        out.cancel_timer(f"{T_D}{peer}")
        out.set_timer(f"{T_MAX}{peer}", self.watched[peer])

    def _ring_for(self, timer: str, out: Outbox[Any]) -> None:
        if timer.startswith(T_MAX):
            self._ask(int(timer.removeprefix(T_MAX)), out)
        else:
            self._declare_down(int(timer.removeprefix(T_D)), out)
