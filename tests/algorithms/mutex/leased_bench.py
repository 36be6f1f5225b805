"""A small world for scripted changes: every message takes 2 ms, all clocks agree, nothing is drawn."""

from __future__ import annotations

import heapq
import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

from coterie.process import Outbox
from tests.algorithms.mutex.leased_kit import Kit
from tests.algorithms.mutex.leased_promises import Breach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DELAY = 0.002
CHANGER = 1001


class Bench:
    """Voters, participants and changers by their numbers, and what was told when."""

    def __init__(self, seats: Iterable[int], kit: Kit | None = None, **settings: Any) -> None:
        """Form a cluster of these voters, as number 1."""
        self.kit = kit or Kit()
        self.now = 0.0
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.parts: dict[int, Any] = {}
        self.timers: dict[tuple[int, str], int] = {}
        self.disks: dict[int, bytes] = {}
        self.starts: dict[int, int] = {}
        self.cut: set[tuple[int, int]] = set()  # pairs of an asker and a voter
        self.down: set[int] = set()
        self.paused: dict[int, list[Callable[[], None]]] = {}
        self.told: list[tuple[float, int, Any]] = []
        self.sent: dict[int, int] = {}
        self.budget: dict[int, int] = {}  # messages after which a process stops
        value = self.kit.configuration
        part = self.part(seats, **settings)
        self.founding = value.Configuration(value.Rule(1, (part,)), self.members(part.seats))
        for seat in part.seats:
            self.start(seat, self.kit.voter.Voter(self.founding, identity=f"disk {seat}"))

    def part(self, seats: Iterable[int], **settings: Any) -> Any:
        seats = tuple(seats)
        kinds = self.kit.settings
        return self.kit.configuration.Part(seats, kinds.Settings(len(seats), **settings))

    def members(self, seats: Iterable[int]) -> tuple[Any, ...]:
        member = self.kit.configuration.Member
        return tuple(member(seat, f"v{seat}", f"disk {seat}") for seat in sorted(seats))

    def goal(self, base: int, part: Any, **more: Any) -> Any:
        return self.kit.changer.Goal(base, part, self.members(part.seats), **more)

    # Processes

    def start(self, me: int, part: Any) -> None:
        self.parts[me] = part
        self.down.discard(me)
        self.starts[me] = self.starts.get(me, 0) + 1
        self.step(me, partial(part.start, f"{me}.{self.starts[me]}"))

    def spare(self, seat: int) -> None:
        self.start(seat, self.kit.voter.Voter(None, identity=f"disk {seat}"))

    def program(self, me: int, configuration: Any = None, lease: float | None = None) -> None:
        known = configuration or self.founding
        self.start(me, self.kit.participant.participant(known, known.seats[0], lease))

    def begin(self, goal: Any, me: int = CHANGER, seen: Any = None, budget: int = -1) -> None:
        """Begin a change; stop the changer after so many messages, if a budget is given."""
        if budget >= 0:
            self.budget[me] = budget
        self.parts[me] = self.kit.changer.Changer(f"c{me}", seen or self.newest(), goal)
        self.step(me, self.parts[me].start)

    def stop(self, *processes: int) -> None:
        self.down.update(processes)

    def restart(self, seat: int) -> None:
        """Start a voter again with what is on its disk."""
        founder = self.founding if seat in self.founding.seats else None
        self.start(seat, self.kit.voter.Voter(founder, identity=f"disk {seat}"))

    def pause(self, me: int) -> None:
        self.paused[me] = []

    def resume(self, me: int) -> None:
        for action in self.paused.pop(me):
            action()

    # Calls

    def acquire(self, me: int, lock: str = "a") -> None:
        """Ask for a lock; ages follow the time."""
        self.step(me, partial(self.parts[me].acquire, lock, age=1 + round(1000 * self.now)))

    def release(self, me: int, lock: str = "a") -> None:
        self.step(me, partial(self.parts[me].release, lock))

    def holder(self, lock: str = "a") -> int:
        """Return the process that has the lock; 0: none has."""
        programs = [
            me
            for me, part in self.parts.items()
            if isinstance(part, self.kit.participant.Participant) and me not in self.down
        ]
        holders = [me for me in programs if self.parts[me].valid(lock, self.now)]
        if len(holders) > 1:
            raise Breach(f"{holders} hold {lock} at the same time")
        return holders[0] if holders else 0

    def newest(self) -> Any:
        """Return the newest configuration that a voter has."""
        found = [
            part.configuration
            for part in self.parts.values()
            if isinstance(part, self.kit.voter.Voter) and part.configuration is not None
        ]
        return max(found, key=lambda each: each.number)

    def events(self, name: str, by: int = 0) -> list[Any]:
        """List what was told under this name, by one process or by all."""
        told = [event for _, me, event in self.told if by in (0, me)]
        return [event for event in told if type(event).__name__ == name]

    # Time

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.heap and self.heap[0][0] <= end:
            self.now, _, action = heapq.heappop(self.heap)
            action()
            self.holder()
        self.now = end

    def run_until(self, name: str, seconds: float = 120.0) -> Any:
        """Run until this event is told once more, and return it."""
        before, end = len(self.events(name)), self.now + seconds
        while len(self.events(name)) == before:
            if not self.heap or self.heap[0][0] > end:
                raise Breach(f"no {name} within {seconds} s")
            self.run(self.heap[0][0] - self.now)
        return self.events(name)[-1]

    def at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (time, next(self.numbers), action))

    def step(self, me: int, handler: Callable[[Outbox[Any]], None]) -> None:
        if me in self.down:
            return
        if me in self.paused:
            self.paused[me].append(partial(self.step, me, handler))
            return
        out: Outbox[Any] = Outbox(me, self.now)
        out.saved = self.disks.get(me, b"")
        handler(out)
        if out.to_save is not None:
            self.disks[me] = out.to_save
        for to, frame in out.sends:
            self._send(me, to, frame)
        for name, after in out.timers:
            number = self.timers[me, name] = next(self.numbers)
            self.at(self.now + max(0.0, after or 0.0), partial(self._ring, me, name, number))
        self.told += [(self.now, me, event) for event in out.events]

    def _send(self, me: int, to: int, frame: Any) -> None:
        if me in self.down or (me, to) in self.cut or (to, me) in self.cut:
            return
        if self.budget.get(me, 1) == 0:
            self.down.add(me)
            return
        self.budget[me] = self.budget.get(me, -1) - 1
        self.sent[me] = self.sent.get(me, 0) + 1
        self.at(self.now + DELAY, partial(self._deliver, me, to, frame))

    def _deliver(self, me: int, to: int, frame: Any) -> None:
        if to in self.parts:
            self.step(to, lambda out: self.parts[to].receive(me, frame, out))

    def _ring(self, me: int, name: str, number: int) -> None:
        if self.timers.get((me, name)) != number:
            return
        self.step(me, lambda out: self.parts[me].ring(name, out))
