"""Physical clocks that are kept together by messages (Lamport, 1978).

Each process sends its clock to its neighbours every now and then. A receiver knows how late it
is at least, and moves its own clock forward if that is behind. No clock is ever set back,
so events ordered by a message are ordered by the clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from coterie.errors import UsageError
from coterie.process import Outbox, Payload, Process, ProcessId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PERIOD = "period"  # until the neighbours hear from us again


class Reading(Payload, frozen=True):
    """My clock shows this time as the message leaves."""

    time: float


class PhysicalClock(Process[Reading]):
    """A process whose clock is that of its hardware, moved forward as far as others require.

    The hardware is `out.now`. Links may lose, repeat and reorder messages; the bound counts on one
    per period and direction.
    """

    messages: ClassVar[Any] = Reading

    neighbours: tuple[ProcessId, ...]
    period: float  # between two messages to the same neighbour: Lamport's τ
    least_delay: float  # of any message: Lamport's μ; above zero, receiving is later than sending
    ahead: float = 0.0  # how far the clock has been moved

    def read(self, hardware: float) -> float:
        """Return the time of this clock when the hardware clock shows `hardware`."""
        return hardware + self.ahead

    def start(self, out: Outbox[Reading]) -> None:
        """Let the neighbours hear of us."""
        self._spread(out)

    def receive(self, sender: ProcessId, message: Reading, out: Outbox[Reading]) -> None:
        """Catch up with the sender, which has gone on by the least delay at least."""
        self.ahead = max(self.ahead, message.time + self.least_delay - out.now)

    def ring(self, timer: str, out: Outbox[Reading]) -> None:
        """Let them hear again."""
        self._spread(out)

    def _spread(self, out: Outbox[Reading]) -> None:
        out.broadcast(self.neighbours, Reading(self.read(out.now)))
        out.set_timer(PERIOD, self.period)


def synchronised_clocks(
    graph: Mapping[ProcessId, Sequence[ProcessId]], *, period: float, least_delay: float
) -> list[PhysicalClock]:
    """Build the clocks of the processes 1 to N, given the neighbours that each sends to."""
    if not period > 0 or not least_delay >= 0:
        raise UsageError(
            f"the period must be above 0 and the least delay not below, got {period}, {least_delay}"
        )
    return [
        PhysicalClock(process, tuple(sorted(graph[process])), period, least_delay)
        for process in sorted(graph)
    ]


def synchronisation_bound(
    *, diameter: int, drift: float, period: float, uncertainty: float
) -> float:
    """Return Lamport's bound on the difference of any two clocks: about d(2κτ + ξ) seconds.

    It holds from `diameter` periods after the start on, up to terms of higher order, if the period
    is much longer than a message takes.

    Args:
        diameter: of the graph of the links that carry readings (d).
        drift: by which the rate of any clock may differ from 1 (κ).
        period: the longest time between two messages on a link (τ).
        uncertainty: of the delay of a message: the longest minus the shortest (ξ).
    """
    if min(diameter, drift, period, uncertainty) < 0:
        raise UsageError("a bound needs a diameter, drift, period and uncertainty of 0 or more")
    return diameter * (2 * drift * period + uncertainty)
