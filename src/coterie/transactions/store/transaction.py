"""A transaction in the hands of its user: reads and writes that take effect together or never."""

from __future__ import annotations

import asyncio
from asyncio import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar

from coterie import system
from coterie.errors import Conflict, MisuseError, OutcomeUnknown, Unavailable, UsageError
from coterie.system.aio import despite_cancellation
from coterie.transactions.schemes.span import Span
from coterie.transactions.store.values import checked, decode, encode, end_of_prefix, is_count

if TYPE_CHECKING:
    from types import TracebackType

    from coterie.clocks import Stamp
    from coterie.transactions.schemes.scheduler import Attempt, Declaration, Number, Value
    from coterie.transactions.store.executor import Executor
    from coterie.transactions.store.record import Record

AnswerT = TypeVar("AnswerT")
ADVICE = "which the same task has begun: end that one first, or do everything in one transaction"
LOOK_SECONDS = 0.1  # between two looks at what a wait is for
State = Literal["new", "running", "committed", "aborted", "refused", "unknown"]


@dataclass(slots=True)
class Counts:
    """How the transactions of a store ended so far; each attempt counts."""

    committed: int = 0
    aborted: int = 0  # by their users
    refused: int = 0  # because of others
    unknown: int = 0
    repeated: int = 0  # attempts after a refused one, by `run`


class Owner(NamedTuple):
    """The task that has begun a transaction, and when."""

    task: asyncio.Task[Any] | None
    since: float  # by the monotonic clock


class Home:
    """The event loop that uses a store. Two at a time would come between each other's steps."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        """Belong to no loop so far."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def enter(self) -> None:
        """Make the running loop the store's, or raise `MisuseError` if another thread runs one."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None and self._loop.is_running():
            raise MisuseError(
                "the store is in use by an event loop of another thread, and one loop at a time may"
                " use it: pass the work to that one by asyncio.run_coroutine_threadsafe"
            )
        self._loop = loop


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the transactions of a store have in common."""

    executor: Executor
    timeout: float | None  # of each wait for others, in seconds
    record: Record | None
    counts: Counts
    home: Home
    owners: dict[str, Owner] = field(default_factory=dict)  # of those under way, oldest first


