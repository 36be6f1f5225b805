"""Fencing tokens, which only grow: kept in cells of the file `words`.

A lock draws its tokens from one of 65,536 cells, chosen by the hash of its name, under a byte lock of
the cell. Locks that share a cell draw from one sequence, so the tokens of each still only grow.

A program that takes a lock alone, again and again, draws several tokens at once: the cell gets the last
of them, and as long as it says the same, the program gives the next one without a lock of the cell.

Argument for that. What is written into a cell only grows, and it is at or above each token of those that wrote
it. Let H be the hold before ours, of the same lock, and E the end of the draw that its token came from. E was
written before H ended, and so before we look, since we hold the lock and look after that. If the
cell says what our last draw has written, E is below that draw, or it is that draw and our token is the next of
it. If it says anything else, ours is above all that it says, and so above E. Other locks of the same cell
may draw at any moment: they begin above what is ours.

The cells are not synced: after a power failure they may hold anything. So the header of the file says
in which boot of the kernel it was written, above which floor the tokens of this boot are, and how far
they are reserved; and a file `reserve` holds the end of the reservation, synced before any of these
tokens is given. In another boot the end of the reservation is the floor, and a cell counts only as far
as it says something between floor and reservation. Losing power skips the rest of a reservation;
killing a process at any point repeats nothing.

Where users share the directory each has a `reserve` of its own, `reserve-UID`, since none may replace a
file of another; the highest of them counts. Neither exclusion nor order rests on what others wrote here.
"""

from __future__ import annotations

import os
import stat
import struct
import time
from typing import TYPE_CHECKING

from coterie.engines.file.directory import byte_lock
from coterie.engines.file.directory.folder import READ
from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from coterie.engines.file.directory.folder import Folder

TOKEN_MAX = 2**53 - 1  # a token fits a double precision number
RESERVED_AT_ONCE = 1 << 20
BOOT_ID = "/proc/sys/kernel/random/boot_id"
MAGIC = b"coterie words 1\n"
HEADER = struct.Struct("<16s40sQQ")  # the magic, the boot, the floor, the end of the reservation
CELL = struct.Struct("<QQQ")  # the last token, and by which program for which lock it was drawn
CELLS, CELL_BYTES, FIRST_CELL = 1 << 16, 32, 4096
AHEAD_MAX = 64  # tokens that are drawn at once
DAMAGED = (
    "in the lock directory is damaged, so tokens might not grow;"
    " write into it a number above every token in use"
)
REMARKS_MAX = 3  # about files that any user can make
SPINS = 64
STUCK_AFTER_SECONDS = 10.0
PAUSE_SECONDS = 0.001


