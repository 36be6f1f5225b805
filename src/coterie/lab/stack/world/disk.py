"""The disk of a simulated machine: real files in a folder of its own, with what was synced noted.

A power loss cuts each file to what was synced and a random part of the rest, and each name in a
folder is the synced one or the latest. A killed process loses nothing that it has written: the
kernel has it. A sync that fails loses a part of what it should have written, as the kernel forgets
what it could not write: the next sync may succeed, and does not bring it back. On some file systems
that part is gone at once. On others it can still be read, and is gone after a power loss, with all
that was written behind it in the same file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from coterie.lab.stack.world.machine import Process

SYNC_SECONDS = 0.0002  # of a good disk, and twice that at most


class Disk:
    """One folder, in which the processes of one machine keep their files."""

    def __init__(self, folder: Path, random: Random) -> None:
        """Begin empty."""
        self.folder = folder
        self.is_full = False
        self.is_copy = False  # of what a disk was earlier, or of what another one is
        self.sync_seconds = SYNC_SECONDS
        self._random = random
        self._kept = folder.with_name(folder.name + "-synced")  # links to what names stood for
        self._sizes: dict[int, int] = {}  # synced, by inode
        self._doomed: dict[int, int] = {}  # by inode, from where on no sync reaches the disk
        self._names: dict[Path, dict[str, int]] = {}  # synced, by folder
        self._locks: dict[int, tuple[Process, IO[bytes]]] = {}  # by inode
        self._locked: list[IO[bytes]] = []  # ever, by processes that may have been killed since
        folder.mkdir(parents=True)
        self._kept.mkdir()

    def sync(self, process: Process, descriptor: int) -> None:
        """Take the time of a sync, and note what lasts now; raise `OSError` if the disk is full."""
        process.lag += self.draw_sync_seconds()
        self.finish_sync(process, descriptor)

    def draw_sync_seconds(self) -> float:
        """Return how long the next sync takes."""
        return self.sync_seconds * (1 + self._random.random())

    def finish_sync(self, process: Process, descriptor: int) -> None:
        """Note what lasts now; raise `OSError` if the disk is full."""
        if process.syncs_left is not None and process.is_alive:
            process.syncs_left -= 1
            if process.syncs_left < 0:
                if self._random.random() < 0.5:
                    self._note(descriptor)
                process.die_in_turn()
        if not process.is_alive:
            return
        if self.is_full:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                self._forget(descriptor)
            raise OSError(errno.ENOSPC, "No space left on device")
        self._note(descriptor)

    def _forget(self, descriptor: int) -> None:
        """Lose a part of what was to be synced: at once, or with the power."""
        if self._random.random() < 0.5:
            self._cut(Path(f"/proc/self/fd/{descriptor}").readlink())
        else:
            inode = os.fstat(descriptor).st_ino
            self._doomed.setdefault(inode, self._sizes.get(inode, 0))

    def _note(self, descriptor: int) -> None:
        about = os.fstat(descriptor)
        if not stat.S_ISDIR(about.st_mode):
            if not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
                self._doomed.pop(about.st_ino, None)  # it was written from its beginning
            lasting = self._doomed.get(about.st_ino, about.st_size)
            self._sizes[about.st_ino] = min(lasting, about.st_size)
            return
        folder = Path(f"/proc/self/fd/{descriptor}").readlink()
        names: dict[str, int] = {}
        for entry in os.scandir(folder):
            if entry.is_file():
                names[entry.name] = inode = entry.inode()
                link = self._kept / str(inode)
                if not link.exists():
                    os.link(entry.path, link)
        self._names[folder] = names
        self._drop_unused()

    def _drop_unused(self) -> None:
        used = {str(inode) for names in self._names.values() for inode in names.values()}
        for path in list(self._kept.iterdir()):
            if path.name not in used:
                path.unlink()

    def lose_power(self) -> None:
        """Keep what was synced, and of the rest what chance has it."""
        self._locks.clear()
        for root, _, files in sorted(os.walk(self.folder)):
            folder = Path(root)
            synced = self._names.get(folder, {})
            for name in sorted({*files, *synced}):
                self._settle_name(folder / name, synced.get(name))
            for path in sorted(folder.iterdir()):
                if path.is_file():
                    self._cut(path)

    def _settle_name(self, path: Path, synced: int | None) -> None:
        now = path.stat().st_ino if path.exists() else None
        if now == synced or self._random.random() < 0.5:
            return
        path.unlink(missing_ok=True)
        if synced is not None:
            os.link(self._kept / str(synced), path)

    def _cut(self, path: Path) -> None:
        about = path.stat()
        synced = min(self._sizes.get(about.st_ino, 0), about.st_size)
        os.truncate(path, self._random.randint(synced, about.st_size))

    def wipe(self) -> None:
        """Be a new disk, with nothing on it."""
        for folder in (self.folder, self._kept):
            shutil.rmtree(folder)
            folder.mkdir()
        self._sizes.clear()
        self._doomed.clear()
        self._names.clear()
        self._locks.clear()

    def move(self, folder: Path) -> None:
        """Be mounted in another place; no file may be open."""
        kept = folder.with_name(folder.name + "-synced")
        self.folder.rename(folder)
        self._kept.rename(kept)
        self._names = {
            folder / path.relative_to(self.folder): names for path, names in self._names.items()
        }
        self.folder, self._kept = folder, kept

    def copy_to(self, other: Disk) -> None:
        """Make an empty disk a copy of this one, as a snapshot is: with what was written, synced or not."""
        shutil.copytree(self.folder, other.folder, dirs_exist_ok=True)
        other.is_copy = True

    def freeze(self) -> Callable[[], None]:
        """Copy everything; the function returned puts it back as it was."""
        copy = self.folder.with_name(self.folder.name + "-frozen")
        shutil.copytree(self.folder, copy)

        inodes = {path: path.stat().st_ino for path in self.folder.rglob("*") if path.is_file()}

        def restore() -> None:
            shutil.rmtree(self.folder)
            copy.rename(self.folder)
            self._renumber({old: path.stat().st_ino for path, old in inodes.items()}, inodes)

        return restore

    def _renumber(self, new: dict[int, int], paths: dict[Path, int]) -> None:
        """Know copies of files by their new numbers."""
        for sizes in (self._sizes, self._doomed):
            sizes |= {new[old]: size for old, size in sizes.items() if old in new}
        for folder, names in self._names.items():
            self._names[folder] = {name: new.get(old, old) for name, old in names.items()}
        for path, old in paths.items():
            if (self._kept / str(old)).exists():
                os.link(path, self._kept / str(new[old]))

    # Locks of files, which are advisory and end with the file or its process

    def lock(self, process: Process, file: IO[bytes]) -> None:
        """Lock a file, or raise `BlockingIOError` if it is locked."""
        inode = os.fstat(file.fileno()).st_ino
        if inode in self._locks:
            holder, locked = self._locks[inode]
            if holder.is_alive and not locked.closed:
                raise BlockingIOError(errno.EWOULDBLOCK, "Resource temporarily unavailable")
        self._locks[inode] = (process, file)
        self._locked.append(file)

    def close(self) -> None:
        """Close the files that killed processes had locked; to close one twice does no harm."""
        for file in self._locked:
            file.close()
