"""The log of a site on disk: a snapshot, and the records that were appended to it since.

The records of one write are a frame: its length, its checksum, then the records. A frame is synced
before anything leaves that rests on it, and before the next one is written. What a crash has torn is
the end of the file, and no message has spoken of it: it is cut off. Damage anywhere else is not repaired
but reported.

The last frame may also be whole and not on disk: its process was killed before the sync, or the sync
has failed. No message has spoken of it either, but a site that goes on from it does. So a start writes
the whole log to a new file before anything comes of it.

A snapshot is a new file that takes the name when it is complete. It names the log that goes with
it, so an old log is never played after a new snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie import system
from coterie.cluster.runtime.descriptors import Reserve
from coterie.cluster.runtime.durable import FolderLock, replace, sync_folder
from coterie.cluster.runtime.log_frames import framed, is_torn, open_log, unframed
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from io import FileIO
    from pathlib import Path


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """All that was there when the log with this number was begun."""

    number: int = 0
    value: bytes = b""


class StoreLog:
    """A directory that belongs to one site."""

    def __init__(self, folder: Path) -> None:
        """Take the directory, and read what is there."""
        self._folder = folder
        self._snapshot = folder / "snapshot"
        self._lock = FolderLock(folder, "site")
        self._lock.take()
        try:
            snapshot = self._read_snapshot()
            self._number = snapshot.number
            records, sound = self._read_log()
            self._loaded = snapshot.value, records
            self._file = self._renew(sound)
        except BaseException:
            self._lock.release()
            raise
        self._syncer = system.syncer()
        self._reserve = Reserve()  # so that connections cannot keep a snapshot from being saved
        self._reserve.fill()

    def belong_to(self, sites: Sequence[str]) -> None:
        """Make sure that the directory is of a store of just these sites; keys lie where they say."""
        path, names = self._folder / "sites", "\n".join(sites)
        if not path.exists():
            replace(path, names.encode())
        elif path.read_text(encoding="utf-8") != names:
            before = ", ".join(path.read_text(encoding="utf-8").split())
            raise ConfigError(
                f"{self._folder} is of a store over the sites {before}, in this order; with others"
                " its keys would be elsewhere"
            )

    def load(self) -> tuple[bytes, Sequence[bytes]]:
        """Return the snapshot and the records since, as they were read; once, as they may be large."""
        loaded, self._loaded = self._loaded, (b"", [])
        return loaded

    def append(self, records: Sequence[bytes]) -> None:
        """Write records, all of them or none; they last when they are synced."""
        frame = memoryview(framed(msgspec.msgpack.encode(list(records))))
        while frame:  # no buffer: what a full disk has not taken is not written later by a close
            frame = frame[self._file.write(frame) :]

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Put on disk what was appended; `done` hears on the event loop how it went."""
        self._syncer.begin(self._file.fileno(), done)

    def wait(self) -> None:
        """Block until a sync that is under way is over, and `done` has heard of it."""
        self._syncer.wait()

    def save(self, value: bytes) -> None:
        """Put a snapshot in the place of everything before; after an error it can be tried again."""
        old, number = self._path(self._number), self._number + 1
        content = framed(msgspec.msgpack.encode(Snapshot(number, value)))
        with self._reserve.lent():
            new = open_log(self._path(number), "wb")
            try:
                sync_folder(self._folder)  # the new log is there before the snapshot that names it
                replace(self._snapshot, content)
            except BaseException:
                # sometimes: a snapshot cannot be written
                new.close()
                raise
            self._file.close()
        self._file, self._number = new, number
        old.unlink()

    def close(self) -> None:
        """Let another process have the directory, after a sync that is under way."""
        self._syncer.close()
        self._reserve.empty()
        self._file.close()
        self._lock.release()

    def _path(self, number: int) -> Path:
        return self._folder / f"log.{number}"

    def _read_snapshot(self) -> Snapshot:
        try:
            content = self._snapshot.read_bytes()
        except FileNotFoundError:
            return Snapshot()
        frames, end = unframed(content)
        if len(frames) != 1 or end != len(content):
            raise _damaged(self._snapshot, end)
        return msgspec.msgpack.decode(frames[0], type=Snapshot)

    def _read_log(self) -> tuple[list[bytes], bytes]:
        """Return the records, and the complete frames with them."""
        path = self._path(self._number)
        content = path.read_bytes() if path.exists() else b""
        frames, end = unframed(content)
        if not is_torn(content, end):
            raise _damaged(path, end)
        records: list[bytes] = []
        for frame in frames:
            records += msgspec.msgpack.decode(frame, type=list[bytes])
        return records, content[:end]

    def _renew(self, sound: bytes) -> FileIO:
        """Put on disk what was read, and return the file that goes on from there."""
        path = self._path(self._number)
        # What can be read need not be on disk. The life before may have been killed before its sync,
        # or have ended because that failed: the record was not told then, but this life tells what it
        # has read, such as a decision, and a power loss would take it back. Nor is a sync of the
        # same file enough: one that fails may leave pages that can be read, pass for written, and are
        # left out by the next. A new file has no such pages. The folder is synced with it, so the
        # name of the snapshot lasts as well.
        replace(path, sound)
        for other in self._folder.glob("log.*"):
            # Of a snapshot that was replaced, or never completed. The one that was read is on disk
            # under its name by now, so a power loss brings no other back, whose log is needed.
            if other != path:
                # sometimes: a log of a snapshot that was never completed is left
                other.unlink(missing_ok=True)
        return open_log(path, "ab")


def _damaged(path: Path, place: int) -> ConfigError:
    return ConfigError(
        f"{path} is damaged at byte {place}: this site cannot know what it has promised; restore"
        " its directory from a copy, or the store without it"
    )
