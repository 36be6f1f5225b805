"""The file `words`, whose bytes are the locks; and the handles of a program, which take them.

The lock of a name is a byte of the file, at an offset made from a hash of the name; two names with the
same hash, of which there are 2^61, would be one lock. The byte behind it is the waiters' byte: every
task that waits for the lock shares it. A handle is a descriptor of the file, opened for it alone, so that
the handles of one program exclude each other as those of different programs do; it holds one lock, or
waits for one, and is used again for the next.

Argument for exclusion. A lock is held from when its byte is locked by the descriptor of a handle, alone or
in shared mode, until it is unlocked or the last copy of the descriptor is closed. The kernel allows
no two descriptors to lock a byte unless both share. So two holders could only be in two files: a holder
that finds after locking, and whenever it is asked later, that the file at the path is its own was there
before any program could open another.

Argument for the wake-up. A waiter first shares the waiters' byte and locks its place in the queue, then
tries the lock. A holder first unlocks the lock, then asks whether the waiters' byte is locked. Both orders
are those of the kernel, so either the waiter finds the lock free, or the holder finds the waiter and
rings its bell. A holder that came through the queue, and does not share, keeps its share of the waiters'
byte until it unlocks the lock. So the queue is the same file all the time that it holds, and it asks the
queue itself for a place that is locked. Most often that is the one behind its own, and then the first. If
not, since another took its place earlier and locked it later, one that is rung before its turn rings that
one.

This module and those that it imports need neither an event loop nor any package but coterie.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import stat
import time
import weakref
from _thread import RLock
from typing import TYPE_CHECKING, TypeVar

from coterie.engines.file.directory import byte_lock
from coterie.engines.file.directory.folder import (
    BOARDS,
    CLOSED_FILE,
    LINES,
    NOT_PLAIN,
    PAUSE_SECONDS,
    read_quietly,
)
from coterie.engines.file.directory.orders import Order, RefusedOrder, read_order
from coterie.engines.file.directory.pipes import (
    LIFE,
    MESSAGE,
    ORDERS,
    Bells,
    ThreadBell,
    bell_name,
    lent,
    make_pipe,
    open_life,
)
from coterie.engines.file.directory.program_record import (
    ASKS,
    LIFE_BITS,
    SHARES,
    WAITS,
    Board,
    ReadingLimit,
    programs,
    read_board,
)
from coterie.engines.file.directory.tokens import HEADER, MAGIC, TokenCell, TokenSource
from coterie.engines.file.directory.wait_queue import (
    RECORD,
    QueuedWaiter,
    WaitQueue,
    first_in,
    remove,
)
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from coterie.engines.file.directory.folder import Directory, Folder

LOCK_FILE = "words"  # its name in the directory
UNNAMED = ".new"  # the end of the name under which it is made
LOCKS_OFFSET = 1 << 62
LOCKS_BITS = 61
OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
ORDERS_AT_ONCE = 16
KNOWN_MAX = 4096  # names whose bytes are remembered
OPEN_TRIES = 100
SWEPT_AT_ONCE = 8  # boards and queues that are looked at when a program comes
SWEPT_BYTES_MAX = 1 << 18  # of a board of another user
QUEUE_BYTES_MAX = 1 << 16  # after which a queue is removed as soon as no task waits
IDLE_QUEUES_MAX = 8  # handles that keep a queue open for their next wait

Kind = TypeVar("Kind")


class ReplacedError(Exception):
    """The file `words` at the path is not the one that is open: others do not see us."""


class LockBytes:
    """The two bytes of a name, and the calls that lock, unlock and ask about them."""

    __slots__ = (
        "alone",
        "cell",
        "free",
        "free_both",
        "name",
        "offset",
        "queue",
        "shared",
        "text",
        "waiters_alone",
        "waiters_free",
        "waiters_shared",
    )

    def __init__(self, name: str) -> None:
        """Find the bytes by a hash of the name."""
        self.name = name
        self.text = name.encode()
        digest = int.from_bytes(hashlib.blake2b(self.text, digest_size=8).digest(), "big")
        self.offset = LOCKS_OFFSET + 2 * (digest & ((1 << LOCKS_BITS) - 1))
        self.queue = f"{digest & ((1 << LOCKS_BITS) - 1):016x}"
        self.cell = TokenCell(digest)
        self.alone = byte_lock.request(byte_lock.ALONE, self.offset)
        self.shared = byte_lock.request(byte_lock.SHARED, self.offset)
        self.free = byte_lock.request(byte_lock.FREE, self.offset)
        self.free_both = byte_lock.request(byte_lock.FREE, self.offset, 2)
        self.waiters_alone = byte_lock.request(byte_lock.ALONE, self.offset + 1)
        self.waiters_shared = byte_lock.request(byte_lock.SHARED, self.offset + 1)
        self.waiters_free = byte_lock.request(byte_lock.FREE, self.offset + 1)

    def last_if_free(self, descriptor: int) -> int:
        """Return the last token that was drawn, if no other descriptor has the lock now, else 0."""
        if byte_lock.blocked(descriptor, self.alone):
            return 0
        return self.cell.read(descriptor)[0]


class LockDirectory:
    """A lock directory, opened by one program; any thread may take and give back handles."""

    def __init__(self, directory: Directory, process: str, participant: str = "") -> None:
        """Open the directory, and make it if there is none.

        Args:
            directory: Where the locks are.
            process: This process, as people find it: host:pid.
            participant: A name for deadlock detection that no other program has.
        """
        self.program = int.from_bytes(os.urandom(8), "big")
        self.own_life = f"{self.program:016x}"
        self.requests = itertools.count(1)
        self.joined: set[str] = set()  # the queues in which a task of this program has waited
        self._path = f"{directory.path}/{LOCK_FILE}"
        self._boards_path = f"{directory.path}/{BOARDS}"
        self._known: dict[str, LockBytes] = {}
        self._idle: list[LockHandle] = []
        self._handles: weakref.WeakSet[LockHandle] = weakref.WeakSet()
        self._idle_bells: list[ThreadBell] = []
        self._thread_bells: weakref.WeakSet[ThreadBell] = weakref.WeakSet()
        self._bell_numbers = itertools.count(1)
        self._bell = -1
        self._descriptors: list[int] = []
        with _no_fork:
            try:
                folder = self._folder = self._keep(directory.open(make=True))
                self.descriptor = open_lock_file(folder, self._path)  # locks nothing that lasts
                self._descriptors.append(self.descriptor)
                self._inode, self._device = _identity(self.descriptor)
                self.tokens = TokenSource(self.descriptor, folder, self._path)
                self.queues = self._keep(folder.enter(LINES, make=True))
                self.boards = self._keep(folder.enter(BOARDS, make=True))
                self.remarks = [*self.tokens.remarks, *self._see_to_owner(directory)]
                # Before the board: a board without a living pipe is swept away by others.
                self._pipe(f"{self.program:016x}.{LIFE}")
                self.order_bell = self._pipe(bell_name(self.program, ORDERS))
                self.board = Board(self.boards, self.program, process, participant)
            except BaseException:
                self._close_all()
                raise
            self.bells = Bells(self.boards.descriptor)
            _all_directories.add(self)
        self._sweep()

    def lock_bytes(self, name: str) -> LockBytes:
        """Return the bytes of a name."""
        lock_bytes = self._known.get(name)
        if lock_bytes is None:
            if len(self._known) >= KNOWN_MAX:
                self._known = {}
            lock_bytes = self._known[name] = LockBytes(name)
        return lock_bytes

    def in_place(self) -> bool:
        """Return True if the file at the path is the one that is open: if not, others do not see us."""
        try:
            found = os.lstat(self._path)
        except OSError:
            return False
        return found.st_ino == self._inode and found.st_dev == self._device

    @property
    def loss(self) -> str:
        """The reason of a loss, for people, where the file is not in its place."""
        return f"its file {self._path} was removed or replaced"

    def check_place(self) -> None:
        """Raise `ReplacedError` if it is not."""
        if not self.in_place():
            raise ReplacedError

    def try_acquire(
        self, name: str, *, shared: bool = False, owner: int = 0, task: bytes = b""
    ) -> LockHandle | None:
        """Take the lock of a name if it is free and no task waits for it.

        Return the handle, which has the token; release it, then give it back. `owner` and `task` say on
        the board on whose behalf. Raise `ReplacedError` if the directory was removed or replaced.
        """
        handle = self.handle()
        try:
            token = handle.try_acquire(self.lock_bytes(name), shared=shared, owner=owner, task=task)
        except BaseException:
            handle.close()
            raise
        if token is not None:
            return handle
        self.give(handle)
        return None

    def handle(self) -> LockHandle:
        """Return a handle that is free, or open another."""
        try:
            while not (handle := self._idle.pop()).is_reusable:
                pass  # closed by a thread that was interrupted as it gave it back
        except IndexError:
            pass
        else:
            return handle
        with _no_fork:
            handle = LockHandle(self)
            self._handles.add(handle)
        return handle

    def give(self, handle: LockHandle) -> None:
        """Take a handle back that holds nothing any more."""
        if handle.is_reusable:
            if len(self._idle) >= IDLE_QUEUES_MAX:
                handle.close_queue()
            self._idle.append(handle)
        else:
            handle.close()

    def open_again(self) -> int:
        """Open the file once more; raise `ReplacedError` if it is another one by now, or closed."""
        if not self._descriptors:
            raise ReplacedError
        try:
            descriptor = os.open(LOCK_FILE, OPEN, dir_fd=self._folder.descriptor)
        except FileNotFoundError:
            raise ReplacedError from None
        if _identity(descriptor) == (self._inode, self._device):
            return read_quietly(descriptor)
        os.close(descriptor)
        raise ReplacedError

    def bell(self) -> int:
        """Return the pipe that others write to when a request of this program should look again."""
        if self._bell < 0:
            with _no_fork:
                self._bell = self._pipe(bell_name(self.program, 0))
        return self._bell

    def thread_bell(self) -> ThreadBell:
        """Return a bell for one thread that waits, or make another; `give_bell` takes it back."""
        try:
            return self._idle_bells.pop()
        except IndexError:
            pass
        with _no_fork:
            number = next(self._bell_numbers)
            pipe = make_pipe(self.boards, self._boards_path, bell_name(self.program, number))
            bell = ThreadBell(pipe, number)
            self._thread_bells.add(bell)
        return bell

    def give_bell(self, bell: ThreadBell) -> None:
        """Take back the bell of a thread that waits no longer."""
        self._idle_bells.append(bell)

    def orders(self) -> list[Order | RefusedOrder]:
        """Read the orders that the bell has told of since, also those that are not to be obeyed."""
        try:
            rung = os.read(self.order_bell, ORDERS_AT_ONCE * MESSAGE.size)
        except BlockingIOError:
            return []
        owner = self._folder.sharing.user
        found = [
            read_order(self.boards, self.program, number, owner)
            for (number,) in MESSAGE.iter_unpack(rung[: len(rung) // MESSAGE.size * MESSAGE.size])
        ]
        return [order for order in found if order is not None]

    def remove_queue(self, name: str) -> None:
        """Remove the queue of that name if no task waits in it."""
        offset = LOCKS_OFFSET + 2 * int(name, 16) + 1  # of the waiters' byte
        if byte_lock.attempt(self.descriptor, byte_lock.request(byte_lock.ALONE, offset)):
            remove(self.queues, name)
            byte_lock.attempt(self.descriptor, byte_lock.request(byte_lock.FREE, offset))

    def make_lent_pipe(self, life: int) -> int:
        """Make a pipe that a child inherits together with a handle: it breaks when both have ended."""
        with _no_fork:
            return make_pipe(self.boards, self._boards_path, f"{lent(self.program, life)}.{LIFE}")

    def remove_lent_pipe(self, life: int) -> None:
        """Remove such a pipe."""
        self.boards.unlink(f"{lent(self.program, life)}.{LIFE}")

    def close(self) -> None:
        """Close everything, and take the board away; safe to do twice."""
        if not self._descriptors:
            return
        for handle in list(self._handles):
            handle.close()
        for joined in self.joined:
            self.remove_queue(joined)
        name = f"{self.program:016x}"
        bells = (bell_name(self.program, 0), bell_name(self.program, ORDERS))
        for file in (name, f"{name}.{LIFE}", *bells):
            self.boards.unlink(file)
        for bell in list(self._thread_bells):
            self.boards.unlink(bell_name(self.program, bell.number))
        self._close_rest()

    def abandon(self) -> None:
        """Close our descriptors without touching the files, as a forked child does."""
        for handle in list(self._handles):
            handle.abandon()
        for bell in list(self._thread_bells):
            bell.close()
        self._close_rest()

    def _close_rest(self) -> None:
        with _no_fork:  # nor does a thread open a handle meanwhile
            self.board.close()
            self.bells.close()
            self._close_all()

    def _close_all(self) -> None:
        # Forgotten first: a child forked meanwhile must not close what has their numbers then.
        # A bell is closed when no thread has it any more: one may be about to wait for it.
        descriptors, self._descriptors, self._idle = self._descriptors, [], []
        self._idle_bells = []
        for descriptor in descriptors:
            os.close(descriptor)

    def _see_to_owner(self, directory: Directory) -> list[str]:
        """Make what all users share root's if we are root; else say whose it is."""
        sharing = self._folder.sharing
        is_roots = directory.of_machine or sharing.user == 0
        if os.geteuid() or not sharing.is_for_all or not is_roots:
            return list(filter(None, [directory.owner_remark(sharing)]))
        # The checks of `open_lock_file` have passed: nothing in it has been closed to others. The
        # directory first: then no other user can exchange what is in it.
        for descriptor in (self._folder.descriptor, self.descriptor):
            if os.fstat(descriptor).st_uid:
                os.fchown(descriptor, 0, -1)
        if directory.of_machine and not sharing.mode & stat.S_ISVTX:
            os.fchmod(self._folder.descriptor, sharing.mode | stat.S_ISVTX)
        for folder in (self.queues, self.boards):
            found = folder.sharing
            if found.user and found.writers == sharing.writers:
                os.fchown(folder.descriptor, 0, -1)
        return []

    def _keep(self, folder: Folder) -> Folder:
        self._descriptors.append(folder.descriptor)
        return folder

    def _pipe(self, name: str) -> int:
        pipe = make_pipe(self.boards, self._boards_path, name)
        self._descriptors.append(pipe)
        return pipe

    def _sweep(self) -> None:
        """Remove what programs have left that ended without doing so; some of it, at random."""
        boards = self.boards.descriptor
        for name in self._some(self.queues.names()):
            if is_queue_name(name):
                self.remove_queue(name)
        for program in self._some(programs(boards)):
            life = open_life(boards, f"{program:016x}")
            if life is not None:
                os.close(life)
            elif self._is_over(program):
                left = (
                    f"{program:016x}"  # its board, its pipes, and those of its handles and threads
                )
                for name in self.boards.names():
                    if name.startswith(left):
                        self.boards.unlink(name)

    def _is_over(self, program: int) -> bool:
        """Return whether no slot of the board of a program that has ended counts; no board of a giant is read."""
        limit = ReadingLimit(SWEPT_BYTES_MAX)
        found = read_board(self.boards.descriptor, program, self.descriptor, limit)
        return not found and not limit.left_out

    def _some(self, found: list[Kind]) -> list[Kind]:
        first = self.program % max(1, len(found))
        return (found + found)[first : first + min(SWEPT_AT_ONCE, len(found))]


