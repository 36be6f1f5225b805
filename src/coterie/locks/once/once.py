"""A job that runs once per period: the lock is taken, *started* is written, and then the job runs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from coterie import system
from coterie.errors import (
    AcquireTimeout,
    CoterieError,
    LockLost,
    MisuseError,
    NotDue,
    Unavailable,
    UsageError,
)
from coterie.locks import current
from coterie.locks.held import wake
from coterie.locks.lock import Body, Lock, Patience, check_timeout
from coterie.locks.names import check_name
from coterie.locks.once.clock import compare_clocks
from coterie.locks.once.record import decode, encode
from coterie.locks.value import values_of
from coterie.system.aio import first_done, to_the_end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from types import TracebackType

    from coterie.locks.held import Held, LossEvent
    from coterie.locks.lock import Owner, Session
    from coterie.locks.observers import Observers
    from coterie.locks.once.plan import Due, Plan
    from coterie.locks.once.record import OnceRecord
    from coterie.locks.value import Value
    from coterie.telemetry.observer import JobState, RunEnd

LOOK_SECONDS = 0.05  # before the first look at the record while another has the lock; then doubled
LOOK_SECONDS_MAX = 30.0
RETRY_SECONDS = 0.1  # between two writes of a record while its server is away

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Decorated = TypeVar("Decorated", bound="Callable[..., object]")

logger = logging.getLogger("coterie.locks")


class Run:
    """A run that has begun: its lock is held, and that it was started is recorded."""

    name: str  # of the job
    period: str  # the key of its period, such as 2026-11-17
    attempt: int  # of this period: 1 for the first

    def __init__(
        self, held: Held, due: Due, record: OnceRecord, observers: Observers | None
    ) -> None:
        """Take over the lock of a job, in whose value the record stands."""
        self.name = held.name
        self.period = due.key
        self.attempt = due.attempt
        self._held = held
        self._record = record
        self._observers = observers
        self._ended = False

    def __repr__(self) -> str:
        """Show which run it is."""
        return f"<Run {self.name!r} period={self.period} attempt={self.attempt} token={self.token}>"

    @property
    def token(self) -> int:
        """The fencing token: a later run has a larger one."""
        return self._held.token

    @property
    def tokens(self) -> Mapping[str, int]:
        """The fencing token by the job's name."""
        return self._held.tokens

    @property
    def lost(self) -> LossEvent:
        """Is set when the lock is lost: another program may run the period then, if an attempt is left."""
        return self._held.lost

    @property
    def valid(self) -> bool:
        """Whether the lock is held now; looked up, not remembered."""
        return self._held.valid

    def ensure(self) -> None:
        """Raise `LockLost` if the lock is lost and `NotHeld` if the run has ended."""
        self._held.ensure()

    async def finish(self, *, connection: object = None) -> None:
        """Record that it ended well, and release the lock; done to the end even if this task is cancelled.

        Raises `LockLost` if the lock was lost before: then the end is not recorded.

        Args:
            connection: Of asyncpg or psycopg, to the database of locks on PostgreSQL, with an open transaction. That
                commits the record together with the work that was done in it, or neither: so the work is done exactly
                once. The next holder waits for its end.
        """
        await self._end(asyncio.current_task(), "done", "", connection)

    async def fail(self, why: str = "") -> None:
        """Record that it failed, and why, and release the lock: the next that comes or waits may try again."""
        await self._end(asyncio.current_task(), "failed", why)

    async def _end(
        self,
        owner: Owner,
        state: RunEnd,
        status: str,
        connection: object = None,
    ) -> None:
        """Record the end and release the lock on behalf of an owner."""
        if self._ended:
            raise MisuseError(f"{self!r} has ended before")
        self._ended = True
        record = self._record.ended(state, status, system.wall())
        await to_the_end(self._close(owner, record, state, connection))

    async def _close(
        self, owner: Owner, record: OnceRecord, end: RunEnd, connection: object
    ) -> None:
        try:
            # Refused by the store if another holder has read since: its run is in the record then.
            if connection is None:
                await insist(self._held, partial(self._held.write, encode(record)))
            else:
                await self._held.write(encode(record), connection=connection)
            if self._observers is not None:
                self._observers.job_seen(state_of(self.name, record))
                self._observers.run_ended(self.name, end)
        finally:
            await self._held._give_back(owner)


