"""What a task has that holds a lock: the token, and an early and loud notice of its loss."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from coterie.errors import LockLost, NotHeld, UsageError
from coterie.locks.value import HeldValue, check_data, values_of
from coterie.system.aio import to_the_end

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from coterie.locks.engine import Claim
    from coterie.locks.lock import Owner, Session
    from coterie.locks.observers import ObservedHold, Observers
    from coterie.locks.value import Value

NOT_IN_FORCE = "it is no longer in force"


def loss(name: str, token: int, reason: str) -> LockLost:
    """Make the error for a lock that was lost, which says what is to be done."""
    return LockLost(
        f"lock {name!r} (token {token}) was lost: {reason};"
        " another process may hold it now. Stop work, and have the resource reject this token"
    )


class LossEvent:
    """Is set when a lock is lost; `await held.lost` waits for it."""

    __slots__ = ("_callbacks", "_is_set")

    def __init__(self) -> None:
        """Begin unset."""
        self._is_set = False
        self._callbacks: list[Callable[[], object]] = []

    def is_set(self) -> bool:
        """Return True if the lock is lost."""
        return self._is_set

    __bool__ = is_set  # `if held.lost:` means what it says

    async def wait(self) -> bool:
        """Wait until the lock is lost."""
        if not self._is_set:
            waiter = asyncio.get_running_loop().create_future()
            callback = partial(wake, waiter)
            self._callbacks.append(callback)
            try:
                await waiter
            finally:
                self._callbacks.remove(callback)
        return True

    def __await__(self) -> Generator[Any, None, bool]:
        """Wait until the lock is lost."""
        return self.wait().__await__()

    def _set(self) -> None:
        """Wake all tasks that wait, and call back, once."""
        if self._is_set:
            return
        self._is_set = True
        for callback in self._callbacks:
            callback()

    def _call(self, callback: Callable[[], object]) -> None:
        """Call back when it is set, at once if it is."""
        if self._is_set:
            callback()
        else:
            self._callbacks.append(callback)


def wake(waiter: asyncio.Future[None]) -> None:
    """End a wait, unless it has ended."""
    if not waiter.done():
        waiter.set_result(None)


class Holding(ABC):
    """One lock or several, held together by one task or thread."""

    __slots__ = ("name",)
    name: str  # of the lock; of several, joined by commas

    @property
    @abstractmethod
    def lost(self) -> LossEvent:
        """Is set when it is lost."""

    @property
    @abstractmethod
    def tokens(self) -> Mapping[str, int]:
        """The fencing token of each lock by its name."""

    @property
    @abstractmethod
    def expires_at(self) -> float:
        """When the lease ends unless it is renewed, by `time.monotonic()`; inf without a lease."""

    @property
    @abstractmethod
    def _lifelines(self) -> tuple[int, ...]:
        """Descriptors by which a program that inherits them keeps the lock if we are killed.

        Empty where the engine has no such thing. A release frees the lock in any case.
        """

    @property
    @abstractmethod
    def valid(self) -> bool:
        """Whether it is held by its owner now; looked up, not remembered."""

    @abstractmethod
    def ensure(self) -> None:
        """Raise `LockLost` if the lock is lost and `NotHeld` if it was given back."""

    @abstractmethod
    async def _give_back(self, owner: Owner) -> None:
        """Release on behalf of an owner."""

    def _give_back_now(self, owner: Owner) -> bool:
        """Release without the event loop; return False, with nothing done, if that is impossible."""
        return False

    def _should_yield(self) -> bool:
        """Return True if the event loop should run other tasks after a release without it."""
        return False

    def _call_if_lost(self, callback: Callable[[], object]) -> None:
        """Call back when it is lost, at once if it is."""
        self.lost._call(callback)

    async def release(self) -> None:
        """Give it back; done to the end even if this task is cancelled meanwhile.

        Raises `NotHeld` in a task that does not own it, and `LockLost` if it was lost before:
        then nothing is freed, since another process may hold it by now.
        """
        await self._give_back(asyncio.current_task())


class Held(Holding):
    """A lock that is held."""

    __slots__ = (
        "_callback",
        "_claim",
        "_depth",
        "_lost",
        "_observed",
        "_owner",
        "_session",
        "_value",
        "shared",
        "token",
    )
    token: int  # the fencing token: each that takes the lock later has a larger one
    shared: bool  # whether others that share may hold it at the same time

    def __init__(
        self, session: Session, claim: Claim, name: str, owner: Owner, *, shared: bool
    ) -> None:
        """Take over a granted claim."""
        assert claim.token is not None, "only a granted claim is held"
        self.name = name
        self.token = claim.token
        self.shared = shared
        self._session = session
        self._claim = claim
        self._owner = owner
        self._depth = 1
        self._lost: LossEvent | None = None
        self._observed: ObservedHold | None = None
        self._value: HeldValue | None = None  # made on first use: most locks have none
        self._callback: Callable[[], object] | None = (
            None  # until there is an event to be called by
        )

    def __repr__(self) -> str:
        """Show the name, the token and how it stands."""
        state = "lost" if self._is_known_lost() else "held" if self._depth else "released"
        return f"<Held {self.name!r} token={self.token} {state}>"

    @property
    def lost(self) -> LossEvent:
        """Is set when it is lost; made on first use, since most holds end well."""
        if self._lost is None:
            self._lost = LossEvent()
            if self._callback is not None:
                self._lost._call(self._callback)
            told = self._claim.lost
            if told.done():
                self._lose(told)
            else:
                told.add_done_callback(self._lose)
        return self._lost

    def _call_if_lost(self, callback: Callable[[], object]) -> None:
        """Call back when it is lost, at once if it is."""
        prompt = self._session.prompt
        if prompt is None or self._lost is not None or self._callback is not None:
            self.lost._call(callback)
        else:
            self._callback = callback
            prompt.call_if_lost(self._claim, self._hear)

    @property
    def tokens(self) -> Mapping[str, int]:
        """The fencing token by the lock's name."""
        return {self.name: self.token}

    @property
    def expires_at(self) -> float:
        """When the lease ends unless it is renewed, by `time.monotonic()`; inf without a lease."""
        return self._claim.expires_at

    @property
    def _lifelines(self) -> tuple[int, ...]:
        """Descriptors by which a program that inherits them keeps the lock if we are killed."""
        return self._claim.lifelines

    @property
    def valid(self) -> bool:
        """Whether it is held by its owner now; looked up, not remembered."""
        self._session.check_process()
        return self._depth > 0 and not self._is_known_lost() and self._claim.valid()

    def ensure(self) -> None:
        """Raise `LockLost` if the lock is lost and `NotHeld` if it was given back."""
        if self.valid:
            return
        if not self._depth:
            raise NotHeld(f"lock {self.name!r} (token {self.token}) was released before")
        self.lost._set()
        raise self._loss()

    async def read(self) -> Value | None:
        """Return the value of the lock, or None; asked again in the same hold it costs nothing.

        What the holder before has written, and was told of, is there. What it was not told of may be there
        or not, and this read decides it for good.
        """
        return await self._own_value().read()

    async def write(self, data: bytes, *, connection: object = None) -> None:
        """Write the value of the lock, at most 64 KiB; return when it is durable.

        Raises `LockLost` if the hold ended before that: the write may have happened then, but not after another
        holder has read. It is done to the end even if this task is cancelled.

        Args:
            data: The value.
            connection: Of asyncpg or psycopg, to the database of locks on PostgreSQL, with an open transaction. That
                commits the value together with what else was written in it, or neither. After `LockLost` it has to be
                rolled back.
        """
        if connection is None:
            await self._change_value(check_data(data))
        else:
            await self._alone().write_in(connection, check_data(data))

    async def delete(self) -> None:
        """Delete the value of the lock, as `write` writes it."""
        await self._change_value(None)

    async def _change_value(self, data: bytes | None) -> None:
        await self._alone().write(data)

    def _alone(self) -> HeldValue:
        """Return the value to be written."""
        if self.shared:
            raise UsageError(
                f"lock {self.name!r} is held in shared mode, and only who has it alone writes its value"
            )
        return self._own_value()

    def _own_value(self) -> HeldValue:
        """Return the value as this holder sees it."""
        self._session.check()
        if self._value is None:
            engine = values_of(self._session.engine, self._session.url)
            self._value = HeldValue(engine, self._claim, self.ensure)
        return self._value

    def _loss(self) -> LockLost:
        """Make the error for the loss of this lock."""
        told = self._claim.lost
        return loss(self.name, self.token, told.result() if told.done() else NOT_IN_FORCE)

    def _enter_again(self) -> None:
        """Count a re-entry by the owner: the same hold, the same token."""
        self.ensure()
        self._depth += 1

    async def _give_back(self, owner: Owner) -> None:
        """Release on behalf of an owner; the last of nested ones frees the lock."""
        self._session.check_process()
        if not self._depth:
            raise NotHeld(f"lock {self.name!r} (token {self.token}) was released before")
        if owner is not self._owner and not self._orphaned():
            raise NotHeld(
                f"lock {self.name!r} (token {self.token}) is held by {self._owner!r};"
                " only its owner can release it"
            )
        self._depth -= 1
        # A loss that has not been noticed yet must not pass for a good release.
        if not self._claim.valid():
            self.lost._set()
        if self._depth:
            if self._is_known_lost():
                raise self._loss()
            return
        if self._session.held.get((self._owner, self.name)) is self:
            del self._session.held[self._owner, self.name]
        if self._observed is not None:
            self._note_end(lost=self._is_known_lost())
        work = self._claim.release()
        if work is not None:
            await to_the_end(work)
        if self._is_known_lost():
            raise self._loss()
        if self._session.should_yield():
            await asyncio.sleep(0)

    def _give_back_now(self, owner: Owner) -> bool:
        """Release without the event loop, where the engine needs none.

        Return False, with nothing done, if that takes more than a release: a loss, or another owner.
        """
        self._session.check_process()
        if self._session.prompt is None or self._depth != 1 or owner is not self._owner:
            return False
        if (self._lost is not None and self._lost.is_set()) or not self._claim.valid():
            return False
        self._depth = 0
        self._callback = None  # or we would be in a circle with the body, for the garbage collector
        if self._session.held.get((owner, self.name)) is self:
            # Not `del`: this may be a thread, and another one may close the coordinator just now.
            self._session.held.pop((owner, self.name), None)
        if self._observed is not None:
            self._note_end(lost=False)
        self._claim.release()
        return True

    def _note_begin(self, observers: Observers, wait_seconds: float) -> None:
        """Tell observers that it is held, after so long a wait."""
        self._observed = observers.obtained(
            self.name, self.token, shared=self.shared, wait_seconds=wait_seconds
        )

    def _note_end(self, *, lost: bool) -> None:
        """Tell observers, if there are any, that it is held no more."""
        if self._observed is not None:
            self._observed.end(lost=lost)

    def _should_yield(self) -> bool:
        """Return True if the event loop should run other tasks after a release without it."""
        return self._session.should_yield()

    def _hear(self) -> None:
        """Take note of a loss, and call back, unless the hold has ended."""
        lost = self.lost
        if self._depth:
            lost._set()

    def _is_known_lost(self) -> bool:
        return self._lost is not None and self._lost.is_set()

    def _orphaned(self) -> bool:
        # `asyncio.wait_for` (before Python 3.12) and `gather` acquire in a task of their own;
        # once that has ended no other task could release what it obtained.
        if isinstance(self._owner, threading.Thread):
            return not self._owner.is_alive()
        return isinstance(self._owner, asyncio.Task) and self._owner.done()

    def _lose(self, _: asyncio.Future[str]) -> None:
        if self._depth and self._lost is not None:
            self._lost._set()


