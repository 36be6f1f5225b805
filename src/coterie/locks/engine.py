"""What a coordinator stands on: an engine that grants locks, whatever it is made of.

An engine knows names and claims. Tasks, timeouts, re-entry, the body of a `with` and combinations
of locks are the coordinator's business, so they are the same above every engine.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence

    from coterie.errors import CoterieError
    from coterie.locks.deadlocks.reports import Wanted
    from coterie.locks.deadlocks.waits import Waits
    from coterie.locks.lock import Owner

WATCH_SECONDS = 0.2  # between two looks of `follow`


class Party(msgspec.Struct, frozen=True):
    """A task or thread that holds a lock or waits for it."""

    name: str  # of the lock
    owner: str  # a process, as people find it: host:pid
    since: float  # since when it holds the lock, or waits for it: in seconds since 1970 by its own clock
    token: int | None  # of the holder; None while it waits
    shared: bool = False
    # How many seconds a holder waited before. None: it waits, or is of a version that does not say; then
    # `since` is when it asked.
    waited: float | None = None
    note: str = ""  # what the holder lets others know, such as its address; empty while it waits


class LockState(msgspec.Struct, frozen=True):
    """A lock that is held, kept or waited for."""

    name: str
    holders: list[Party]
    silent: list[str]  # processes that may hold it and do not answer
    waiters: list[Party]


class Claim(Protocol):
    """One request for one lock, from the asking to the end of the hold."""

    owner: Owner
    """The task or thread on whose behalf it was made."""

    token: int | None
    """Of the lock, from when it is granted on; one that is free is granted already
    when the claim has been placed."""

    shared: bool
    """Whether others that share may hold the lock at the same time."""

    wakes_at_once: bool
    """Whether a task awaits `granted` itself, which saves it a turn of the event loop.

    Only where a grant comes turns after the loss of the hold before it was told: so the body of
    that hold, if it is in this process, is out before the next is in. A task that is cancelled then
    cancels `granted`, and releases the claim a turn later: a grant in between has none to tell."""

    @property
    def awaits(self) -> Wanted:
        """What it waits for, as deadlock detection sees it."""

    @property
    def granted(self) -> asyncio.Future[int | None]:
        """Becomes the token; None if the claim was not to wait and the lock is not free.

        Fails with a `CoterieError` if the engine cannot decide.
        """

    @property
    def lost(self) -> asyncio.Future[str]:
        """Becomes the reason when a granted lock is taken away.

        The engine ensures that this happens before another claim is granted the lock, as far as
        its assumptions reach.
        """

    @property
    def expires_at(self) -> float:
        """The end of the lease by `time.monotonic()` as far as it is renewed; inf without one."""

    @property
    def lifelines(self) -> tuple[int, ...]:
        """Descriptors by which a child that inherits them keeps the lock if we are killed."""

    def valid(self) -> bool:
        """Return True if the claim is granted and in force now, by looking, not by a flag.

        Any thread may ask.
        """

    def annotate(self, note: str) -> None:
        """Let others read a note as long as the claim is granted."""

    def obstacle(self) -> CoterieError | None:
        """Return the error that keeps the claim from being granted, if it is not just a holder."""

    def fail(self, error: CoterieError) -> None:
        """End a claim that waits: `granted` fails with this error."""

    def release(self) -> Coroutine[Any, Any, None] | None:
        """End the claim: withdraw it if it waits, give the lock back if it is granted.

        Return what has to be awaited for that, if anything. It ends in bounded time, does nothing
        the second time, and never touches another claim.
        """


@runtime_checkable
class Prompt(Protocol):
    """An engine that needs no event loop to take a lock, or to wait for one, in the thread of the caller."""

    def take_now(self, name: str, *, owner: Owner, shared: bool, until: float) -> Claim | None:
        """Return a claim that is granted, at once or after a wait in this thread.

        Wait until then, by `system.monotonic()`, and not if the owner holds a lock, for it has to wait where
        deadlocks are found. None if that was not long enough; then, and if it fails or is
        interrupted, nothing is left behind. `release` of the claim may be called in any thread, and
        returns None.
        """

    def join(self, name: str, *, owner: Owner, shared: bool) -> Claim:
        """Ask for a lock that was not free a moment ago, and wait for it in the event loop."""

    def call_if_lost(self, claim: Claim, callback: Callable[[], object]) -> None:
        """Call back when a claim that is granted is lost; once for each claim."""

    def holds_any(self, owner: Owner) -> bool:
        """Return True if an owner holds a lock."""

    def withdraw_now(self, name: str, owner: Owner) -> None:
        """Release what such a call has taken for an owner, if anything: the call was interrupted."""


@runtime_checkable
class Mortal(Protocol):
    """An engine that gives on the locks of this program as soon as another one has seen its end.

    A program whose work is done by a child is not over when it is killed itself. It awaits its children
    before the engine is opened, and names them once they are there; nothing that ends in between counts.
    """

    def await_children(self) -> None:
        """Let no end of this process count as the end of the program."""

    def live_with(self, children: Sequence[int]) -> None:
        """Name the children that belong to the program: it has ended when they have, too."""


@runtime_checkable
class Clocked(Protocol):
    """An engine whose servers may tell the time of day."""

    async def server_time(self) -> float | None:
        """Ask a server for its time, in seconds since 1970; None if this kind does not tell it."""


class Engine(Protocol):
    """Grants the locks of one coordinator to the claims of this process."""

    waits: Waits
    """The waits of this process. Locks keep it; the engine says which claims block a request, and may
    search for circles of waits over several processes."""

    async def open(self) -> None:
        """Get ready, or raise `Unavailable`."""

    async def close(self) -> None:
        """End all claims: the waiting fail with `MisuseError`, the granted are lost."""

    def place(
        self, name: str, *, owner: Owner, shared: bool, lease: float | None, wait: bool
    ) -> Claim:
        """Ask for a lock; without `wait` only if it is free, leaving nothing behind if it is not."""

    def obstacle(self, name: str) -> CoterieError | None:
        """Return the error that keeps claims to a lock from being granted, if it is not just a holder."""

    async def holders(self, name: str) -> list[Party]:
        """List the holders of the lock: one, or several in shared mode."""

    async def waiters(self, name: str) -> list[Party]:
        """List the tasks that wait for the lock, the next first."""

    def watch(self, name: str, check: Callable[[], None]) -> AsyncGenerator[Party | None, None]:
        """Follow the holder of a lock: the present one at once, then every change seen.

        `check` is called before each look; it raises when the coordinator is closed meanwhile.
        """


class Elector(Engine, Protocol):
    """An engine that knows a leader: this program is a node of an election.

    `check` is called before each look; it raises when the coordinator is closed meanwhile.
    """

    async def leader(self, check: Callable[[], None]) -> str:
        """Wait until there is a leader, and return its name."""

    def leaders(self, check: Callable[[], None]) -> AsyncGenerator[str, None]:
        """Yield the present leader, and every one that is elected after it."""


async def follow(
    holders: Callable[[], Awaitable[list[Party]]],
    check: Callable[[], None],
    pause: float = 0.0,
) -> AsyncGenerator[Party | None, None]:
    """Follow the holder of a lock as `Engine.watch` does, by looking again and again; `pause` is the least between two looks."""
    seen: Party | None = None
    first = True
    while True:
        check()
        found = await holders()
        now = found[0] if found else None
        if first or now != seen:
            yield now
        first, seen = False, now
        await asyncio.sleep(max(WATCH_SECONDS, pause))