def without_run(decorated: Decorated) -> Decorated:
    """Return a decorated function whose signature, as frameworks look it up, has no run any more."""
    signature = inspect.signature(decorated)
    rest = list(signature.parameters.values())[1:]
    decorated.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
    return decorated


async def insist(held: Held, call: Callable[[], Awaitable[Result]]) -> Result:
    """Read or write the record, and again while the server is away, until the lease ends that the holder has now.

    A write whose outcome is not known is settled by the same write once more: no other holder writes meanwhile. Without a
    lease, as in a directory, what fails does not pass.
    """
    until = held.expires_at
    while True:
        try:
            return await call()
        except Unavailable:
            if math.isinf(until) or system.monotonic() + RETRY_SECONDS > until or not held.valid:
                raise
            await asyncio.sleep(RETRY_SECONDS)


class RunBody:
    """Watches over the code of a run, as the body of a lock is watched over, and records how it ended."""

    def __init__(self, run: Run, task: asyncio.Task[object]) -> None:
        """Begin to watch."""
        self.run = run
        self._task = task
        self._body = Body(run._held, task)
        current.enter(run._held)

    async def end(self, error: BaseException | None) -> None:
        """Record the end; raise `LockLost` if the lock was lost, unless the body raised something else."""
        gives_way = self._body.end(error)
        current.leave(self.run._held)
        if self.run._ended:
            return
        try:
            if error is None:
                await self.run._end(self._task, "done", "")
            else:
                await self.run._end(self._task, "failed", describe(error))
        except LockLost as loss:
            if gives_way:
                raise loss from error
        except CoterieError as trouble:
            if error is None:
                raise
            note_unrecorded(self.run, trouble)


