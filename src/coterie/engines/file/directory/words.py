"""The file `words`, whose bytes are the locks; and the seats of a program, which take them.

The lock of a name is a byte of the file, at an offset made from a hash of the name; two names with the
same hash, of which there are 2^61, would be one lock. The byte behind it is the waiters' byte: every
task that waits for the lock shares it. A seat is a descriptor of the file, opened for it alone, so that
the seats of one program exclude each other as those of different programs do; it holds one lock, or
waits for one, and is used again for the next.

Argument for exclusion. A lock is held from when its byte is locked by the descriptor of a seat, alone or
in shared mode, until it is unlocked or the last copy of the descriptor is closed. The kernel allows
no two descriptors to lock a byte unless both share. So two holders could only be in two files: a holder
that finds after locking, and whenever it is asked later, that the file at the path is its own was there
before any program could open another.

Argument for the wake-up. A waiter first shares the waiters' byte and locks its place in the line, then
tries the lock. A holder first unlocks the lock, then asks whether the waiters' byte is locked. Both orders
are those of the kernel, so either the waiter finds the lock free, or the holder finds the waiter and
rings its bell. A holder that came through the line, and does not share, keeps its share of the waiters'
byte until it unlocks the lock. So the line is the same file all the time that it holds, and it asks the
line itself for a place that is locked. Most often that is the one behind its own, and then the first. If
not, since another took its place earlier and locked it later, one that is rung before its turn rings that
one.

This module and those that it imports need neither an event loop nor any package but coterie.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import weakref
from _thread import RLock
from typing import TYPE_CHECKING, TypeVar

from coterie.engines.file.directory import BOARDS, LINES, byte_lock, plain, read_quietly
from coterie.engines.file.directory.board import (
    ASKS,
    LIFE_BITS,
    SHARES,
    WAITS,
    Board,
    programs,
    read_board,
)
from coterie.engines.file.directory.line import RECORD, Line, Waiter, first_in, remove
from coterie.engines.file.directory.pipes import (
    BELL,
    LIFE,
    Bells,
    ThreadBell,
    bell_name,
    lent,
    make_pipe,
    open_life,
)
from coterie.engines.file.directory.tokens import Cell, Tokens

if TYPE_CHECKING:
    from coterie.engines.file.directory import Directory, Folder

WORDS = "words"
WORD_OFFSET = 1 << 62
WORD_BITS = 61
OPEN_WORDS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
KNOWN_MAX = 4096  # names whose words are remembered
OPEN_TRIES = 100
SWEPT_AT_ONCE = 8  # boards and lines that are looked at when a program comes
LINE_BYTES_MAX = 1 << 16  # after which a line is removed as soon as no task waits
IDLE_LINES_MAX = 8  # seats that keep a line open for their next wait

Kind = TypeVar("Kind")


class ReplacedError(Exception):
    """The file `words` at the path is not the one that is open: others do not see us."""


class Word:
    """The two bytes of a name, and the calls that lock, unlock and ask about them."""

    __slots__ = (
        "alone",
        "cell",
        "free",
        "free_both",
        "line",
        "name",
        "offset",
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
        self.offset = WORD_OFFSET + 2 * (digest & ((1 << WORD_BITS) - 1))
        self.line = f"{digest & ((1 << WORD_BITS) - 1):016x}"
        self.cell = Cell(digest)
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


class Words:
    """A lock directory, opened by one program; any thread may take and give back seats."""

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
        self.joined: set[str] = set()  # the lines in which a task of this program has waited
        self._path = f"{directory.path}/{WORDS}"
        self._boards_path = f"{directory.path}/{BOARDS}"
        self._known: dict[str, Word] = {}
        self._idle: list[Seat] = []
        self._seats: weakref.WeakSet[Seat] = weakref.WeakSet()
        self._idle_bells: list[ThreadBell] = []
        self._thread_bells: weakref.WeakSet[ThreadBell] = weakref.WeakSet()
        self._bell_numbers = itertools.count(1)
        self._bell = -1
        self._descriptors: list[int] = []
        with _no_fork:
            try:
                folder = self._keep(directory.open(make=True))
                self.descriptor = open_words(folder, self._path)  # locks nothing that lasts
                self._descriptors.append(self.descriptor)
                self._inode, self._device = _identity(self.descriptor)
                self.tokens = Tokens(self.descriptor, folder, self._path)
                self.lines = self._keep(folder.enter(LINES, make=True))
                self.boards = self._keep(folder.enter(BOARDS, make=True))
                # Before the board: a board without a living pipe is swept away by others.
                self._pipe(LIFE)
                self.board = Board(self.boards, self.program, process, participant)
            except BaseException:
                self._close_all()
                raise
            self._folder = folder
            self.bells = Bells(self.boards.descriptor)
            _all_words.add(self)
        self._sweep()

    def word(self, name: str) -> Word:
        """Return the word of a name."""
        word = self._known.get(name)
        if word is None:
            if len(self._known) >= KNOWN_MAX:
                self._known = {}
            word = self._known[name] = Word(name)
        return word

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
    ) -> Seat | None:
        """Take the lock of a name if it is free and no task waits for it.

        Return the seat, which has the token; release it, then give it back. `owner` and `task` say on
        the board on whose behalf. Raise `ReplacedError` if the directory was removed or replaced.
        """
        seat = self.seat()
        try:
            token = seat.try_acquire(self.word(name), shared=shared, owner=owner, task=task)
        except BaseException:
            seat.close()
            raise
        if token is not None:
            return seat
        self.give(seat)
        return None

    def seat(self) -> Seat:
        """Return a seat that is free, or open another."""
        try:
            while not (seat := self._idle.pop()).is_reusable:
                pass  # closed by a thread that was interrupted as it gave it back
        except IndexError:
            pass
        else:
            return seat
        with _no_fork:
            seat = Seat(self)
            self._seats.add(seat)
        return seat

    def give(self, seat: Seat) -> None:
        """Take a seat back that holds nothing any more."""
        if seat.is_reusable:
            if len(self._idle) >= IDLE_LINES_MAX:
                seat.close_line()
            self._idle.append(seat)
        else:
            seat.close()

    def open_again(self) -> int:
        """Open the file once more; raise `ReplacedError` if it is another one by now, or closed."""
        if not self._descriptors:
            raise ReplacedError
        try:
            descriptor = os.open(WORDS, OPEN_WORDS, dir_fd=self._folder.descriptor)
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
                self._bell = self._pipe(BELL)
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

    def remove_line(self, name: str) -> None:
        """Remove the line of that name if no task waits in it."""
        offset = WORD_OFFSET + 2 * int(name, 16) + 1  # of the waiters' byte
        if byte_lock.attempt(self.descriptor, byte_lock.request(byte_lock.ALONE, offset)):
            remove(self.lines, name)
            byte_lock.attempt(self.descriptor, byte_lock.request(byte_lock.FREE, offset))

    def make_lent_pipe(self, life: int) -> int:
        """Make a pipe that a child inherits together with a seat: it breaks when both have ended."""
        with _no_fork:
            return make_pipe(self.boards, self._boards_path, f"{lent(self.program, life)}.{LIFE}")

    def remove_lent_pipe(self, life: int) -> None:
        """Remove such a pipe."""
        self.boards.unlink(f"{lent(self.program, life)}.{LIFE}")

    def close(self) -> None:
        """Close everything, and take the board away; safe to do twice."""
        if not self._descriptors:
            return
        for seat in list(self._seats):
            seat.close()
        for joined in self.joined:
            self.remove_line(joined)
        name = f"{self.program:016x}"
        for file in (name, f"{name}.{LIFE}", f"{name}.{BELL}"):
            self.boards.unlink(file)
        for bell in list(self._thread_bells):
            self.boards.unlink(bell_name(self.program, bell.number))
        self._close_rest()

    def abandon(self) -> None:
        """Close our descriptors without touching the files, as a forked child does."""
        for seat in list(self._seats):
            seat.abandon()
        for bell in list(self._thread_bells):
            bell.close()
        self._close_rest()

    def _close_rest(self) -> None:
        with _no_fork:  # nor does a thread open a seat meanwhile
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

    def _keep(self, folder: Folder) -> Folder:
        self._descriptors.append(folder.descriptor)
        return folder

    def _pipe(self, kind: str) -> int:
        pipe = make_pipe(self.boards, self._boards_path, f"{self.program:016x}.{kind}")
        self._descriptors.append(pipe)
        return pipe

    def _sweep(self) -> None:
        """Remove what programs have left that ended without doing so; some of it, at random."""
        boards = self.boards.descriptor
        for name in self._some(self.lines.names()):
            if is_line(name):
                self.remove_line(name)
        for program in self._some(programs(boards)):
            life = open_life(boards, f"{program:016x}")
            if life is not None:
                os.close(life)
            elif not read_board(boards, program, self.descriptor):
                left = f"{program:016x}"  # its board, its pipes, and those of its seats and threads
                for name in self.boards.names():
                    if name.startswith(left):
                        self.boards.unlink(name)

    def _some(self, found: list[Kind]) -> list[Kind]:
        first = self.program % max(1, len(found))
        return (found + found)[first : first + min(SWEPT_AT_ONCE, len(found))]


class Seat:
    """A descriptor of `words` of its own, which holds a lock, or waits for one, or is free."""

    __slots__ = (
        "__weakref__",
        "_behind",
        "_descriptor",
        "_is_closed",
        "_lent",
        "_life",
        "_line",
        "_line_is_long",
        "_slot",
        "_word",
        "is_reusable",
        "token",
        "words",
    )

    def __init__(self, words: Words) -> None:
        """Open the file for this seat alone."""
        self._lent = self._descriptor = -1
        self._is_closed = False
        self.is_reusable = True  # no child can have a copy of the descriptor
        self._line: Line | None = None  # in which it waits, or waited last
        self.words = words
        self._descriptor = words.open_again()
        self._life = int.from_bytes(os.urandom(8), "big") >> (64 - LIFE_BITS)
        self._slot = words.board.slot(self._life)
        self._word: Word | None = None  # that it holds
        self._line_is_long = False
        self._behind: int | None = (
            None  # where those are that waited when it entered through the line
        )
        self.token: int | None = None

    def __del__(self) -> None:
        """Close what was dropped: a thread that is interrupted may not get to give it back."""
        slot = getattr(self, "_slot", None)
        if slot is not None and self._descriptor >= 0 and self._lent < 0:
            slot.clear()
        self.abandon()

    def try_acquire(
        self, word: Word, *, shared: bool = False, owner: int = 0, task: bytes = b""
    ) -> int | None:
        """Take the lock if it is free and no task waits for it; return its token, or None.

        Raise `ReplacedError` if the file was removed or replaced.
        """
        # Some task came before us: we do not overtake it, even if the lock is free just now.
        if byte_lock.blocked(self._descriptor, word.waiters_alone):
            return None
        self._slot.write(ASKS, SHARES * shared, word.offset, word.text, task, owner, 0, 0)
        token = self._enter(word, shared=shared, ahead=not shared)
        if token is None:
            self._slot.clear()
        return token

    def join(
        self, word: Word, request: int, *, shared: bool, owner: int, task: bytes, bell: int = 0
    ) -> bool:
        """Join the line of a lock; False if a holder is just removing it: try again in a moment."""
        # From here on newcomers queue, and the line is not removed.
        if not byte_lock.attempt(self._descriptor, word.waiters_shared):
            return False
        try:
            line = self._line
            if line is None or line.name != word.line or not line.is_in_place():
                line = self._open_line(word)
            position = line.join(self.words.program, request, bell, shared=shared)
        except BaseException:
            self.withdraw(word)
            raise
        flags = SHARES * shared
        self._slot.write(WAITS, flags, word.offset, word.text, task, owner, request, position)
        return True

    def look(self, word: Word, *, shared: bool, overtakes: bool = False) -> int | None:
        """Take the lock if it is our turn and it is free; return its token, or None.

        One that `overtakes` does not ask whether it is its turn.
        """
        line = self._line
        if line is None or line.position is None or not (overtakes or line.is_next()):
            return None
        position = line.position
        self._slot.state(ASKS)
        token = self._enter(word, shared=shared)
        if token is None:
            self._slot.state(WAITS)
            return None
        self._line_is_long = position >= LINE_BYTES_MAX
        if shared or overtakes:
            self._leave(word, tell_next=shared)
        else:
            if not position % LINE_BYTES_MAX:  # one in many
                line.give_back(LINE_BYTES_MAX)
            line.leave(look_back=False)  # the next watches us
            self._behind = position + RECORD.size
        return token

    @property
    def position(self) -> int | None:
        """Where it stands in a line, if it waits."""
        return None if self._line is None else self._line.position

    def predecessor(self) -> Waiter | None:
        """Return the one before us in the line; None if there is none."""
        return None if self._line is None else self._line.predecessor()

    def pass_on(self) -> None:
        """Ring for one before us, if there is any, as we were rung for and could not enter."""
        before = None if self.position is None or self._line is None else self._line.obstacle()
        if before is not None:
            self.words.bells.ring(*before)

    def withdraw(self, word: Word) -> None:
        """Leave the line without the lock."""
        if self._descriptor < 0:
            return
        self._leave(word, tell_next=True)
        self._slot.clear()

    def release(self) -> None:
        """Give the lock back, and let the first that waits for it look; safe to do twice."""
        word = self._word
        if word is None or self._descriptor < 0:
            return
        behind, self._behind = self._behind, None
        self._word, self.token = None, None
        free = word.free if behind is None else word.free_both
        byte_lock.call(self._descriptor, byte_lock.SET, free)
        self._slot.clear()
        # After the lock is unlocked: see the argument above.
        if behind is not None:
            assert self._line is not None, "it came through it"
            first = self._line.first(likely=behind)
        elif byte_lock.blocked(self._descriptor, word.waiters_alone):
            first = self._first_waiter(word)
        else:
            first = None
        if first is not None:
            self.words.bells.ring(*first)
        elif self._line_is_long:
            self._line_is_long = False
            self.words.remove_line(word.line)

    def lend(self) -> tuple[int, ...]:
        """Return descriptors by which a child that inherits them keeps the lock if we are killed."""
        if self._lent < 0:
            self.is_reusable = False
            self._lent = self.words.make_lent_pipe(self._life)
            self._slot.lend()
        return (self._descriptor, self._lent)

    def close(self) -> None:
        """Free what it holds for good; safe to do twice.

        The descriptor itself is closed when the last reference to the seat is gone: another thread may
        be in the middle of a call, and must not use a number that is by then that of another file.
        """
        if self._is_closed or self._descriptor < 0:
            return
        self._is_closed = True
        self.is_reusable = False
        self._slot.clear()
        # Unlocked, not just closed: a child may have a copy.
        byte_lock.attempt(self._descriptor, _UNLOCK_ALL)
        if self._line is not None:
            self._line.leave(look_back=False)
        if self._lent >= 0:
            self.words.remove_lent_pipe(self._life)

    def close_line(self) -> None:
        """Close the line in which it waited last."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def abandon(self) -> None:
        """Close our descriptors without unlocking anything, as a forked child does."""
        descriptors, self._descriptor, self._lent = (self._descriptor, self._lent), -1, -1
        self.close_line()
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def _enter(self, word: Word, *, shared: bool, ahead: bool = False) -> int | None:
        """Lock the byte and draw a token; None if it is locked, or if the cell is for too long.

        One that comes through the line does not draw `ahead`: waiters see by the cell that it was there.
        """
        self._word = word
        try:
            byte_lock.call(self._descriptor, byte_lock.SET, word.shared if shared else word.alone)
        except (BlockingIOError, PermissionError):
            self._word = None
            return None
        words = self.words
        try:
            if not words.in_place():
                raise ReplacedError  # noqa: TRY301 - the lock is given back below
            token = words.tokens.draw(
                self._descriptor, word.cell, words.program, word.offset, ahead=ahead
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

    def _open_line(self, word: Word) -> Line:
        self.words.joined.add(word.line)
        self.close_line()
        with _no_fork:
            line = self._line = Line(self.words.lines, word.line)
        return line

    def _leave(self, word: Word, *, tell_next: bool) -> None:
        after = None if self._line is None else self._line.leave(look_back=tell_next)
        byte_lock.attempt(self._descriptor, word.waiters_free)
        if after is not None:
            self.words.bells.ring(*after)

    def _first_waiter(self, word: Word) -> Waiter | None:
        """Return the first in the line of a word in which we do not stand, if any waits."""
        line = self._line
        first = line.first() if line is not None and line.name == word.line else None
        # We have not waited, or the line was removed since.
        return first_in(self.words.lines, word.line) if first is None else first


def is_line(name: str) -> bool:
    """Return True if a file in the folder of lines can be one."""
    try:
        return len(name) == 16 and int(name, 16) >> WORD_BITS == 0
    except ValueError:
        return False


def open_words(folder: Folder, path: str) -> int:
    """Open the file, or create it for all users of the directory."""
    for _ in range(OPEN_TRIES):
        try:
            words = plain(os.open(WORDS, OPEN_WORDS, dir_fd=folder.descriptor), path)
        except FileNotFoundError:
            from coterie.engines.file.directory.legacy import take_over  # noqa: PLC0415 - seldom needed

            take_over(folder, os.path.dirname(path))
            _create(folder)
        else:
            folder.sharing.mend(words)
            return words
    raise ReplacedError


def _create(folder: Folder) -> None:
    """Create the file; it gets its name when it has its mode, so that no user finds it closed."""
    new = f"{WORDS}-{os.urandom(8).hex()}.new"
    os.close(folder.create(new, to_write=True))
    try:
        os.link(new, WORDS, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
    except FileExistsError:
        pass  # another process was faster
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # No links here. If another process has made the file meanwhile, it sees that it is replaced.
        folder.rename(new, WORDS)
    finally:
        folder.unlink(new)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_ino, found.st_dev


_UNLOCK_ALL = byte_lock.request(byte_lock.FREE, 0, 0)
_all_words: weakref.WeakSet[Words] = weakref.WeakSet()
# Held while a descriptor is opened and not yet remembered: a child that was forked just then would keep
# it, and the locks that it gets later, without knowing of it.
_no_fork = RLock()


def _leave_to_parent() -> None:
    """Close what a forked child has inherited: else the locks would outlive the parent in it."""
    _no_fork.release()
    for words in list(_all_words):
        words.abandon()


os.register_at_fork(
    before=_no_fork.acquire,
    after_in_parent=_no_fork.release,
    after_in_child=_leave_to_parent,
)
