"""Jobs that run once per period, for threads."""

from __future__ import annotations

import functools
import inspect
import threading
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeVar

from coterie.errors import AcquireTimeout, CoterieError, LockLost, NotDue, UsageError
from coterie.locks import current
from coterie.locks.once.once import describe, note_unrecorded, without_run
from coterie.sync.held import watched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from coterie import locks
    from coterie.sync.held import LossEvent
    from coterie.sync.loop import Loop

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Run:
    """A run that has begun: its lock is held, and that it was started is recorded."""

    name: str  # of the job
    period: str  # the key of its period, such as 2026-11-17
    attempt: int  # of this period: 1 for the first

    def __init__(self, loop: Loop, inner: locks.Run, lost: LossEvent) -> None:
        """Stand for a run."""
        self.name = inner.name
        self.period = inner.period
        self.attempt = inner.attempt
        self._loop = loop
        self._inner = inner
        self._lost = lost

    def __repr__(self) -> str:
        """Show which run it is."""
        return repr(self._inner)

    @property
    def token(self) -> int:
        """The fencing token: a later run has a larger one."""
        return self._inner.token

    @property
    def tokens(self) -> Mapping[str, int]:
        """The fencing token by the job's name."""
        return self._inner.tokens

    @property
    def lost(self) -> LossEvent:
        """Is set when the lock is lost: another program may run the period then, if an attempt is left."""
        return self._lost

    @property
    def valid(self) -> bool:
        """Whether the lock is held now; looked up, not remembered."""
        return self._inner.valid

    def ensure(self) -> None:
        """Raise `LockLost` if the lock is lost and `NotHeld` if the run has ended."""
        if not self.valid:
            self._loop.run(self._ensure)

    def finish(self, *, connection: object = None) -> None:
        """Record that it ended well, and release the lock.

        Raises `LockLost` if the lock was lost before: then the end is not recorded.

        Args:
            connection: Of psycopg, to the database of locks on PostgreSQL, with an open transaction. That commits the
                record together with the work that was done in it, or neither: so the work is done exactly once. The
                next holder waits for its end.
        """
        self._end("done", "", connection)

    def fail(self, why: str = "") -> None:
        """Record that it failed, and why, and release the lock: the next that comes or waits may try again."""
        self._end("failed", why)

    def _end(
        self, state: Literal["done", "failed"], status: str, connection: object = None
    ) -> None:
        owner = threading.current_thread()
        self._loop.run(lambda: self._inner._end(owner, state, status, connection))

    async def _ensure(self) -> None:
        self._inner.ensure()


class Once:
    """A job that runs once per period. Any number of threads may use the same object."""

    name: str  # of the job, and of its lock

    def __init__(self, running: Callable[[], Loop], inner: locks.Once) -> None:
        """Stand for an object of the event loop, which may be started later; `running` finds it."""
        self.name = inner.name
        self._inner = inner
        self._running = running
        self._entered: dict[threading.Thread, list[Run]] = {}

    def __repr__(self) -> str:
        """Show the name."""
        return repr(self._inner)

    def acquire(self, timeout: float | None = None) -> Run | None:
        """Begin a run if one is due, and return it; None if none is, or if the lock was not obtained in time.

        The caller ends it, by `finish` or `fail`.
        """
        try:
            return self._begin(timeout)
        except (NotDue, AcquireTimeout):
            return None

    def __call__(
        self, function: Callable[Concatenate[Run, Parameters], Result]
    ) -> Callable[Parameters, Result | None]:
        """Decorate a function: a call runs it if a period is due, and returns None if none is.

        It gets the run as its first argument. With `catch_up` it is called for each period that was missed.
        """
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise UsageError(
                f"{self!r} can decorate a `def` that returns; for an `async def` take `once` from"
                " coterie.connect, and in a generator use `with` in the body"
            )

        @functools.wraps(function)
        def once(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result | None:
            result = None
            while True:
                try:
                    run = self.__enter__()
                except NotDue:
                    return result
                try:
                    result = function(run, *args, **kwargs)
                except BaseException as error:
                    self.__exit__(type(error), error, error.__traceback__)
                    raise
                self.__exit__(None, None, None)
                if self._inner._plan.catch_up == 1:
                    return result

        return without_run(once)

    def __enter__(self) -> Run:
        """Begin a run, or raise `NotDue`; `AcquireTimeout` if another program has the lock and runs nothing."""
        run = self._begin(None)
        self._entered.setdefault(threading.current_thread(), []).append(run)
        current.enter(run)
        return run

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Record the end: done, or failed if the body raised."""
        thread = threading.current_thread()
        entered = self._entered[thread]
        run = entered.pop()
        if not entered:
            del self._entered[thread]
        current.leave(run)
        if run._inner._ended:
            return
        try:
            if error is None:
                run.finish()
            else:
                run.fail(describe(error))
        except LockLost:
            if error is None:
                raise
        except CoterieError as trouble:
            if error is None:
                raise
            note_unrecorded(run._inner, trouble)

    def _begin(self, timeout: float | None) -> Run:
        loop, owner = self._running(), threading.current_thread()

        async def begin() -> Run:
            inner = await self._inner._begin(owner, timeout)
            return Run(loop, inner, watched(inner._held))

        async def undo(run: Run) -> None:
            await run._inner._end(owner, "failed", "interrupted before it ran")

        return loop.run(begin, undo)
