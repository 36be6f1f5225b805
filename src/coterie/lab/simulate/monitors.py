"""What must hold while a run goes on: the first breach ends the run and is its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coterie.errors import CoterieError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.process import ProcessId

    Knowledge: TypeAlias = tuple[int, int]  # some requests, and the number of the lowest bit


class Violation(msgspec.Struct, frozen=True):
    """A property that ceased to hold, and when."""

    name: str  # safety, raised, stuck or order
    text: str
    time: float


class ViolationError(CoterieError):
    """Stops a run; the engine turns it into the `Violation` of its result."""

    exit_status = 1

    def __init__(self, name: str, text: str) -> None:
        """Name the property and say how it was broken."""
        super().__init__(text)
        self.name = name

    def __reduce__(self) -> tuple[type[ViolationError], tuple[str, str]]:
        """Travel from a worker process."""
        return type(self), (self.name, str(self))


def no_such_receiver(
    sender: ProcessId, receiver: ProcessId, message: object, size: int
) -> ViolationError:
    """Word the violation of a process that sends to one that does not exist."""
    return ViolationError(
        "raised",
        f"process {sender} sent {message} to process {receiver}, which does not exist:"
        f" they are 1 to {size}",
    )


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
        if self.inside:
            self._enter(process, time)
        else:
            self.inside[process] = time

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
    Of vector clocks only what decides is kept: the requests that a process has heard of, straight
    or through others, and that may still wait. They are the bits of an integer, so that a message
    costs one `or`. The lowest bit stands for the request number `base`, which rises with the oldest
    request that waits; so the integers stay short, however long the run.
    """

    def __init__(self, size: int) -> None:
        """Start before the first request of processes 1 to `size`."""
        self.overtakings = 0  # entries made while a request waited that had happened before
        self._asked = 0  # requests so far
        self._base = 0
        self._raise_at = size  # requests, after which the base is raised
        self._numbers: dict[ProcessId, int] = {}  # of the waiting requests, in the order of asking
        self._waiting = 0  # the same as bits
        self._known = [0] * (size + 1)  # by each process, at this moment; none is 0
        self._before: dict[ProcessId, int] = {}  # its waiting request

    def asked(self, process: ProcessId) -> None:
        """Number a request, which all its process does from now on depends on."""
        if self._asked >= self._raise_at:
            self._raise_base()
        request = 1 << self._asked - self._base
        self._numbers[process] = self._asked
        self._asked += 1
        self._waiting |= request
        self._before[process] = self._known[process]
        self._known[process] |= request

    def entered(self, process: ProcessId) -> bool:
        """Serve a request, and return whether it overtook one that had happened before it."""
        if process not in self._numbers:  # given up when its process crashed
            return False
        overtook = self._before[process] & self._waiting != 0
        self._end(process)
        self.overtakings += overtook
        return overtook

    def knowledge(self, sender: ProcessId) -> Knowledge:
        """Return what a message of this process carries to its receiver."""
        return self._known[sender], self._base

    def learnt(self, receiver: ProcessId, knowledge: Knowledge) -> None:
        """Let the receiver of a message know it, too."""
        requests, base = knowledge
        self._known[receiver] |= requests >> self._base - base

    def crashed(self, process: ProcessId) -> None:
        """Give up a waiting request; it cannot be overtaken any more."""
        if process in self._numbers:
            self._end(process)

    def _end(self, process: ProcessId) -> None:
        self._waiting ^= 1 << self._numbers.pop(process) - self._base
        del self._before[process]

    def _raise_base(self) -> None:
        """Forget the requests before the oldest that waits, which no entry can overtake any more."""
        base = next(iter(self._numbers.values()), self._asked)
        rise, self._base = base - self._base, base
        self._waiting >>= rise
        self._known = [requests >> rise for requests in self._known]
        self._before = {process: requests >> rise for process, requests in self._before.items()}
        self._raise_at = self._asked + len(self._known)
