"""A small world for the values of one lock, drawn from a seed: the parts of the protocol, and what may befall them.

Holders read, write, delete and die between any two messages; links are cut; voters crash and come back with their
disks; programs read without the lock; a changer replaces a voter. What programs find is held against the promises.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from coterie.lab.stack.scene.monitors import ValueMonitor
from coterie.process import Outbox
from tests.algorithms.mutex.leased_kit import Kit

if TYPE_CHECKING:
    from collections.abc import Callable

LEASE = 4.0
LOCK = "lock"
SECONDS = 40.0
EVENTS_MAX = 40_000
PROTOCOL = 8


class Broken(Exception):  # noqa: N818 - a promise
    """A promise that did not hold."""


@dataclass
class Part:
    """One process: a voter, a participant or a changer, with its timer and its disk."""

    core: Any
    timer: int = 0  # of the latest setting
    saved: bytes = b""
    log: list[bytes] = field(default_factory=list)
    is_up: bool = True


@dataclass
class User:
    """What a participant's user is at."""

    token: int = 0
    number: int = 0  # of its writes in this hold
    before: Any = None  # what was known when its read began
    rank: Any = None  # of its write
    left: int = 0  # actions
    looks: Any = None  # what was known when its read without the lock began
    question: int = 0  # of that read


