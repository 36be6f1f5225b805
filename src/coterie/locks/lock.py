"""One lock, and what everything that can be acquired has in common.

A `Session` is what the locks of one coordinator share, `Patience` how long a task is willing to wait,
and `Acquirable` the ways to acquire a lock, several locks or a semaphore.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar

from coterie import system
from coterie.errors import (
    AcquireTimeout,
    DeadlockDetected,
    LockLost,
    MisuseError,
    NotHeld,
    UsageError,
)
from coterie.locks import current
from coterie.locks.engine import Prompt
from coterie.locks.held import Held, Holding
from coterie.locks.names import check_name, check_note
from coterie.locks.observers import Observers
from coterie.locks.url import without_password
from coterie.system.aio import first_done, to_the_end

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from types import TracebackType

    from coterie.locks.engine import Claim, Engine
    from coterie.telemetry.observer import Observer, Outcome

TURN_SECONDS = 0.001  # for taking locks, before others get a turn
# That a wait lasts before deadlock detection is told of it: less than the first pause of a search among
# programs, so that a circle within this one is seen before.
REGISTER_SECONDS = 0.02
HOLDERS_SECONDS_MAX = 0.5  # for asking who is in the way, after a wait that was in vain

Owner: TypeAlias = object  # the task that holds, or the thread in the face without an event loop
Kept_co = TypeVar("Kept_co", bound=Holding, covariant=True)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Session:
    """One use of an engine, by one process and one event loop."""

    def __init__(
        self,
        engine: Engine,
        url: str,
        again: Callable[[], Engine] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """Prepare; nothing happens before it is opened.

        Args:
            engine: Grants the locks.
            url: Names the engine for people.
            again: Makes another engine like it, for a child that was forked before this was opened.
            observers: Are told of each lock that is taken, missed and given back.
        """
        self.url = url
        self.observers = Observers(observers) if observers else None
        self._again = again
        self._use(engine)
        self.held: dict[tuple[Owner, str], Held] = {}
        self.is_open = False  # locks can be acquired
        self._turned = 0.0  # when the event loop was last given a turn
        self._loop: asyncio.AbstractEventLoop | None = None

    def _use(self, engine: Engine) -> None:
        self.engine = engine
        self.prompt = engine if isinstance(engine, Prompt) else None
        self._process = system.pid()

    async def open(self) -> None:
        """Open the engine for the event loop that runs."""
        if self._loop is None and self._again is not None and system.pid() != self._process:
            # Made before a fork, as by a decorator at the top of a module. The names that were drawn
            # with the engine are the parent's, and those of other children.
            self._use(self._again())
        self.check_process()
        if self._loop is not None:
            raise MisuseError(f"the coordinator {without_password(self.url)} is open already")
        await self.engine.open()
        self._loop = asyncio.get_running_loop()
        self.is_open = True

    async def close(self) -> None:
        """Close the engine, cancelled or not; what is still held is lost to its holders."""
        self.check_process()
        if self._loop is None:
            return
        self._check_loop()
        self._loop = None
        self.is_open = False
        for held in self.held.values():
            held._note_end(lost=True)
        self.held.clear()  # after it is opened again nothing is held
        await to_the_end(self.engine.close())

    def note_turn(self) -> None:
        """Take note that a task has waited, so that the event loop has run the others."""
        self._turned = system.monotonic()

    def should_yield(self) -> bool:
        """Return True if the event loop should run other tasks first.

        A lock that is free is acquired without waiting, so a task that takes one again and again
        would let no other task run, and not even the one that renews its lease.
        """
        now = system.monotonic()
        if now - self._turned < TURN_SECONDS:
            return False
        self._turned = now
        return True

    def check_process(self) -> None:
        """Refuse to work in a forked child: the locks are its parent's."""
        if system.pid() != self._process:
            raise MisuseError(
                f"the coordinator {without_password(self.url)} belongs to process {self._process}, and this is"
                f" process {system.pid()}; after a fork, connect again in the child"
            )

    def check(self) -> None:
        """Refuse to work before it is opened, after it is closed, or for another event loop."""
        self.check_process()
        if self._loop is None:
            raise MisuseError(
                f"the coordinator {without_password(self.url)} is not open; use `async with coterie.connect(...)`"
            )
        self._check_loop()

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise MisuseError(
                f"the coordinator {without_password(self.url)} belongs to another event loop; connect in this one"
            )


