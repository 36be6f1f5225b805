"""The engine behind `file:` and `file:/some/directory`."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

from coterie import system
from coterie.engines.file.claim import FileClaim
from coterie.engines.file.directory import byte_lock
from coterie.engines.file.directory.folder import Directory, directory_at, folder_of
from coterie.engines.file.directory.lock_file import LockDirectory, ReplacedError
from coterie.engines.file.directory.orders import RefusedOrder
from coterie.engines.file.holders import last_drawn
from coterie.engines.file.parties import parties_of, party, user_name
from coterie.engines.file.thread_wait import ThreadWait
from coterie.engines.file.waiters import Waiters
from coterie.errors import MisuseError, Unavailable
from coterie.locks.breaker import BROKEN
from coterie.locks.deadlocks.waits import Waits, task_name
from coterie.locks.held import NOT_IN_FORCE, loss
from coterie.locks.legible import legible
from coterie.locks.value import follow_value, record_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from coterie.engines.file.directory.orders import Order
    from coterie.engines.file.values import ValueFolder
    from coterie.engines.file.waits import WaitBoard
    from coterie.locks.deadlocks.reports import Wanted
    from coterie.locks.deadlocks.search import DeadlockSearch
    from coterie.locks.engine import Party
    from coterie.locks.lock import Owner
    from coterie.locks.value import Value

Result = TypeVar("Result")

logger = logging.getLogger("coterie.engines")

WATCH_SECONDS = 0.25
FOLLOW_SECONDS = 0.1
LOOK_FOR_DEADLOCKS_SECONDS = 0.05
REFUSED_PAUSE_SECONDS = 60.0  # between two lines about orders of one user
TRIES = 100
THREADS_LEAVE_SECONDS_MAX, PAUSE_SECONDS = 1.0, 0.0005


class FileEngine:
    """Grants locks to the processes that share a directory of this machine.

    A lock that is free is taken and given back without the event loop, in any thread; waits, notices
    of loss and deadlock detection are the loop's business.
    """

    def __init__(self, directory: Directory) -> None:
        """Use that directory; it is made when the engine is opened."""
        self.folder = Path(directory.path)
        self._directory = directory
        self.waits = Waits(
            f"{os.getpid()}-{os.urandom(4).hex()}",
            self._blockers,
            is_in_the_way=self.holds_any,
            on_block=self._search_later,
            on_change=self._withdraw_notice,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: LockDirectory | None = None
        self._replaced: list[LockDirectory] = []  # in which claims may still have handles
        self._waiters: Waiters | None = None  # made for the first wait
        self._watch: asyncio.TimerHandle | None = None
        self._watched: dict[FileClaim, None] = {}  # whose holders want to be told of a loss
        self._look: asyncio.TimerHandle | None = None
        self._blocked: set[Owner] = set()  # that began to wait since the last look
        self._search: DeadlockSearch | None = None  # made when a wait lasts for a while
        self._board: WaitBoard | None = None
        self._ear = -1  # where the event loop is told of orders
        self._refused: dict[int, float] = {}  # when the log said so last, by user
        self._guard = (
            RLock()
        )  # held to put in what belongs to the open directory, and to change that
        self._claims: dict[FileClaim, bool] = {}  # that have not ended
        self._threads: dict[ThreadWait, None] = {}  # that wait

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which it was opened."""
        if self._loop is None:
            raise MisuseError(f"the coordinator of {self.folder} is not open")
        return self._loop

    def claims(self) -> list[FileClaim]:
        """List the claims of this process that have not ended."""
        return list(self._claims)

    async def open(self) -> None:
        """Open the directory, which is made unless it is there already."""
        self._loop = asyncio.get_running_loop()
        try:
            self._opened = self._open_directory()
            self._listen()
        except OSError as error:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.close()
            raise Unavailable(self._directory.complaint(error)) from None
        for remark in self._opened.remarks:
            logger.warning("%(remark)s", {"remark": remark}, extra={"event": "directory-odd"})

    async def close(self) -> None:
        """End all claims."""
        self._stop_listening()
        for timer in (self._look, self._watch):
            if timer is not None:
                timer.cancel()
        self._look = self._watch = None
        if self._search is not None:
            self._search.stop()
            self._search = None
        with self._guard:
            # From here on no thread makes a claim: see `_remember`.
            opened, self._opened = self._opened, None
        for claim in self.claims():
            claim.close()
        await self._end_threads()
        if self._waiters is not None:
            self._waiters.close()
            self._waiters = None
        for each in (*self._replaced, *filter(None, [opened])):
            each.close()
        self._replaced = []

    def place(
        self, name: str, *, owner: Owner, shared: bool, lease: float | None, wait: bool
    ) -> FileClaim:
        """Ask for a lock. The lease does not matter: the system knows at once which process is dead."""
        claim = self.take_now(name, owner=owner, shared=shared, until=-math.inf)
        if claim is not None:
            return claim
        if not wait:
            return FileClaim(self, None, name, owner, shared=shared)
        return self.join(name, owner=owner, shared=shared)

    def join(self, name: str, *, owner: Owner, shared: bool) -> FileClaim:
        """Ask for a lock that was not free a moment ago, and wait for it."""
        for _ in range(TRIES):
            opened = self._current()
            try:
                claim = FileClaim(self, opened.handle(), name, owner, shared=shared)
            except ReplacedError:
                self._open_again(opened)
                continue
            if self._remember(claim, opened):
                self._join(claim, opened)
                return claim
        raise self._removed_again_and_again(name)

    def take_now(self, name: str, *, owner: Owner, shared: bool, until: float) -> FileClaim | None:
        """Take a lock in any thread; wait there until then if it is not free and the owner holds none."""
        number, task = self.waits.number(owner), task_name(owner).encode()
        for _ in range(TRIES):
            opened, handle = self._current(), None
            try:
                handle, lock_bytes = opened.handle(), opened.lock_bytes(name)
                token = handle.try_acquire(lock_bytes, shared=shared, owner=number, task=task)
                if token is None:
                    if until == -math.inf or self.holds_any(owner):
                        opened.give(handle)
                        return None
                    wait = ThreadWait(handle, lock_bytes, owner, shared=shared)
                    token = self._wait(wait, number, task, until)
                    if token is None:
                        return None
                claim = FileClaim(self, handle, name, owner, shared=shared, token=token)
                if self._remember(claim, opened):
                    return claim
                # Another thread has closed the coordinator, or opened another directory, and has
                # closed the handle, maybe before it took the lock.
                handle.release()
                handle.close()
            except ReplacedError:
                self._open_again(opened)
            except OSError as error:
                raise self.unavailable(name, error) from None
            except BaseException:
                # An interruption may come at any point, also as the lock has just been taken.
                if handle is not None:
                    handle.close()
                raise
        raise self._removed_again_and_again(name)

    def _wait(self, wait: ThreadWait, owner: int, task: bytes, until: float) -> int | None:
        """Wait in this thread, and return the token; None if time is over."""
        try:
            with self._guard:
                if self._opened is not wait.directory:
                    raise ReplacedError
                self._threads[wait] = None
            return wait.run(owner, task, until)
        finally:
            wait.close()
            self._threads.pop(wait, None)

    def holds_any(self, owner: Owner) -> bool:
        """Return True if an owner holds a lock; in any thread."""
        return bool(self._claims) and any(
            claim.token is not None and claim.owner is owner and claim.holds()
            for claim in self.claims()
        )

    def stands(self, owner: Owner) -> bool:
        """Return True if an owner has a place in a queue: whatever asks from now on comes later."""
        with self._guard:
            threads = list(self._threads)
        waits: list[FileClaim | ThreadWait] = [*self.claims(), *threads]
        return any(wait.stands for wait in waits if wait.owner is owner)

    def join_again(self, claim: FileClaim) -> None:
        """Let a claim join the queue of its lock, in the directory as it is now."""
        if self._opened is None:
            return  # closed meanwhile, and the claim with it
        for _ in range(TRIES):
            opened = self._current()
            if opened.in_place():
                self._join(claim, opened)
                return
            self._open_again(opened)
        claim.fail(self._removed_again_and_again(claim.lock))

    def _join(self, claim: FileClaim, opened: LockDirectory) -> None:
        number, task = self.waits.number(claim.owner), task_name(claim.owner).encode()
        try:
            claim.join(self._waiters_of(opened), number, task)
        except ReplacedError:
            # Not from here, which may be deep within a look of the claim.
            self.loop.call_soon(self.join_again, claim)
        except OSError as problem:
            claim.fail(self.unavailable(claim.lock, problem))

    def withdraw_now(self, name: str, owner: Owner) -> None:
        """Release what an owner has taken of a lock: the call that took it was interrupted."""
        for claim in self.claims():
            if claim.owner is owner and claim.lock == name:
                claim.release()

    def forget(self, claim: FileClaim) -> bool:
        """Take note that a claim has ended; False if another thread was faster."""
        self._watched.pop(claim, None)
        return self._claims.pop(claim, False)

    def unavailable(self, name: str, error: OSError) -> Unavailable:
        """Make the error for a lock that the directory does not let us have."""
        return Unavailable(f"lock {name!r}: {self._directory.complaint(error)}")

    def call_if_lost(self, claim: FileClaim, callback: Callable[[], object]) -> None:
        """Call back when a claim is lost; once for each claim."""
        claim.call_if_lost(callback)
        self.watch_for_loss(claim)

    def watch_for_loss(self, claim: FileClaim) -> None:
        """Look from time to time whether others still see that this lock is held."""
        self._watched[claim] = None
        if self._watch is None:
            self._watch = self.loop.call_later(WATCH_SECONDS, self._look_for_losses)

    def _look_for_losses(self) -> None:
        self._watch = None
        watched = list(self._watched)
        for claim in watched:
            opened = claim.directory
            if opened is not None and claim.holds() and not claim.valid():
                self._watched.pop(claim, None)
                claim.lose(opened.loss)
        if self._watched:
            self._watch = self.loop.call_later(WATCH_SECONDS, self._look_for_losses)

    def _remember(self, claim: FileClaim, opened: LockDirectory) -> bool:
        """Take note of a claim; False if its directory is not ours any more: its handle is, or will be, closed."""
        with self._guard:
            if self._opened is not opened:
                return False
            self._claims[claim] = True
        return True

    async def _end_threads(self) -> None:
        """End the waits of threads, and let them leave before what they use is closed."""
        with self._guard:
            threads = list(self._threads)
        for wait in threads:
            wait.end(MisuseError(f"lock {wait.name!r}: the coordinator was closed"))
        # Not forever: a thread may close the coordinator in a handler of a signal that came as it waited.
        limit = self.loop.time() + THREADS_LEAVE_SECONDS_MAX
        while self._threads and self.loop.time() < limit:  # noqa: ASYNC110 - microseconds, mostly
            await asyncio.sleep(PAUSE_SECONDS)

    def _removed_again_and_again(self, name: str) -> Unavailable:
        return Unavailable(
            f"lock {name!r}: the lock directory {self.folder}, or a file in it, is removed again and"
            " again while we use it"
        )

    def _open_directory(self) -> LockDirectory:
        for _ in range(TRIES):
            try:
                return LockDirectory(self._directory, self.waits.process, self.waits.participant)
            except (FileNotFoundError, ReplacedError):
                continue  # removed while we opened it
        return LockDirectory(self._directory, self.waits.process, self.waits.participant)

    def _current(self) -> LockDirectory:
        opened = self._opened
        if opened is None:
            raise MisuseError(f"the coordinator of {self.folder} is closed")
        return opened

    def _open_again(self, opened: LockDirectory) -> None:
        """Open the directory that is at the path now, in place of one that was removed."""
        with self._guard:
            if self._opened is not opened:
                return  # another thread was faster
            try:
                self._opened = self._open_directory()
            except OSError as error:
                raise Unavailable(self._directory.complaint(error)) from None
            # Claims of the one before still have handles there; they are lost, or join again.
            self._replaced.append(opened)
            used = {claim.directory for claim in self.claims()} | {
                wait.directory for wait in self._threads
            }
            for old in [old for old in self._replaced if old not in used]:
                self._replaced.remove(old)
                old.close()
        self.loop.call_soon_threadsafe(self._listen)

    def _waiters_of(self, opened: LockDirectory) -> Waiters:
        """Return the room of the directory as it is now; what waits in that of another moves."""
        before = self._waiters
        if before is None or before.directory is not opened:
            self._waiters = Waiters(opened, self.loop)
            if before is not None:
                before.close()
                for claim in before.claims():
                    self.loop.call_soon(self.join_again, claim)
            return self._waiters
        return before

    # Orders of operators

    def _listen(self) -> None:
        """Listen to orders in the directory as it is now.

        By a copy of the descriptor: another thread may close the directory while the loop listens.
        """
        self._stop_listening()
        with self._guard:
            opened = self._opened
            if opened is None:
                return  # closed meanwhile
            self._ear = os.dup(opened.order_bell)
        self.loop.add_reader(self._ear, self._hear, opened)

    def _stop_listening(self) -> None:
        ear, self._ear = self._ear, -1
        if ear >= 0:
            self.loop.remove_reader(ear)
            os.close(ear)

    def _hear(self, opened: LockDirectory) -> None:
        """Obey the orders that have come."""
        with self._guard:  # so it is not closed meanwhile
            orders = opened.orders() if self._opened is opened else []
        for order in orders:
            if isinstance(order, RefusedOrder):
                self._note_refused(order.user)
            elif [claim for claim in self._ordered(order, opened) if claim.revoke(BROKEN)]:
                logger.warning(
                    "%s: operator %s (%s) has ended our hold of lock %r",
                    self.folder,
                    legible(order.operator),
                    user_name(order.user),
                    order.lock,
                    extra={"event": "hold-broken"},
                )

    def _note_refused(self, user: int) -> None:
        """Log that a user is not obeyed, once in a while: ringing costs that user nothing."""
        now = system.now()
        if now < self._refused.get(user, -math.inf) + REFUSED_PAUSE_SECONDS:
            return
        self._refused[user] = now
        logger.warning(
            "%s: an order of %s to end a hold is refused: only our own user, root and the owner of the"
            " directory may give one",
            self.folder,
            user_name(user),
            extra={"event": "order-refused"},
        )

    def _ordered(self, order: Order, opened: LockDirectory) -> list[FileClaim]:
        """List the claims that an order is about: not one that has begun since it was given."""
        return [
            claim
            for claim in self._held()
            if claim.lock == order.lock
            and claim.directory is opened
            and (claim.token or 0) <= order.token
        ]

    # Deadlocks

    def _blockers(self, wanted: Wanted) -> list[FileClaim]:
        """List the claims of this process that hold a lock; sharers do not block each other."""
        return [
            claim
            for claim in self.claims()
            if claim.lock == wanted.lock and claim.holds() and not (wanted.shared and claim.shared)
        ]

    def _held(self) -> list[FileClaim]:
        """List the claims of this process that hold a lock."""
        return [claim for claim in self.claims() if claim.holds()]

    def _search_later(self, owner: Owner) -> None:
        """Search for an owner that stays blocked; most waits are over before that."""
        self._blocked.add(owner)
        if self._look is None:
            self._look = self.loop.call_later(LOOK_FOR_DEADLOCKS_SECONDS, self._look_for_deadlocks)

    def _look_for_deadlocks(self) -> None:
        self._look = None
        # An owner that holds nothing is in no circle of those that are looked for: each waiter is
        # taken to wait for the holder, also one that would share and stands behind a writer.
        holding = {claim.owner for claim in self._held()}
        blocked = [owner for owner in self._blocked & holding if self.waits.is_blocked(owner)]
        self._blocked.clear()
        if not blocked:
            return
        from coterie.engines.file.waits import WaitBoard  # noqa: PLC0415
        from coterie.locks.deadlocks.search import DeadlockSearch  # noqa: PLC0415 - seldom needed

        if self._board is None:
            self._board = WaitBoard(self._directory, self.waits, self._held)
        if self._search is None:
            self._search = DeadlockSearch(self.waits, self._board, self._held)
        for owner in blocked:
            self._search.plan(owner)

    def _withdraw_notice(self, owner: Owner) -> None:
        if self._board is not None:
            self._board.withdraw(owner)

    def obstacle(self, name: str) -> None:
        """Return what blocks a lock besides its holders: nothing."""

    # What others hold

    async def holders(self, name: str) -> list[Party]:
        """List the holders: one, or all that share."""
        return [party(entry) for entry in parties_of(self._directory, name).inside]

    async def waiters(self, name: str) -> list[Party]:
        """List those that wait, the next first."""
        return [party(entry) for entry in parties_of(self._directory, name).waiting]

    async def watch(
        self, name: str, check: Callable[[], None]
    ) -> AsyncGenerator[Party | None, None]:
        """Follow the holder; a change is noticed within a tenth of a second."""
        seen: Party | None = None
        known: tuple[int, int, bool] | None = None
        while True:
            check()
            opened = self._current()
            lock_bytes = opened.lock_bytes(name)
            # As long as no token is drawn and the lock stays locked, or free, nothing has changed.
            busy = byte_lock.blocked(opened.descriptor, lock_bytes.alone)
            now = (*last_drawn(opened, lock_bytes), busy)
            if now != known or not opened.in_place():
                holders = await self.holders(name)
                found = holders[0] if holders else None
                if known is None or found != seen:
                    yield found
                seen = found
                # A holder that was about to write its token is looked at again.
                known = now if bool(holders) == busy else (0, 0, busy)
            await asyncio.sleep(FOLLOW_SECONDS)

    # Values

    async def read_value(self, name: str, claim: FileClaim | None = None) -> Value | None:
        """Return the value of a lock; it is durable, and no earlier hold writes it any more."""
        record = await self._at_values(lambda values: values.read(name))
        return None if record is None else record.value

    async def write_value(
        self, claim: FileClaim, sequence: int, data: bytes | None
    ) -> Value | None:
        """Write the value as the holder, or delete it, and return it when it is durable."""
        record = record_of(claim, sequence, data, self.waits.process)
        if not await self._at_values(lambda values: values.write(record, claim.valid)):
            reason = claim.lost.result() if claim.lost.done() else NOT_IN_FORCE
            raise loss(record.name, record.token, reason)
        return record.value

    def watch_value(
        self, name: str, check: Callable[[], None]
    ) -> AsyncGenerator[Value | None, None]:
        """Follow the value of a lock; a change is noticed within a fifth of a second."""
        return follow_value(partial(self.read_value, name), check)

    async def all_values(self) -> dict[str, Value]:
        """Return all values of our user by their names."""
        records = await self._at_values(lambda values: values.all())
        return {record.name: record.value for record in records if record.value is not None}

    async def _at_values(self, work: Callable[[ValueFolder], Result]) -> Result:
        """Read or write values in another thread, for it waits for the disk."""
        from coterie.engines.file.values import ValueFolder  # noqa: PLC0415 - most locks have no value

        try:
            return await asyncio.to_thread(work, ValueFolder(self._directory))
        except OSError as error:
            raise Unavailable(self._directory.complaint(error)) from None


def make_engine(url: str) -> FileEngine:
    """Make the engine of a URL: `file:` for the directory of all users, or `file:/path`.

    A directory that is named and does not exist is made for this user alone.
    """
    return FileEngine(directory_at(folder_of(url)))
