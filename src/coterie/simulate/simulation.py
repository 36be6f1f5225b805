"""One run: processes, their users with a workload, and the faults that befall them."""

from __future__ import annotations

import math
from functools import partial
from heapq import heappush
from random import Random
from typing import TYPE_CHECKING, Any

from coterie import trace
from coterie.errors import ConfigError, MisuseError, UsageError
from coterie.process import Entered, Mutex, MutexUser, SeatCodec
from coterie.simulate.engine import BACKGROUND, FOREGROUND, Engine
from coterie.simulate.faults import Restart, check_faults
from coterie.simulate.monitors import ViolationError
from coterie.simulate.network import Network
from coterie.simulate.observer import Observer
from coterie.simulate.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import Event, Process, ProcessId
    from coterie.simulate.faults import Fault
    from coterie.simulate.metrics import Result, Stopped
    from coterie.simulate.monitors import Violation
    from coterie.simulate.observer import Order
    from coterie.simulate.workload import Action


class Simulation(Engine):
    """One run of some processes under a workload, with faults or without.

    Args:
        processes: numbers 1 to N, in this order; the run changes them.
        workload: who asks when; the default asks nothing.
        network: how messages travel.
        faults: what goes wrong.
        seed: decides all that is random; the same seed gives the same result, byte for byte.
        header: if given, the result holds a trace that begins with it.
        until: run to this time; without it, until the workload is over and all is quiet.
        detection: how long after a crash those who watch the process hear of it.
        max_time: give up at this time.
        max_events: give up after so many events.
        measure_bytes: also add up the encoded sizes of all messages.
        order: whether requests must be served in causal order: count breaches, or end at the first.
    """

    def __init__(
        self,
        processes: Sequence[Process[Any]],
        *,
        workload: Workload | None = None,
        network: Network | None = None,
        faults: Sequence[Fault] = (),
        seed: int = 0,
        header: trace.Header | None = None,
        until: float | None = None,
        detection: float = 3.0,
        max_time: float = math.inf,
        max_events: int = 10_000_000,
        measure_bytes: bool = False,
        order: Order = "ignore",
    ) -> None:
        """Set everything up; nothing happens before `run`."""
        _check_numbering(processes)
        _check_limits(until=until, detection=detection, max_time=max_time, max_events=max_events)
        check_faults(faults, len(processes))
        observer = Observer(len(processes), header, order, measure_bytes)
        super().__init__(processes, network or Network(), seed, observer, detection)
        observer.section.holds = self._holds
        self.random = Random(f"{seed}/workload")
        self._seed = seed
        self._workload = workload or Workload()
        self._until = until
        self._max_time = max_time
        self._max_events = max_events
        self._begun = False
        self._faults = faults
        self._faults_due = 0
        self._when_inside: dict[ProcessId, Action] = {}
        self._when_silent: list[Action] = []
        self._when_quiet: list[Action] = []
        self._wants: dict[ProcessId, int] = {}  # requests not served yet
        self._initial: dict[ProcessId, tuple[bytes, bytes]] = {}  # of those who will need it
        for fault in faults:
            if isinstance(fault, Restart) and not fault.memory:
                first = self._seats[fault.process]
                self._initial[fault.process] = SeatCodec(first).save(first)

    def run(self) -> Result:
        """Run once: to the end, to a limit or to the first violation."""
        if self._begun:
            raise MisuseError("a simulation runs once; build another one")
        self._begun = True
        violations: list[Violation] = []
        try:
            stopped = self._run()
        except ViolationError as error:
            stopped = "violation"
            violations.append(self._observer.violated(self.now, error))
        result = self._observer.result(
            seed=self._seed,
            stopped=stopped,
            time=self.now,
            events=self._events,
            violations=violations,
        )
        if not violations:  # after which a process may be in no state to tell
            result.facts = self._facts()
        return result

    def _facts(self) -> dict[str, Any]:
        """Ask the live processes: what all of them say alike is said once, the rest by process."""
        live = [me for me in range(1, self.size + 1) if me not in self._dead]
        told: dict[str, dict[ProcessId, Any]] = {}
        for process in live:
            for name, value in self._seats[process].process.facts().items():
                told.setdefault(name, {})[process] = value
        return {name: _once(values, len(live)) for name, values in told.items()}

    def _run(self) -> Stopped:
        for fault in self._faults:
            fault.stage(self)
        self._choose_paths()
        for process in range(1, self.size + 1):
            self._start(process)
        self._workload.start(self)
        until = math.inf if self._until is None else self._until
        end = min(until, self._max_time)
        stopped = self._loop(end, self._max_events)
        if stopped == "done" and not self._heap:
            self._observer.section.check_progress()
        if stopped == "event limit" or self._until is None or end < until:
            return stopped
        self.now = until
        return "done"

    def _is_over(self) -> bool:
        """Now that all is silent, go on with the workload; tell whether nothing is left to do."""
        while not self._belt and len(self._heap) == self._background:
            if any(self._mail.values()):  # under way still, to one who sleeps
                return False
            if self._when_silent:
                self._when_silent.pop(0)()
            elif self._when_quiet and self._observer.section.idle:
                self._when_quiet.pop(0)()
            else:
                idle = self._observer.section.idle and not self._faults_due
                return not self._heap or (idle and self._until is None)
        return False

    def _hear(self, process: ProcessId, event: Event) -> None:
        if isinstance(event, Entered):
            self._wants[process] -= 1
            self._observer.entered(self.now, process)
            if process in self._when_inside:
                self._when_inside.pop(process)()
        self._workload.told(self, process, event)

    def process(self, process: ProcessId) -> Process[Any]:
        """Give a process as it is now; after a restart without memory it is another value."""
        return self._seats[process].process

    def _holds(self, process: ProcessId) -> bool:
        mutex = self._seats[process].process
        rate, offset = self._clocks.get(process, (1.0, 0.0))
        return not isinstance(mutex, Mutex) or mutex.holds(rate * self.now + offset)

    # Users: what a workload may do

    def ask(self, process: ProcessId) -> None:
        """Let its user acquire: now, or as soon as it can."""
        if not isinstance(self._seats[process].user, MutexUser):
            raise ConfigError(f"process {process} is no mutex, so nobody can ask it to enter")
        self._wants[process] = self._wants.get(process, 0) + 1
        self._ask_if_possible(process)

    def _ask_if_possible(self, process: ProcessId) -> None:
        if process in self._held or not self._wants.get(process):
            return
        if "acquire" in self._seats[process].user.calls():
            self._observer.asked(self.now, process)
            self._call(process, "acquire")

    def leave(self, process: ProcessId) -> None:
        """Let its user release: now, or when it takes steps again."""
        if process in self._held:
            self._held[process].append(partial(self.leave, process))
            return
        if process not in self._observer.section.inside:  # a crash has ended its stay
            return
        self._observer.left(self.now, process)
        self._call(process, "release")
        self._workload.left(self, process)
        self._ask_if_possible(process)

    def _call(self, process: ProcessId, name: str) -> None:
        self._observer.record(trace.Called(self.now, process, name))
        self._step(process, name, partial(self._seats[process].call, name))

    def entries(self, process: ProcessId) -> int:
        """Count how often its user has entered."""
        return self._observer.delays.entries.get(process, 0)

    def after(self, delay: float, action: Action, of: ProcessId | None = None) -> None:
        """Act later; what the user `of` a process is to do dies with the memory of its process."""
        if of is not None:
            action = partial(self._act_as, of, self._lives.get(of, 0), action)
        heappush(self._heap, (self.now + delay, next(self._numbers), FOREGROUND, (), action))

    def _act_as(self, process: ProcessId, life: int, action: Action) -> None:
        if self._lives.get(process, 0) == life:
            action()

    def when_inside(self, process: ProcessId, action: Action) -> None:
        """Act once its user has entered."""
        self._when_inside[process] = action

    def when_silent(self, action: Action) -> None:
        """Act once no message is under way and no user is about to act; timers may be armed."""
        self._when_silent.append(action)

    def when_quiet(self, action: Action) -> None:
        """Act once it is silent and nobody is inside or waiting."""
        self._when_quiet.append(action)

    # Faults: what a script may do

    def at(self, time: float, action: Action) -> None:
        """Let something go wrong, or right again, at that time."""
        self._faults_due += 1
        self._background += 1
        item = time, next(self._numbers), BACKGROUND, (), partial(self._act_on_schedule, action)
        heappush(self._heap, item)

    def _act_on_schedule(self, action: Action) -> None:
        self._faults_due -= 1
        action()
        self._choose_paths()

    def doom(self, process: ProcessId, messages: int) -> None:
        """Let a process send so many more messages, and die when it would send the next."""
        self._doomed[process] = messages

    def _die(self, process: ProcessId) -> None:
        self.crash(process)
        self._choose_paths()

    def crash(self, process: ProcessId) -> None:
        """Stop a process; a dead one stays dead."""
        self._doomed.pop(process, None)
        if process in self._dead:
            return
        self._dead.add(process)
        self._held.setdefault(process, [])
        for sender, message in self._mail.pop(process, []):
            self._refuse(sender, process, message, "receiver down")
        self._observer.crashed(self.now, process)
        for watcher in self._detector.watchers(process):
            self._report(watcher, process)

    def restart(self, process: ProcessId, memory: bool) -> None:
        """Start a dead process again, anew or as it was; a live one is left alone."""
        if process not in self._dead:
            return
        self._dead.remove(process)
        if memory:
            self._observer.record(trace.Started(self.now, process, amnesia=False))
            self._observer.section.returned(process)
            self._catch_up(process)
            return
        del self._held[process]
        self._timers.pop(process, None)
        self._detector.forget(process)
        self._lives[process] = self._lives.get(process, 0) + 1
        codec = SeatCodec(self._seats[process])
        self._seats[process] = codec.restore(self._initial[process])
        was_inside = self._observer.section.forgot(process)
        self._start(process)
        if was_inside:
            self._workload.left(self, process)
        self._ask_if_possible(process)

    def pause(self, process: ProcessId) -> None:
        """Let a process take no steps until it is resumed; a dead one takes none anyway."""
        if process in self._held:
            return
        self._held[process] = []
        self._mail[process] = []
        self._observer.record(trace.Paused(self.now, process))

    def resume(self, process: ProcessId) -> None:
        """Let a paused process go on: first with what has arrived, then with what was due."""
        if process not in self._mail:
            return
        self._observer.record(trace.Resumed(self.now, process))
        self._catch_up(process)

    def _catch_up(self, process: ProcessId) -> None:
        held = self._held.pop(process)
        for sender, message in self._mail.pop(process, []):
            receive = self._seats[process].receive
            opened = self._open(sender, process, message)
            self._step(process, f"a message from {sender}", partial(receive, sender, opened))
        for action in held:
            action()
        self._ask_if_possible(process)

    def cut(self, sides: dict[ProcessId, int]) -> None:
        """Cut the links between different sides."""
        self._links.cut(sides)

    def heal(self, sides: dict[ProcessId, int]) -> None:
        """Undo that."""
        self._links.heal(sides)

    def lose(self, rate: float) -> None:
        """Lose messages with this probability on top of what the network loses."""
        self._links.lose(rate)

    def keep(self, rate: float) -> None:
        """Undo that."""
        self._links.keep(rate)

    def set_clock(self, process: ProcessId, rate: float, offset: float) -> None:
        """Let its clock show rate * time + offset."""
        self._clocks[process] = rate, offset


def _once(values: dict[ProcessId, Any], count: int) -> Any:
    """Give the value that all `count` processes have, or else all values."""
    first = next(iter(values.values()))
    alike = len(values) == count and all(value == first for value in values.values())
    return first if alike else values


def _check_numbering(processes: Sequence[Process[Any]]) -> None:
    ids = [process.me for process in processes]
    if not ids or ids != list(range(1, len(ids) + 1)):
        raise ConfigError("the processes of a simulation are 1 to N in order, at least one")


def _check_limits(**limits: float | None) -> None:
    for name, limit in limits.items():
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} must be greater than 0, not {limit}")