@dataclass(frozen=True)
class Patience:
    """A point in time after which waiting is over; `wait` is False if it never begins.

    Waiting is also over when one of `spoilt` is done: what is waited for is of no use any more then.
    """

    deadline: float = math.inf  # by system.monotonic()
    wait: bool = True
    spoilt: tuple[asyncio.Future[None], ...] = ()

    @classmethod
    def of(cls, timeout: float | None) -> Patience:
        """Wait that many seconds from now: None forever, 0 not at all."""
        if timeout is None:
            return FOREVER
        check_timeout(timeout)
        return cls(system.monotonic() + timeout, wait=timeout > 0)

    def remaining(self) -> float | None:
        """Return the seconds that are left, at least 0; None without end."""
        if self.deadline == math.inf:
            return None
        return max(0.0, self.deadline - system.monotonic())

    def unless(self, spoilt: asyncio.Future[None]) -> Patience:
        """Return the same patience, which also ends when that is done."""
        return replace(self, spoilt=(*self.spoilt, spoilt))

    def is_spoilt(self) -> bool:
        """Return True if waiting has become useless."""
        return any(future.done() for future in self.spoilt)


FOREVER = Patience()
AT_ONCE = Patience(deadline=-math.inf, wait=False)


def check_timeout(timeout: float | None) -> None:
    """Raise `UsageError` if this is no time to wait."""
    if timeout is not None and not (_is_number(timeout) and timeout >= 0):
        raise UsageError(f"timeout must be None or at least 0 seconds, got {timeout!r}")


def _is_number(given: object) -> bool:
    return isinstance(given, int | float)


def check_lease(lease: float | None) -> None:
    """Raise `UsageError` if this is no length of a lease."""
    if lease is not None and not (_is_number(lease) and lease > 0):
        raise UsageError(f"lease must be above 0 seconds, got {lease!r}")


class Body:
    """Watches over the code that runs while a lock is held.

    It cancels like `asyncio.timeout`: its own cancellation is turned into the loss, one that came from
    elsewhere meanwhile is passed on.
    """

    __slots__ = ("_cancelling", "_ended", "_interrupted", "_task", "holding")

    def __init__(self, holding: Holding, task: asyncio.Task[object]) -> None:
        """Begin to watch."""
        self.holding = holding
        self._task = task
        self._cancelling = task.cancelling()
        self._interrupted = False
        self._ended = False
        holding._call_if_lost(self._interrupt)

    def end(self, error: BaseException | None) -> bool:
        """Stop watching; return True if the loss is to be raised in place of this outcome of the body."""
        self._ended = True
        if not self._interrupted:
            return error is None
        foreign = self._task.uncancel() > self._cancelling
        return error is None or (isinstance(error, asyncio.CancelledError) and not foreign)

    def _interrupt(self) -> None:
        # A loss that the body finds out by `ensure` is raised there and then.
        if self._ended or asyncio.current_task() is self._task:
            return
        self._interrupted = True
        self._task.cancel("the lock is lost")


