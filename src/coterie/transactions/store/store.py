"""A transactional key-value store; one word chooses how its transactions are kept apart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from inspect import isawaitable
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from coterie import system
from coterie.errors import Conflict, MisuseError, UsageError
from coterie.transactions.catalogue import scheme as scheme_named
from coterie.transactions.schemes.scheduler import EVERYTHING, Declaration
from coterie.transactions.schemes.span import Span
from coterie.transactions.store.executor import Executor
from coterie.transactions.store.local import LocalExecutor
from coterie.transactions.store.log import Log
from coterie.transactions.store.record import Record
from coterie.transactions.store.transaction import (
    Counts,
    Home,
    Surroundings,
    Transaction,
    attempt_of,
)
from coterie.transactions.store.values import checked, is_count

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from types import TracebackType

    from coterie.clocks import Stamp
    from coterie.transactions.history import History
    from coterie.transactions.schemes.scheduler import Attempt

ResultT = TypeVar("ResultT")

DEFAULT_SCHEME = "two-phase-locking"
URL_SCHEMES = ("postgresql", "postgres")
TRIES = 64
PAUSE_SECONDS = 0.001  # at most, before the second attempt; doubled after each
DOUBLINGS_MAX = 6

logger = logging.getLogger("coterie.transactions")


class Oldest(NamedTuple):
    """A transaction that has been under way for long."""

    name: str
    task: str  # the name of the task that has begun it
    seconds: float  # since then


class Store:
    """Keys and values that are read and changed by transactions, each as if it were alone.

    In memory, or with a path in a file of SQLite: then a commit has reached the disk; or, with a URL, on
    a PostgreSQL server. The schemes differ in which transactions wait and which try again, not in
    what a committed one may see. One event loop at a time may use a store: from a second thread's,
    a transaction is a `MisuseError`.
    """

    def __init__(
        self,
        scheme_or_url: str | Executor = DEFAULT_SCHEME,
        /,
        *,
        scheme: str | None = None,
        variant: str | None = None,
        path: str | Path | None = None,
        timeout: float | None = None,
        record: bool = False,
    ) -> None:
        """Open a store.

        Args:
            scheme_or_url: a scheme, or `postgresql://user@host/database`: then the server keeps the
                keys, which other processes may use as well, and keeps transactions apart in its own way;
                or an executor that carries out the requests, as `join_store` has one.
            scheme: how transactions are kept apart, by default by two-phase locking;
                `coterie.transactions.catalogue.schemes()` has them all.
            variant: which form of the scheme, if there are several.
            path: the file in which commits last; no other process may have it open.
            timeout: how many seconds a request may wait for other transactions before it gives up
                with a `Conflict`; the last resort if the other one waits for this one in a way that
                the store cannot see.
            record: whether to remember everything, for `history()`.
        """
        _check(timeout)
        told: Record | None = None
        executor: Executor
        given = {"scheme": scheme, "variant": variant, "path": path}
        if isinstance(scheme_or_url, Executor):
            executor, told = scheme_or_url, Record() if record else None
        elif ":" in str(scheme_or_url):
            _check_url(scheme_or_url, [name for name, value in given.items() if value is not None])
            # It needs a client library that is not always there.
            from coterie.transactions.store.postgresql import PostgresqlExecutor  # noqa: PLC0415

            told = Record(forgets=False) if record else None
            executor = PostgresqlExecutor(scheme_or_url, told)
        else:
            scheduler = scheme_named(_choose(scheme_or_url, scheme)).build(variant)
            executor = LocalExecutor(scheduler, None if path is None else Log(path))
            told = Record(scheduler.latest()) if record else None
        self._counts = Counts()
        self._record = told
        self._surroundings = Surroundings(executor, timeout, told, self._counts, Home())
        self._closed = False

    @property
    def counts(self) -> Counts:
        """How the transactions of this store ended so far; each attempt counts."""
        return self._counts

    def transaction(
        self,
        *,
        reads: Iterable[str | Span] | None = None,
        writes: Iterable[str | Span] | None = None,
    ) -> Transaction:
        """Return one attempt of a transaction, for `async with`; `run` tries again by itself.

        Args:
            reads: keys and spans that it may read at most. Only the scheme `conservative` asks:
                transactions that declare what they do wait only for those that they could disturb.
            writes: keys and spans that it may write at most.
        """
        return self._attempt(_declared(reads, writes))

    async def run(
        self,
        work: Callable[[Transaction], Awaitable[ResultT]],
        *,
        tries: int = TRIES,
        timeout: float | None = None,  # noqa: ASYNC109 - by the name all calls have
        reads: Iterable[str | Span] | None = None,
        writes: Iterable[str | Span] | None = None,
    ) -> ResultT:
        """Run a function in a transaction, again from its beginning after every `Conflict`.

        Return what it returned in the attempt that committed. Between attempts there is a pause,
        random and longer each time. Any other exception ends this, after the attempt has been
        aborted; `OutcomeUnknown` does, too, since a further attempt might do the work twice.

        Args:
            work: is called with the transaction once per attempt; what it does besides, such as
                sending a mail, happens in every attempt.
            tries: how many attempts there are at most; the last one's `Conflict` is raised.
            timeout: how many seconds all attempts and pauses together may take, by default any
                time. Then the attempt under way is aborted wherever it is, in the work's own waits
                too, and `Conflict` is raised: nothing has happened. A commit that is being decided
                can no longer be aborted, so its outcome is waited for and counts.
            reads: see `transaction`.
            writes: see `transaction`.
        """
        if not is_count(tries):
            raise UsageError(f"tries must be at least 1, got {tries!r}")
        if not callable(work):
            raise UsageError(f"run needs a function that it can call again, got {work!r:.99}")
        _check(timeout)
        declaration = _declared(reads, writes)
        met: list[Conflict] = []
        if timeout is None:
            return await self._try(work, tries, declaration, met)
        try:
            async with asyncio.timeout(timeout) as deadline:
                return await self._try(work, tries, declaration, met)
        except TimeoutError:
            if not deadline.expired():  # it is one of the work's own
                raise
            last = f", the last because: {met[-1]}" if met else ""
            raise Conflict(
                f"given up after {timeout:g} s: {len(met)} tries were refused{last}",
                rule="out of time",
                keys=met[-1].keys if met else (),
                others=met[-1].others if met else (),
            ) from None

    async def _try(
        self,
        work: Callable[[Transaction], Awaitable[ResultT]],
        tries: int,
        declaration: Declaration,
        met: list[Conflict],
    ) -> ResultT:
        """Try until an attempt commits; `met` gets the conflicts on the way."""
        attempt = self._attempt(declaration)
        while True:
            try:
                async with attempt:
                    doing = work(attempt)
                    if not isawaitable(doing):
                        raise UsageError(f"run needs an `async def` function, got {work!r:.99}")
                    return await doing
            except Conflict as conflict:
                met.append(conflict)
                if len(met) == tries:
                    conflict.add_note(f"given up after {tries} tries")
                    raise
                await self._pause(conflict, attempt.failures + 1)
                self._counts.repeated += 1
                attempt = self._attempt(declaration, attempt_of(attempt), conflict.above)

    async def _pause(self, conflict: Conflict, failures: int) -> None:
        """Wait before another try, at random, so that two that met once do not meet again."""
        bound = PAUSE_SECONDS * 2 ** min(failures - 1, DOUBLINGS_MAX)
        seconds = system.random().random() * bound
        logger.debug(
            "%s; trying again in %.1f ms",
            conflict,
            seconds * 1000,
            extra={"event": "transaction-retried"},
        )
        await asyncio.sleep(seconds)

    def oldest(self) -> Oldest | None:
        """Return the transaction of this process that has been under way for longest, or None.

        Others wait for it, or are refused because of it; and under `multiversion` no version that
        it could read is dropped before it ends, however often its key is written meanwhile.
        """
        for name, owner in self._surroundings.owners.items():
            task = "" if owner.task is None else owner.task.get_name()
            return Oldest(name, task, system.monotonic() - owner.since)
        return None

    def history(self) -> History:
        """Return what has happened so far, for `coterie.lab.serializability.check`."""
        return self._recorded().history()

    def history_lines(self) -> bytes:
        """Return what has happened so far as JSON lines, for the command `coterie history`."""
        return self._recorded().lines()

    async def close(self) -> None:
        """Wait for what is on its way to the disk, abort the rest, and close the file."""
        self._closed = True
        await self._surroundings.executor.close()

    async def __aenter__(self) -> Self:
        """Return the store itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()

    def _attempt(
        self,
        declaration: Declaration,
        earlier: Attempt | None = None,
        above: Stamp | None = None,
    ) -> Transaction:
        if self._closed:
            raise MisuseError("the store is closed")
        return Transaction(self._surroundings, declaration, earlier, above)

    def _recorded(self) -> Record:
        if self._record is None:
            raise MisuseError("nothing was recorded: open the store with record=True")
        return self._record


