"""The critical section of optimistic transactions: whose turn it is to be validated.

Anybody's, as a rule. But a transaction that has failed often runs alone: from its first request to
its end nobody else is validated, so nobody writes what it has read, and it cannot fail again. With
serial validation the write phase belongs to the section too, so there is one at a time.

At one site the others wait for their turn. Where there are several, two could wait for each other at
different ones. So there a prepare is refused instead of waiting, and an older transaction takes the
section away from a younger one: to run alone the younger wait for the older, and all for those who
are validated, who wait for nobody.
"""

from __future__ import annotations

import msgspec

from coterie.transactions.schemes.scheduler import Active, Answer, Attempt, Name, Scheduler, Value
from coterie.transactions.schemes.span import Span


class Held(msgspec.Struct, frozen=True, array_like=True):
    """A request that waits: prepare, or the first one of a transaction that has to run alone."""

    op: str  # prepare, read, scan or write
    key: str = ""
    value: Value = None
    span: Span = Span()
    limit: int | None = None


PREPARE = Held("prepare")


class Section(Scheduler):
    """A scheduler that lets a transaction be validated when it is its turn."""

    site: int = 1
    sites: int = 1
    serial: bool = False  # one write phase at a time
    patience: int = 5  # failures after which a transaction runs alone

    validated: dict[Name, None] = {}  # in their write phases: Kung and Robinson's active set
    starving: dict[Name, None] = {}  # have failed often and did not get to run alone yet
    alone: Name | None = None  # whose section it is
    waiting: dict[Name, Held] = {}  # in the order of arrival

    def begin(self, attempt: Attempt, out: list[Answer]) -> None:
        """Get to know a transaction, and whether it has to run alone."""
        super().begin(attempt, out)
        if attempt.failures >= self.patience:
            self.starving[attempt.name] = None

    def waits(self) -> dict[Name, tuple[Name, ...]]:
        """Tell who waits for whose section, or for whose write phase to end."""
        return {name: self._ahead_of(name) for name in self.waiting}

    def _ahead_of(self, name: Name) -> tuple[Name, ...]:
        if self.alone not in (None, name):
            return (self.alone,)
        if self.serial or name == self.alone:
            return tuple(other for other in self.validated if other != name)
        return ()

    def _enter(self, active: Active, request: Held, out: list[Answer]) -> bool:
        """Let whoever has failed often begin to run alone, once all write phases have ended.

        Nobody new is validated from the moment that the section is taken, so they do end.
        """
        name = active.attempt.name
        if name not in self.starving:
            return True
        holder = self.alone
        if holder is None:
            self.alone = name
        elif self.sites > 1 and self._gives_way(self.active[holder], active):
            self.alone = name
            self.refuse(holder, "an older one has to run alone", (), (name,), out)
        if self._ahead_of(name):
            self.waiting[name] = request
            return False
        del self.starving[name]
        return True

    def _gives_way(self, holder: Active, active: Active) -> bool:
        return not holder.prepared and active.attempt.age < holder.attempt.age

    def _has_turn(self, active: Active, out: list[Answer]) -> bool:
        """Tell whether a transaction may be validated now; if not, it waits or is refused."""
        name = active.attempt.name
        ahead = self._ahead_of(name)
        if not ahead:
            return True
        if self.sites > 1:
            self.refuse(name, "it is another's turn to be validated", (), ahead, out)
        else:
            self.waiting[name] = PREPARE
        return False

    def _leave(self, name: Name, out: list[Answer]) -> None:
        """Forget a transaction, and let those who wait try again if it was in their way."""
        self.starving.pop(name, None)
        self.waiting.pop(name, None)
        in_the_way = name in self.validated or name == self.alone
        self.validated.pop(name, None)
        if name == self.alone:
            self.alone = None
        if in_the_way and self.waiting:
            waiting, self.waiting = self.waiting, {}
            names = list(waiting)
            if self.sites > 1:  # or an older one would at once take the section from a younger
                names.sort(key=lambda other: self.active[other].attempt.age)
            for other in names:
                self._ask_again(self.active[other], waiting[other], out)

    def _ask_again(self, active: Active, held: Held, out: list[Answer]) -> None:
        match held.op:
            case "read":
                self._read(active, held.key, update=False, out=out)
            case "scan":
                self._scan(active, held.span, held.limit, out)
            case "write":
                self._write(active, held.key, held.value, out)
            case _:
                self._prepare(active, out)
