"""The simulated world: a heap of events in virtual time, and one seed that decides everything.

What makes it fast is what it leaves out. A message to many receivers that arrives everywhere at
once is one event. Each process has an entry in a table of receivers: its own handler while nothing
stands in the way, a careful one otherwise; so faults, traces and drifting clocks cost nothing
unless they are there.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from coterie import trace
from coterie.errors import ConfigError, MisuseError, UsageError
from coterie.process import Channel, Entered, MutexUser, SeatCodec, encode, seat
from coterie.simulate.faults import Restart, check_faults
from coterie.simulate.monitors import ViolationError
from coterie.simulate.network import Constant, Links, Network
from coterie.simulate.observer import Observer
from coterie.simulate.outbox import GroupOutbox
from coterie.simulate.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.process import Outbox, Process, ProcessId
    from coterie.simulate.faults import Fault
    from coterie.simulate.metrics import Result, Stopped
    from coterie.simulate.monitors import Violation
    from coterie.simulate.observer import Order
    from coterie.simulate.workload import Action

    Handler: TypeAlias = Callable[[Outbox[Any]], None]
    Receiver: TypeAlias = Callable[[ProcessId, Any, Outbox[Any]], None]

# In the heap: time, a unique number, sender, receivers, message; or one of these in place of a
# sender and an action in place of a message. What is due in the background keeps no run going.
FOREGROUND = 0
BACKGROUND = -1


class Simulation:
    """One run of some processes under a workload, with faults or without.

    Args:
        processes: numbers 1 to N, in this order; the run changes them.
        workload: who asks when; the default asks nothing.
        network: how messages travel.
        faults: what goes wrong.
        seed: decides all that is random; the same seed gives the same result, byte for byte.
        header: if given, the result holds a trace that begins with it.
        until: run to this time; without it, until the workload is over and all is quiet.
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
        max_time: float = math.inf,
        max_events: int = 10_000_000,
        measure_bytes: bool = False,
        order: Order = "ignore",
    ) -> None:
        """Set everything up; nothing happens before `run`."""
        if [process.me for process in processes] != list(range(1, len(processes) + 1)):
            raise ConfigError("the processes of a simulation are 1 to N in order, at least one")
        for name, limit in (("until", until), ("max_time", max_time), ("max_events", max_events)):
            if limit is not None and not limit > 0:
                raise UsageError(f"{name} must be greater than 0, not {limit}")
        check_faults(faults, len(processes))
        network = network or Network()
        self.size = len(processes)
        self.now = 0.0
        self.random = Random(f"{seed}/workload")
        self._seed = seed
        self._workload = workload or Workload()
        self._faults = faults
        self._until = until
        self._end = min(max_time, math.inf if until is None else until)
        self._max_events = max_events

        self._heap: list[tuple[float, int, int, Sequence[ProcessId], Any]] = []
        self._numbers = itertools.count()  # put events of the same time in order
        self._events = 0
        self._background = 0  # how many in the heap
        self._faults_due = 0
        self._when_silent: list[Action] = []
        self._when_quiet: list[Action] = []

        self._seats = [seat(processes[0]), *map(seat, processes)]  # nobody sits at 0
        self._out = GroupOutbox()
        self._timers: dict[ProcessId, dict[str, int]] = {}  # armed, with the number of the event
        self._clocks: dict[ProcessId, tuple[float, float]] = {}  # rate and offset, if not 1 and 0
        self._wants: dict[ProcessId, int] = {}  # requests not served yet
        self._dead: set[ProcessId] = set()
        self._held: dict[ProcessId, list[Action]] = {}  # what the dead and the paused would do
        self._mail: dict[ProcessId, list[tuple[ProcessId, Any]]] = {}  # what the paused have got
        self._lives: dict[ProcessId, int] = {}  # restarts without memory
        self._codec = SeatCodec(self._seats[1])
        self._initial = {
            fault.process: self._codec.save(self._seats[fault.process])
            for fault in faults
            if isinstance(fault, Restart) and not fault.memory
        }
        fifo = network.fifo
        if fifo is None:
            fifo = any(process.channel is Channel.FIFO for process in processes)
        self._links = Links(network, fifo, Random(f"{seed}/latency"), Random(f"{seed}/chance"))
        self._constant = network.latency.value if isinstance(network.latency, Constant) else None
        self._observer = Observer(self.size, header, order, measure_bytes)
        self._receivers: list[Receiver] = [self._receive_with_care] * (self.size + 1)

    # The run

    def run(self) -> Result:
        """Run once: to the end, to a limit or to the first violation."""
        if self._events:
            raise MisuseError("a simulation runs once; build another one")
        violations: list[Violation] = []
        try:
            self._begin()
            stopped = self._loop()
            if not self._heap:
                self._observer.section.check_progress()
        except ViolationError as error:
            stopped = "violation"
            violations.append(self._observer.violated(self.now, error))
        return self._observer.result(
            seed=self._seed,
            stopped=stopped,
            time=self.now,
            events=self._events,
            violations=violations,
        )

    def _begin(self) -> None:
        for fault in self._faults:
            fault.stage(self)
        self._choose_paths()
        for process in range(1, self.size + 1):
            self._start(process)
        self._workload.start(self)

    def _loop(self) -> Stopped:
        heap, out, receivers = self._heap, self._out, self._receivers
        received, end = self._observer.received, self._end
        for _ in range(self._max_events):
            self._events += 1
            if len(heap) == self._background and self._is_over():
                self.now = self._until or self.now
                return "done"
            time, _, sender, group, message = heappop(heap)
            if time > end:
                self.now = end
                return "done" if end == self._until else "time limit"
            self.now = out.now = time
            if sender > FOREGROUND:
                for to in group:
                    out.me = to
                    received[to] += 1
                    try:
                        receivers[to](sender, message, out)
                    except Exception as error:
                        raise _raised(error, to, f"a message from {sender}") from error
                    if out.used:
                        self._settle(to)
                        self._carry_out(to)
            else:
                self._background += sender  # BACKGROUND: one less of those
                message()
        return "event limit"

    def _is_over(self) -> bool:
        """Now that all is silent, go on with the workload; tell whether nothing is left to do."""
        while len(self._heap) == self._background:
            if self._when_silent:
                self._when_silent.pop(0)()
            elif self._when_quiet and self._observer.section.idle:
                self._when_quiet.pop(0)()
            else:
                idle = self._observer.section.idle and not self._faults_due
                return not self._heap or (idle and self._until is None)
        return False

    # Steps of a process, and what comes of them

    def _step(self, process: ProcessId, doing: str, handler: Handler) -> None:
        """Let a seat take a step, and carry out what it wishes."""
        self._turn_to(process)
        try:
            handler(self._out)
        except Exception as error:
            raise _raised(error, process, doing) from error
        self._carry_out(process)

    def _turn_to(self, process: ProcessId) -> None:
        rate, offset = self._clocks.get(process, (1.0, 0.0))
        self._out.me = process
        self._out.now = rate * self.now + offset

    def _start(self, process: ProcessId) -> None:
        self._observer.record(trace.Started(self.now, process))
        self._step(process, "start", self._seats[process].start)

    def _settle(self, process: ProcessId) -> None:
        """End a step that a process took without its seat."""
        try:
            self._seats[process].settle(self._out)
        except Exception as error:
            raise _raised(error, process, "the end of a step") from error

    def _receive_with_care(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
        """Take a message where something stands in the way, or somebody looks on."""
        to = out.me
        cut = self._links.is_cut(sender, to)
        if cut or to in self._dead:
            self._observer.received[to] -= 1
            self._drop(sender, to, message, "link cut" if cut else "receiver down")
        elif to in self._held:
            self._mail[to].append((sender, message))
        else:
            self._turn_to(to)
            self._seats[to].process.receive(sender, self._open(sender, to, message), out)

    def _open(self, sender: ProcessId, receiver: ProcessId, message: Any) -> Any:
        if not self._observer.follows_messages:
            return message
        self._observer.delivered(self.now, sender, receiver, message)
        return message[1]

    def _carry_out(self, process: ProcessId) -> None:
        out = self._out
        out.used = False
        if out.groups:
            self._transmit(process)
        if out.timers:
            self._arm(process)
        if out.events:
            self._tell(process)

    def _transmit(self, sender: ProcessId) -> None:
        groups, self._out.groups = self._out.groups, []
        observer = self._observer
        for receivers, message in groups:
            observer.sent[sender] += len(receivers)
            observer.kinds[type(message)] += len(receivers)
            if observer.bytes is not None:
                observer.bytes += len(receivers) * len(encode(message))
            if self._delay is not None:
                item = self.now + self._delay, next(self._numbers), sender, receivers, message
                heappush(self._heap, item)
            else:
                for receiver in receivers:
                    self._post(sender, receiver, message)

    def _post(self, sender: ProcessId, receiver: ProcessId, message: Any) -> None:
        """Send one message over a link that may fail, be random or be watched."""
        if self._observer.follows_messages:
            message = self._observer.posted(self.now, sender, receiver, message)
        if self._links.is_cut(sender, receiver):
            self._drop(sender, receiver, message, "link cut")
            return
        arrivals = self._links.arrivals(sender, receiver, self.now)
        for time in arrivals:
            heappush(self._heap, (time, next(self._numbers), sender, (receiver,), message))
        if not arrivals:
            self._drop(sender, receiver, message, "lost")

    def _drop(self, sender: ProcessId, receiver: ProcessId, message: Any, reason: str) -> None:
        if self._observer.follows_messages:
            record = trace.Dropped(self.now, message[0], sender, receiver, reason)
            self._observer.record(record)

    def _arm(self, process: ProcessId) -> None:
        timers, self._out.timers = self._out.timers, []
        armed = self._timers.setdefault(process, {})
        rate, _ = self._clocks.get(process, (1.0, 0.0))
        for name, after in timers:
            if after is None:
                armed.pop(name, None)
            else:
                armed[name] = number = next(self._numbers)
                ring = partial(self._ring, process, name, number)
                self._background += 1
                heappush(self._heap, (self.now + after / rate, number, BACKGROUND, (), ring))

    def _ring(self, process: ProcessId, name: str, number: int) -> None:
        if self._timers.get(process, {}).get(name) != number:  # cancelled, set anew or forgotten
            return
        if process in self._held:
            self._held[process].append(partial(self._ring, process, name, number))
            return
        del self._timers[process][name]
        self._observer.record(trace.Rang(self.now, process, name))
        self._step(process, f"timer {name}", partial(self._seats[process].ring, name))

    def _tell(self, process: ProcessId) -> None:
        events, self._out.events = self._out.events, []
        for event in events:
            if self._observer.trace is not None:
                self._observer.record(trace.told(self.now, process, event))
            if isinstance(event, Entered):
                self._wants[process] -= 1
                self._observer.entered(self.now, process)
            self._workload.told(self, process, event)

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
        self._observer.left(self.now, process)
        self._call(process, "release")
        self._workload.left(self, process)
        self._ask_if_possible(process)

    def _call(self, process: ProcessId, name: str) -> None:
        self._observer.record(trace.Called(self.now, process, name))
        self._step(process, name, partial(self._seats[process].call, name))

    def is_inside(self, process: ProcessId) -> bool:
        """Tell whether its user is in the critical section."""
        return process in self._observer.section.inside

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

    def _choose_paths(self) -> None:
        """Take the short way for messages wherever nothing stands in it."""
        short = not self._clocks and not self._observer.follows_messages and self._links.whole
        for process in range(1, self.size + 1):
            self._receivers[process] = (
                self._seats[process].process.receive
                if short and process not in self._held
                else self._receive_with_care
            )
        direct = self._links.certain and not self._observer.follows_messages
        self._delay = self._constant if direct else None

    def crash(self, process: ProcessId) -> None:
        """Stop a process; a dead one stays dead."""
        if process in self._dead:
            return
        self._dead.add(process)
        self._held.setdefault(process, [])
        self._mail.pop(process, None)
        self._observer.crashed(self.now, process)

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
        self._lives[process] = self._lives.get(process, 0) + 1
        self._seats[process] = self._codec.restore(self._initial[process])
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


def _raised(error: Exception, process: ProcessId, cause: str) -> ViolationError:
    return ViolationError("raised", f"process {process} raised {error!r} on {cause}")