class HeldAll(Holding):
    """Several locks that are held together; `held["name"]` is one of them."""

    __slots__ = ("_lost", "_parts")

    def __init__(self, parts: Sequence[Holding]) -> None:
        """Bind them together: the loss of one is the loss of all."""
        self.name = ",".join(part.name for part in parts)
        self._lost = LossEvent()
        self._parts = tuple(parts)
        for part in parts:
            part.lost._call(self._lost._set)

    def __iter__(self) -> Iterator[Holding]:
        """Iterate over the parts in the order in which they were asked for."""
        return iter(self._parts)

    def __getitem__(self, name: str) -> Holding:
        """Return the part of that name."""
        return {part.name: part for part in self._parts}[name]

    @property
    def lost(self) -> LossEvent:
        """Is set when one of them is lost."""
        return self._lost

    @property
    def tokens(self) -> Mapping[str, int]:
        """The fencing token of each lock by its name."""
        return {name: token for part in self._parts for name, token in part.tokens.items()}

    @property
    def expires_at(self) -> float:
        """When the first of the leases ends."""
        return min(part.expires_at for part in self._parts)

    @property
    def _lifelines(self) -> tuple[int, ...]:
        """The lifelines of all."""
        return tuple(line for part in self._parts for line in part._lifelines)

    @property
    def valid(self) -> bool:
        """Whether all of them are held now."""
        return all(part.valid for part in self._parts)

    def ensure(self) -> None:
        """Raise `LockLost` if one is lost."""
        for part in self._parts:
            part.ensure()

    async def _give_back(self, owner: Owner) -> None:
        """Release all, also if one of them is lost."""
        await to_the_end(give_back_all(self._parts, owner))


async def give_back_all(parts: Sequence[Holding], owner: Owner) -> None:
    """Release each, the last first; then raise the first error that there was."""
    errors = []
    for part in reversed(parts):
        try:
            await part._give_back(owner)
        except (LockLost, NotHeld) as error:
            errors.append(error)
    if errors:
        raise errors[0]
