"""Values: what travels with a lock, up to 64 KiB that belong to its name, last, and are written by its holder alone.

The version of a value is the token of the hold that wrote it, and the number of the write in that hold. A resource
that is yours has to compare tokens itself; here the resource is ours, so the store refuses a late writer, and the
holder need not do anything for that.

An engine that keeps values is a `ValueEngine`, which keeps these rules:

- A write takes effect while the hold of its claim lasts, or never; at the latest before the next holder's first read
  or write returns, where the store cannot see the end of a hold. The store sees to that, or a lock that this read needs as
  well; the clock of the writer is not enough, for it may be stopped between a look and the write.
- Once a read of an exclusive holder has returned, no write of an earlier hold takes effect: also if this one only reads.
- Of two writes of one hold the one with the lower number never takes effect after the other.
- What a read has returned is as durable as what was acknowledged: no later read returns anything older.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import msgspec

from coterie import system
from coterie.errors import CoterieError, UsageError
from coterie.locks.url import without_password
from coterie.system.aio import to_the_end

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from coterie.locks.engine import Claim, Engine

DATA_BYTES_MAX = 1 << 16
WATCH_SECONDS = 0.2  # between two looks of `follow_value`


class Version(NamedTuple):
    """Which of two values is the later one: that with the larger version."""

    token: int  # of the hold that wrote it
    sequence: int  # of the write in that hold, from 1 on

    @property
    def digits(self) -> str:
        """The same as text of a fixed length, for stores that compare texts exactly, and numbers not."""
        return f"{self.token:020d}.{self.sequence:010d}"


class Value(msgspec.Struct, frozen=True):
    """The value of a lock, as it was written."""

    data: bytes
    version: Version
    written: float  # in seconds since 1970, by the clock of the writer
    by: str  # a process, as people find it: host:pid
    doubtful: bool = False  # a later one may have been lost, as its servers were


class ValueRecord(msgspec.Struct, frozen=True, array_like=True):
    """A value as engines store it, under its name: a store by hashes knows names from here alone."""

    name: str
    token: int
    sequence: int
    written: float
    by: str
    data: bytes | None  # None: it was deleted, and an earlier write must not bring it back
    doubtful: bool = False  # what the value says of itself; never written

    @property
    def version(self) -> Version:
        """Which of two records is the later one."""
        return Version(self.token, self.sequence)

    @property
    def value(self) -> Value | None:
        """The value; None if it was deleted."""
        if self.data is None:
            return None
        return Value(self.data, self.version, self.written, self.by, self.doubtful)


def record_of(claim: Claim, sequence: int, data: bytes | None, by: str) -> ValueRecord:
    """Describe a write of the holder of a lock, at this moment."""
    assert claim.token is not None, "a holder writes"
    return ValueRecord(claim.awaits.lock, claim.token, sequence, system.wall(), by, data)


@runtime_checkable
class ValueEngine(Protocol):
    """An engine that keeps values; the rules are above."""

    async def read_value(self, name: str, claim: Claim | None = None) -> Value | None:
        """Return the value of a lock, None without one; with the claim of its holder also settle it.

        Raise `LockLost` if the store says that the claim has ended.
        """

    async def write_value(self, claim: Claim, sequence: int, data: bytes | None) -> Value | None:
        """Write the value as the holder, or delete it, and return what is stored when it is durable.

        Raise `LockLost` if the claim has ended, and any other error if the write may have taken effect.
        """

    def watch_value(
        self, name: str, check: Callable[[], None]
    ) -> AsyncGenerator[Value | None, None]:
        """Follow the value of a lock: the present one at once, then changes.

        `check` is called before each look; it raises when the coordinator is closed meanwhile.
        """

    async def all_values(self) -> dict[str, Value]:
        """Return all values by their names, for operators: to a program a value is that of a name."""


@runtime_checkable
class TransactionalEngine(Protocol):
    """An engine that may write a value within a transaction of the user's, where its store can do that."""

    async def write_value_in(
        self, connection: object, claim: Claim, sequence: int, data: bytes
    ) -> None:
        """Write the value as the holder; it is committed by the transaction that is open on that connection.

        Raise `LockLost` if the claim has ended, and `UsageError` if there is no such transaction.
        """


