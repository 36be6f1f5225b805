"""The values of one user in a lock directory: a folder `values-UID` that is closed to all others.

In a directory that users share each has its own values, also of the same name: else what another user has written
there would be read, by root for instance, as the checkpoint of its own job.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from typing import TYPE_CHECKING

from coterie.engines.file.directory.folder import FOLDER, OTHERS_WRITE, Folder
from coterie.engines.file.directory.value_file import CREATE, OPEN, ValueFile
from coterie.engines.file.directory.way import make_folder
from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie.engines.file.directory.folder import Directory, Sharing
    from coterie.locks.value import ValueRecord

OPEN_TRIES = 100
NAME_BYTES = 16  # of a hash: no two names have the same


class ValueFolder:
    """Reads and writes values; each call waits for the disk, and any thread may make it."""

    def __init__(self, directory: Directory) -> None:
        """Use the folder of our user in that directory; it is made for the first value."""
        self._directory = directory

    def read(self, name: str) -> ValueRecord | None:
        """Return the record of a value; None if there is none."""
        return self._read(_file_name(name))

    def write(self, record: ValueRecord, permits: Callable[[], bool]) -> bool:
        """Write a record, or return False: it is late.

        Whether the hold `permits` it is asked while the file is locked. The next holder reads under the same
        lock, so it has either not read yet, or this hold has ended.
        """
        name = _file_name(record.name)
        with (
            self._opened(make=True) as (parent, folder),
            self._file(name, parent, folder, CREATE) as file,
        ):
            assert file is not None, "it is made"
            present = file.read()
            if not permits() or (present is not None and present.version >= record.version):
                return False
            self._refuse_damage(file, name)
            file.write(record)
            if record.data is None:
                file.remove()
            return True

    def all(self) -> list[ValueRecord]:
        """Return the records of all values."""
        try:
            with self._opened() as (_, folder):
                names = folder.names()
        except FileNotFoundError:
            return []
        records = [self._read(name) for name in sorted(names)]
        return [record for record in records if record is not None]

    def _read(self, name: str) -> ValueRecord | None:
        try:
            with self._opened() as (parent, folder), self._file(name, parent, folder, OPEN) as file:
                record = None if file is None else file.read()
                if file is not None and record is None:
                    self._refuse_damage(file, name)
                return record
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def _opened(self, *, make: bool = False) -> Iterator[tuple[Folder, Folder]]:
        """Open the directory and our folder in it."""
        with self._directory.open(make=make) as parent:
            self._check_directory(parent.sharing)
            name = f"values-{os.geteuid()}"
            try:
                descriptor = os.open(name, FOLDER, dir_fd=parent.descriptor)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.close(make_folder(name, parent.descriptor, keeps_names=True))
                descriptor = os.open(name, FOLDER, dir_fd=parent.descriptor)
            with Folder(descriptor) as folder:
                found = os.fstat(descriptor)
                if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                    raise Unavailable(
                        f"{self._directory.path}/{name} is not closed to other users (mode"
                        f" {stat.S_IMODE(found.st_mode):03o}, of uid {found.st_uid}), so no values are kept"
                        " there: see what is in it, and remove it"
                    )
                yield parent, folder

    def _check_directory(self, sharing: Sharing) -> None:
        """Raise `Unavailable` if another user can put an older folder in the place of ours."""
        if sharing.keeps_names:
            return
        if sharing.user in (0, os.geteuid()):
            why = "can be written by other users and is not sticky: chmod +t"
        else:
            why = f"belongs to uid {sharing.user}: let root take a lock there once"
        assert sharing.user not in (0, os.geteuid()) or sharing.mode & OTHERS_WRITE
        raise Unavailable(
            f"the lock directory {self._directory.path} keeps no values, for it {why}, or choose another"
            " by COTERIE_DIR or file:/path"
        )

    @contextlib.contextmanager
    def _file(
        self, name: str, parent: Folder, folder: Folder, flags: int
    ) -> Iterator[ValueFile | None]:
        """Open and lock the file of a value; None if there is none and it is not to be made."""
        path = f"{self._directory.path}/values-{os.geteuid()}/{name}"
        for _ in range(OPEN_TRIES):
            try:
                descriptor = os.open(name, flags, 0o600, dir_fd=folder.descriptor)
            except FileNotFoundError:
                yield None
                return
            with contextlib.closing(ValueFile(name, descriptor, folder, parent)) as file:
                file.lock(path)
                if file.in_place():
                    yield file
                    return
        raise OSError(errno.ESTALE, "it is removed again and again", path)

    def _refuse_damage(self, file: ValueFile, name: str) -> None:
        if file.is_damaged():
            raise ConfigError(
                f"{self._directory.path}/values-{os.geteuid()}/{name} is damaged, so the value of this lock is"
                " not known: remove the file if its programs can begin without a value"
            )


def _file_name(name: str) -> str:
    """Return the name of the file of a lock's value."""
    return hashlib.blake2b(name.encode(), digest_size=NAME_BYTES).hexdigest()
