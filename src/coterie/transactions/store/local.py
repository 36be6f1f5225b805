"""The executor of one site in this process: a scheduler, and a log if commits are to last.

Every request runs from its check to its effect without giving up control, so no other task comes
between. A commit takes effect for others only after the log has it on disk.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from coterie.clocks import Stamp
from coterie.errors import CoterieError, OutcomeUnknown, Unavailable
from coterie.transactions.schemes.scheduler import Attempt, Committed, Item, Prepared, Refused
from coterie.transactions.store.executor import conflict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.transactions.schemes.scheduler import (
        Answer,
        Declaration,
        Found,
        Listed,
        Name,
        Number,
        Scheduler,
        Value,
    )
    from coterie.transactions.schemes.span import Span
    from coterie.transactions.store.executor import Soon
    from coterie.transactions.store.log import Log

SITE = 1


class LocalExecutor:
    """Runs transactions by one scheduler."""

    def __init__(self, scheduler: Scheduler, log: Log | None = None) -> None:
        """Take over an unused scheduler, and go on from what the log remembers."""
        self.scheduler = scheduler
        self.log = log
        self._time = 0  # of the last stamp
        self._reserved = 0  # with a log: up to here stamps will not be used again after a crash
        self._waiting: dict[Name, asyncio.Future[Any]] = {}
        self._validating: set[Name] = set()  # of those that wait: those that will not commit
        self._deciding: dict[Name, asyncio.Future[Number]] = {}  # on the way to the disk
        self._refused: dict[Name, Refused] = {}  # between two requests, and not told so far
        self._doubted: set[Name] = set()  # which the disk may have kept or not: they never end
        if log is not None:
            recovered = log.recover()
            self._time = self._reserved = recovered.time
            scheduler.restore(recovered.items, Stamp(recovered.time, SITE))

    def begin(
        self,
        declaration: Declaration,
        *,
        age: Stamp | None = None,
        failures: int = 0,
        above: Stamp | None = None,
    ) -> Attempt:
        """Begin an attempt with a new stamp; all stamps are ours, so a new one exceeds `above`."""
        if self.log is not None and self._time == self._reserved:
            self._reserved = self.log.reserve(self._time)
        self._time += 1
        stamp = Stamp(self._time, SITE)
        attempt = Attempt(f"T{self._time}", stamp, age or stamp, failures, declaration)
        out: list[Answer] = []
        self.scheduler.begin(attempt, out)
        self._tell(out)
        return attempt

    def read(self, name: Name, key: str, *, update: bool = False) -> Soon[Found]:
        """Read a key, with `update` on the way to writing it."""
        self._raise_if_refused(name)
        out: list[Answer] = []
        self.scheduler.read(name, key, out, update=update)
        found: Soon[Found] = self._answer(name, out)
        return found

    def scan(self, name: Name, span: Span, limit: int | None) -> Soon[Listed]:
        """Read all keys of a span that are there, or the first few of them."""
        self._raise_if_refused(name)
        out: list[Answer] = []
        self.scheduler.scan(name, span, limit, out)
        listed: Soon[Listed] = self._answer(name, out)
        return listed

    def write(self, name: Name, key: str, value: Value) -> Soon[Any]:
        """Set a key when the transaction commits; None deletes it."""
        self._raise_if_refused(name)
        out: list[Answer] = []
        self.scheduler.write(name, key, value, out)
        return self._answer(name, out)

    def validate(self, name: Name) -> Soon[None]:
        """End the transaction without effect; raise `Conflict` if it could not have committed."""
        answer = self._prepare(name)
        if isinstance(answer, Prepared):
            self.abort(name)
            return None
        self._validating.add(name)
        future: asyncio.Future[None] = answer
        return future

    def commit(self, name: Name) -> Soon[Number]:
        """Let it take effect, on disk first if there is a log; the number of its versions."""
        if self._doubted and name in self.scheduler.active and self.scheduler.active[name].writes:
            raise self._unavailable()  # whatever the scheme would say: it is no conflict
        answer = self._prepare(name)
        return self._decide(answer) if isinstance(answer, Prepared) else answer

    def abort(self, name: Name) -> bool:
        """End the transaction without effect, unless it is on its way to the disk."""
        if name in self._deciding:
            return False
        self._refused.pop(name, None)
        self._waiting.pop(name, None)
        self._validating.discard(name)
        if name in self.scheduler.active:
            out: list[Answer] = []
            self.scheduler.abort(name, out)
            self._tell(out)
            self._end_hopeless_waits()
        return True

    def waits_for(self, name: Name) -> tuple[Name, ...]:
        """Name the transactions that have to end before its request is answered."""
        return self.scheduler.waits().get(name, ())

    @property
    def idle(self) -> bool:
        """Whether no transaction is under way, and nothing of an earlier one is left."""
        left = (self._waiting, self._validating, self._deciding, self._refused)
        return not (self.scheduler.active or self.scheduler.waits() or any(left))

    async def close(self) -> None:
        """Refuse what is under way, wait for the disk, and close the log."""
        out: list[Answer] = []
        for name, active in list(self.scheduler.active.items()):
            if not active.prepared and name in self.scheduler.active:
                self.scheduler.refuse(name, "the store was closed", (), (), out)
        self._tell(out)
        while self._deciding:
            await asyncio.wait(self._deciding.values())
        if self.log is not None:
            self.log.close()

    def _prepare(self, name: Name) -> Any:
        self._raise_if_refused(name)
        out: list[Answer] = []
        self.scheduler.prepare(name, out)
        return self._answer(name, out)

    def _decide(self, prepared: Prepared) -> Soon[Number]:
        """Commit what is prepared: at once, or when the log has it. Readers leave no trace there."""
        name, number = prepared.transaction, prepared.number
        if self.log is None or not prepared.writes:
            return self._take_effect(prepared)
        items = {key: Item(value, number) for key, value in prepared.writes.items()}
        # The scheduler commits only once this is on disk: what others have read must not be lost.
        self.log.append(items, partial(self._logged, prepared))
        future = self._waiting.pop(name) if name in self._waiting else _future()
        self._deciding[name] = future
        return future

    def _logged(self, prepared: Prepared, error: Exception | None) -> None:
        """Go on with a commit that is on disk. If that is not known, it stays prepared for good."""
        future = self._deciding.pop(prepared.transaction)
        if error is None:
            future.set_result(self._take_effect(prepared))
            return
        # It keeps its locks or its place: what it writes may be on disk and must not be overtaken.
        text = f"{prepared.transaction} may have been committed or not: {error}; reopen the store to see"
        future.set_exception(OutcomeUnknown(text))
        self._doubted.add(prepared.transaction)
        self._end_hopeless_waits()

    def _end_hopeless_waits(self) -> None:
        """Let no request wait for a transaction in doubt, which ends only when the store is reopened.

        What waits for another one that is ended here waits for that one in doubt next, maybe.
        """
        if not self._doubted:
            return
        for name, others in self.scheduler.waits().items():
            future = self._waiting.get(name)
            if future is not None and not self._doubted.isdisjoint(others):
                _settle(future, self._unavailable())

    def _unavailable(self) -> Unavailable:
        failure = None if self.log is None else self.log.failure
        assert failure is not None, "only a disk that has failed leaves a transaction in doubt"
        return failure

    def _take_effect(self, prepared: Prepared) -> Number:
        out: list[Answer] = []
        self.scheduler.commit(prepared.transaction, prepared.number, out)
        committed = self._answer(prepared.transaction, out)
        assert isinstance(committed, Committed), "a commit is answered at once"
        return committed.number

    def _answer(self, name: Name, out: list[Answer]) -> Any:
        """Return the answer to a request, or a future of it; pass on the answers to others."""
        if len(out) == 1 and out[0].transaction == name:  # by far the most frequent
            mine: Answer | None = out[0]
        else:
            mine = next((answer for answer in out if answer.transaction == name), None)
            self._tell(answer for answer in out if answer is not mine)
        if mine is None:
            future = self._waiting[name] = _future()
            self._end_hopeless_waits()
            return future
        if type(mine) is Refused:
            raise conflict(mine)
        return mine

    def _tell(self, out: Iterable[Answer]) -> None:
        """Pass on answers to requests that have waited. A future that is cancelled needs none."""
        for answer in out:
            name = answer.transaction
            if type(answer) is Prepared:
                self._prepared_at_last(answer)
                continue
            future = self._waiting.pop(name, None)
            if type(answer) is not Refused:
                assert future is not None, f"{answer} answers no request"
                _settle(future, answer)
            elif future is None:
                self._refused[name] = answer
            else:
                self._validating.discard(name)
                _settle(future, conflict(answer))

    def _prepared_at_last(self, prepared: Prepared) -> None:
        name = prepared.transaction
        future = self._waiting[name]
        if name in self._validating:
            self.abort(name)
            _settle(future, None)
            return
        try:
            outcome = self._decide(prepared)
        except CoterieError as error:  # from the log; the caller asks to abort
            _settle(future, error)
        else:
            if outcome is not future:
                del self._waiting[name]
                _settle(future, outcome)

    def _raise_if_refused(self, name: Name) -> None:
        if name in self._refused:
            raise conflict(self._refused.pop(name))


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


def _settle(future: asyncio.Future[Any], outcome: object) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