class Once:
    """A job that runs once per period. Any number of tasks may use the same object."""

    name: str  # of the job, and of its lock

    def __init__(
        self,
        session: Session,
        plan: Plan,
        *,
        timeout: float | None = None,
        lease: float | None = None,
    ) -> None:
        """Prepare to ask; nothing is sent before it is acquired."""
        check_timeout(timeout)
        self.name = check_name(plan.name)
        self._session = session
        self._plan = plan
        self._timeout = timeout
        self._lease = lease
        self._bodies: dict[asyncio.Task[object], list[RunBody]] = {}
        self._looking: set[asyncio.Task[None]] = set()  # that go on until they have their answer

    def __repr__(self) -> str:
        """Show the name."""
        return f"<Once {self.name!r}>"

    async def acquire(self, timeout: float | None = None) -> Run | None:  # noqa: ASYNC109 - as everywhere
        """Begin a run if one is due, and return it; None if none is, or if the lock was not obtained in time.

        The caller ends it, by `finish` or `fail`.
        """
        try:
            return await self._begin(asyncio.current_task(), timeout)
        except (NotDue, AcquireTimeout):
            return None

    def __call__(
        self, function: Callable[Concatenate[Run, Parameters], Coroutine[Any, Any, Result]]
    ) -> Callable[Parameters, Coroutine[Any, Any, Result | None]]:
        """Decorate a coroutine function: a call runs it if a period is due, and returns None if none is.

        It gets the run as its first argument. With `catch_up` it is called for each period that was missed.
        """
        if not inspect.iscoroutinefunction(function):
            raise UsageError(
                f"{self!r} can decorate an `async def` that returns; for other functions take `once` from"
                " coterie.sync.connect"
            )

        @functools.wraps(function)
        async def once(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result | None:
            result = None
            while True:
                try:
                    run = await self.__aenter__()
                except NotDue:
                    return result
                try:
                    result = await function(run, *args, **kwargs)
                except BaseException as error:
                    await self.__aexit__(type(error), error, error.__traceback__)
                    raise
                await self.__aexit__(None, None, None)
                if self._plan.catch_up == 1:
                    return result

        return without_run(once)

    async def __aenter__(self) -> Run:
        """Begin a run, or raise `NotDue`; `AcquireTimeout` if another program has the lock and runs nothing."""
        task = asyncio.current_task()
        assert task is not None, "async with runs in a task"
        run = await self._begin(task)
        self._bodies.setdefault(task, []).append(RunBody(run, task))
        return run

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Record the end: done, or failed if the body raised."""
        task = asyncio.current_task()
        assert task is not None, "async with runs in a task"
        bodies = self._bodies[task]
        body = bodies.pop()
        if not bodies:
            del self._bodies[task]
        await body.end(error)

    # Beginning

    async def _begin(self, owner: Owner, timeout: float | None = None) -> Run:  # noqa: ASYNC109 - as everywhere
        """Begin a run on behalf of an owner; raise `NotDue` or `AcquireTimeout`."""
        check_timeout(timeout)
        patience = self._patience(self._timeout if timeout is None else timeout)
        lock = Lock(self._session, self.name, timeout=patience.remaining(), lease=self._lease)
        useless: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        looking = asyncio.ensure_future(self._look_beside(useless))
        self._looking.add(looking)
        looking.add_done_callback(self._looking.discard)
        try:
            held = await lock._take(owner, patience.unless(useless))
        finally:
            # It ends by itself: cancelling a question to a server can cost the connection.
            wake(useless)
        if held is not None:
            return await self._start(held, owner)
        record, due = await self._choose_beside()
        if record is not None and record.last.state == "started":
            raise self._running(record, due.key)
        raise await lock._timed_out()

    def _patience(self, timeout: float | None) -> Patience:
        """Wait so long; by default until the next period can be asked for."""
        return Patience.of(self._plan.wait_seconds(system.wall()) if timeout is None else timeout)

    async def _look_beside(self, useless: asyncio.Future[None]) -> None:
        """Look at the record while another has the lock, and end the wait for it when nothing is due any more.

        The holder may run the period. But it may also be looking whether one is due, and a program that left for that
        would leave the period to no machine; or it may run an earlier period, whose end has to be awaited.
        """
        pause = LOOK_SECONDS
        while True:
            await first_done((useless,), pause)
            if useless.done():
                return
            pause = min(2 * pause, LOOK_SECONDS_MAX)
            try:
                await self._choose_beside()
            except Unavailable:
                pass  # a wait for the lock outlasts it, or ends with this error itself
            except CoterieError:
                wake(useless)  # the caller looks again, and raises it

    async def _choose_beside(self) -> tuple[OnceRecord | None, Due]:
        """Return the record and what would be due if the lock were free; raise `NotDue` if nothing is."""
        values = values_of(self._session.engine, self._session.url)
        record = self._decoded(await values.read_value(self.name))
        try:
            return record, self._plan.choose(record, system.wall())
        except NotDue as error:
            if record is not None and error.reason == "started":
                raise self._running(record, error.period) from None
            raise

    async def _start(self, held: Held, owner: Owner) -> Run:
        """Record the start of a run that is due; with an error nothing is held."""
        run = None
        try:
            record = self._decoded(await insist(held, held.read))
            if self._plan.schedule is not None:
                await compare_clocks(self._session, self.name, self._plan.schedule)
            now = system.wall()
            due = self._plan.choose(record, now)
            process = self._session.engine.waits.process
            begun = self._plan.begun(record, due, held.token, process, now)
            run = Run(held, due, begun, self._session.observers)
            await insist(held, partial(held.write, encode(begun)))
        except BaseException as error:
            with contextlib.suppress(CoterieError):
                if run is not None and isinstance(error, asyncio.CancelledError):
                    # The start may be recorded, so its end has to be, too: the job does not begin.
                    self._note_start(begun)
                    await run._end(owner, "failed", describe(error))
                else:
                    await held._give_back(owner)
            raise
        self._note_start(begun)
        return run

    def _note_start(self, begun: OnceRecord) -> None:
        """Tell observers, if there are any, that a run has begun here."""
        if self._session.observers is not None:
            self._session.observers.job_seen(state_of(self.name, begun))
            self._session.observers.run_began(self.name)

    def _running(self, record: OnceRecord, period: str) -> NotDue:
        last = record.last
        return NotDue(
            f"job {self.name!r}: period {last.period} is being run by {last.by}",
            period=period,
            reason="running",
        )

    def _decoded(self, value: Value | None) -> OnceRecord | None:
        if value is None:
            return None
        record = decode(self.name, value.data)
        if self._session.observers is not None:
            self._session.observers.job_seen(state_of(self.name, record))
        return record


def state_of(name: str, record: OnceRecord) -> JobState:
    """Return what observers are told of a record."""
    from coterie.telemetry.observer import JobState  # noqa: PLC0415 - not for programs without observers

    return JobState(name, record.starts, record.success or record.since, record.every)


def describe(error: BaseException) -> str:
    """Return an error as the status of a run."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def note_unrecorded(run: Run, trouble: CoterieError) -> None:
    """Log that the end of a run was not recorded, where another error is raised."""
    logger.warning(
        "the end of %r is not recorded: %s", run, trouble, extra={"event": "run-unrecorded"}
    )