class TokenSource:
    """The tokens of one open file `words`; any thread may draw."""

    def __init__(self, descriptor: int, folder: Folder, path: str) -> None:
        """Read how far tokens are reserved, and reserve some if this boot has not done so."""
        self._folder = folder
        self._path = path
        self._boot = boot_name()
        self._floor = self._reserved = 0
        self.remarks: list[str] = []  # lines about what was left out
        self._lock_header(descriptor)
        try:
            # Where boots have no names, each opening might be the first one after a power failure.
            if not self._boot.strip() or not self._read(descriptor):
                self._floor = self._after_reserve()
                if self._floor >= TOKEN_MAX:
                    raise self._exhausted(self._floor + 1)
                self._reserve(descriptor, self._floor + RESERVED_AT_ONCE)
        finally:
            byte_lock.attempt(descriptor, _UNLOCK_HEADER)

    def draw(
        self, descriptor: int, cell: TokenCell, program: int, lock: int, *, ahead: bool = False
    ) -> int | None:
        """Draw the next token of a cell; None if another process is at it for too long.

        The caller holds the lock, so its token is above those of all holders before it. One that draws
        `ahead` holds it alone, and may leave the cell as it is: see the argument above.
        """
        if ahead and (drawn := cell.drawn_ahead(descriptor)) is not None:
            return drawn
        try:
            byte_lock.call(descriptor, byte_lock.SET, cell.lock)
        except (BlockingIOError, PermissionError):
            if not _insist(descriptor, cell):
                return None
        try:
            content = os.pread(descriptor, CELL.size, cell.offset)
            last = CELL.unpack(content)[0] if len(content) == CELL.size else 0
            token = max(last, self._floor) + 1
            if token > self._reserved:
                token = self._beyond(descriptor, last)
            end = min(token + cell.ahead(content) - 1, self._reserved) if ahead else token
            written = CELL.pack(end, program, lock)
            os.pwrite(descriptor, written, cell.offset)
            if ahead:
                cell.keep(token + 1, end, written)
        finally:
            byte_lock.call(descriptor, byte_lock.SET, cell.unlock)
        return token

    def _beyond(self, descriptor: int, last: int) -> int:
        """Return the token after the last of a cell, reserving more unless another process has."""
        self._lock_header(descriptor)
        try:
            self._read(descriptor)
            # No process of this boot gives a token that is not reserved: such a cell is damaged.
            token = max(self._floor, last if last <= self._reserved else 0) + 1
            if token > TOKEN_MAX:
                raise self._exhausted(token)
            if token > self._reserved:
                self._reserve(descriptor, token + RESERVED_AT_ONCE)
            return token
        finally:
            byte_lock.attempt(descriptor, _UNLOCK_HEADER)

    def _lock_header(self, descriptor: int) -> None:
        stuck_at = time.monotonic() + STUCK_AFTER_SECONDS
        while not byte_lock.attempt(descriptor, _LOCK_HEADER):
            if time.monotonic() > stuck_at:
                raise Unavailable(stuck(self._path))
            time.sleep(PAUSE_SECONDS)

    def _read(self, descriptor: int) -> bool:
        """Read the header; return False if it is not of this boot."""
        content = os.pread(descriptor, HEADER.size, 0)
        if len(content) < HEADER.size:
            return False
        magic, boot, floor, reserved = HEADER.unpack(content)
        if magic != MAGIC or boot != self._boot or not floor <= reserved <= TOKEN_MAX:
            return False
        self._floor, self._reserved = floor, reserved
        return True

    def _reserve(self, descriptor: int, reserved: int) -> None:
        reserved = min(reserved, TOKEN_MAX)
        # Synced first: a token that is given is below what a power failure leaves.
        _save(self._folder, reserved)
        os.pwrite(descriptor, HEADER.pack(MAGIC, self._boot, self._floor, reserved), 0)
        self._reserved = reserved  # last: no token is given above what the header says

    def _after_reserve(self) -> int:
        """Return a number that is not below any token given before.

        The very first is the time in microseconds: if the directory is deleted, with a container for
        instance, later tokens are still larger unless the clock was set back.
        """
        sharing, now = self._folder.sharing, time.time_ns() // 1000
        ends, odd = [], []
        for name in filter(_is_reserve, self._folder.names()):
            end = _reserved(self._folder, name)
            if end is None and not sharing.writers:
                raise ConfigError(f"{name} {DAMAGED}")
            if end is None:
                # Any user can put nonsense there. The time stands in for it: honest tokens are below
                # that, unless a million were drawn in each second or the clock was set back.
                odd.append(name)
                end = now
            ends.append(end)
        self.remarks += [f"{name} {DAMAGED}; it is left out" for name in odd[:REMARKS_MAX]]
        if len(odd) > REMARKS_MAX:
            self.remarks.append(f"{len(odd)} such files are left out")
        return max(ends, default=now)

    def _exhausted(self, token: int) -> ConfigError:
        return ConfigError(
            f"the next token of {self._path} is {token}, above 2^53: a program or user has"
            " written there what coterie has not; stop all programs that use the directory"
            " and remove it"
        )


