"""What must hold while a run goes on: the first breach ends the run and is its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.errors import CoterieError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coterie.process import ProcessId


class Violation(msgspec.Struct, frozen=True):
    """A property that ceased to hold, and when."""

    name: str  # safety, raised, stuck or order
    text: str
    time: float


class ViolationError(CoterieError):
    """Stops a run; the engine turns it into the `Violation` of its result."""

    def __init__(self, name: str, text: str) -> None:
        """Name the property and say how it was broken."""
        super().__init__(text)
        self.name = name


class Section:
    """The critical section as an observer sees it that is everywhere at once.

    Only live users count: one that crashed inside holds no other up here, whatever the algorithm
    makes of it. If it comes back with its memory, it is inside again.
    """

    def __init__(self, holds: Callable[[ProcessId], bool]) -> None:
        """Start empty; `holds` says whether a user inside may still rely on it."""
        self._holds = holds
        self.inside: dict[ProcessId, float] = {}  # since when; more than one is a violation
        self.waiting: dict[ProcessId, float] = {}  # since when, in the order of asking
        self._away: dict[ProcessId, tuple[bool, float]] = {}  # crashed: whether inside, since when

    @property
    def idle(self) -> bool:
        """Whether no user is inside or wants in."""
        return not self.inside and not self.waiting

    def asked(self, process: ProcessId, time: float) -> None:
        """Take note that a user waits."""
        self.waiting[process] = time

    def entered(self, process: ProcessId, time: float) -> None:
        """Let the user in; safety: no other may be there."""
        del self.waiting[process]
        self._enter(process, time)

    def left(self, process: ProcessId) -> None:
        """Let the user out."""
        del self.inside[process]

    def crashed(self, process: ProcessId) -> None:
        """Stop counting the user, wherever it was."""
        for inside, users in ((True, self.inside), (False, self.waiting)):
            if process in users:
                self._away[process] = inside, users.pop(process)

    def returned(self, process: ProcessId) -> None:
        """Put a user that still has its memory back where it was."""
        if process not in self._away:
            return
        inside, since = self._away.pop(process)
        if inside:
            self._enter(process, since)
        else:
            self.waiting[process] = since

    def forgot(self, process: ProcessId) -> bool:
        """Drop a crashed user for good, and return whether it had been inside."""
        inside, _ = self._away.pop(process, (False, 0.0))
        return inside

    def _enter(self, process: ProcessId, time: float) -> None:
        others = [other for other in self.inside if self._holds(other)]
        self.inside[process] = time
        if others:
            raise ViolationError(
                "safety", f"processes {others[0]} and {process} are in the critical section at once"
            )

    def check_progress(self) -> None:
        """Demand that no user waits; called when nothing can happen any more."""
        if not self.waiting:
            return
        process, since = next(iter(self.waiting.items()))
        others = len(self.waiting) - 1
        more = f" (and {others} more)" if others else ""
        raise ViolationError(
            "stuck",
            f"process {process} has waited since {since:g}{more} and nothing can happen any more",
        )


class CausalOrder:
    """Whether a request that could have caused another is served before it.

    A request happened before another if messages of the protocol lead from the one to the other.
    Of vector clocks only what decides is kept: the requests still waiting that a process has
    heard of, straight or through others.
    """

    def __init__(self) -> None:
        """Start before the first request."""
        self.overtakings = 0  # entries made while a request waited that had happened before
        self._asked = 0
        self._waiting: dict[ProcessId, int] = {}  # the number of the request
        self._known: dict[ProcessId, frozenset[int]] = {}  # by each process, at this moment
        self._before: dict[ProcessId, frozenset[int]] = {}  # its waiting request
        self._carried: dict[int, frozenset[int]] = {}  # by each message

    def asked(self, process: ProcessId) -> None:
        """Number a request, which all its process does from now on depends on."""
        self._asked += 1
        self._before[process] = self._pending(self._known.get(process, frozenset()))
        self._waiting[process] = self._asked
        self._known[process] = self._before[process] | {self._asked}

    def entered(self, process: ProcessId) -> bool:
        """Serve a request, and return whether it overtook one that had happened before it."""
        if self._waiting.pop(process, None) is None:  # given up when its process crashed
            return False
        overtook = bool(self._pending(self._before.pop(process)))
        self.overtakings += overtook
        return overtook

    def sent(self, sender: ProcessId, number: int) -> None:
        """Let a message carry what its sender knows."""
        self._carried[number] = self._pending(self._known.get(sender, frozenset()))

    def delivered(self, receiver: ProcessId, number: int) -> None:
        """Let the receiver know it, too."""
        known = self._known.get(receiver, frozenset()) | self._carried[number]
        self._known[receiver] = self._pending(known)

    def crashed(self, process: ProcessId) -> None:
        """Give up a waiting request; it cannot be overtaken any more."""
        self._waiting.pop(process, None)
        self._before.pop(process, None)

    def _pending(self, requests: Iterable[int]) -> frozenset[int]:
        return frozenset(requests).intersection(self._waiting.values())
