"""Optimistic concurrency control (Kung and Robinson, 1981): read freely, validate before writing.

A transaction reads what is committed and keeps its writes to itself. When it wants to commit it is
validated: no other may have written since what it has read, and none that is validated and has not
written yet may be about to write what it reads or writes. If that fails it is refused, and tries
again.

Between `prepare` and `commit` a transaction is in its write phase: it is validated, and its writes
are on their way to the disk. Its place among the commits is given when that has ended.

As a rule any transaction may be validated. But one that has failed often runs alone, in a critical
section: from its first request to its end no other is validated, so none writes what it has read, and
it cannot fail again. With serial validation the write phase belongs to the section too, so there is
one at a time.

At one site the others wait for their turn. Where there are several, two could wait for each other at
different ones. So there a prepare is refused instead of waiting, and an older transaction takes the
section away from a younger one: to run alone the younger wait for the older, and all for those that
are validated, which wait for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from coterie.clocks import Stamp
from coterie.transactions.schemes.newest import Newest
from coterie.transactions.schemes.optimistic.read_set import ReadSet
from coterie.transactions.schemes.scheduler import (
    Accepted,
    Active,
    Answer,
    Attempt,
    Committed,
    Item,
    Name,
    Number,
    Prepared,
    Scheduler,
    Value,
)
from coterie.transactions.schemes.span import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OVERWRITTEN = "what it has read was written since"
OPPOSED = "another that is about to commit is in the way"
TOO_OLD = "it has slept through more commits than are remembered"


class Held(msgspec.Struct, frozen=True, array_like=True):
    """A request that waits: prepare, or the first one of a transaction that has to run alone."""

    op: str  # prepare, read, scan or write
    key: str = ""
    value: Value = None
    span: Span = Span()
    limit: int | None = None


PREPARE = Held("prepare")


class Optimistic(Scheduler):
    """Refuses a transaction that has read what was written since, or is about to be."""

    name: ClassVar[str] = "optimistic"
    lets_readers_go: ClassVar[bool] = False  # else two could each be validated first somewhere

    site: int = 1
    sites: int = 1
    serial: bool = False  # one write phase at a time
    patience: int = 5  # failures after which a transaction runs alone

    validated: dict[Name, None] = {}  # in their write phases: Kung and Robinson's active set
    starving: dict[Name, None] = {}  # have failed often and did not get to run alone yet
    alone: Name | None = None  # the transaction that has the critical section
    waiting: dict[Name, Held] = {}  # in the order of arrival

    history_max: int = 10_000  # commits that a transaction may sleep through and still be judged

    newest: Newest = msgspec.field(default_factory=Newest)
    read_sets: dict[Name, ReadSet] = {}
    commits: int = 0  # Kung and Robinson's transaction counter: write phases that have ended
    finished: list[tuple[Name, tuple[str, ...]]] = []  # the last of them, with what they wrote
    highest: int = 0  # time of the largest number seen

    # Read phase

    def begin(self, attempt: Attempt, out: list[Answer]) -> None:
        """Take the start number, before anything is read."""
        super().begin(attempt, out)
        self.read_sets[attempt.name] = ReadSet(self.commits)
        if attempt.failures >= self.patience:
            self.starving[attempt.name] = None

    def _read(self, active: Active, key: str, update: bool, out: list[Answer]) -> None:
        if self.starving and not self._enter(active, Held("read", key), out):
            return
        name = active.attempt.name
        read_set = self.read_sets[name]
        if read_set.start != self.commits and not self._still_current(name, read_set, out):
            return
        read_set.keys.add(key)
        out.append(self.newest.read(name, key))

    def _scan(self, active: Active, span: Span, limit: int | None, out: list[Answer]) -> None:
        if self.starving and not self._enter(active, Held("scan", span=span, limit=limit), out):
            return
        name = active.attempt.name
        read_set = self.read_sets[name]
        if read_set.start != self.commits and not self._still_current(name, read_set, out):
            return
        listed = self.newest.scan(active, span, limit)
        read_set.cover(listed.covered, active.writes)
        out.append(listed)

    def _write(self, active: Active, key: str, value: Value, out: list[Answer]) -> None:
        if self.starving and not self._enter(active, Held("write", key, value), out):
            return
        active.writes[key] = value
        out.append(Accepted(active.attempt.name))

    # Validation

    def _prepare(self, active: Active, out: list[Answer]) -> None:
        if not self._has_turn(active, out):
            return
        name = active.attempt.name
        read_set = self.read_sets[name]
        if read_set.start != self.commits and not self._still_current(name, read_set, out):
            return
        if self.validated and not self._unopposed(active, read_set, out):
            return
        # Test and entry are one step: what is validated from now on is compared with this one.
        self.validated[name] = None
        active.prepared = True
        self.highest += 1
        reads = read_set.as_spans() if self.sites > 1 else ()
        out.append(Prepared(name, Stamp(self.highest, self.site), active.writes, reads))

    def _still_current(self, name: Name, read_set: ReadSet, out: list[Answer]) -> bool:
        """Test against those that committed since the start; if all is well, start from here.

        As this is done before every read too, all reads show the same state.
        """
        refusal = self._overwritten(read_set)
        if refusal is not None:
            self.refuse(name, *refusal, out)
            return False
        read_set.start = self.commits
        return True

    def _overwritten(self, read_set: ReadSet) -> tuple[str, list[str], tuple[Name, ...]] | None:
        missed = self.commits - read_set.start
        if not missed or not read_set:
            return None
        if missed > len(self.finished):  # what is forgotten might have been in the way
            return TOO_OLD, [], ()
        for other, written in self.finished[-missed:]:
            keys = read_set.among(written)
            if keys:
                return OVERWRITTEN, keys, (other,)
        return None

    def _unopposed(self, active: Active, read_set: ReadSet, out: list[Answer]) -> bool:
        """Test against those in their write phases, which go before the one validated now.

        Another site may have validated the two in the other order. So where there are several, the
        two must have nothing in common at all: neither may write what the other reads or writes.
        """
        for other in self.validated:
            theirs = self.active[other].writes
            keys = read_set.among(theirs)
            keys += [key for key in theirs if key in active.writes]
            if self.sites > 1:
                keys += self.read_sets[other].among(active.writes)
            if keys:
                self.refuse(active.attempt.name, OPPOSED, sorted(set(keys)), (other,), out)
                return False
        return True

    def valid(self, name: Name) -> bool:
        """Return whether all that a transaction has read here is current.

        Where there are several sites, there may not even be one that is about to write it: at
        another site that may be done already, and seen.
        """
        self._known(name)
        read_set = self.read_sets[name]
        if self._overwritten(read_set) is not None:
            return False
        return self.sites == 1 or not any(
            read_set.among(self.active[other].writes) for other in self.validated
        )

    # Write phase

    def _commit(self, active: Active, number: Number, out: list[Answer]) -> None:
        name = active.attempt.name
        self.newest.install(active.writes, number)
        if number.time > self.highest:
            self.highest = number.time
        if active.writes:  # counted after the last write, or one that begins between two misses it
            self.commits += 1
            self.finished.append((name, tuple(active.writes)))
            if len(self.finished) > 2 * self.history_max:
                del self.finished[: -self.history_max]
        out.append(Committed(name, number))
        self._leave(name, out)

    def _abort(self, active: Active, out: list[Answer]) -> None:
        self._leave(active.attempt.name, out)

    # The critical section: which transaction may be validated

    def waits(self) -> dict[Name, tuple[Name, ...]]:
        """Return for each that waits whose section or write phase has to end before."""
        return {name: self._ahead_of(name) for name in self.waiting}

    def _ahead_of(self, name: Name) -> tuple[Name, ...]:
        if self.alone not in (None, name):
            return (self.alone,)
        if self.serial or name == self.alone:
            return tuple(other for other in self.validated if other != name)
        return ()

    def _enter(self, active: Active, request: Held, out: list[Answer]) -> bool:
        """Let one that has failed often begin to run alone, once all write phases have ended.

        No other is validated from the moment that the section is taken, so they do end.
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
        """Return whether a transaction may be validated now; if not, it waits or is refused."""
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
        """Forget a transaction, and let those that wait try again if it was in their way."""
        del self.read_sets[name]
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

    # What is kept

    def latest(self) -> Iterator[tuple[str, Item]]:
        """Walk the newest committed version of every key, deleted ones included, in order."""
        yield from self.newest

    def restore(self, items: Iterable[tuple[str, Item]], now: Stamp) -> None:
        """Begin with these versions; numbers go on above theirs and `now`."""
        self.highest = max(now.time, self.newest.restore(items).time)

    def _reinstate(self, active: Active, number: Number, reads: tuple[Span, ...]) -> None:
        name = active.attempt.name
        self.read_sets[name] = ReadSet(self.commits, spans=list(reads))
        self.validated[name] = None
        self.highest = max(self.highest, number.time)