class Acquirable(ABC, Generic[Kept_co]):
    """Something that can be held. It has no state of its own: each task has its own part in it."""

    name: str  # of the lock; of several, joined by commas

    def __init__(
        self,
        session: Session,
        name: str,
        names: Sequence[str],
        timeout: float | None = None,
        on_lost: Callable[[Holding], object] | None = None,
    ) -> None:
        """Remember how long to wait and what to call after a loss; nothing is asked for yet."""
        check_timeout(timeout)
        self._session = session
        self.name = name
        self._names = tuple(names)  # of every lock that it may take
        self._timeout = timeout
        self._on_lost = on_lost
        self._bodies: dict[asyncio.Task[object], list[Body]] = {}

    def __repr__(self) -> str:
        """Show what it is and its name."""
        return f"<{type(self).__name__} {self.name!r}>"

    @abstractmethod
    async def _obtain(self, owner: Owner, patience: Patience) -> Kept_co | None:
        """Acquire on behalf of an owner; return None if it was not obtained in time.

        If it is cancelled or fails, no request is left behind and nothing is held.
        """

    async def acquire(self, blocking: bool = True, timeout: float | None = None) -> Kept_co | None:  # noqa: ASYNC109 - as everywhere
        """Acquire for this task; None if that did not succeed in time.

        `timeout` is how many seconds to wait, by default what the lock was made with; None is
        forever and 0 is one try, which `blocking=False` says as well.
        """
        return await self._take(asyncio.current_task(), self._patience(blocking, timeout))

    async def _take(self, owner: Owner, patience: Patience) -> Kept_co | None:
        """Acquire on behalf of an owner, and arrange that `on_lost` is called."""
        holding = await self._obtain(owner, patience)
        if holding is not None and self._on_lost is not None:
            # Through the loop: an error in the callback must not keep the body from being cancelled.
            tell = asyncio.get_running_loop().call_soon
            holding.lost._call(functools.partial(tell, self._on_lost, holding))
        return holding

    def _patience(self, blocking: bool = True, timeout: float | None = None) -> Patience:
        """Work out how long to wait."""
        if not blocking:
            if timeout is not None:
                raise ValueError("timeout must be left out if blocking is False")
            return Patience.of(0)
        return Patience.of(self._timeout if timeout is None else timeout)

    async def _timed_out(self) -> AcquireTimeout:
        """Make the error for a lock that was not obtained in time; ask who holds it, for a moment."""
        engine, holders = self._session.engine, list[str]()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HOLDERS_SECONDS_MAX):
                asked = [engine.holders(name) for name in self._names]
                found = await asyncio.gather(*asked, return_exceptions=True)
                parties = [party for each in found if isinstance(each, list) for party in each]
                holders = list(dict.fromkeys(party.owner for party in parties))
        waited = f"within {self._timeout:g} s" if self._timeout else "at once"
        return AcquireTimeout(
            f"lock {self.name!r} was not obtained {waited}: it is held by"
            f" {', '.join(holders) or 'another task or process'}; try again later, or wait longer",
            holders=tuple(holders),
        )

    def __call__(
        self, function: Callable[Parameters, Coroutine[Any, Any, Result]]
    ) -> Callable[Parameters, Coroutine[Any, Any, Result]]:
        """Decorate a coroutine function: each call waits for the lock and holds it until it returns."""
        if not inspect.iscoroutinefunction(function):
            raise UsageError(
                f"{self!r} can decorate an `async def` that returns; for other functions take the"
                " lock from coterie.sync.connect, or use `async with` in the body"
            )

        @functools.wraps(function)
        async def locked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            async with self:
                return await function(*args, **kwargs)

        return locked

    async def __aenter__(self) -> Kept_co:
        """Acquire, or raise `AcquireTimeout`: the body never runs without the lock."""
        task = asyncio.current_task()
        assert task is not None, "async with runs in a task"
        holding = await self._take(task, self._patience())
        if holding is None:
            raise await self._timed_out()
        self._begin_body(task, holding)
        return holding

    def _begin_body(self, task: asyncio.Task[object], holding: Holding) -> None:
        """Watch over the body from now on."""
        self._bodies.setdefault(task, []).append(Body(holding, task))
        current.enter(holding)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release; raise `LockLost` if it was lost, unless the body raised something else."""
        task = asyncio.current_task()
        assert task is not None, "async with runs in a task"
        bodies = self._bodies[task]
        body = bodies.pop()
        if not bodies:
            del self._bodies[task]
        gives_way = body.end(error)
        holding = body.holding
        current.leave(holding)
        try:
            if not holding._give_back_now(task):
                await holding._give_back(task)
            elif holding._should_yield():
                await asyncio.sleep(0)
        except LockLost as loss:
            if gives_way:
                raise loss from error
        except NotHeld:
            pass  # the body has released it by itself, and the owner is the same task


class Lock(Acquirable[Held]):
    """A lock by name. Any number of tasks may use the same object; each holds for itself."""

    def __init__(
        self,
        session: Session,
        name: str,
        *,
        timeout: float | None = None,
        lease: float | None = None,
        shared: bool = False,
        reentrant: bool = False,
        note: str = "",
        on_lost: Callable[[Holding], object] | None = None,
    ) -> None:
        """Prepare to ask; nothing is sent before it is acquired."""
        name = check_name(name)
        super().__init__(session, name, [name], timeout, on_lost)
        check_lease(lease)
        self._lease = lease
        self._shared = shared
        self._reentrant = reentrant
        self._note = check_note(note)

    async def __aenter__(self) -> Held:
        """Acquire, or raise `AcquireTimeout`; a lock that is free takes no turn of the event loop."""
        session = self._session
        prompt = session.prompt
        if prompt is None or self._on_lost is not None:
            return await super().__aenter__()
        task = asyncio.current_task()
        assert task is not None, "async with runs in a task"
        session.check()
        held = None
        if (task, self.name) not in session.held:
            held = self._hold_now(prompt, task, AT_ONCE)
        if held is None:
            held = await self._hold(task, self._patience(), is_free=False)
        if held is None:
            raise await self._timed_out()
        self._begin_body(task, held)
        return held

    async def _obtain(self, owner: Owner, patience: Patience) -> Held | None:
        """Acquire on behalf of an owner; return None if it was not obtained in time."""
        self._session.check()
        return await self._hold(owner, patience)

    async def _hold(self, owner: Owner, patience: Patience, *, is_free: bool = True) -> Held | None:
        """Acquire; one that was not free a moment ago need not be tried before waiting."""
        mine = self._session.held.get((owner, self.name))
        if mine is not None:
            return self._enter_again(mine)
        session = self._session
        asked_at = system.monotonic() if session.observers else 0.0
        try:
            claim = await self._claim(owner, patience, is_free=is_free)
        except BaseException as error:
            self._note_missed(_outcome(error), asked_at)
            raise
        if claim is None:
            self._note_missed(_outcome_of(patience), asked_at)
            return None
        held = Held(session, claim, self.name, owner, shared=self._shared)
        session.held[owner, self.name] = held
        if session.engine.waits.victims:
            session.engine.waits.obtained(owner, self.name)
        if session.observers:
            held._note_begin(session.observers, system.monotonic() - asked_at)
        return held

    @property
    def _is_prompt(self) -> bool:
        """Whether `_take_now` can succeed: the engine needs no event loop, nor does a callback."""
        return self._on_lost is None and self._session.prompt is not None

    def _take_now(self, owner: Owner, patience: Patience) -> Held | None:
        """Acquire in the thread of the owner, without the event loop, waiting there if necessary.

        Return None if it was not obtained in time, and if the event loop is needed for it.
        """
        session = self._session
        prompt = session.prompt
        if prompt is None or not session.is_open or (owner, self.name) in session.held:
            return None
        return self._hold_now(prompt, owner, patience)

    def _needs_loop(self, owner: Owner) -> bool:
        """Return True if an owner that was not granted the lock has to ask in the event loop.

        So it is if it holds a lock, since then deadlocks are possible, and if an error is to be raised.
        """
        session = self._session
        return (
            session.prompt is None
            or not session.is_open
            or (owner, self.name) in session.held
            or session.prompt.holds_any(owner)
        )

    def _hold_now(self, prompt: Prompt, owner: Owner, patience: Patience) -> Held | None:
        session, key = self._session, (owner, self.name)
        asked_at = system.monotonic() if session.observers else 0.0
        try:
            until = patience.deadline if patience.wait else -math.inf
            claim = prompt.take_now(self.name, owner=owner, shared=self._shared, until=until)
            if claim is None:
                if session.observers and patience is not AT_ONCE and not prompt.holds_any(owner):
                    self._note_missed(_outcome_of(patience), asked_at)
                return None
            if self._note:
                claim.annotate(self._note)
            held = session.held[key] = Held(session, claim, self.name, owner, shared=self._shared)
            if session.engine.waits.victims:
                session.engine.waits.obtained(owner, self.name)
            if session.observers:
                held._note_begin(session.observers, system.monotonic() - asked_at)
        except (
            BaseException
        ) as error:  # also if the thread is interrupted between any two of these steps
            taken = session.held.pop(key, None)
            prompt.withdraw_now(self.name, owner)
            if taken is None:
                self._note_missed(_outcome(error), asked_at)
            else:
                taken._note_end(lost=False)
            raise
        return held

    def _note_missed(self, outcome: Outcome, asked_at: float) -> None:
        observers = self._session.observers
        if observers is not None:
            waited = system.monotonic() - asked_at
            observers.missed(self.name, outcome, shared=self._shared, wait_seconds=waited)

    async def release(self) -> None:
        """Release what this task holds; `NotHeld` if it holds nothing of this name."""
        await self._give_back(asyncio.current_task())

    async def _give_back(self, owner: Owner) -> None:
        """Release on behalf of an owner."""
        self._session.check()
        held = self._session.held.get((owner, self.name))
        if held is None:
            raise NotHeld(f"lock {self.name!r} is not held by {owner!r}")
        await held._give_back(owner)

    def _enter_again(self, mine: Held) -> Held:
        if not self._reentrant:
            raise MisuseError(
                f"lock {self.name!r} is held by this task already and would wait for itself;"
                " reentrant=True allows it to enter again"
            )
        if mine.shared and not self._shared:
            raise MisuseError(
                f"lock {self.name!r} is held by this task in shared mode; release it before"
                " asking for it alone, since two holders upgrading at the same time would"
                " deadlock"
            )
        mine._enter_again()
        return mine

    async def _claim(self, owner: Owner, patience: Patience, *, is_free: bool) -> Claim | None:
        prompt = None if is_free else self._session.prompt
        while True:
            if prompt is not None and patience.wait:
                claim = prompt.join(self.name, owner=owner, shared=self._shared)
            else:
                claim = self._session.engine.place(
                    self.name,
                    owner=owner,
                    shared=self._shared,
                    lease=self._lease,
                    wait=patience.wait,
                )
            if self._note:
                claim.annotate(self._note)
            if claim.token is not None:
                return claim
            if not await self._is_granted(owner, claim, patience):
                return None
            self._session.note_turn()
            if claim.valid():
                return claim
            # The grant came too late: after a pause of this process, or as the coordinator closed.
            await to_the_end(claim.release())
            self._session.check()

    async def _is_granted(self, owner: Owner, claim: Claim, patience: Patience) -> bool:
        """Wait for the grant; if it does not come, no request is left behind."""
        waits, granted, token = self._session.engine.waits, claim.granted, None
        try:
            # Most waits are over before deadlock detection needs to know of them.
            registers = (
                asyncio.get_running_loop().call_later(REGISTER_SECONDS, waits.begin, owner, claim)
                if patience.wait
                else None
            )
            try:
                # Not wait_for: it may cancel a grant that has just arrived.
                limit = patience.remaining() if patience.wait else None
                if claim.wakes_at_once and limit is None and not patience.spoilt:
                    await granted  # a task that is cancelled here cancels it, and then the claim
                else:
                    await first_done((granted, *patience.spoilt), limit)
            finally:
                if registers is not None:
                    registers.cancel()
                if claim in waits.registered:
                    waits.end(owner, claim)
            token = granted.result() if granted.done() else None
            if token is None and not patience.is_spoilt():
                obstacle = claim.obstacle()
                if obstacle is not None:
                    raise obstacle
        finally:
            if token is None:
                await to_the_end(claim.release())
        return token is not None


def _outcome(error: BaseException) -> Outcome:
    """Say how a request ended that failed with this error."""
    if isinstance(error, DeadlockDetected):
        return "deadlock"
    return "failed" if isinstance(error, Exception) else "cancelled"


def _outcome_of(patience: Patience) -> Outcome:
    """Say how a request ended that was not granted in time, and did not fail."""
    if patience.is_spoilt():
        return "cancelled"
    return "timeout" if patience.wait else "busy"
