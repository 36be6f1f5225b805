"""The lock directory: how it is made, opened, and shared by users who need not trust each other's files.

A directory that more than one user may write is a place where one can lay traps for another: a symbolic
link where a file is expected, a pipe that blocks the process that opens it, a file that only its owner can
open. So everything in it is reached through the descriptor of the open directory, one name at a time and
never through a link; what is opened is looked at before it is used; files are created with `O_EXCL`; and
what others have to open is given a mode that the umask of its creator does not take away.

`O_CREAT` is used for files that must not exist yet, and for nothing else: where `fs.protected_regular` is
set, it is refused for files of other users in a directory such as /tmp.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from typing import NamedTuple, Self

from coterie.errors import ConfigError, Unavailable, UsageError
from coterie.locks.url import without_password

PRIVATE, COMMON = 0o700, 0o1777  # the modes of a directory for one user, and for all
# The one directory that every user may write and that is emptied neither when the user logs out nor when
# the machine starts, for the tokens would begin again.
DEFAULT_FOLDER = "/var/tmp/coterie"  # noqa: S108 - what that takes is described above
BOARDS, LINES, WAITS = "boards", "lines", "waits"
ADMISSION_TRIES, PAUSE_SECONDS = 50, 0.001
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe in the place of a file would stop the process that opens it.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Sharing(NamedTuple):
    """Which users may write a lock directory; the files in it are for the same ones."""

    mode: int
    user: int
    group: int

    @property
    def writers(self) -> int:
        """The write bits of those who are not the owner; 0 if the directory is not shared."""
        return self.mode & 0o022

    def admit(self, descriptor: int, *, to_write: bool = False) -> None:
        """Let the users of the directory read a file that we created, or write it too."""
        self._admit(descriptor, 0o600 | self.writers << 1 | (self.writers if to_write else 0))

    def admit_to_folder(self, descriptor: int) -> None:
        """Let the users of the directory use a folder that we made."""
        self._admit(descriptor, self.mode)

    def mend(self, descriptor: int, *, folder: bool = False) -> None:
        """Admit the users to a file or folder that was made before the directory was shared."""
        if not self.writers:
            return
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid() and found.st_mode & self.writers != self.writers:
            if folder:
                self.admit_to_folder(descriptor)
            else:
                self.admit(descriptor, to_write=True)

    def _admit(self, descriptor: int, mode: int) -> None:
        if self.writers:
            if self.writers & stat.S_IWGRP and os.fstat(descriptor).st_gid != self.group:
                with contextlib.suppress(PermissionError):  # not of that group: others may write
                    os.fchown(descriptor, -1, self.group)
            os.fchmod(descriptor, mode)
        elif self.user != os.geteuid():
            # Only root is let into the directory of one user. It leaves there nothing that it owns, for
            # the user could not open it.
            with contextlib.suppress(PermissionError):
                os.fchown(descriptor, self.user, self.group)


class Folder:
    """An open folder of a lock directory."""

    def __init__(self, descriptor: int, sharing: Sharing) -> None:
        """Use that descriptor, and close it in the end."""
        self.descriptor = descriptor
        self.sharing = sharing

    def __enter__(self) -> Self:
        """Return the folder, to be closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the folder."""
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)

    def enter(self, name: str, *, make: bool = False) -> Folder:
        """Open a folder in this one; `make` it if there is none."""
        if not make:
            return Folder(os.open(name, FOLDER, dir_fd=self.descriptor), self.sharing)
        descriptor = self._open_or_make(name)
        self.sharing.mend(descriptor, folder=True)
        self._await_admission(descriptor)
        return Folder(descriptor, self.sharing)

    def _open_or_make(self, name: str) -> int:
        for _ in range(ADMISSION_TRIES):
            try:
                return os.open(name, FOLDER, dir_fd=self.descriptor)
            except FileNotFoundError:
                self._make(name)
            except PermissionError:  # made by another user a moment ago, and not yet opened to us
                if not self.sharing.writers:
                    raise
                time.sleep(PAUSE_SECONDS)
        return os.open(name, FOLDER, dir_fd=self.descriptor)

    def _make(self, name: str) -> None:
        """Make a folder, unless another process is faster.

        Not by renaming one that is complete: that would replace an empty one, which others have open.
        """
        try:
            os.mkdir(name, dir_fd=self.descriptor)
        except FileExistsError:
            return
        with Folder(os.open(name, FOLDER, dir_fd=self.descriptor), self.sharing) as made:
            self.sharing.admit_to_folder(made.descriptor)

    def _await_admission(self, descriptor: int) -> None:
        """Wait a moment for the user who is just making a folder to open it to the others."""
        for _ in range(ADMISSION_TRIES):
            found = os.fstat(descriptor)
            if found.st_uid == os.geteuid() or not self.sharing.writers & ~found.st_mode:
                return
            time.sleep(PAUSE_SECONDS)

    def create(self, name: str, *, to_write: bool = False) -> int:
        """Create a file that must not exist yet, and open it for reading and writing."""
        descriptor = os.open(name, CREATE, 0o666, dir_fd=self.descriptor)
        try:
            self.sharing.admit(descriptor, to_write=to_write)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def rename(self, name: str, new: str) -> None:
        """Give a file of this folder another name."""
        os.rename(name, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def unlink(self, name: str) -> None:
        """Remove a file of this folder if it is there and if we may."""
        # Another process may do so at the same time, or it may be of another user, or no file.
        with contextlib.suppress(FileNotFoundError, PermissionError, IsADirectoryError):
            os.unlink(name, dir_fd=self.descriptor)

    def names(self) -> list[str]:
        """List what is in this folder."""
        return os.listdir(self.descriptor)


class Directory:
    """A lock directory, which may be removed and made again while we use it."""

    def __init__(self, path: str, mode: int = PRIVATE) -> None:
        """Use that path; if nothing is there, a directory of that mode is made."""
        self.path = path
        self._mode = mode

    def open(self, *, make: bool = False) -> Folder:
        """Open it as it is now; `make` it if there is none."""
        try:
            descriptor = self._open()
        except FileNotFoundError:
            if not make:
                raise
            self._make()
            descriptor = self._open()
        found = os.fstat(descriptor)
        # If it is removed and we make it again, it is again for the users who had it.
        self._mode = stat.S_IMODE(found.st_mode)
        return Folder(descriptor, Sharing(self._mode, found.st_uid, found.st_gid))

    def complaint(self, error: OSError) -> str:
        """Describe an error in this directory, and how users share one if that is what is wrong."""
        name = error.filename
        where = f": {name}" if isinstance(name, str) and name != self.path else ""
        text = f"the lock directory {self.path}: {error.strerror}{where}"
        if not isinstance(error, PermissionError):
            return text
        return (
            f"{text}; to share it, let all its users write it (chmod 1777 {self.path}),"
            " or choose another by COTERIE_DIR or file:/path"
        )

    def _open(self) -> int:
        try:
            return os.open(self.path, FOLDER)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            link = os.lstat(self.path)
            if not stat.S_ISLNK(link.st_mode):
                raise
        # The administrator and we ourselves may put the directory elsewhere, but no other user.
        if link.st_uid not in (0, os.geteuid()):
            raise Unavailable(
                f"the lock directory {self.path} is a symbolic link of another user"
                f" (uid {link.st_uid}), which is not followed; remove it, or choose another"
                " directory by COTERIE_DIR or file:/path"
            )
        return os.open(self.path, FOLDER & ~os.O_NOFOLLOW)

    def _make(self) -> None:
        if not self._mode & 0o022:
            os.makedirs(self.path, self._mode, exist_ok=True)
            return
        parent, name = os.path.split(self.path)
        os.makedirs(parent, exist_ok=True)
        new = f"{parent}/.{name}.{os.urandom(8).hex()}"
        os.mkdir(new, PRIVATE)
        # All folders belong to the user who makes the directory: in one that is sticky no other user
        # but root can remove what is in them.
        for folder in (BOARDS, LINES, WAITS, ""):
            if folder:
                os.mkdir(f"{new}/{folder}")
            os.chmod(f"{new}/{folder}", self._mode)
        try:
            os.rename(new, self.path)  # complete, so that no user finds it half open
        except OSError:
            import shutil  # noqa: PLC0415 - seldom needed

            shutil.rmtree(new)
            if not os.path.exists(self.path):
                raise


def default_folder() -> str:
    """Return the directory of `file:`: COTERIE_DIR, or the one that all users of the machine share.

    A directory of each user would let the job of root and the shell of a person into one lock together.
    """
    chosen = os.environ.get("COTERIE_DIR")
    return os.path.abspath(chosen) if chosen else DEFAULT_FOLDER


def folder_of(url: str) -> str:
    """Return the path of the directory that a URL names: `file:`, or `file:/path`."""
    path = url.removeprefix("file:")
    if "%" in path:
        from urllib.parse import unquote  # noqa: PLC0415 - seldom needed

        path = unquote(path)
    if path.startswith("//"):
        path = path.removeprefix("//")
        if not path.startswith("/"):
            raise UsageError(
                f"{without_password(url)}: expected a directory of this machine, such as file:/var/lib/x"
            )
    return os.path.abspath(path) if path else default_folder()


def directory_at(path: str) -> Directory:
    """Use the directory at a path; that of all users is for all of them if it has to be made."""
    return Directory(path, COMMON if path == DEFAULT_FOLDER else PRIVATE)


def read_quietly(descriptor: int) -> int:
    """Let reads of an open file not note their time, which would be a write for each; return the descriptor.

    Only the owner of a file may; others read it as ever.
    """
    if hasattr(os, "O_NOATIME"):
        with contextlib.suppress(OSError):
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NOATIME)
    return descriptor


def plain(descriptor: int, path: str) -> int:
    """Return the descriptor if it is of a plain file; else close it and raise `ConfigError`."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise ConfigError(f"{path} is not a plain file: another program, or user, has put it there")
