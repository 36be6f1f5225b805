"""The contract between a scheme of concurrency control and the store or site that runs it.

A scheduler is a value that keeps the items of one site. It takes one request at a time and answers
into a list: at once, or while it handles a later request of another transaction. A request without
an answer waits. There is at most one request of a transaction under way at a scheduler.

    begin   read, scan, write (any number, in any order)   prepare   commit or abort

Writes are kept with the transaction until it commits, so an abort undoes nothing and no other
transaction reads what may never have been. `Prepared` is a promise: from then on only commit or abort end the
transaction, nothing local does. `Refused` may come at any time before, asked for or not: the
scheduler has forgotten the transaction then, and its caller may try again as another attempt.

Between `Prepared` and `commit` the caller puts the writes on disk. Where several
sites take part, `commit` gets the largest of their proposed numbers.

Commits need not come in the order of their numbers: by stamp order an earlier transaction may
commit after a later one has replaced what it writes. The newest version of a key is the one with
the largest number, on disk as well.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import msgspec

from coterie.clocks import Stamp
from coterie.errors import MisuseError
from coterie.transactions.schemes.span import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Name: TypeAlias = str  # of an attempt; never used twice
Value: TypeAlias = bytes | None  # None: the key is absent
Number: TypeAlias = Stamp  # orders the versions of a key: a stamp, or the place of a commit

BEGINNING = Stamp(0, 0)  # the number of what was there before every transaction


class Declaration(msgspec.Struct, frozen=True, array_like=True):
    """What a transaction may read and write at most, said in advance."""

    reads: tuple[Span, ...]
    writes: tuple[Span, ...]


EVERYTHING = Declaration((Span(),), (Span(),))


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """One try to run a transaction. A second try is another attempt of the same age."""

    name: Name
    stamp: Stamp  # unique; later attempts of the same site have larger ones
    age: Stamp  # the stamp of the first attempt
    failures: int = 0  # attempts before this one that were refused
    declaration: Declaration = EVERYTHING


class Item(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A version of a key; one without a value marks that the key was deleted."""

    value: Value
    number: Number


