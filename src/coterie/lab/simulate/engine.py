"""The heart of the simulated world: events in virtual time, and the steps they lead to.

What makes it fast is what it leaves out. A message to many receivers that arrives everywhere at
once is one event; where each has a time of its own, all times are drawn in one go. Each process has
an entry in a table of receivers: its own handler while nothing stands in the way, one that tells
the observer if it follows messages, and a careful one if its process is held, has a clock of its
own, or links are cut. Messages leave in one of four ways, chosen in the same manner, and are weighed
before if their bytes are asked for. So faults, traces and drifting clocks cost nothing unless they are
there.
"""

from __future__ import annotations

from functools import partial
from itertools import islice, repeat
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from coterie import trace
from coterie.errors import ProtocolError
from coterie.lab.simulate.detector import Detector
from coterie.lab.simulate.faults import Restart
from coterie.lab.simulate.monitors import ViolationError, no_such_receiver
from coterie.lab.simulate.network import Constant, Links
from coterie.lab.simulate.outbox import GroupOutbox
from coterie.lab.simulate.schedule import Schedule
from coterie.process import Channel, SeatCodec, line_of, seat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coterie.lab.simulate.faults import Fault
    from coterie.lab.simulate.metrics import Stopped
    from coterie.lab.simulate.network import Network
    from coterie.lab.simulate.observer import Observer
    from coterie.lab.simulate.workload import Action
    from coterie.process import Event, Outbox, Process, ProcessId, Seat

    Forwarder: TypeAlias = Callable[[ProcessId, Sequence[ProcessId], Any], None]
    Handler: TypeAlias = Callable[[Outbox[Any]], None]
    Receiver: TypeAlias = Callable[[ProcessId, Any, Outbox[Any]], None]

# In place of the sender of an item whose message is an action:
FOREGROUND = 0
BACKGROUND = -1  # keeps no run going: timers and faults

EVENTS_MAX = 128  # taken from a short schedule before it forgets them
ROUNDING = 1e-9  # how much later than its bound a message may seem


