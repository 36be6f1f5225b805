"""The records that were appended to what a voter has saved, in a file beside it.

The file begins with the digest of the value that it goes on from. A value that is saved has all that was in the records
before, so a log that names another one is not read: nothing has to be removed together with the saving. A start
that finds records saves a value that has them, so they need not be brought to disk here once more.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from coterie import system
from coterie.cluster.runtime.durable import replace
from coterie.cluster.runtime.log_frames import framed, is_torn, open_log, unframed
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from io import FileIO
    from pathlib import Path

    from coterie.system import Syncer


def _digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=32).digest()


class ValueLog:
    """The file, which is made when there is something to append."""

    def __init__(self, path: Path) -> None:
        """Remember where it is."""
        self._path = path
        self._base = b""  # digest of the value that it goes on from
        self._file: FileIO | None = None
        self._syncer: Syncer | None = None

    def read(self, value: bytes) -> list[bytes]:
        """Return the records that go with a value, which is what was saved last."""
        self._base = _digest(value)
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return []
        frames, end = unframed(content)
        if not frames or frames[0] != self._base:
            return []
        if not is_torn(content, end):
            raise ConfigError(
                f"{self._path} is damaged at byte {end}, so values that were acknowledged may be lost; move the"
                f" directory {self._path.parent} away, and coterie cluster replace makes the node a voter again"
            )
        return [
            record
            for frame in frames[1:]
            for record in msgspec.msgpack.decode(frame, type=list[bytes])
        ]

    def restart(self, value: bytes) -> None:
        """Go on from a value that was saved: what was appended before is in it."""
        self._base = _digest(value)
        if self._file is not None:
            self._file.close()
            self._file = None

    def append(self, records: Sequence[bytes]) -> None:
        """Write records, all of them or none."""
        if self._file is None:
            replace(self._path, framed(self._base))
            self._file = open_log(self._path, "ab")
        frame = memoryview(framed(msgspec.msgpack.encode(list(records))))
        while frame:  # no buffer: what a full disk has not taken is not written later by a close
            frame = frame[self._file.write(frame) :]

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Put on disk what was appended; `done` hears on the event loop how it went."""
        assert self._file is not None, "something was appended"
        if self._syncer is None:
            self._syncer = system.syncer()
        self._syncer.begin(self._file.fileno(), done)

    def wait(self) -> None:
        """Block until a sync that is under way is over, and `done` has heard of it."""
        if self._syncer is not None:
            self._syncer.wait()

    def close(self) -> None:
        """Wait for a sync that is under way, and close the file."""
        if self._syncer is not None:
            self._syncer.close()
            self._syncer = None
        if self._file is not None:
            self._file.close()
            self._file = None
