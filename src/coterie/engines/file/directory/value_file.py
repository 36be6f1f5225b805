"""The file of a value: two slots that are written in turn, so one of them is whole whatever a crash has torn.

A file has a page with one byte that says whether a write is under way, then two slots. A slot has a checksum, and
counts only if that is right; of two that count the one with the larger version is the value. Who reads or writes
has the first byte of the file locked, so a write of another is seen whole or not at all.

Argument for a crash. A write goes into the slot that is *not* the value (which that is, is looked up, not counted), and
is synced before it is acknowledged. Whatever part of it has reached the disk, the other slot is whole. The entry of the
file in its folder is synced before the first slot is written, so what was acknowledged is found again.

Argument for what was read. A writer that is killed before its sync leaves a slot that others see and a power failure
may take back. The byte says so: one that finds it set syncs the file before it reads. After a power failure the
byte may say anything, and the slots are what the disk has: it costs a sync at most.

A value that is deleted is a record without data, written like any other; only then is the file removed, to save the
space. So a removal that a power failure takes back brings no value back.
"""

from __future__ import annotations

import hashlib
import os
import time
import weakref
from typing import TYPE_CHECKING

import msgspec

from coterie.engines.file.directory import byte_lock
from coterie.engines.file.directory.tokens import PAUSE_SECONDS, STUCK_AFTER_SECONDS, stuck
from coterie.errors import Unavailable
from coterie.locks.value import DATA_BYTES_MAX, ValueRecord

if TYPE_CHECKING:
    from coterie.engines.file.directory.folder import Folder

MAGIC = b"coterie value 1\n"
DIGEST_BYTES = 16
LENGTH_BYTES = 4
HEAD_BYTES = len(MAGIC) + DIGEST_BYTES + LENGTH_BYTES
PAGE_BYTES = 4096
RECORD_BYTES_MAX = (
    DATA_BYTES_MAX + PAGE_BYTES - HEAD_BYTES
)  # the name and the process have room beside the data
SLOT_BYTES = HEAD_BYTES + RECORD_BYTES_MAX
SLOTS = (PAGE_BYTES, PAGE_BYTES + SLOT_BYTES)  # where they begin
UNDER_WAY, SETTLED = b"\1", b"\0"
OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CREATE = OPEN | os.O_CREAT

sync = getattr(os, "fdatasync", os.fsync)  # the size of the file included, where it has changed


def pack(record: ValueRecord) -> bytes:
    """Return what a slot contains."""
    body = msgspec.msgpack.encode(record)
    assert len(body) <= RECORD_BYTES_MAX, "data, name and process have their limits"
    return MAGIC + _digest(body) + len(body).to_bytes(LENGTH_BYTES, "big") + body


def unpack(slot: bytes) -> ValueRecord | None:
    """Return what a slot says; None if it is empty, torn or damaged."""
    if len(slot) < HEAD_BYTES or not slot.startswith(MAGIC):
        return None
    length = int.from_bytes(slot[HEAD_BYTES - LENGTH_BYTES : HEAD_BYTES], "big")
    body = slot[HEAD_BYTES : HEAD_BYTES + length]
    if len(body) < length or slot[len(MAGIC) : HEAD_BYTES - LENGTH_BYTES] != _digest(body):
        return None
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError:
        return None


class ValueFile:
    """The file of one value, open and locked: no other program of this machine reads or writes it meanwhile."""

    def __init__(self, name: str, descriptor: int, folder: Folder, parent: Folder) -> None:
        """Use that descriptor, of a file in a folder in its parent; it is closed in the end."""
        self._name = name
        self._descriptor = descriptor
        self._folder = folder
        self._parent = parent
        _open_files.add(self)

    def lock(self, path: str) -> None:
        """Wait for the lock of the file; raise `Unavailable` if another program is stopped in the middle."""
        stuck_at = time.monotonic() + STUCK_AFTER_SECONDS
        while not byte_lock.attempt(self._descriptor, _LOCK):
            if time.monotonic() > stuck_at:
                raise Unavailable(stuck(path))
            time.sleep(PAUSE_SECONDS)

    def in_place(self) -> bool:
        """Return True if this is the file under its name: it may have been removed before we had the lock."""
        try:
            found = os.stat(self._name, dir_fd=self._folder.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._descriptor))

    def read(self) -> ValueRecord | None:
        """Return the record that counts, once it is durable; None if there is none."""
        if os.pread(self._descriptor, 1, 0) == UNDER_WAY:
            sync(self._descriptor)
            os.pwrite(self._descriptor, SETTLED, 0)
        return self._newest()[0]

    def is_damaged(self) -> bool:
        """Return True if no slot counts, and a crash in the first write is not why: both have been written."""
        return self._newest()[0] is None and bool(self._slot(SLOTS[1], len(MAGIC)).strip(b"\0"))

    def write(self, record: ValueRecord) -> None:
        """Write a record so that a crash leaves it or the one before; return when it is durable."""
        present, place = self._newest()
        if present is None:
            # The file may be new, and one that has made it may have been killed before this.
            os.fsync(self._folder.descriptor)
            os.fsync(self._parent.descriptor)
        os.pwrite(self._descriptor, UNDER_WAY, 0)
        try:
            self._write(pack(record), place)
            sync(self._descriptor)
        except OSError:
            # No reader must see what the disk has refused.
            os.pwrite(self._descriptor, bytes(len(MAGIC)), place)
            raise
        os.pwrite(self._descriptor, SETTLED, 0)

    def remove(self) -> None:
        """Remove the file, whose record says that the value was deleted."""
        self._folder.unlink(self._name)

    def close(self) -> None:
        """Unlock and close the file; a child that has been forked meanwhile has closed its copy."""
        _open_files.discard(self)
        byte_lock.attempt(self._descriptor, _UNLOCK)
        os.close(self._descriptor)

    def abandon(self) -> None:
        """Close the descriptor, as a forked child does: else the lock would last as long as the child."""
        os.close(self._descriptor)

    def _newest(self) -> tuple[ValueRecord | None, int]:
        """Return the record that counts, and where the next one is written."""
        records = [unpack(self._slot(place, SLOT_BYTES)) for place in SLOTS]
        first, second = records
        if first is None or (second is not None and second.version > first.version):
            return second, SLOTS[0]
        return first, SLOTS[1]

    def _write(self, content: bytes, place: int) -> None:
        while content:
            written = os.pwrite(
                self._descriptor, content, place
            )  # less than all if the disk is full
            content, place = content[written:], place + written

    def _slot(self, place: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, place)


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()


_decoder = msgspec.msgpack.Decoder(ValueRecord)
_LOCK = byte_lock.request(byte_lock.ALONE, 0)
_UNLOCK = byte_lock.request(byte_lock.FREE, 0)
_open_files: weakref.WeakSet[ValueFile] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Close the files that threads of the parent had open when it forked: the child has them, too."""
    for file in list(_open_files):
        file.abandon()


os.register_at_fork(after_in_child=_leave_to_parent)