def executor_of(store: Store) -> Executor:
    """Return what carries out the requests of a store, to look at."""
    return store._surroundings.executor  # noqa: SLF001 - of this module, and no business of a program


def _choose(word: str, scheme: str | None) -> str:
    """Return the scheme that was named by position, by keyword, or by both alike."""
    if scheme is not None and word not in (DEFAULT_SCHEME, scheme):
        raise UsageError(f"two schemes, {word!r} and {scheme!r}: choose one")
    return scheme or word


def _check(timeout: object) -> None:
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise UsageError(f"timeout must be more than 0 seconds, got {timeout!r}")


def _check_url(url: str, given: list[str]) -> None:
    scheme = url.partition(":")[0]
    if scheme not in URL_SCHEMES:
        raise UsageError(
            f"there is no store at {scheme}://; a server's is postgresql://host/database"
        )
    if "path" in given:
        raise UsageError("path= is for a store in a file of this machine; PostgreSQL keeps its own")
    if given:
        raise UsageError(
            f"{' and '.join(f'{name}=' for name in given)}: PostgreSQL keeps transactions apart in its own"
            " way, serializable snapshot isolation; there is no other to choose"
        )


def _declared(
    reads: Iterable[str | Span] | None, writes: Iterable[str | Span] | None
) -> Declaration:
    """Declare keys and spans; what may be written may be read as well. Nothing said: everything."""
    if reads is None and writes is None:
        return EVERYTHING
    written = _spans(writes)
    return Declaration((*_spans(reads), *written), written)


def _spans(parts: Iterable[str | Span] | None) -> tuple[Span, ...]:
    if parts is None:
        return ()
    if isinstance(parts, str | Span) or not isinstance(parts, Iterable):
        raise UsageError(f"reads and writes are lists of keys and spans, got {parts!r:.99}")
    return tuple(map(_span, parts))


def _span(part: str | Span) -> Span:
    if not isinstance(part, Span):
        return Span.of(checked(part))
    return Span(checked(part.low), None if part.high is None else checked(part.high))