class Transaction:
    """Reads and writes between the beginning and the end of an `async with` block.

    Leaving the block commits; an exception, a cancellation or `abort()` leaves no trace. Every
    call may wait for other transactions, or raise `Conflict` because of them: all further calls
    raise it again then, and so does the end of the block. Only the task that has entered the block
    may use it.
    """

    __slots__ = (
        "_above",
        "_attempt",
        "_declaration",
        "_earlier",
        "_executor",
        "_name",
        "_record",
        "_refusal",
        "_surroundings",
        "_task",
        "state",
    )

    def __init__(
        self,
        surroundings: Surroundings,
        declaration: Declaration,
        earlier: Attempt | None = None,
        above: Stamp | None = None,
    ) -> None:
        """Prepare an attempt, a further one if there was an earlier one; a store does this."""
        self._surroundings = surroundings
        self._executor = surroundings.executor
        self._record = surroundings.record
        self._declaration = declaration
        self._earlier = earlier
        self._above = above
        self._refusal: Conflict | None = None
        self.state: State = "new"

    @property
    def name(self) -> str:
        """The name under which conflicts of others and histories speak of this attempt."""
        return attempt_of(self).name

    @property
    def failures(self) -> int:
        """How many attempts of the same work were refused before this one."""
        return attempt_of(self).failures

    async def get(self, key: str, default: Any = None, *, for_update: bool = False) -> Any:
        """Return a copy of the value of a key, or the default if the key is absent.

        With `for_update`, others that want to write the key are kept out from now on, where the
        scheme can do that: two that read and then write do not get in each other's way.
        """
        self._check()
        try:
            found = self._executor.read(self._name, checked(key), update=for_update)
            if isinstance(found, Future):
                found = await self._wait(found, f"for {key}", key)
        except Conflict as refusal:
            self._refuse(refusal)
            raise
        if self._record is not None:
            self._record.read(found)
        return default if found.value is None else decode(found.value)

    async def put(self, key: str, value: Any) -> None:
        """Set a key to a copy of a value: anything that msgspec can encode."""
        await self._write(key, encode(key, value))

    async def delete(self, key: str) -> None:
        """Make a key absent, whether it is there or not."""
        await self._write(key, None)

    async def scan(
        self, low: str = "", high: str | None = None, *, limit: int | None = None
    ) -> list[tuple[str, Any]]:
        """Return all keys from `low` up to but not including `high` with their values, in order.

        No other transaction adds or removes any until this one has ended, or one of the two does
        not commit. With a limit, that holds as far as the last key given.
        """
        self._check()
        span = Span(checked(low), None if high is None else checked(high))
        if limit is not None and not is_count(limit):
            raise UsageError(f"limit must be at least 1, got {limit!r}")
        if high is not None and high <= low:
            return []
        try:
            listed = self._executor.scan(self._name, span, limit)
            if isinstance(listed, Future):
                listed = await self._wait(listed, f"to scan from {low!r}")
        except Conflict as refusal:
            self._refuse(refusal)
            raise
        if self._record is not None:
            self._record.scan(listed)
        return [(item.key, decode(item.value)) for item in listed.items if item.value is not None]

    async def scan_prefix(self, prefix: str, *, limit: int | None = None) -> list[tuple[str, Any]]:
        """Return all keys that begin so with their values, in order."""
        return await self.scan(prefix, end_of_prefix(checked(prefix)), limit=limit)

    def abort(self) -> None:
        """Abort: nothing of this has happened, and the rest of the block can make no more requests."""
        self._check()
        self._executor.abort(self._name)
        self._end("aborted")

    async def __aenter__(self) -> Self:
        """Begin."""
        if self.state != "new":
            raise MisuseError("a transaction can begin only once; ask the store for another one")
        self._surroundings.home.enter()
        earlier = self._earlier
        if earlier is None:
            self._attempt = self._executor.begin(self._declaration)
        else:
            self._attempt = self._executor.begin(
                self._declaration,
                age=earlier.age,
                failures=earlier.failures + 1,
                above=self._above,
            )
        self._name = self._attempt.name
        self._task = asyncio.current_task()
        self._surroundings.owners[self._name] = Owner(self._task, system.monotonic())
        self.state = "running"
        if self._record is not None:
            self._record.begin(self._attempt)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or abort if something was raised."""
        if error is None and self.state == "running":
            await self._commit()
        elif error is None and self._refusal is not None:
            raise self._refusal
        elif self.state == "running" and isinstance(error, Exception):
            await self._raise_if_invalid(error)
        elif self.state == "running":
            self._executor.abort(self._name)
            self._end("aborted")

    async def _write(self, key: str, value: Value) -> None:
        self._check()
        try:
            accepted = self._executor.write(self._name, checked(key), value)
            if isinstance(accepted, Future):
                await self._wait(accepted, f"for {key}", key)
        except Conflict as refusal:
            self._refuse(refusal)
            raise
        if self._record is not None:
            self._record.write(self._name, key, value)

    async def _commit(self) -> None:
        if self._record is not None:
            self._record.ask(self._name)
        try:
            number = self._executor.commit(self._name)
            if isinstance(number, Future):
                number = await self._decision(number)
        except Conflict as refusal:
            self._refuse(refusal)
            raise
        except OutcomeUnknown:
            self._end("unknown")
            raise
        except BaseException:
            self._executor.abort(self._name)
            self._end("aborted")
            raise
        self._end("committed", number=number)

    async def _decision(self, future: Future[Number]) -> Number:
        """Wait for the outcome of a commit, which can be called off only until it is decided."""
        try:
            if self._surroundings.timeout is None:
                return await self._answer(asyncio.shield(future))
            async with asyncio.timeout(self._surroundings.timeout):
                return await self._answer(asyncio.shield(future))
        except MisuseError as hopeless:
            if self._executor.abort(self._name):
                raise
            text = (
                f"{self._name} may yet be committed: its task has stopped waiting for the outcome"
            )
            raise OutcomeUnknown(text) from hopeless
        except (TimeoutError, asyncio.CancelledError) as interruption:
            late = isinstance(interruption, TimeoutError)
            others = self._executor.waits_for(self._name) if late else ()
            if future.done() or not self._executor.abort(self._name):
                return await despite_cancellation(future, cancelled=not late)
            if late:
                raise self._too_late("to commit", (), others) from None
            raise

    async def _raise_if_invalid(self, error: Exception) -> None:
        """Abort because of an error, but say so if it came of reading what never was at one time.

        Schemes that check only at the end let a transaction see such things before (2.6 f).
        """
        try:
            valid = self._executor.validate(self._name)
            if isinstance(valid, Future):
                await self._wait(valid, "to be validated")
        except Conflict as refusal:
            self._refuse(refusal)
            raise refusal from error
        self._end("aborted")

    async def _wait(self, future: Future[AnswerT], what: str, *keys: str) -> AnswerT:
        """Wait for the answer to a request; one that stops waiting leaves nothing behind (2.0 d)."""
        try:
            if self._surroundings.timeout is None:
                return await (self._answer(future) if self._own() else future)
            async with asyncio.timeout(self._surroundings.timeout):
                return await self._answer(future)
        except TimeoutError:
            others = self._executor.waits_for(self._name)
            self._executor.abort(self._name)
            raise self._too_late(what, keys, others) from None
        except (asyncio.CancelledError, MisuseError, Unavailable):
            self._executor.abort(self._name)
            self._end("aborted")
            raise

    async def _answer(self, future: Future[AnswerT]) -> AnswerT:
        """Wait; if the task has begun another transaction as well, look now and then for that one.

        Those that this one waits for may come to wait for the other, and what happens at other
        sites is heard of late.
        """
        while self._own() and not future.done():
            self._raise_if_hopeless()
            await asyncio.wait({future}, timeout=LOOK_SECONDS)
        return await future

    def _raise_if_hopeless(self) -> None:
        """Do not wait for another transaction of this very task: it cannot go on meanwhile."""
        own = self._own_among(self._executor.waits_for(self._name))
        if own is not None:
            raise MisuseError(f"{self._name} would wait forever for {own}, {ADVICE}")

    def _refuse(self, refusal: Conflict) -> None:
        """End because of others; if one of them is of this very task, no further try would help.

        Such a one cannot end before this one has, so it would be in the way each time.
        """
        own = self._own_among(refusal.others)
        if own is None:
            self._end("refused", refusal)
            return
        self._end("aborted")
        raise MisuseError(f"{self._name} cannot go on because of {own}, {ADVICE}") from refusal

    def _own_among(self, others: tuple[str, ...]) -> str | None:
        """Find one of this very task among others and those that they wait for in turn."""
        own = self._own()
        names = list(others) if own else []
        for name in names:  # grows on the way
            if name in own:
                return name
            names += [other for other in self._executor.waits_for(name) if other not in names]
        return None

    def _own(self) -> set[str]:
        """Name the other transactions that this task has under way."""
        owners = self._surroundings.owners
        if len(owners) == 1:
            return set()  # this one is the only one
        own = {name for name, owner in owners.items() if owner.task is self._task}
        return own - {self._name}

    def _too_late(self, what: str, keys: tuple[str, ...], others: tuple[str, ...]) -> Conflict:
        because = f", because of {', '.join(others)}" if others else ""
        seconds = self._surroundings.timeout
        message = f"{self._name} has waited {seconds:g} s {what}{because}"
        return Conflict(message, rule="waited too long", keys=keys, others=others)

    def _end(
        self, state: State, refusal: Conflict | None = None, *, number: Number | None = None
    ) -> None:
        self.state = state
        self._refusal = refusal
        del self._surroundings.owners[self._name]
        counts = self._surroundings.counts
        setattr(counts, state, getattr(counts, state) + 1)
        if self._record is None:
            return
        if number is not None:
            self._record.commit(self._name, number)
        elif state != "unknown":
            self._record.abort(self._name)

    def _check(self) -> None:
        if self.state != "running":
            if self._refusal is not None:
                raise self._refusal
            if self.state == "new":
                raise MisuseError("the transaction has not begun: use `async with`")
            raise MisuseError(f"{self._name} has ended ({self.state}): it takes no more requests")
        if asyncio.current_task() is not self._task:
            raise MisuseError(
                f"{self._name} belongs to the task that began it;"
                " another task needs a transaction of its own"
            )


def attempt_of(transaction: Transaction) -> Attempt:
    """Return an attempt as the scheme knows it: its stamp, its age and what it has declared."""
    if transaction.state == "new":
        raise MisuseError("a transaction has no name before it begins: use `async with`")
    return transaction._attempt  # noqa: SLF001 - of this module, and no business of a program
