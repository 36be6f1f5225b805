"""Sites moved by hand: every message is delivered, and every crash happens, when the test says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.process import Outbox, encode, seat
from coterie.transactions.catalogue import scheme
from coterie.transactions.schemes.scheduler import Committed, Found, Listed, Refused
from coterie.transactions.site.events import Answered
from coterie.transactions.site.placement import site_of
from coterie.transactions.site.site import OVERDUE, Site, typed

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.process import Event, Seat
    from coterie.transactions.schemes.scheduler import Attempt, Scheduler

TRIES = 5  # of a transaction that nobody disturbs, before something is wrong
ROUNDS_MAX = 60  # of timers, after which whatever is still under way is stuck


def key_at(site: int, sites: int, number: int = 0) -> str:
    """Find a key that a site keeps."""
    keys = [f"k{index}" for index in range(100) if site_of(f"k{index}", sites) == site]
    return keys[number]


class Crashed(Exception):  # noqa: N818 - nothing is wrong about it
    """The site has crashed in the middle of what it was doing."""


class World:
    """Sites, their disks, the messages between them, and what their users were told."""

    def __init__(
        self,
        build: Callable[[int, int], Scheduler],
        sites: int = 2,
        kind: type[Site] = Site,
        **settings: Any,
    ) -> None:
        self.build, self.size, self.kind, self.settings = build, sites, kind, settings
        self.seats: dict[int, Seat | None] = {}
        self.saved: dict[int, bytes] = dict.fromkeys(range(1, sites + 1), b"")
        self.logs: dict[int, list[bytes]] = {site: [] for site in range(1, sites + 1)}
        self.mail: dict[tuple[int, int], list[Any]] = {}
        self.lives = dict.fromkeys(range(1, sites + 1), -1)
        self.timers: dict[int, dict[str, None]] = {}
        self.told: list[tuple[int, Event]] = []
        self.actions = 0  # writes to a disk and messages sent, so far
        self.crash_at: int | None = None  # after which of them its site crashes
        self.crashed: list[int] = []
        self.sent: list[tuple[int, int, Any]] = []
        for site in range(1, sites + 1):
            self.start(site)

    def site(self, number: int) -> Any:
        seated = self.seats[number]
        assert seated is not None, f"site {number} is down"
        return seated.process

    # What happens

    def start(self, number: int) -> None:
        """Start a site with what its disk holds, and nothing else."""
        scheduler = self.build(number, self.size)
        kind = typed(self.kind, type(scheduler))
        self.seats[number] = seat(kind(number, self.size, scheduler, **self.settings))
        self.timers[number] = {}
        out: Outbox[Any] = Outbox(number)
        self.lives[number] += 1
        out.incarnation = self.lives[number]
        out.saved, out.log = self.saved[number], list(self.logs[number])
        self._step(number, lambda seated: seated.start(out), out)

    def crash(self, number: int) -> None:
        """Take everything away but the disk; what is under way to it is lost."""
        self.seats[number] = None
        self.timers[number] = {}
        for sender in range(1, self.size + 1):
            self.mail.pop((sender, number), None)

    def call(self, number: int, verb: str, *arguments: Any, **more: Any) -> Any:
        """Let a user of a site make a request; give what the call returns."""
        out: Outbox[Any] = Outbox(number)
        results: list[Any] = []

        def handle(seated: Seat) -> None:
            method = getattr(seated.process, verb)
            given = (out, *arguments) if verb == "begin" else (*arguments, out)
            results.append(method(*given, **more))
            seated.settle(out)

        self._step(number, handle, out)
        return results[0] if results else None

    def deliver(self, sender: int, receiver: int) -> Any:
        """Deliver the next message of a link."""
        message = self.mail[sender, receiver].pop(0)
        if self.seats[receiver] is not None:
            out: Outbox[Any] = Outbox(receiver)
            self._step(receiver, lambda seated: seated.receive(sender, message, out), out)
        return message

    def lose(self, sender: int, receiver: int) -> None:
        """Lose what is under way on a link."""
        self.mail.pop((sender, receiver), None)

    def ring(self, number: int, timer: str) -> None:
        """Let a timer ring that is set."""
        del self.timers[number][timer]
        out: Outbox[Any] = Outbox(number)
        self._step(number, lambda seated: seated.ring(timer, out), out)

    def run(self) -> None:
        """Deliver everything that is under way, and what comes of it."""
        while any(self.mail.values()):
            for sender, receiver in sorted(self.mail):
                if self.mail.get((sender, receiver)):
                    self.deliver(sender, receiver)

    def put_snapshot(self, number: int) -> None:
        """Let a site replace its log, if it is long enough."""
        out: Outbox[Any] = Outbox(number)
        site = self.site(number)
        self._step(number, lambda _: site.journal.tidy(site.scheduler, out), out)

    def run_one(self) -> None:
        """Deliver one message that is under way."""
        link = next(link for link in sorted(self.mail) if self.mail[link])
        self.deliver(*link)

    def settle(self) -> None:
        """Let time pass until nothing is under way any more."""
        for _ in range(ROUNDS_MAX):
            self.run()
            if self.idle():
                return
            self._let_timers_ring()
        self.run()

    def catch_up(self) -> None:
        """Let timers ring where a site has put off what it need not write at once."""
        for number, seated in list(self.seats.items()):
            if seated is not None and self.site(number).journal.owed:
                self.ring(number, OVERDUE)
        self.run()

    def settle_waits(self) -> None:
        """Let a few timers ring, so that whoever waits for others has asked them."""
        for _ in range(3):
            self.run()
            self._let_timers_ring()
        self.run()

    def _let_timers_ring(self) -> None:
        for number in range(1, self.size + 1):
            for timer in list(self.timers[number]):
                if timer in self.timers[number]:
                    self.ring(number, timer)

    def idle(self) -> bool:
        """Return whether no site has anything under way."""
        alive = [number for number, seated in self.seats.items() if seated is not None]
        return all(self.site(number).is_settled() for number in alive)

    def _step(self, number: int, handle: Callable[[Seat], None], out: Outbox[Any]) -> None:
        seated = self.seats[number]
        assert seated is not None, f"site {number} is down"
        handle(seated)
        encode(seated.process)  # a site is a value at any time
        try:
            self._carry_out(number, out)
        except Crashed:
            self.crashed.append(number)
            self.crash(number)

    def _carry_out(self, number: int, out: Outbox[Any]) -> None:
        if out.durable:
            if out.to_save is not None:
                self.saved[number], self.logs[number] = out.to_save, []
            self.logs[number] += out.appended
            self._count()
        for receiver, message in out.sends:
            self.mail.setdefault((number, receiver), []).append(message)
            self.sent.append((number, receiver, message))
            self._count()
        for timer, after in out.timers:
            self.timers[number].pop(timer, None)
            if after is not None:
                self.timers[number][timer] = None
        self.told += [(number, event) for event in out.events]

    def _count(self) -> None:
        self.actions += 1
        if self.actions == self.crash_at:
            raise Crashed

    # What users do and see

    def answer(self, name: str) -> Any:
        """Give the last answer that a user got about its transaction."""
        answers = [event.answer for _, event in self.told if isinstance(event, Answered)]
        own = [answer for answer in answers if answer.transaction == name]
        return own[-1] if own else None

    def value(self, number: int, key: str) -> bytes | None:
        """Read a key in a transaction of its own, tried again when it comes too early."""
        for _ in range(TRIES):
            attempt = self.call(number, "begin")
            self.call(number, "read", attempt.name, key)
            self.settle_until_answered(number, attempt.name)
            found = self.answer(attempt.name)
            if isinstance(found, Found):
                self.call(number, "commit", attempt.name)
                self.settle()
                if isinstance(self.answer(attempt.name), Committed):
                    return found.value
        raise AssertionError(f"{key} cannot be read: {self.answer(attempt.name)}")

    def put(self, number: int, values: dict[str, bytes | None]) -> None:
        """Write all these in one transaction, tried again when it comes too early."""
        for _ in range(TRIES):
            attempt = self.call(number, "begin")
            for key, value in values.items():
                if self.site(number).is_open(attempt.name):
                    self.call(number, "write", attempt.name, key, value)
                    self.settle_until_answered(number, attempt.name)
            if self.site(number).is_open(attempt.name):
                self.call(number, "commit", attempt.name)
                self.settle()
            if isinstance(self.answer(attempt.name), Committed):
                return
        raise AssertionError(f"{values} cannot be written: {self.answer(attempt.name)}")

    def settle_until_answered(self, number: int, name: str) -> None:
        """Let time pass until a request is answered."""
        for _ in range(ROUNDS_MAX):
            self.run()
            if not self.site(number).is_waiting(name):
                return
            self._let_timers_ring()
        raise AssertionError(f"{name} waits forever: {self.site(number).coordinator}")

    def write(self, number: int, values: dict[str, bytes | None]) -> Attempt:
        """Begin a transaction that writes all these, and has everything answered."""
        attempt: Attempt = self.call(number, "begin")
        for key, value in values.items():
            self.call(number, "write", attempt.name, key, value)
            self.run()
        return attempt

    def count(self, kind: type) -> int:
        """Count the messages of a kind that were sent."""
        return sum(isinstance(message, kind) for _, _, message in self.sent)


def world(name: str = "two-phase-locking", variant: str | None = None, **more: Any) -> World:
    return World(scheme(name).variant(variant).build, **more)


__all__ = ["Committed", "Found", "Listed", "Refused", "World", "key_at", "world"]
