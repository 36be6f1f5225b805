"""What a voter keeps of the values of locks, and how that lies on stable storage (21.2).

What is on stable storage is a snapshot and the records that were appended to it since. A snapshot has all
that a voter must not forget, values and the rest, since saving takes the place of everything before. As long as there
was never a value, each save is a snapshot without any, as it was before there were values.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import field

from coterie.algorithms.mutex.quorum.leased.saved import Saved
from coterie.algorithms.mutex.quorum.leased.stored import NOTHING, StoredValue
from coterie.errors import ConfigError

NAMES_MAX = 10_000
BYTES_MAX = 8 << 20  # a snapshot is written in one step
LOG_BYTES_MIN = 1 << 20  # of records, before a snapshot takes their place


class Entry(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The value of a name is this one from now on."""

    lock: str
    value: StoredValue


class Erasure(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The value of a name was deleted, and no voter has an earlier one that could come back."""

    lock: str


class Note(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """All but the values is this from now on."""

    saved: Saved


Record: TypeAlias = Entry | Erasure | Note
_decode = msgspec.msgpack.Decoder(Record).decode


class Register(msgspec.Struct, array_like=True):
    """The values at one voter."""

    values: dict[str, StoredValue] = field(default_factory=dict)  # deleted ones too
    size: int = 0  # bytes of all data
    logged: int = 0  # bytes of records that were appended since the last snapshot

    @property
    def is_used(self) -> bool:
        """Whether a save has to leave values and records as they are."""
        return bool(self.values or self.logged)

    @property
    def is_long(self) -> bool:
        """Whether it is time for a snapshot."""
        return self.logged > max(LOG_BYTES_MIN, 2 * self.size)

    def find(self, lock: str) -> StoredValue:
        """Return what is known of a name."""
        return self.values.get(lock, NOTHING)

    def objection(self, lock: str, value: StoredValue) -> str:
        """Say why there is no room for a value, or nothing; a deletion always fits where a value is."""
        before = self.values.get(lock)
        if before is None and len(self.values) >= NAMES_MAX:
            return f"a node keeps values of {NAMES_MAX} names at most"
        grown = value.size - self.find(lock).size
        if grown > 0 and self.size + grown > BYTES_MAX:
            return f"a node keeps values of {BYTES_MAX >> 20} MiB at most in all"
        return ""

    def keep(self, lock: str, value: StoredValue) -> bytes:
        """Keep a value in the place of an earlier one; return the record."""
        self._put(lock, value)
        return self.encode(Entry(lock, value))

    def erase(self, lock: str) -> bytes:
        """Forget a value that was deleted; return the record."""
        self._drop(lock)
        return self.encode(Erasure(lock))

    def encode(self, record: Record) -> bytes:
        """Return what is to be appended."""
        content = msgspec.msgpack.encode(record)
        self.logged += len(content)
        return content

    def restore(self, saved: Saved, log: tuple[bytes, ...]) -> Saved:
        """Take what is on stable storage; return the newest of all but the values."""
        self.clear()
        for lock, value in saved.values:
            self._put(lock, value)
        for content in log:
            try:
                record: Record = _decode(content)
            except msgspec.MsgspecError as error:
                raise ConfigError(f"what the voter has logged cannot be read: {error}") from None
            self.logged += len(content)
            match record:
                case Entry(lock, value):
                    self._put(lock, value)
                case Erasure(lock):
                    self._drop(lock)
                case Note(noted):
                    saved = noted
        return saved

    def snapshot(self, saved: Saved) -> Saved:
        """Return all that is to be saved; the records count no more."""
        self.logged = 0
        return msgspec.structs.replace(saved, values=tuple(sorted(self.values.items())))

    def clear(self) -> None:
        """Forget everything."""
        self.values.clear()
        self.size = self.logged = 0

    def doubt(self) -> None:
        """Mark all values: what voters had that were given up may have been later."""
        for lock, value in self.values.items():
            self.values[lock] = msgspec.structs.replace(value, doubtful=True)

    def _put(self, lock: str, value: StoredValue) -> None:
        self.size += value.size - self.find(lock).size
        self.values[lock] = value

    def _drop(self, lock: str) -> None:
        self.size -= self.find(lock).size
        self.values.pop(lock, None)