class TokenCell:
    """Where the tokens of a lock are, and those that are drawn ahead for it.

    Only the one that holds the lock alone draws ahead, so no two threads do at the same time.
    """

    __slots__ = ("_count", "_end", "_next", "_written", "lock", "offset", "unlock")

    def __init__(self, digest: int) -> None:
        """Choose the cell by a hash."""
        self.offset = FIRST_CELL + CELL_BYTES * (digest % CELLS)
        self.lock = byte_lock.request(byte_lock.ALONE, self.offset)
        self.unlock = byte_lock.request(byte_lock.FREE, self.offset)
        self._next, self._end = 1, 0
        self._count = 1  # that were drawn last
        self._written = b""  # into the cell, by our last draw

    def drawn_ahead(self, descriptor: int) -> int | None:
        """Return the next token that is drawn already; None if there is none, or another has drawn since."""
        token = self._next
        if token > self._end or os.pread(descriptor, CELL.size, self.offset) != self._written:
            return None
        self._next = token + 1
        return token

    def ahead(self, content: bytes) -> int:
        """Return how many to draw where the cell says this: more and more if no other has drawn since."""
        # Doubled, from one: so no more tokens are left out than are given.
        return min(2 * self._count, AHEAD_MAX) if content == self._written else 1

    def keep(self, following: int, end: int, written: bytes) -> None:
        """Keep what was drawn beyond the token that is given now."""
        self._count = end - following + 2
        self._next, self._end = following, end
        # Last: if this thread is interrupted, what the cell says is not taken for an earlier draw.
        self._written = written

    def read(self, descriptor: int) -> tuple[int, int, int]:
        """Return the last token, the program that drew it, and the lock for which it did."""
        content = os.pread(descriptor, CELL.size, self.offset)
        if len(content) < CELL.size:
            return 0, 0, 0
        token, program, lock = CELL.unpack(content)
        return token, program, lock


def _insist(descriptor: int, cell: TokenCell) -> bool:
    """Try again for a short time to lock a cell."""
    for _ in range(SPINS):
        os.sched_yield()
        if byte_lock.attempt(descriptor, cell.lock):
            return True
    return False


def stuck(path: str) -> str:
    """Say that a process was stopped where it should have been for microseconds only."""
    return (
        f"a byte of {path} has been locked for {STUCK_AFTER_SECONDS:g} s, where microseconds are"
        " usual; a process was stopped at the wrong moment, and `lslocks` shows which"
    )


def boot_name() -> bytes:
    """Name this run of the kernel; blank where it has no name, and then each opening reserves more."""
    try:
        descriptor = os.open(BOOT_ID, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b" " * 40
    try:
        return os.read(descriptor, 40).strip().ljust(40)
    finally:
        os.close(descriptor)


def _is_reserve(name: str) -> bool:
    user = name.removeprefix("reserve-")
    return name == "reserve" or (user != name and user.isascii() and user.isdecimal())


def _reserved(folder: Folder, name: str) -> int | None:
    """Read the end of a reservation; None if the file does not say one.

    Whose file it is does not matter: any user can write a number into its own.
    """
    try:
        descriptor = os.open(name, READ, dir_fd=folder.descriptor)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = os.read(descriptor, 100).strip()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    end = int(content) if content.isdigit() else 0
    return end if 0 < end <= TOKEN_MAX else None


def _save(folder: Folder, reserved: int) -> None:
    """Write the end of the reservation so that a power failure leaves the old or the new one."""
    sharing = folder.sharing
    name = f"reserve-{os.geteuid()}" if sharing.writers else "reserve"
    # A name that no other user can have taken before us.
    new = f"{name}-{os.urandom(8).hex()}.new"
    # The user of a private directory has to read what root leaves there; in a shared one each has its own.
    file = folder.create(new, to_write=not sharing.writers)
    try:
        os.write(file, f"{reserved}\n".encode())
        os.fsync(file)
        try:
            folder.rename(new, name)
        except (IsADirectoryError, PermissionError):
            if not sharing.writers:
                raise
            # Another user has taken our name; each number counts.
            folder.rename(new, f"{name}{int.from_bytes(os.urandom(4), 'big'):010}")
    except BaseException:
        folder.unlink(new)
        raise
    finally:
        os.close(file)
    os.fsync(folder.descriptor)


_LOCK_HEADER = byte_lock.request(byte_lock.ALONE, 0)
_UNLOCK_HEADER = byte_lock.request(byte_lock.FREE, 0)
