"""One run: processes, their users with a workload, and the faults that befall them."""

from __future__ import annotations

import math
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from coterie.errors import ConfigError, MisuseError, UsageError
from coterie.lab.simulate.engine import Engine
from coterie.lab.simulate.faults import check_faults
from coterie.lab.simulate.monitors import ViolationError
from coterie.lab.simulate.network import Network
from coterie.lab.simulate.observer import Observer
from coterie.lab.simulate.workload import Workload
from coterie.process import Entered, Mutex, MutexUser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie import trace
    from coterie.lab.simulate.faults import Fault
    from coterie.lab.simulate.metrics import Result, Stopped
    from coterie.lab.simulate.monitors import Violation
    from coterie.lab.simulate.observer import Order
    from coterie.lab.simulate.workload import Action
    from coterie.process import Event, Process, ProcessId


class Simulation:
    """One run of some processes under a workload, with faults or without.

    Args:
        processes: numbers 1 to N, in this order; the run changes them.
        workload: which user asks when; the default asks nothing.
        network: how messages travel.
        faults: what goes wrong.
        seed: decides all that is random; the same seed gives the same result, byte for byte.
        header: if given, the result holds a trace that begins with it.
        until: run to this time; without it, until the workload is over and all is quiet.
        detection: how long after a crash those that watch the process hear of it.
        max_time: give up at this time.
        max_events: the number of events after which to give up.
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
        self.size = len(processes)
        self.random = Random(f"{seed}/workload")
        self._observer = Observer(self.size, header, order, measure_bytes, self._holds)
        self._engine = Engine(
            processes,
            network=network or Network(),
            faults=faults,
            seed=seed,
            observer=self._observer,
            detection=detection,
            hear=self._hear,
            wake=self._wake,
            is_over=self._is_over,
        )
        self._seed = seed
        self._workload = workload or Workload()
        self._until = until
        self._max_time = max_time
        self._max_events = max_events
        self._begun = False
        self._when_inside: dict[ProcessId, Action] = {}
        self._when_silent: list[Action] = []
        self._when_quiet: list[Action] = []
        self._wants = [0] * (self.size + 1)  # requests of each process not served yet; none is 0

    def run(self) -> Result:
        """Run once: to the end, to a limit or to the first violation."""
        if self._begun:
            raise MisuseError("a simulation runs once; build another one")
        self._begun = True
        violations: list[Violation] = []
        try:
            stopped, time = self._run()
        except ViolationError as error:
            stopped, time = "violation", self._engine.now
            violations.append(self._observer.violated(time, error))
        result = self._observer.result(
            seed=self._seed,
            stopped=stopped,
            time=time,
            events=self._engine.events,
            violations=violations,
        )
        if not violations:  # after which a process may be in no state to tell
            result.facts = self._facts()
        return result

    def _facts(self) -> dict[str, Any]:
        """Ask the live processes: what all of them say alike is said once, the rest by process."""
        live = self._engine.live()
        told: dict[str, dict[ProcessId, Any]] = {}
        for process in live:
            for name, value in self.process(process).facts().items():
                told.setdefault(name, {})[process] = value
        return {name: _once(values, len(live)) for name, values in told.items()}

    def _run(self) -> tuple[Stopped, float]:
        """Run, and return why it stopped and when."""
        engine = self._engine
        engine.start()
        self._workload.start(self)
        until = math.inf if self._until is None else self._until
        end = min(until, self._max_time)
        stopped = engine.run(end, self._max_events)
        self._observer.check_messages()
        if stopped == "done" and engine.has_ended():
            self._observer.section.check_progress()
        if stopped == "event limit" or self._until is None or end < until:
            return stopped, engine.now
        return "done", until

    def _is_over(self) -> bool:
        """Now that all is silent, go on with the workload; return whether nothing is left to do."""
        engine, section = self._engine, self._observer.section
        while engine.is_silent():
            if engine.has_mail():  # under way still, to one that sleeps
                return False
            if self._when_silent:
                self._when_silent.pop(0)()
            elif self._when_quiet and section.idle:
                self._when_quiet.pop(0)()
            else:
                idle = section.idle and not engine.faults_due
                return engine.has_ended() or (idle and self._until is None)
        return False

    def _hear(self, process: ProcessId, event: Event) -> None:
        if isinstance(event, Entered):
            self._wants[process] -= 1
            self._observer.entered(self._engine.now, process)
            if process in self._when_inside:
                self._when_inside.pop(process)()
        self._workload.told(self, process, event)

    def _wake(self, process: ProcessId, was_inside: bool) -> None:
        if was_inside:
            self._workload.left(self, process)
        self._ask_if_possible(process)

    def _holds(self, process: ProcessId) -> bool:
        mutex = self.process(process)
        return not isinstance(mutex, Mutex) or mutex.holds(self._engine.clock(process))

    def process(self, process: ProcessId) -> Process[Any]:
        """Return a process as it is now; after a restart without memory it is another value."""
        return self._engine.seats[process].process

    # Users: what a workload may do

    def ask(self, process: ProcessId) -> None:
        """Let its user acquire: now, or as soon as it can."""
        if not isinstance(self._engine.seats[process].user, MutexUser):
            raise ConfigError(f"process {process} is not a mutex, so its user cannot ask to enter")
        self._wants[process] += 1
        self._ask_if_possible(process)

    def _ask_if_possible(self, process: ProcessId) -> None:
        engine = self._engine
        if not self._wants[process] or process in engine.held:
            return
        if "acquire" in engine.seats[process].user.calls():
            self._observer.asked(engine.now, process)
            engine.call(process, "acquire")

    def leave(self, process: ProcessId) -> None:
        """Let its user release: now, or when it takes steps again."""
        engine, observer = self._engine, self._observer
        if process in engine.held:
            engine.postpone(process, partial(self.leave, process))
            return
        if process not in observer.section.inside:  # a crash has ended its stay
            return
        observer.left(engine.now, process)
        engine.call(process, "release")
        self._workload.left(self, process)
        if process not in observer.section.waiting:
            self._ask_if_possible(process)

    def entries(self, process: ProcessId) -> int:
        """Count how often its user has entered."""
        return self._observer.delays.entries.get(process, 0)

    def after(self, delay: float, action: Action, of: ProcessId | None = None) -> None:
        """Act later; what the user `of` a process is to do dies with the memory of its process."""
        if of in self._engine.initial:
            action = partial(self._act_as, of, self._engine.lives.get(of), action)
        self._engine.after(delay, action)

    def _act_as(self, process: ProcessId, life: int | None, action: Action) -> None:
        if self._engine.lives.get(process) == life:
            action()

    def when_inside(self, process: ProcessId, action: Action) -> None:
        """Act once its user has entered."""
        self._when_inside[process] = action

    def when_silent(self, action: Action) -> None:
        """Act once no message is under way and no user is about to act; timers may be armed."""
        self._when_silent.append(action)

    def when_quiet(self, action: Action) -> None:
        """Act once it is silent and no user is inside or waiting."""
        self._when_quiet.append(action)


def _once(values: dict[ProcessId, Any], count: int) -> Any:
    """Return the value that all `count` processes have, or else all values."""
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
            raise UsageError(f"{name} must be greater than 0, got {limit}")