class LockHandle:
    """A descriptor of `words` of its own, which holds a lock, or waits for one, or is free."""

    __slots__ = (
        "__weakref__",
        "_behind",
        "_descriptor",
        "_is_closed",
        "_lent",
        "_life",
        "_lock_bytes",
        "_queue",
        "_queue_is_long",
        "_slot",
        "directory",
        "is_reusable",
        "token",
    )

    def __init__(self, directory: LockDirectory) -> None:
        """Open the file for this handle alone."""
        self._lent = self._descriptor = -1
        self._is_closed = False
        self.is_reusable = True  # no child can have a copy of the descriptor
        self._queue: WaitQueue | None = None  # in which it waits, or waited last
        self.directory = directory
        self._descriptor = directory.open_again()
        self._life = int.from_bytes(os.urandom(8), "big") >> (64 - LIFE_BITS)
        self._slot = directory.board.slot(self._life)
        self._lock_bytes: LockBytes | None = None  # that it holds
        self._queue_is_long = False
        self._behind: int | None = (
            None  # where those are that waited when it entered through the queue
        )
        self.token: int | None = None

    def __del__(self) -> None:
        """Close what was dropped: a thread that is interrupted may not get to give it back."""
        slot = getattr(self, "_slot", None)
        if slot is not None and self._descriptor >= 0 and self._lent < 0:
            slot.clear()
        self.abandon()

    def try_acquire(
        self, lock_bytes: LockBytes, *, shared: bool = False, owner: int = 0, task: bytes = b""
    ) -> int | None:
        """Take the lock if it is free and no task waits for it; return its token, or None.

        Raise `ReplacedError` if the file was removed or replaced.
        """
        # Some task came before us: we do not overtake it, even if the lock is free just now.
        if byte_lock.blocked(self._descriptor, lock_bytes.waiters_alone):
            return None
        self._slot.write(
            ASKS, SHARES * shared, lock_bytes.offset, lock_bytes.text, task, owner, 0, 0
        )
        token = self._enter(lock_bytes, shared=shared, ahead=not shared)
        if token is None:
            self._slot.clear()
        return token

    def join(
        self,
        lock_bytes: LockBytes,
        request: int,
        *,
        shared: bool,
        owner: int,
        task: bytes,
        bell: int = 0,
    ) -> bool:
        """Join the queue of a lock; False if a holder is just removing it: try again in a moment."""
        # From here on newcomers queue, and the queue is not removed.
        if not byte_lock.attempt(self._descriptor, lock_bytes.waiters_shared):
            return False
        try:
            queue = self._queue
            if queue is None or queue.name != lock_bytes.queue or not queue.is_in_place():
                queue = self._open_queue(lock_bytes)
            position = queue.join(self.directory.program, request, bell, shared=shared)
        except BaseException:
            self.withdraw(lock_bytes)
            raise
        flags = SHARES * shared
        self._slot.write(
            WAITS, flags, lock_bytes.offset, lock_bytes.text, task, owner, request, position
        )
        return True

    def look(self, lock_bytes: LockBytes, *, shared: bool, overtakes: bool = False) -> int | None:
        """Take the lock if it is our turn and it is free; return its token, or None.

        One that `overtakes` does not ask whether it is its turn.
        """
        queue = self._queue
        if queue is None or queue.position is None or not (overtakes or queue.is_next()):
            return None
        position = queue.position
        self._slot.state(ASKS)
        token = self._enter(lock_bytes, shared=shared)
        if token is None:
            self._slot.state(WAITS)
            return None
        self._queue_is_long = position >= QUEUE_BYTES_MAX
        if shared or overtakes:
            self._leave(lock_bytes, tell_next=shared)
        else:
            if not position % QUEUE_BYTES_MAX:  # one in many
                queue.give_back(QUEUE_BYTES_MAX)
            queue.leave(look_back=False)  # the next watches us
            self._behind = position + RECORD.size
        return token

    @property
    def position(self) -> int | None:
        """Where it stands in a queue, if it waits."""
        return None if self._queue is None else self._queue.position

    def predecessor(self) -> QueuedWaiter | None:
        """Return the one before us in the queue; None if there is none."""
        return None if self._queue is None else self._queue.predecessor()

    def pass_on(self) -> None:
        """Ring for one before us, if there is any, as we were rung for and could not enter."""
        before = None if self.position is None or self._queue is None else self._queue.obstacle()
        if before is not None:
            self.directory.bells.ring(*before)

    def withdraw(self, lock_bytes: LockBytes) -> None:
        """Leave the queue without the lock."""
        if self._descriptor < 0:
            return
        self._leave(lock_bytes, tell_next=True)
        self._slot.clear()

    def release(self) -> None:
        """Give the lock back, and let the first that waits for it look; safe to do twice."""
        lock_bytes = self._lock_bytes
        if lock_bytes is None or self._descriptor < 0:
            return
        behind, self._behind = self._behind, None
        self._lock_bytes, self.token = None, None
        free = lock_bytes.free if behind is None else lock_bytes.free_both
        byte_lock.call(self._descriptor, byte_lock.SET, free)
        self._slot.clear()
        # After the lock is unlocked: see the argument above.
        if behind is not None:
            assert self._queue is not None, "it came through it"
            first = self._queue.first(likely=behind)
        elif byte_lock.blocked(self._descriptor, lock_bytes.waiters_alone):
            first = self._first_waiter(lock_bytes)
        else:
            first = None
        if first is not None:
            self.directory.bells.ring(*first)
        elif self._queue_is_long:
            self._queue_is_long = False
            self.directory.remove_queue(lock_bytes.queue)

    def annotate(self, note: bytes) -> None:
        """Write a note of the hold on the board, for others to read until it is given back."""
        self._slot.annotate(note, self.directory.board)

    def lend(self) -> tuple[int, ...]:
        """Return descriptors by which a child that inherits them keeps the lock if we are killed."""
        if self._lent < 0:
            self.is_reusable = False
            self._lent = self.directory.make_lent_pipe(self._life)
            self._slot.lend()
        return (self._descriptor, self._lent)

    @property
    def is_lent(self) -> bool:
        """Whether a child may keep the lock."""
        return self._lent >= 0

    def note_end(self) -> None:
        """Write on the board that the lock goes back as soon as the child has ended."""
        self._slot.end()

    def close(self) -> None:
        """Free what it holds for good; safe to do twice.

        The descriptor itself is closed when the last reference to the handle is gone: another thread may
        be in the middle of a call, and must not use a number that is by then that of another file.
        """
        if self._is_closed or self._descriptor < 0:
            return
        self._is_closed = True
        self.is_reusable = False
        self._slot.clear()
        # Unlocked, not just closed: a child may have a copy.
        byte_lock.attempt(self._descriptor, _UNLOCK_ALL)
        if self._queue is not None:
            self._queue.leave(look_back=False)
        if self._lent >= 0:
            self.directory.remove_lent_pipe(self._life)

    def close_queue(self) -> None:
        """Close the queue in which it waited last."""
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.close()

    def abandon(self) -> None:
        """Close our descriptors without unlocking anything, as a forked child does."""
        descriptors, self._descriptor, self._lent = (self._descriptor, self._lent), -1, -1
        self.close_queue()
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def _enter(self, lock_bytes: LockBytes, *, shared: bool, ahead: bool = False) -> int | None:
        """Lock the byte and draw a token; None if it is locked, or if the cell is for too long.

        One that comes through the queue does not draw `ahead`: waiters see by the cell that it was there.
        """
        self._lock_bytes = lock_bytes
        try:
            byte_lock.call(
                self._descriptor, byte_lock.SET, lock_bytes.shared if shared else lock_bytes.alone
            )
        except (BlockingIOError, PermissionError):
            self._lock_bytes = None
            return None
        directory = self.directory
        try:
            if not directory.in_place():
                raise ReplacedError  # noqa: TRY301 - the lock is given back below
            token = directory.tokens.draw(
                self._descriptor, lock_bytes.cell, directory.program, lock_bytes.offset, ahead=ahead
            )
        except BaseException:
            self.release()
            raise
        if token is None:
            self.release()
            return None
        self.token = token
        self._slot.hold(token)
        return token

    def _open_queue(self, lock_bytes: LockBytes) -> WaitQueue:
        self.directory.joined.add(lock_bytes.queue)
        self.close_queue()
        with _no_fork:
            queue = self._queue = WaitQueue(self.directory.queues, lock_bytes.queue)
        return queue

    def _leave(self, lock_bytes: LockBytes, *, tell_next: bool) -> None:
        after = None if self._queue is None else self._queue.leave(look_back=tell_next)
        byte_lock.attempt(self._descriptor, lock_bytes.waiters_free)
        if after is not None:
            self.directory.bells.ring(*after)

    def _first_waiter(self, lock_bytes: LockBytes) -> QueuedWaiter | None:
        """Return the first in the queue of a lock in which we do not stand, if any waits."""
        queue = self._queue
        first = queue.first() if queue is not None and queue.name == lock_bytes.queue else None
        # We have not waited, or the queue was removed since.
        return first_in(self.directory.queues, lock_bytes.queue) if first is None else first