def values_of(engine: Engine, url: str) -> ValueEngine:
    """Return the engine as one that keeps values; raise `UsageError` if it does not."""
    if isinstance(engine, ValueEngine):
        return engine
    raise no_values(without_password(url))


def no_values(where: str) -> UsageError:
    """Make the error for an engine that keeps no values."""
    return UsageError(
        f"{where} keeps no values of locks, only the locks; docs/values.md says which engines do"
    )


def no_transactions(where: str) -> UsageError:
    """Make the error for a store that cannot write within a transaction of the user's."""
    return UsageError(
        f"{where} writes no value within a transaction of yours; only postgresql:// does"
    )


def check_data(data: bytes) -> bytes:
    """Return the data of a value; raise `UsageError` if it cannot be one."""
    if not isinstance(data, bytes):
        raise UsageError(f"a value is bytes, got {type(data).__name__}: encode it first")
    if len(data) > DATA_BYTES_MAX:
        raise UsageError(
            f"a value has at most {DATA_BYTES_MAX} bytes, got {len(data)}: put the data elsewhere, and its"
            " name here"
        )
    return data


class HeldValue:
    """The value of a lock in the hands of its holder: one call after the other, and read once.

    As long as the hold lasts no other writes, so what was read or written is still the value.
    """

    def __init__(self, engine: ValueEngine, claim: Claim, ensure: Callable[[], None]) -> None:
        """Begin a hold; `ensure` raises if it has ended."""
        self._engine = engine
        self._claim = claim
        self._ensure = ensure
        self._turn = asyncio.Lock()
        self._known = False
        self._is_doubtful = False  # whether a write may still take effect
        self._value: Value | None = None
        self._sequence = 0

    async def read(self) -> Value | None:
        """Return the value; the store is asked once."""
        async with self._turn:
            self._ensure()
            if not self._known:
                self._value = await self._engine.read_value(self._claim.awaits.lock, self._claim)
                self._ensure()  # else others may have written since
                self._known = True
            if self._is_doubtful:
                # A write that was not answered may come later than this read, unless a later version is there.
                await to_the_end(self._write(self._value.data if self._value else None))
            return self._value

    async def write(self, data: bytes | None) -> None:
        """Write or delete the value, to the end even if this task is cancelled: a later write comes later."""
        async with self._turn:
            await to_the_end(self._write(data))

    async def write_in(self, connection: object, data: bytes) -> None:
        """Write the value within a transaction of the user's, by whose end alone it is known what was written."""
        async with self._turn:
            self._ensure()
            if not isinstance(self._engine, TransactionalEngine):
                raise no_transactions("this engine")
            self._sequence += 1
            self._known = False
            await self._engine.write_value_in(connection, self._claim, self._sequence, data)
            self._ensure()

    async def _write(self, data: bytes | None) -> None:
        self._ensure()
        self._sequence += 1
        self._known = False  # until the outcome is
        try:
            self._value = await self._engine.write_value(self._claim, self._sequence, data)
        except Exception as error:
            self._is_doubtful |= not (isinstance(error, CoterieError) and error.definite)
            raise
        self._ensure()
        self._known, self._is_doubtful = True, False


async def follow_value(
    read: Callable[[], Awaitable[Value | None]], check: Callable[[], None], pause: float = 0.0
) -> AsyncGenerator[Value | None, None]:
    """Follow a value as `ValueEngine.watch_value` does, by looking again and again; `pause` is the least between two looks."""
    seen: Version | None = None
    first = True
    while True:
        check()
        value = await read()
        now = None if value is None else value.version
        if first or now != seen:
            yield value
        first, seen = False, now
        await asyncio.sleep(max(WATCH_SECONDS, pause))
