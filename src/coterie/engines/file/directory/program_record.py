"""The board of a program: what it holds and what it waits for, for others to read.

A board is a file of slots of fixed size, which its program has mapped: to write a slot costs no call to
the system. Each open descriptor of `words` has a slot. A slot is written *before* the byte of a lock is
taken and cleared after it is given back, so the holder of a locked byte has a slot at any time, and a
waiter knows whose end to watch for. Exclusion and order do not rest on boards, since a user may write
into its own whatever it likes.

A slot counts as long as its program lives, which keeps the first byte of its board locked; the slot of a
descriptor that was lent also as long as a child keeps the pipe open that goes with it. These locks are not
in `words`: the kernel looks through all locks of a file at each call, and so a program that holds nothing
costs the others nothing.

A slot has no room for the note of a hold. That is in another slot, which says that it is empty, and whose number the
first one has: so programs that know of no notes leave it aside.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
import time
from _thread import allocate_lock
from typing import TYPE_CHECKING, NamedTuple

from coterie.engines.file.directory import byte_lock
from coterie.engines.file.directory.folder import READ, exchanged
from coterie.engines.file.directory.pipes import lent, open_life
from coterie.engines.file.directory.tokens import TOKEN_MAX

if TYPE_CHECKING:
    from coterie.engines.file.directory.folder import Folder

EMPTY, ASKS, WAITS, HOLDS = range(4)
# Flags: in shared mode; a child may have inherited the descriptor; an operator has ended the hold, and that child is
# about to end.
SHARES, LENT, ENDS = 1, 2, 4
SLOT_BYTES = 512
PAGE_BYTES = max(4096, mmap.ALLOCATIONGRANULARITY)
BOARD_BYTES_MAX = 1 << 26
FOREIGN_BYTES_MAX = 1 << 24  # of the boards of one other user that are read in one look
MAGIC = b"coterie board 2\n"
EARLIER = (
    b"coterie board 1\n"  # of programs that lock a byte of `words` for each descriptor instead
)
# The state, flags, lengths of name and task, the number of the slot with the note (0: there is none), the lock, the token, the time, the owner, the request,
# the place in the queue, the life of the descriptor.
FIELDS = struct.Struct("<BBHHHQQdQQQQ")
NOTE_NUMBER, NOTE_NUMBER_OFFSET = struct.Struct("<H"), 6
NOTE_FIELDS = struct.Struct("<BxH")  # of the other slot: empty, the length of the note
NOTE_NUMBER_MAX = (1 << 16) - 1
NUMBER = struct.Struct("<Q")
TOKEN = 16  # where this field is
NAME, NAME_BYTES_MAX = FIELDS.size, 256
TASK = NAME + NAME_BYTES_MAX
MOMENT = struct.Struct("<d")
GRANTED = SLOT_BYTES - MOMENT.size  # when it got the lock; 0 where it did not have to wait
TASK_BYTES_MAX = GRANTED - TASK
LATEST = 253_402_300_799.0  # seconds since 1970: the end of the year 9999
LIFE_OFFSET = 1 << 61  # of the bytes that earlier programs lock in `words`
LIFE_BITS = 60
OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Slot:
    """One slot of our own board."""

    __slots__ = ("_life", "_map", "_note", "_noted", "_offset", "_texts", "_waits")

    def __init__(self, mapped: mmap.mmap, offset: int, life: int) -> None:
        """Use that part of the map; empty at first."""
        self._map = mapped
        self._offset = offset
        self._life = life
        self._texts = (b"", b"")
        self._waits = False  # or has waited; then the slot says when that ended
        self._note: NoteSlot | None = None  # made on first use: most holds have none
        self._noted = 0  # its number, as long as it counts
        mapped[offset] = EMPTY

    def annotate(self, note: bytes, board: Board) -> None:
        """Write a note, which counts until this slot is cleared."""
        if self._note is None:
            self._note = board.note()
        self._note.write(note)
        self._noted = self._note.number
        NOTE_NUMBER.pack_into(self._map, self._offset + NOTE_NUMBER_OFFSET, self._noted)

    def write(  # noqa: PLR0917 - on the way of every lock, where keywords cost
        self,
        state: int,
        flags: int,
        lock_offset: int,
        name: bytes,
        task: bytes,
        owner: int,
        request: int,
        position: int,
    ) -> None:
        """Write that we are about to take the byte of a lock, or wait at a place in its queue."""
        offset = self._offset
        if len(task) > TASK_BYTES_MAX:
            task = task[:TASK_BYTES_MAX]
        if self._texts != (name, task):
            self._texts = (name, task)
            self._map[offset + NAME : offset + NAME + len(name)] = name
            self._map[offset + TASK : offset + TASK + len(task)] = task
        if self._waits or state == WAITS:
            self._waits = state == WAITS
            MOMENT.pack_into(self._map, offset + GRANTED, 0.0)
        FIELDS.pack_into(
            self._map,
            offset,
            state,
            flags,
            len(name),
            len(task),
            self._noted,
            lock_offset,
            0,
            time.time(),
            owner,
            request,
            position,
            self._life,
        )

    def state(self, state: int) -> None:
        """Write what we do now: wait, or try to take the byte after having waited."""
        self._map[self._offset] = state

    def hold(self, token: int) -> None:
        """Write that we hold the lock."""
        if self._waits:
            MOMENT.pack_into(self._map, self._offset + GRANTED, time.time())
        NUMBER.pack_into(self._map, self._offset + TOKEN, token)
        self._map[self._offset] = HOLDS

    def lend(self) -> None:
        """Write that a child may keep the lock when we end."""
        self._map[self._offset + 1] |= LENT

    def end(self) -> None:
        """Write that the lock goes back as soon as the child has ended."""
        self._map[self._offset + 1] |= ENDS

    def clear(self) -> None:
        """Write that the slot says nothing."""
        self._map[self._offset] = EMPTY
        self._noted = 0


class NoteSlot:
    """A slot of our own board for the notes of another one."""

    __slots__ = ("_map", "_offset", "number")

    def __init__(self, mapped: mmap.mmap, offset: int, number: int) -> None:
        """Use that part of the map; beyond the highest number nothing is written."""
        self.number = number if number <= NOTE_NUMBER_MAX else 0
        self._map = mapped
        self._offset = offset

    def write(self, note: bytes) -> None:
        """Write a note in the place of the one before, which does not count any more."""
        start = self._offset + NOTE_FIELDS.size
        self._map[start : start + len(note)] = note
        NOTE_FIELDS.pack_into(self._map, self._offset, EMPTY, len(note))


class Board:
    """The board of this program; any thread may ask for a slot."""

    def __init__(self, boards: Folder, program: int, process: str, participant: str) -> None:
        """Make it; `process` is for people and `participant` for deadlock detection."""
        self._guard = allocate_lock()
        self._maps: list[mmap.mmap] = []
        self._used = 1  # the first slot is the header
        name = f"{program:016x}"
        self._descriptor = boards.create(name)
        self._life = -1
        try:
            # One more, for the lock alone: a map has a copy of its descriptor, which a forked child keeps.
            self._life = _open_again(name, boards, self._descriptor)
            byte_lock.call(self._life, byte_lock.SET, _LIVES)
            page, _ = self._find(0)
        except BaseException:
            self.close()
            boards.unlink(name)
            raise
        text = f"{process}\n{participant}\n".encode()[: SLOT_BYTES - len(MAGIC)]
        page[: len(MAGIC) + len(text)] = MAGIC + text

    def slot(self, life: int) -> Slot:
        """Return a slot that is not used yet, for a descriptor of that life."""
        mapped, offset, _ = self._take()
        return Slot(mapped, offset, life)

    def note(self) -> NoteSlot:
        """Return a slot that is not used yet, for notes."""
        return NoteSlot(*self._take())

    def _take(self) -> tuple[mmap.mmap, int, int]:
        """Return the next slot: the map that it is in, where, and its number."""
        with self._guard:
            number = self._used
            mapped, offset = self._find(number * SLOT_BYTES)
            self._used += 1
        return mapped, offset, number

    def _find(self, offset: int) -> tuple[mmap.mmap, int]:
        """Return the map that has an offset of the file, and where: each is as long as all before."""
        number = (offset // PAGE_BYTES).bit_length()
        while len(self._maps) <= number:
            start = _start(len(self._maps))
            length = _start(len(self._maps) + 1) - start
            # Written, not just made longer: on a full disk this fails, and a store into the map would
            # end the program.
            os.pwrite(self._descriptor, bytes(length), start)
            self._maps.append(mmap.mmap(self._descriptor, length, offset=start))
        return self._maps[number], offset - _start(number)

    def close(self) -> None:
        """Close the file; the maps stay for the slots that have them. Safe to do twice."""
        descriptors, self._descriptor, self._life = (self._descriptor, self._life), -1, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)


def _start(number: int) -> int:
    return PAGE_BYTES << (number - 1) if number else 0


def _open_again(name: str, boards: Folder, descriptor: int) -> int:
    again = os.open(name, OPEN, dir_fd=boards.descriptor)
    if os.path.samestat(os.fstat(again), os.fstat(descriptor)):
        return again
    os.close(again)
    raise exchanged(name)


class BoardEntry(NamedTuple):
    """What a slot of a board says, and whose word that is."""

    state: int
    shared: bool
    lent: bool
    offset: int
    name: str
    token: int
    since: float  # when it asked
    granted: float  # when it got the lock after it had waited; 0: it did not wait, or does not say
    owner: int  # the number of a task or thread of its program
    task: str
    request: int  # not used again by its program
    position: int  # in the queue of its lock, while it waits
    life: int
    process: str
    participant: str
    program: int
    user: int  # the uid of the board's file, which its author cannot choose
    ends: bool  # an operator has ended the hold, and it goes back when a child has ended
    note: str = ""  # of the hold


def programs(boards: int) -> list[int]:
    """List the programs that have boards in an open folder."""
    found = []
    for name in os.listdir(boards):
        if len(name) == 16:
            try:
                found.append(int(name, 16))
            except ValueError:
                continue  # not ours
    return found


class ReadingLimit:
    """How much of the boards of each other user is read in one look: a user may write any number of any size."""

    def __init__(self, foreign_bytes_max: int = FOREIGN_BYTES_MAX) -> None:
        """Begin a look."""
        self._max = foreign_bytes_max
        self._read: dict[int, int] = {}  # bytes, by user
        self.left_out: dict[int, int] = {}  # boards, by user

    def permits(self, found: os.stat_result) -> bool:
        """Return whether to read a board, and count it."""
        if found.st_uid == os.geteuid():
            return found.st_size <= BOARD_BYTES_MAX
        size = self._read.get(found.st_uid, 0) + max(found.st_size, PAGE_BYTES)
        if size > self._max:
            self.left_out[found.st_uid] = self.left_out.get(found.st_uid, 0) + 1
            return False
        self._read[found.st_uid] = size
        return True


def read_board(
    boards: int, program: int, lock_file: int, limit: ReadingLimit | None = None
) -> list[BoardEntry]:
    """Read what the board of a program says now; nothing if it has none, or if the limit does not permit that.

    `lock_file` is a descriptor of the locks, of no handle, by which to see which slots of earlier programs count.
    """
    try:
        board = os.open(f"{program:016x}", READ, dir_fd=boards)
    except OSError:
        return []
    try:
        found = os.fstat(board)
        if not stat.S_ISREG(found.st_mode) or not (limit or ReadingLimit()).permits(found):
            return []
        size = found.st_size
        # What is being written while we read differs, and is left out: it is about to change.
        first, second = os.pread(board, size, 0), os.pread(board, size, 0)
        lives = byte_lock.blocked(board, _LIVES)
    except OSError:
        return []
    finally:
        os.close(board)
    process, participant = _header(first)
    entries = []
    for offset in range(SLOT_BYTES, len(first) - SLOT_BYTES + 1, SLOT_BYTES):
        slot = first[offset : offset + SLOT_BYTES]
        if slot[0] == EMPTY or slot != second[offset : offset + SLOT_BYTES]:
            continue
        entry = _entry(slot, process, participant, program, found.st_uid)
        if entry is None:
            continue
        if first.startswith(EARLIER):
            life = byte_lock.request(byte_lock.ALONE, LIFE_OFFSET + entry.life)
            counts = byte_lock.blocked(lock_file, life)
        else:
            counts = lives or (entry.lent and is_kept(boards, program, entry.life))
        if counts:
            note = _note(slot, first, second)
            entries.append(entry._replace(note=note) if note else entry)
    return entries


def is_kept(boards: int, program: int, life: int) -> bool:
    """Return True if a descriptor that was lent is open anywhere."""
    pipe = open_life(boards, lent(program, life))
    if pipe is None:
        return False
    os.close(pipe)
    return True


def _header(content: bytes) -> tuple[str, str]:
    queues = content[len(MAGIC) : SLOT_BYTES].split(b"\0")[0].decode("utf-8", "replace").split("\n")
    if not content.startswith((MAGIC, EARLIER)) or len(queues) < 2:
        return "unknown", ""
    from coterie.locks.legible import legible  # noqa: PLC0415 - who takes a free lock reads no board

    return legible(queues[0]), queues[1] if queues[1].isprintable() else ""


def _note(slot: bytes, first: bytes, second: bytes) -> str:
    """Read the note of a slot from two copies of its board; one that is being written is left out."""
    (number,) = NOTE_NUMBER.unpack_from(slot, NOTE_NUMBER_OFFSET)
    start = number * SLOT_BYTES
    note = first[start : start + SLOT_BYTES]
    if not number or len(note) < SLOT_BYTES or note != second[start : start + SLOT_BYTES]:
        return ""
    from coterie.locks.legible import legible  # noqa: PLC0415 - who takes a free lock reads no board

    _, length = NOTE_FIELDS.unpack_from(note)
    return legible(note[NOTE_FIELDS.size : NOTE_FIELDS.size + length].decode("utf-8", "replace"))


def _entry(
    slot: bytes, process: str, participant: str, program: int, user: int
) -> BoardEntry | None:
    """Read a slot; None if it makes no sense."""
    (
        state,
        flags,
        name_bytes,
        task_bytes,
        _,
        lock_offset,
        token,
        since,
        owner,
        request,
        position,
        life,
    ) = FIELDS.unpack_from(slot)
    if state > HOLDS or name_bytes > NAME_BYTES_MAX or task_bytes > SLOT_BYTES - TASK:
        return None
    if life >> LIFE_BITS or not 0 <= since <= LATEST or token > TOKEN_MAX:
        return None
    name = slot[NAME : NAME + name_bytes].decode("utf-8", "replace")
    if not name.isprintable():
        return None  # no lock is called like this
    from coterie.locks.legible import legible  # noqa: PLC0415 - as above

    (granted,) = MOMENT.unpack_from(slot, GRANTED)
    if state != HOLDS or task_bytes > TASK_BYTES_MAX or not since <= granted <= LATEST:
        granted = 0.0  # programs of earlier versions write the end of a long task there
    return BoardEntry(
        state=state,
        shared=bool(flags & SHARES),
        lent=bool(flags & LENT),
        offset=lock_offset,
        name=name,
        token=token,
        since=since,
        granted=granted,
        owner=owner,
        task=legible(slot[TASK : TASK + task_bytes].decode("utf-8", "replace")),
        request=request,
        position=position,
        life=life,
        process=process,
        participant=participant,
        program=program,
        user=user,
        ends=bool(flags & ENDS),
    )


_LIVES = byte_lock.request(byte_lock.ALONE, 0)