def is_queue_name(name: str) -> bool:
    """Return True if a file in the folder of queues can be one."""
    try:
        return len(name) == 16 and int(name, 16) >> LOCKS_BITS == 0
    except ValueError:
        return False


def open_lock_file(folder: Folder, path: str) -> int:
    """Open the file, or create it for all users of the directory.

    Raise `ConfigError` if it is none of ours: before it is written to, and before its mode is changed.
    """
    reason = ""
    for _ in range(OPEN_TRIES):
        try:
            descriptor = os.open(LOCK_FILE, OPEN, dir_fd=folder.descriptor)
        except FileNotFoundError:
            _create(folder)
            continue
        try:
            reason = _objection(folder, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if not reason:
            return descriptor
        os.close(descriptor)
        time.sleep(PAUSE_SECONDS)  # it may just be made
    if not reason:
        raise ReplacedError
    raise ConfigError(
        f"{path} {reason}: it is neither used nor changed; end the programs that use the directory, and"
        " remove the file, or choose another directory by COTERIE_DIR or file:/path"
    )


def _objection(folder: Folder, descriptor: int) -> str:
    """Say why a file is not used as `words`; empty if it is one, which has its mode then."""
    sharing, found = folder.sharing, os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        return NOT_PLAIN
    begin = os.pread(descriptor, HEADER.size, 0)
    is_lock_file = begin.startswith(MAGIC)
    # One that was made by an earlier version, or before a power failure, may have no header yet.
    if not is_lock_file and begin.strip(b"\0"):
        return "does not begin like a lock file of coterie"
    names = found.st_nlink
    if names > 1:
        names -= _unfinished(folder, found)
    objection = sharing.objection(found, names)
    if not objection and not sharing.writers and found.st_mode & 0o077:
        os.fchmod(descriptor, CLOSED_FILE)  # it was made by an earlier version
    # Made before we shared our directory: only the user whose directory and file it is opens it to others.
    is_ours = found.st_uid == sharing.user == os.geteuid()
    may_open = is_ours and is_lock_file and sharing.keeps_names
    # Asked again: another user may have given it a second name while we counted those that are ours.
    if objection and sharing.writers and may_open and os.fstat(descriptor).st_nlink == 1:
        sharing.admit(descriptor, to_write=True)
        return sharing.objection(os.fstat(descriptor), names)
    return objection


def _unfinished(folder: Folder, found: os.stat_result) -> int:
    """Count the names under which a file was made, and remove them: a killed process has left them."""
    count = 0
    for name in folder.names():
        if name.startswith(f"{LOCK_FILE}-") and name.endswith(UNNAMED):
            with contextlib.suppress(FileNotFoundError):
                other = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
                if os.path.samestat(other, found):
                    count += 1
                    folder.unlink(name)
    return count


def _create(folder: Folder) -> None:
    """Create the file; it gets its name when it has its header and its mode, so that no user finds it without."""
    new = f"{LOCK_FILE}-{os.urandom(8).hex()}{UNNAMED}"
    descriptor = folder.create(new, to_write=True)
    try:
        os.write(descriptor, HEADER.pack(MAGIC, b"", 0, 0))  # of no boot
        # Not of what a link leads to: another user may have put one in the place of the new file.
        os.link(
            new,
            LOCK_FILE,
            src_dir_fd=folder.descriptor,
            dst_dir_fd=folder.descriptor,
            follow_symlinks=False,
        )
    except FileExistsError:
        pass  # another process was faster
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # No links here. If another process has made the file meanwhile, it sees that it is replaced.
        folder.rename(new, LOCK_FILE)
    finally:
        os.close(descriptor)
        folder.unlink(new)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_ino, found.st_dev


_UNLOCK_ALL = byte_lock.request(byte_lock.FREE, 0, 0)
_all_directories: weakref.WeakSet[LockDirectory] = weakref.WeakSet()
# Held while a descriptor is opened and not yet remembered: a child that was forked just then would keep
# it, and the locks that it gets later, without knowing of it.
_no_fork = RLock()


def _leave_to_parent() -> None:
    """Close what a forked child has inherited: else the locks would outlive the parent in it."""
    _no_fork.release()
    for directory in list(_all_directories):
        directory.abandon()


os.register_at_fork(
    before=_no_fork.acquire,
    after_in_parent=_no_fork.release,
    after_in_child=_leave_to_parent,
)