class Found(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The answer to a read; `number` is that of the version, None if there was never one."""

    transaction: Name
    key: str
    value: Value
    number: Number | None


class Listed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The answer to a scan: what it has read in the order of keys, and how far it has looked.

    Deleted keys that were met are listed without a value. Whatever is covered and not listed has
    never been there, or its deletion is older than what is remembered.
    """

    transaction: Name
    items: tuple[Found, ...]
    covered: Span


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The answer to a write that will take effect if the transaction commits."""

    transaction: Name


class Prepared(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The answer to prepare: what has to be on disk before this is passed on."""

    transaction: Name
    number: Number  # proposed for the commit; the largest of all sites' proposals is taken
    writes: dict[str, Value]
    reads: tuple[Span, ...] = ()  # only of schemes that need them again after a restart


class Committed(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The answer to commit, always at once; `number` is that of the versions written."""

    transaction: Name
    number: Number


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The transaction must not go on; the scheduler has forgotten it."""

    transaction: Name
    rule: str  # by which it was refused, in a few words
    keys: tuple[str, ...]
    others: tuple[Name, ...]  # transactions in the way, if they are known
    above: Stamp | None = None  # where stamps decide: a further attempt needs a larger one

    def __str__(self) -> str:
        """Say it in one line."""
        keys = ", ".join(self.keys)
        others = f", because of {', '.join(self.others)}" if self.others else ""
        return f"{self.transaction} was refused: {self.rule}{f' ({keys})' if keys else ''}{others}"


Answer: TypeAlias = Found | Listed | Accepted | Prepared | Committed | Refused


class Active(msgspec.Struct, array_like=True):
    """A transaction between its beginning and its end at one site."""

    attempt: Attempt
    writes: dict[str, Value] = {}
    prepared: bool = False


class Scheduler(msgspec.Struct, array_like=True):
    """Decides which requests are granted, which wait and which are refused.

    What all schemes have in common is here: a transaction reads what it has written itself, and
    requests that make no sense raise `MisuseError` and change nothing.
    """

    name: ClassVar[str]  # as users choose it
    announced: ClassVar[bool] = False  # it has to know a transaction before its first request
    lets_readers_go: ClassVar[bool] = (
        True  # one that has only read here ends here when it is prepared
    )

    # A write of what was read for update is as good at the end as at once: others are kept away meanwhile, or
    # do not see it before in any case. Where stamps decide, each moment brings more readers that refuse it.
    write_may_wait: ClassVar[bool] = True

    # What was read at this site may be written by others from the moment that it is prepared, before the
    # outcome is known. Then no other site may still have to get a lock (`Course.growing_late`).
    prepare_releases_reads: ClassVar[bool] = False

    # A transaction that has voted elsewhere may wait here: whatever it holds there, those that it waits for
    # here never wait for it, or a search finds the cycle.
    voters_may_wait: ClassVar[bool] = True

    active: dict[Name, Active] = {}

    # Requests

    def begin(self, attempt: Attempt, out: list[Answer]) -> None:
        """Get to know a transaction, before any request of it. There is no answer."""
        if attempt.name in self.active:
            raise MisuseError(f"{attempt.name} has begun before")
        self.active[attempt.name] = Active(attempt)

    def read(self, name: Name, key: str, out: list[Answer], *, update: bool = False) -> None:
        """Ask for the value of a key; with `update` on the way to writing it."""
        active = self._running(name)
        if key in active.writes:
            out.append(Found(name, key, active.writes[key], active.attempt.stamp))
        else:
            self._read(active, key, update, out)

    def scan(self, name: Name, span: Span, limit: int | None, out: list[Answer]) -> None:
        """Ask for all keys of a span that are there, or the first few of them."""
        self._scan(self._running(name), span, limit, out)

    def write(self, name: Name, key: str, value: Value, out: list[Answer]) -> None:
        """Ask to set a key when the transaction commits; None deletes it."""
        self._write(self._running(name), key, value, out)

    def prepare(self, name: Name, out: list[Answer]) -> None:
        """Ask whether the transaction may commit; after `Prepared` it can."""
        self._prepare(self._running(name), out)

    def commit(self, name: Name, number: Number, out: list[Answer]) -> None:
        """Let a prepared transaction take effect, and go on with requests that waited for that."""
        active = self._known(name)
        if not active.prepared:
            raise MisuseError(f"{name} cannot commit: it is not prepared")
        del self.active[name]
        self._commit(active, number, out)

    def abort(self, name: Name, out: list[Answer]) -> None:
        """Forget the transaction, prepared or not, and go on with requests that waited for it."""
        active = self._known(name)
        del self.active[name]
        self._abort(active, out)

    def refuse(
        self,
        name: Name,
        rule: str,
        keys: Iterable[str],
        others: Iterable[Name],
        out: list[Answer],
        *,
        above: Stamp | None = None,
    ) -> None:
        """Abort a transaction that is not prepared, and say so to its caller."""
        assert not self.active[name].prepared, f"{name} is prepared, so nothing local ends it"
        out.append(Refused(name, rule, tuple(keys), tuple(others), above))
        self.abort(name, out)

    def promise(self, source: int, stamp: Stamp, out: list[Answer]) -> None:
        """Learn that whatever begins at that site from now on has a larger stamp."""

    # What others may know

    @abstractmethod
    def waits(self) -> dict[Name, tuple[Name, ...]]:
        """Return for each transaction whose request waits which ones have to end before."""

    def has_waits(self) -> bool:
        """Return whether any request waits."""
        return bool(self.waits())

    def may_deadlock(self) -> bool:
        """Return True if waits may form a cycle that leads through other sites."""
        return False

    def awaited(self) -> tuple[tuple[int, Stamp], ...]:
        """Return the sites on whose promise a request waits, and the stamp it has to reach."""
        return ()

    def valid(self, name: Name) -> bool:
        """Return whether all that a transaction has read here could still be read again.

        If not, it may have seen a mix of states that never was: what its code raises means nothing
        then, and it has to be aborted and tried again. Schemes that never show a mix return True.
        """
        self._known(name)
        return True

    @abstractmethod
    def latest(self) -> Iterator[tuple[str, Item]]:
        """Walk the newest committed version of every key, deleted ones included, in order."""

    # Recovery, before the first request

    @abstractmethod
    def restore(self, items: Iterable[tuple[str, Item]], now: Stamp) -> None:
        """Begin with these versions. No transaction of the past had a stamp above `now`."""

    def reinstate(
        self, attempt: Attempt, number: Number, writes: dict[str, Value], reads: tuple[Span, ...]
    ) -> None:
        """Bring back a transaction that was prepared when this site ended."""
        self.active[attempt.name] = Active(attempt, dict(writes), prepared=True)
        self._reinstate(self.active[attempt.name], number, reads)

    # What each scheme decides

    @abstractmethod
    def _read(self, active: Active, key: str, update: bool, out: list[Answer]) -> None: ...

    @abstractmethod
    def _scan(self, active: Active, span: Span, limit: int | None, out: list[Answer]) -> None: ...

    @abstractmethod
    def _write(self, active: Active, key: str, value: Value, out: list[Answer]) -> None: ...

    @abstractmethod
    def _prepare(self, active: Active, out: list[Answer]) -> None: ...

    @abstractmethod
    def _commit(self, active: Active, number: Number, out: list[Answer]) -> None: ...

    @abstractmethod
    def _abort(self, active: Active, out: list[Answer]) -> None: ...

    @abstractmethod
    def _reinstate(self, active: Active, number: Number, reads: tuple[Span, ...]) -> None: ...

    # Help

    def _running(self, name: Name) -> Active:
        active = self._known(name)
        if active.prepared:
            raise MisuseError(f"{name} is prepared and can make no more requests")
        return active

    def _known(self, name: Name) -> Active:
        active = self.active.get(name)
        if active is None:
            raise MisuseError(f"{name} is not under way here: it has not begun, or has ended")
        return active


def listing(
    active: Active, found: Iterable[tuple[str, Item]], span: Span, limit: int | None
) -> Listed:
    """Answer a scan: what was found, overlaid by the transaction's own writes, up to the limit."""
    name, stamp = active.attempt.name, active.attempt.stamp
    seen = {key: Found(name, key, item.value, item.number) for key, item in found}
    for key, value in active.writes.items():
        if key in span:
            seen[key] = Found(name, key, value, stamp)
    items: list[Found] = []
    present = 0
    for key in sorted(seen):
        items.append(seen[key])
        present += seen[key].value is not None
        if present == limit:
            return Listed(name, tuple(items), span.up_to(key))
    return Listed(name, tuple(items), span)