class Engine:
    """Processes, what is due, and what befalls them; it knows no workload.

    Args:
        processes: numbers 1 to N, in this order; the run changes them.
        network: how messages travel.
        faults: what goes wrong.
        seed: decides all that is random.
        observer: sees every step.
        detection: how long after a crash those that watch the process hear of it.
        hear: lets the user of a process hear an event.
        wake: lets a user go on whose process takes steps again; True if a crash has made its
            process forget that it was inside.
        is_over: called when all is silent: sets new things going, or returns True if nothing is
            left to do.
    """

    # Objects with so many attributes share no table of them, and every message would look some up.
    __slots__ = (
        "_armed",
        "_background",
        "_clocks",
        "_constant",
        "_dead",
        "_delay_max",
        "_detection",
        "_detector",
        "_doomed",
        "_faults",
        "_forward",
        "_hear",
        "_is_over",
        "_links",
        "_logs",
        "_mail",
        "_observer",
        "_out",
        "_receivers",
        "_schedule",
        "_storage",
        "_timers",
        "_wake",
        "faults_due",
        "held",
        "initial",
        "lives",
        "now",
        "seats",
        "size",
    )

    def __init__(
        self,
        processes: Sequence[Process[Any]],
        *,
        network: Network,
        faults: Sequence[Fault],
        seed: int,
        observer: Observer,
        detection: float,
        hear: Callable[[ProcessId, Event], None],
        wake: Callable[[ProcessId, bool], None],
        is_over: Callable[[], bool],
    ) -> None:
        """Seat the processes; nothing happens yet."""
        self.size = len(processes)
        self.now = 0.0
        self.faults_due = 0  # what goes wrong, or right again, later
        self._observer = observer
        self._hear = hear
        self._wake = wake
        self._is_over = is_over
        self._schedule = Schedule()
        self._background = 0  # items in the schedule that keep no run going

        self.seats = [seat(processes[0]), *map(seat, processes)]  # as they are now; none sits at 0
        self._out = GroupOutbox()
        self._timers: dict[ProcessId, dict[str, int]] = {}  # armed, each with a number of its own
        self._armed = 0  # timers so far
        self._clocks: dict[ProcessId, tuple[float, float]] = {}  # rate and offset, if not 1 and 0
        self._dead: set[ProcessId] = set()
        self.held: dict[ProcessId, list[Action]] = {}  # what the dead and the paused would do
        self._mail: dict[ProcessId, list[tuple[ProcessId, Any]]] = {}  # what the paused have got
        self.lives: dict[ProcessId, int] = {}  # restarts without memory
        self._storage: dict[ProcessId, bytes] = {}  # what outlives a crash
        self._logs: dict[ProcessId, list[bytes]] = {}  # and what was appended to it
        self._doomed: dict[ProcessId, int] = {}  # messages that still leave before it dies
        self._detector = Detector()
        self._detection = detection
        self._faults = faults
        self.initial = _initial(self.seats, faults)  # of those that may forget
        bounds = [bound for process in processes if (bound := process.delay_max()) is not None]
        self._delay_max = min(bounds, default=None)

        self._links = _links(network, processes, seed)
        self._constant = network.latency.value if isinstance(network.latency, Constant) else None
        # A process that does not exist has the number 0, is beyond the list, or, counted from its end,
        # in its second half: so to notice one costs nothing.
        self._receivers: list[Receiver] = [_receive_nothing] * (2 * self.size + 1)
        self._forward: Forwarder | None = None  # None: each message needs a time, no more
        self._choose_paths()

    @property
    def events(self) -> int:
        """How many things have happened so far."""
        return self._schedule.pruned + self._schedule.head

    def start(self) -> None:
        """Schedule the faults and start all processes."""
        for fault in self._faults:
            fault.stage(self)
        self._choose_paths()
        for process in range(1, self.size + 1):
            self._start(process)

    # What a simulation asks and does

    def live(self) -> list[ProcessId]:
        """Return the processes that are not down."""
        return [me for me in range(1, self.size + 1) if me not in self._dead]

    def clock(self, process: ProcessId) -> float:
        """Return the time that the process's own clock shows."""
        rate, offset = self._clocks.get(process, (1.0, 0.0))
        return rate * self.now + offset

    def is_silent(self) -> bool:
        """Return whether no message is under way and no user is about to act."""
        return len(self._schedule) == self._background

    def has_mail(self) -> bool:
        """Return whether a message waits for a process that is paused."""
        return any(self._mail.values())

    def has_ended(self) -> bool:
        """Return whether nothing can happen any more."""
        return not self._schedule

    def postpone(self, process: ProcessId, action: Action) -> None:
        """Act once a process takes steps again that takes none now."""
        self.held[process].append(action)

    def call(self, process: ProcessId, name: str) -> None:
        """Let a user make a call."""
        if self._observer.trace is not None:
            self._observer.record(trace.Called(self.now, process, name))
        out, seat = self._out, self.seats[process]
        out.me = process
        out.now = self.clock(process) if self._clocks else self.now
        try:
            seat.user.call(name, seat.process, out)
        except Exception as error:
            raise self._raised(error, process, name) from error
        self._carry_out(process, name)

    def after(self, delay: float, action: Action) -> None:
        """Act later; the run goes on until then."""
        self._schedule.add((self.now + delay, FOREGROUND, 0, action))

    def run(self, end: float, max_events: int) -> Stopped:
        """Go on until nothing is left to do, to a time, or for a number of events."""
        schedule = self._schedule
        while self.events < max_events:
            if schedule.refill():
                stopped = self._take(end, max_events)
                if stopped is not None:
                    return stopped
            elif self._is_over():
                return "done"
            else:
                assert schedule, "a run with nothing left to happen is over"
        return "event limit"

    def _take(self, end: float, max_events: int) -> Stopped | None:
        """Let some of the things happen that are due; None if more may follow.

        Every message passes through this loop, so it makes no call that it can do without. What
        is put into the schedule meanwhile comes later in the list, and the iterator finds it there.
        """
        schedule, out = self._schedule, self._out
        receivers, received = self._receivers, self._observer.received
        head = 0  # that of the schedule, which is told of it when others may look
        # Forgetting moves what is left, so the more is left, the more is taken before.
        count = min(max(EVENTS_MAX, len(schedule.near) // 4), max_events - self.events)
        for time, sender, to, message in islice(schedule.near, count):
            if sender > FOREGROUND and time <= end:
                head += 1
                self.now = out.now = time
                out.me = to
                try:
                    received[to] += 1
                    receivers[to](sender, message, out)
                except Exception as error:
                    schedule.head = head
                    raise self._failed(error, sender, to, message) from error
                if out.used:
                    schedule.head = head
                    self._carry_out(to)
                continue
            schedule.head = head
            if sender == BACKGROUND or time > end:
                added = schedule.added
                if self.is_silent() and self._is_over():
                    return "done"
                if schedule.added > added:  # it may be due before
                    return None
                if time > end:
                    self.now = end
                    return "time limit"
                self._background -= 1
            schedule.head = head = head + 1
            self.now = time
            message()
        schedule.head = head
        return None

    def _deliver_to_all(self, sender: ProcessId, group: Sequence[ProcessId], message: Any) -> None:
        """Deliver a message that arrives everywhere now."""
        time, out = self.now, self._out
        receivers, received = self._receivers, self._observer.received
        for to in group:
            out.now = time  # a receiver before this one may have a clock of its own
            out.me = to
            try:
                received[to] += 1
                receivers[to](sender, message, out)
            except Exception as error:
                raise self._failed(error, sender, to, message) from error
            if out.used:
                self._carry_out(to)

    def _failed(
        self, error: Exception, sender: ProcessId, to: ProcessId, message: Any
    ) -> ViolationError:
        """Say what came of a message: its receiver raised, or there is none.

        Where messages are followed, the observer has noticed the latter before.
        """
        if to in range(1, self.size + 1):
            return self._raised(error, to, f"a message from {sender}")
        return no_such_receiver(sender, to, message, self.size)

    def _raised(self, error: Exception, process: ProcessId, cause: str) -> ViolationError:
        line = line_of(error, self.seats[process].process)
        return ViolationError("raised", f"process {process} raised {error!r} on {cause}{line}")

    def _choose_paths(self) -> None:
        """Take the short way for messages wherever nothing stands in it."""
        followed, whole = self._observer.follows_messages, self._links.whole
        for process in range(1, self.size + 1):
            if not whole or process in self.held or process in self._clocks:
                self._receivers[process] = self._receive_with_care
            elif followed:
                receive = self.seats[process].process.receive
                self._receivers[process] = self._observer.follow(process, receive, self)
            else:
                self._receivers[process] = self.seats[process].process.receive
        if not self._links.reliable:
            self._forward = self._post_each
        elif followed or self._delay_max is not None:
            self._forward = self._dispatch
        elif self._constant is not None:
            self._forward = partial(self._send_as_one, self._constant)
        else:
            self._forward = None
        if self._observer.bytes is not None:
            self._forward = partial(self._weigh, self._forward or self._dispatch)
        if self._links.multicast:
            self._forward = partial(self._count_once, self._forward or self._dispatch)

    # Steps of a process, and what comes of them

    def _step(self, process: ProcessId, doing: str, handler: Handler) -> None:
        """Let a process take a step, and carry out what it wishes."""
        self._turn_to(process)
        try:
            handler(self._out)
        except Exception as error:
            raise self._raised(error, process, doing) from error
        self._carry_out(process, doing)

    def _turn_to(self, process: ProcessId) -> None:
        self._out.me = process
        self._out.now = self.clock(process) if self._clocks else self.now

    def _start(self, process: ProcessId) -> None:
        self._observer.record(trace.Started(self.now, process))
        self._out.incarnation = self.lives.get(process, 0)
        self._out.saved = self._storage.get(process, b"")
        self._out.log = self._logs.get(process, ())
        self._step(process, "start", self.seats[process].process.start)

    def _receive_with_care(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
        """Take a message where something stands in the way, or an observer looks on."""
        to = out.me
        cut = self._links.is_cut(sender, to)
        if cut or to in self._dead:
            self._refuse(sender, to, message, "link cut" if cut else "receiver down")
        elif to in self.held:
            self._mail[to].append((sender, message))
        else:
            self._turn_to(to)
            self.seats[to].process.receive(sender, self._open(sender, to, message), out)

    def _open(self, sender: ProcessId, receiver: ProcessId, message: Any) -> Any:
        if not self._observer.follows_messages:
            return message
        self._observer.delivered(self.now, sender, receiver, message)
        return message[1]

    def _carry_out(self, process: ProcessId, doing: str = "the end of a step") -> None:
        """End the step of a process, and carry out what it wishes."""
        out = self._out
        if out.beyond:
            try:
                self.seats[process].settle(out)
            except Exception as error:
                raise self._raised(error, process, doing) from error
            if out.durable:
                self._store(process)
        out.used = False
        if out.groups:
            if process in self._doomed:
                self._cut_short(process)
            observer, forward, schedule = self._observer, self._forward, self._schedule
            for receivers, message in out.groups:
                count = len(receivers)
                observer.sent[process] += count
                observer.kinds[type(message)] += count
                if forward is not None:
                    forward(process, receivers, message)
                elif count > 1:
                    mail = self._links.mail
                    schedule.add_many(mail(process, receivers, message, self.now))
                else:
                    to = receivers[0]
                    time = self._links.arrival(process, to, self.now)
                    schedule.add((time, process, to, message))
            out.groups.clear()
        if out.beyond:
            self._fulfil(process)

    def _fulfil(self, process: ProcessId) -> None:
        """Do what a step wishes beyond messages, after those have left."""
        out, observer, hear = self._out, self._observer, self._hear
        out.beyond = False
        if out.timers:
            self._arm(process)
        if out.watches:
            self._watch(process)
        if out.events:
            events, out.events = out.events, []
            for event in events:
                if observer.trace is not None:
                    observer.record(trace.told(self.now, process, event))
                hear(process, event)

    def _store(self, process: ProcessId) -> None:
        out = self._out
        out.durable = False
        if out.to_save is not None:
            self._storage[process], out.to_save = out.to_save, None
            self._logs[process] = []
        if out.appended:
            self._logs.setdefault(process, []).extend(out.appended)
            out.appended.clear()

    def _cut_short(self, process: ProcessId) -> None:
        """Let no more messages leave than a doomed process has left to send; with the next it dies."""
        out = self._out
        wished, out.groups = out.groups, []
        for receivers, message in wished:
            leaving = receivers[: self._doomed[process]]
            self._doomed[process] -= len(leaving)
            if leaving:
                out.groups.append((leaving, message))
            if len(leaving) < len(receivers):
                for wishes in (out.timers, out.watches, out.events):
                    wishes.clear()
                out.beyond = False
                del self._doomed[process]
                self._carry_out(process)
                self.crash(process)
                self._choose_paths()
                return

    def _weigh(
        self, forward: Forwarder, sender: ProcessId, receivers: Sequence[ProcessId], message: Any
    ) -> None:
        """Send, and add up the sizes of what is sent."""
        self._observer.weighed(1 if self._links.multicast else len(receivers), message)
        forward(sender, receivers, message)

    def _count_once(
        self, forward: Forwarder, sender: ProcessId, receivers: Sequence[ProcessId], message: Any
    ) -> None:
        """Send, and count one message, whose copies the network makes."""
        copies = len(receivers) - 1
        self._observer.sent[sender] -= copies
        self._observer.kinds[type(message)] -= copies
        forward(sender, receivers, message)

    def _send_as_one(
        self, delay: float, sender: ProcessId, receivers: Sequence[ProcessId], message: Any
    ) -> None:
        """Send where all messages take equally long, and nothing else is to be known of them."""
        if len(receivers) == 1:
            self._schedule.add((self.now + delay, sender, receivers[0], message))
        else:
            self.after(delay, partial(self._deliver_to_all, sender, receivers, message))

    def _dispatch(self, sender: ProcessId, receivers: Sequence[ProcessId], message: Any) -> None:
        """Send over links that deliver each message once, but are watched or have a bound."""
        letters: Iterable[Any] = repeat(message)
        if self._observer.follows_messages:
            letters = self._observer.posted(self.now, sender, receivers, message)
        times = self._links.times(sender, receivers, self.now)
        if len(receivers) == 1 and self._delay_max is None:
            self._schedule.add((times[0], sender, receivers[0], next(iter(letters))))
            return
        if self._delay_max is not None:
            bound = self._delay_max + ROUNDING
            self._observer.late += sum(time - self.now > bound for time in times)
        items = zip(times, repeat(sender), receivers, letters, strict=False)
        self._schedule.add_many(list(items))

    def _post_each(self, sender: ProcessId, receivers: Sequence[ProcessId], message: Any) -> None:
        """Send over links that may fail."""
        for receiver in receivers:
            self._post(sender, receiver, message)

    def _post(self, sender: ProcessId, receiver: ProcessId, message: Any) -> None:
        """Send one message over a link that may fail, be random or be watched."""
        if self._observer.follows_messages:
            [message] = self._observer.posted(self.now, sender, (receiver,), message)
        if self._links.is_cut(sender, receiver):
            self._drop(sender, receiver, message, "link cut")
            return
        arrivals = self._links.arrivals(sender, receiver, self.now)
        for time in arrivals:
            if self._delay_max is not None and time - self.now > self._delay_max + ROUNDING:
                self._observer.late += 1
            self._schedule.add((time, sender, receiver, message))
        if not arrivals:
            self._drop(sender, receiver, message, "lost")

    def _refuse(self, sender: ProcessId, receiver: ProcessId, message: Any, reason: str) -> None:
        """Drop a message that has arrived, and was counted when it did."""
        self._observer.received[receiver] -= 1
        self._drop(sender, receiver, message, reason)

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
                self._armed += 1
                armed[name] = self._armed
                ring = partial(self._ring, process, name, self._armed)
                self._add_to_background(self.now + after / rate, ring)

    def _add_to_background(self, time: float, action: Action) -> None:
        self._background += 1
        self._schedule.add((time, BACKGROUND, 0, action))

    def _ring(self, process: ProcessId, name: str, number: int) -> None:
        if self._timers.get(process, {}).get(name) != number:  # cancelled, set again or forgotten
            return
        if process in self.held:
            self.held[process].append(partial(self._ring, process, name, number))
            return
        del self._timers[process][name]
        self._observer.record(trace.Rang(self.now, process, name))
        self._step(process, f"timer {name}", partial(self.seats[process].process.ring, name))

    def _watch(self, process: ProcessId) -> None:
        watches, self._out.watches = self._out.watches, []
        self._detector.change(process, watches, self.lives)
        for peer, wanted in watches:
            if wanted and peer in self._dead:
                self._report(process, peer)

    def _report(self, process: ProcessId, peer: ProcessId) -> None:
        """Let a process hear, as soon as the detector has noticed, that another one is down."""
        item = partial(self._notice, process, peer, self.lives.get(peer, 0))
        self.after(self._detection, item)

    def _notice(self, process: ProcessId, peer: ProcessId, life: int) -> None:
        if process in self.held:
            self.held[process].append(partial(self._notice, process, peer, life))
        elif self._detector.take(process, peer, life):
            self._observer.record(trace.Noticed(self.now, process, peer))
            down = self.seats[process].process.down
            self._step(process, f"the crash of {peer}", partial(down, peer))

    # Faults: what a script may do

    def at(self, time: float, action: Action) -> None:
        """Let something go wrong, or right again, at that time."""
        self.faults_due += 1
        self._add_to_background(time, partial(self._act_on_schedule, action))

    def _act_on_schedule(self, action: Action) -> None:
        self.faults_due -= 1
        action()
        self._choose_paths()

    def doom(self, process: ProcessId, messages: int) -> None:
        """Let a process send this many more messages, and die when it would send the next."""
        self._doomed[process] = messages

    def crash(self, process: ProcessId) -> None:
        """Stop a process; a dead one stays dead."""
        self._doomed.pop(process, None)
        if process in self._dead:
            return
        self._dead.add(process)
        self.held.setdefault(process, [])
        for sender, message in self._mail.pop(process, []):
            self._refuse(sender, process, message, "receiver down")
        self._observer.crashed(self.now, process)
        for watcher in self._detector.watchers(process):
            self._report(watcher, process)

    def restart(self, process: ProcessId, memory: bool) -> None:
        """Start a dead process again, without memory or as it was; a live one is left alone."""
        if process not in self._dead:
            return
        self._dead.remove(process)
        if memory:
            self._observer.record(trace.Started(self.now, process, amnesia=False))
            self._observer.section.returned(process)
            self._catch_up(process)
            return
        del self.held[process]
        self._timers.pop(process, None)
        self._detector.forget(process)
        life = self.lives.get(process, 0)
        self.lives[process] = life + 1
        for watcher in self._detector.watchers(process):
            self._notice(watcher, process, life)
        codec = SeatCodec(self.seats[process])
        self.seats[process] = codec.restore(self.initial[process])
        was_inside = self._observer.section.forgot(process)
        self._start(process)
        self._wake(process, was_inside)

    def pause(self, process: ProcessId) -> None:
        """Let a process take no steps until it is resumed; a dead one takes none anyway."""
        if process in self.held:
            return
        self.held[process] = []
        self._mail[process] = []
        self._observer.record(trace.Paused(self.now, process))

    def resume(self, process: ProcessId) -> None:
        """Let a paused process go on: first with what has arrived, then with what was due."""
        if process not in self._mail:
            return
        self._observer.record(trace.Resumed(self.now, process))
        self._catch_up(process)

    def _catch_up(self, process: ProcessId) -> None:
        held = self.held.pop(process)
        for sender, message in self._mail.pop(process, []):
            receive = self.seats[process].process.receive
            opened = self._open(sender, process, message)
            self._step(process, f"a message from {sender}", partial(receive, sender, opened))
        for action in held:
            action()
        self._wake(process, False)

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


def _initial(
    seats: Sequence[Seat], faults: Sequence[Fault]
) -> dict[ProcessId, tuple[bytes, bytes]]:
    """Save, as they begin, the processes that will begin again without memory."""
    again = {fault.process for fault in faults if isinstance(fault, Restart) and not fault.memory}
    return {process: SeatCodec(seats[process]).save(seats[process]) for process in again}


def _links(network: Network, processes: Sequence[Process[Any]], seed: int) -> Links:
    fifo = network.fifo
    if fifo is None:
        fifo = any(process.channel is Channel.FIFO for process in processes)
    return Links(network, fifo, Random(f"{seed}/latency"), Random(f"{seed}/chance"))


def _receive_nothing(_: ProcessId, __: Any, out: Outbox[Any]) -> None:
    raise ProtocolError(f"process {out.me} does not exist")