class ValueWorld:
    """One run."""

    def __init__(self, seed: int, kit: Kit | None = None, *, changes: bool = False) -> None:
        self.kit = kit or Kit()
        self.random = Random(f"values/{seed}")
        self.now = 0.0
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.last: dict[tuple[int, int], float] = {}  # delivery on a link
        self.cut: set[tuple[int, int]] = set()
        self.names = itertools.count()
        self.questions = itertools.count(1)
        self.monitor = ValueMonitor(self)  # type: ignore[arg-type]
        size = self.random.choice((2, 3, 3, 3, 4)) if not changes else 3
        settings = self.kit.settings.Settings(
            size,
            policy=self.random.choice(("all", "all", "quorum")),
            lease=LEASE,
            rate_error=0.0,
            margin=0.01,
            heartbeat=1.0,
            hedge=0.8,
            unwind=LEASE,
            interval=self.random.choice((8, 1 << 20)),
            reserve=self.random.choice((0, 1 << 24)),
            lazy=self.random.random() < 0.6,
        )
        self.quiet = (SECONDS, SECONDS)  # when nobody asks for the lock
        self.pace = self.random.choice((0.5, 2.0, 8.0))  # seconds between two holds, at most
        seats = tuple(range(1, size + 1))
        made = self.kit.configuration
        self.members = [made.Member(seat, f"n{seat}", f"disk{seat}") for seat in range(1, 6)]
        part = made.Part(seats, settings)
        self.configuration = made.Configuration(
            made.Rule(1, (part,)),
            tuple(self.members[:size]),
            protocol=PROTOCOL,
            last_seat=5,
            cluster_identity="it",
        )
        self.parts: dict[int, Part] = {}
        self.users: dict[int, User] = {}
        for seat in seats:
            self._add_voter(seat, self.configuration)
        for me in (11, 12, 13):
            self._add_participant(me)
        for _ in range(self.random.randrange(12)):
            self._at(self.random.random() * SECONDS, self._misfortune)
        if changes:
            self._add_voter(4, None)
            begin = self.random.random() * SECONDS * 0.5
            self._at(begin, self._change)
            if self.random.random() < 0.6:
                self.quiet = (begin - 1.0, begin + 7.0)

    # The monitor's world

    def violate(self, name: str, text: str) -> None:
        raise Broken(f"{name}: {text}")

    # Running

    def run(self) -> ValueMonitor:
        for _ in range(EVENTS_MAX):
            if not self.heap or self.heap[0][0] > SECONDS:
                break
            self.now, _, action = heapq.heappop(self.heap)
            action()
        return self.monitor

    def _at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (time, next(self.order), action))

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._at(self.now + seconds, action)

    def _add_voter(self, seat: int, configuration: Any) -> None:
        core = self.kit.voter.Voter(configuration)
        core.identity, core.protocol = f"disk{seat}", PROTOCOL
        self.parts[seat] = Part(core)
        self._start(seat)

    def _add_participant(self, me: int) -> None:
        newest = max(
            (part.core.configuration for seat, part in self.parts.items() if seat < 10),
            key=lambda each: -1 if each is None else each.number,
        )
        home = newest.seats[me % len(newest.seats)]
        self.parts[me] = Part(self.kit.participant.participant(newest, home))
        self.users[me] = User()
        self._start(me)
        part = self.parts[me]
        self._after(self.random.random() * self.pace, lambda: self._wish(me, part))
        self._after(self.random.random(), lambda: self._look(me, part))

    def _start(self, me: int) -> None:
        part = self.parts[me]
        out: Outbox[Any] = Outbox(me, self.now)
        out.incarnation = next(self.names)
        out.saved, out.log = part.saved, tuple(part.log)
        part.core.start(f"{me}.{out.incarnation}", out)
        self._carry_out(me, part, out)

    def _step(self, me: int, part: Part, handler: Callable[..., None], *arguments: Any) -> None:
        if not part.is_up or self.parts[me] is not part:
            return
        out: Outbox[Any] = Outbox(me, self.now)
        handler(*arguments, out)
        self._carry_out(me, part, out)

    def _carry_out(self, me: int, part: Part, out: Outbox[Any]) -> None:
        if out.to_save is not None:
            part.saved, part.log = out.to_save, []
        part.log += out.appended
        for to, message in out.sends:
            self._send(me, to, message)
        for name, after in out.timers:
            part.timer += 1
            if after is not None:
                self._after(max(0.0, after), self._ringer(me, part, name, part.timer))
        for event in out.events:
            self._hear(me, part, event)

    def _ringer(self, me: int, part: Part, name: str, number: int) -> Callable[[], None]:
        def ring() -> None:
            if part.timer == number:
                self._step(me, part, part.core.ring, name)

        return ring

    def _send(self, me: int, to: int, message: Any) -> None:
        link = (min(me, to), max(me, to))
        if link in self.cut or to not in self.parts:
            return
        due = max(self.last.get((me, to), 0.0), self.now + self.random.choice((0.01, 0.05, 0.3)))
        self.last[me, to] = due + 1e-6
        sender, receiver = self.parts[me], self.parts[to]

        def deliver() -> None:
            if link not in self.cut and self.parts.get(me) in (sender, None):
                self._step(to, receiver, receiver.core.receive, me, message)

        self._at(due, deliver)

    # Users

    def _wish(self, me: int, part: Part) -> None:
        if self.parts.get(me) is not part:
            return
        if self.quiet[0] <= self.now < self.quiet[1]:
            self._at(self.quiet[1] + self.random.random(), lambda: self._wish(me, part))
            return
        bid = part.core.bids.get(LOCK)
        if bid is None or bid.state == 2:
            self._step(me, part, part.core.acquire, LOCK)

    def _hear(self, me: int, part: Part, event: Any) -> None:
        user = self.users.get(me)
        kind = type(event).__name__
        if kind in ("Stepped", "Settled", "Conflicted") or user is None:
            return
        if kind == "Acquired":
            self.users[me] = User(
                event.token,
                left=self.random.choice((1, 1, 2, 3)),
                looks=user.looks,
                question=user.question,
            )
            self._after(self.random.random() * 0.2, lambda: self._act(me, part, event.token))
        elif kind == "ValueRead" and user.before is not None and event.token == user.token:
            before, user.before = user.before, None
            self.monitor.end_read(LOCK, before, event.value.data, event.token)
            self._go_on(me, part, event.token)
        elif kind == "ValueWritten" and user.rank is not None and event.token == user.token:
            rank, user.rank = user.rank, None
            self.monitor.end_write(LOCK, rank)
            self._go_on(me, part, event.token)
        elif kind == "ValueSeen" and event.question == user.question and user.looks is not None:
            before, user.looks = user.looks, None
            self.monitor.end_read(LOCK, before, event.value.data, None)
        elif kind == "Lost":
            self._after(0.0, lambda: self._leave(me, part, event.token))

    def _go_on(self, me: int, part: Part, token: int) -> None:
        self._after(self.random.random() * 0.5, lambda: self._act(me, part, token))

    def _act(self, me: int, part: Part, token: int) -> None:
        user = self.users.get(me)
        if user is None or user.token != token or self.parts.get(me) is not part:
            return
        if not part.core.valid(LOCK, self.now):
            return
        if not user.left:
            self._leave(me, part, token)
            return
        user.left -= 1
        # A holder that waits for an answer for too long gives up.
        patience = 3 * LEASE if self.random.random() < 0.9 else 0.02
        self._after(patience, lambda: self._leave(me, part, token))
        if self.random.random() < 0.5:
            user.before = self.monitor.begin_read(LOCK)
            self._step(me, part, part.core.read, LOCK)
            return
        user.number += 1
        data = None if self.random.random() < 0.15 else f"{token}/{user.number}".encode()
        if data is not None and self.random.random() < 0.2:
            data += b"." * 2_000
        user.rank = self.monitor.begin_write(LOCK, token, user.number, data)
        value = self.kit.stored.StoredValue(data=data)
        self._step(me, part, part.core.write, LOCK, value)

    def _leave(self, me: int, part: Part, token: int) -> None:
        user = self.users.get(me)
        if user is None or user.token != token or self.parts.get(me) is not part:
            return
        bid = part.core.bids.get(LOCK)
        self.users[me] = User(looks=user.looks, question=user.question)
        if bid is not None and bid.state == 1 and bid.token == token:
            self._step(me, part, part.core.release, LOCK)
        self._after(self.random.random() * self.pace, lambda: self._wish(me, part))

    def _look(self, me: int, part: Part) -> None:
        if self.parts.get(me) is not part or not part.is_up:
            return
        user = self.users[me]
        # Answers to a question that is asked again count together; a new one is another read.
        if user.looks is None or self.random.random() < 0.5:
            part.core.forget_look(user.question)
            user.looks, user.question = self.monitor.begin_read(LOCK), next(self.questions)
        settles = self.random.random() < 0.3
        nothing, question = self.kit.stored.NOTHING, user.question

        def ask(lock: str, out: Outbox[Any]) -> None:
            part.core.look(lock, question, nothing, out, settles=settles)

        self._step(me, part, ask, LOCK)
        self._after(0.2 + self.random.random(), lambda: self._look(me, part))

    # Misfortunes

    def _misfortune(self) -> None:
        what = self.random.choice(("kill", "kill", "kill", "cut", "cut", "crash", "outage"))
        voters = [seat for seat in self.parts if seat < 10]
        holders = [me for me, user in self.users.items() if user.token]
        programs = [me for me in self.parts if 10 < me < 30]
        me = self.random.choice(holders or programs)
        if what == "kill":
            self._kill_soon(me)
        elif what == "cut":
            for voter in self.random.sample(voters, self.random.randint(1, len(voters))):
                self._cut(me, voter, self.random.choice((0.1, 1.0, 3.0, 6.0)))
        elif what == "crash":
            self._crash(self.random.choice(voters))
        else:
            for voter in voters:
                self._crash(voter)

    def _kill_soon(self, me: int) -> None:
        """Kill a program, of which some voters may not have heard the last words."""
        for voter in [seat for seat in self.parts if seat < 10]:
            if self.random.random() < 0.6:
                self._cut(me, voter, 10.0)
        self._after(self.random.choice((0.02, 0.1, 0.5)), lambda: self._replace_program(me))

    def _replace_program(self, me: int) -> None:
        if me not in self.parts:
            return
        self.parts.pop(me).is_up = False
        self.users.pop(me)
        newcomer = 11 + (me - 10) % 19
        while newcomer in self.parts:
            newcomer += 1
        self._add_participant(newcomer)

    def _cut(self, me: int, voter: int, seconds: float) -> None:
        link = (voter, me)
        if link in self.cut:
            return
        self.cut.add(link)

        def heal() -> None:
            self.cut.discard(link)
            program, node = self.parts.get(me), self.parts.get(voter)
            if program is not None and node is not None:
                self._step(voter, node, node.core.connected, program.core.sessions.name)
                if voter in program.core.sessions.voters:
                    self._step(me, program, program.core.connected, voter)

        self._after(seconds, heal)

    def _crash(self, seat: int) -> None:
        old = self.parts[seat]
        old.is_up = False
        configuration = (
            self.configuration if seat != 4 or len(self.configuration.seats) > 3 else None
        )
        core = self.kit.voter.Voter(configuration)
        core.identity, core.protocol = f"disk{seat}", PROTOCOL

        def restart() -> None:
            self.parts[seat] = Part(core, saved=old.saved, log=list(old.log))
            self._start(seat)

        self._after(self.random.choice((0.05, 0.5, 3.0)), restart)

    def _change(self) -> None:
        made, changer = self.kit.configuration, self.kit.changer
        seats = self.random.choice(((1, 2, 4), (2, 3, 4), (1, 4)))
        settings = self.configuration.settings
        part = made.Part(
            seats,
            self.kit.settings.Settings(
                len(seats),
                policy=settings.policy,
                lease=LEASE,
                rate_error=0.0,
                margin=0.01,
                heartbeat=1.0,
                hedge=0.8,
                unwind=LEASE,
            ),
        )
        members = tuple(self.members[seat - 1] for seat in seats)
        core = changer.Changer(
            "changer", self.configuration, changer.Goal(1, part, members, PROTOCOL)
        )
        self.parts[40] = Part(core)
        self._step(40, self.parts[40], core.start)


def outcome(seed: int, kit: Kit | None = None, *, changes: bool = False) -> str:
    """Return which promise a run broke, or nothing."""
    try:
        ValueWorld(seed, kit, changes=changes).run()
    except Broken as error:
        return str(error)
    return ""
