"""The outbox that the simulator lends to the process that takes a step."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from coterie.process import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.process import Event, ProcessId


class GroupOutbox(Outbox[Any]):
    """An outbox that keeps a message to many as one, and knows whether it was used at all.

    Most steps that do something send to others and do nothing else; `beyond` is set by all the rest.
    """

    __slots__ = ("beyond", "groups", "used")

    def __init__(self) -> None:
        """Start empty; the world says whose turn it is."""
        super().__init__(me=0)
        self.groups: list[tuple[Sequence[ProcessId], Any]] = []
        self.used = False
        self.beyond = False

    def send(self, to: ProcessId, message: Any) -> None:
        """Send to one."""
        self.used = True
        if to == self.me:
            self.beyond = True
            self.local.append(message)
        else:
            self.groups.append(((to,), message))

    def broadcast(self, to: Iterable[ProcessId], message: Any) -> None:
        """Send to each of `to`, in the order of their ids."""
        self.used = True
        receivers = sorted(to)
        place = bisect_left(receivers, self.me)
        if place < len(receivers) and receivers[place] == self.me:
            del receivers[place]
            self.beyond = True
            self.local.append(message)
        if receivers:
            self.groups.append((receivers, message))

    def set_timer(self, name: str, after: float) -> None:
        """Arm a timer."""
        self.used = self.beyond = True
        self.timers.append((name, after))

    def cancel_timer(self, name: str) -> None:
        """Disarm a timer."""
        self.used = self.beyond = True
        self.timers.append((name, None))

    def watch(self, peer: ProcessId) -> None:
        """Ask to be told when that process is down."""
        self.used = self.beyond = True
        self.watches.append((peer, True))

    def unwatch(self, peer: ProcessId) -> None:
        """Stop watching that process."""
        self.used = self.beyond = True
        self.watches.append((peer, False))

    def save(self, value: bytes) -> None:
        """Put `value` on stable storage."""
        self.used = self.beyond = True
        super().save(value)

    def append(self, record: bytes) -> None:
        """Add a record to stable storage."""
        self.used = self.beyond = True
        super().append(record)

    def tell(self, event: Event) -> None:
        """Tell the user."""
        self.used = self.beyond = True
        self.events.append(event)
