"""The lock directory: how it is opened, and shared by users who need not trust each other's files.

A directory that more than one user may write is a place where one can lay traps for another: a symbolic
link where a file is expected, a pipe that blocks the process that opens it, a file of the other that was
moved to a name of ours. So everything in it is reached through the descriptor of the open directory, one
name at a time and never through a link; what is opened is looked at before it is used; files are created
with `O_EXCL`, closed to all others, and opened by their descriptor to those who share the directory.

The mode of a folder says who these are. A file in a folder that others may write is used only if they may
write the file as well, or if it cannot be anything but ours: so no other
user makes us write, or open to others, what was closed to it.

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
from typing import TYPE_CHECKING, NamedTuple, Self

from coterie.errors import UsageError
from coterie.locks.url import without_password

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVATE, COMMON = 0o700, 0o1777  # the modes of a directory for one user, and for all
# The one directory that every user may write and that is emptied neither when the user logs out nor when
# the machine starts, for the tokens would begin again.
DEFAULT_FOLDER = "/var/tmp/coterie"  # noqa: S108 - what that takes is described above
OTHERS_WRITE = 0o022
BOARDS, LINES, WAITS = "boards", "lines", "waits"
CLOSED_FILE = 0o600  # the mode in which every file is made; what others may do is added later
WORKSHOP = ".new"
NOT_PLAIN = "is not a plain file: another program, or user, has put it there"
ADMISSION_TRIES, PAUSE_SECONDS = 50, 0.001
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe in the place of a file would stop the process that opens it.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Sharing(NamedTuple):
    """Which users may write a folder; the files in it are for the same ones."""

    mode: int
    user: int
    group: int

    @classmethod
    def of(cls, descriptor: int) -> Self:
        """Read it from an open folder, as it is now."""
        found = os.fstat(descriptor)
        return cls(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)

    @property
    def writers(self) -> int:
        """The write bits of those who are not the owner; 0 if the folder is not shared."""
        return self.mode & OTHERS_WRITE

    @property
    def is_for_all(self) -> bool:
        """Whether every user of the machine may write it."""
        return bool(self.writers & stat.S_IWOTH)

    @property
    def keeps_names(self) -> bool:
        """Whether no other user can put something else in the place of what we make in the folder."""
        return self.user in (0, os.geteuid()) and (
            not self.writers or bool(self.mode & stat.S_ISVTX)
        )

    def admit(self, descriptor: int, *, to_write: bool = False) -> None:
        """Let the users of the folder read a file or pipe that we made and that is still closed, or write it."""
        if self.writers:
            self._admit(descriptor, 0o600 | self.writers << 1 | (self.writers if to_write else 0))
        elif self.user != os.geteuid():
            # Only root is let into the folder of one user. What the user has to write belongs to the user
            # then. The rest stays root's: a file that is mapped must not be cut short by another.
            if to_write:
                os.fchown(descriptor, self.user, self.group)
            else:
                os.fchmod(descriptor, 0o644)

    def admit_to_folder(self, descriptor: int) -> None:
        """Let the users of the folder use one in it that we made and that is still closed."""
        if self.writers:
            self._admit(descriptor, self.mode)
        elif self.user != os.geteuid():
            os.fchown(descriptor, self.user, self.group)

    def admits(self, found: os.stat_result) -> bool:
        """Return whether all users of a shared folder may write a file in it."""
        if self.writers & ~found.st_mode:
            return False
        return bool(self.writers & stat.S_IWOTH) or found.st_gid == self.group

    def opens(self, found: os.stat_result) -> bool:
        """Return whether a file or pipe is open to the users of the folder for writing, or theirs."""
        return self.admits(found) if self.writers else found.st_uid == self.user

    def objection(self, found: os.stat_result, names: int | None = None) -> str:
        """Say why a file that its users write is not used; empty if nothing speaks against it.

        It has as many `names` as the system counts, if it is not given.

        In a shared folder any user may have moved any file to its place, also one that is not its own.
        But nothing that was closed to the users of the folder passes here.
        """
        if not stat.S_ISREG(found.st_mode):
            return NOT_PLAIN
        if (found.st_nlink if names is None else names) > 1:
            return "has a second name, which may be one of another user elsewhere"
        if self.writers:
            mode = stat.S_IMODE(found.st_mode)
            return "" if self.admits(found) else f"is closed to users of the directory ({mode:03o})"
        if found.st_uid != self.user:
            return f"belongs to uid {found.st_uid}, and the directory to uid {self.user}"
        return ""

    def _admit(self, descriptor: int, mode: int) -> None:
        if self.writers & stat.S_IWGRP and os.fstat(descriptor).st_gid != self.group:
            try:
                os.fchown(descriptor, -1, self.group)
            except PermissionError:  # we are not of that group
                if not self.writers & stat.S_IWOTH:
                    return  # it would be open to another group
        os.fchmod(descriptor, mode)


class Folder:
    """An open folder of a lock directory."""

    def __init__(self, descriptor: int) -> None:
        """Use that descriptor, and close it in the end."""
        self.descriptor = descriptor

    def __enter__(self) -> Self:
        """Return the folder, to be closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the folder."""
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)

    @property
    def sharing(self) -> Sharing:
        """Who may use it, now: the mode may change while a program has it open."""
        return Sharing.of(self.descriptor)

    def enter(self, name: str, *, make: bool = False) -> Folder:
        """Open a folder in this one; `make` it if there is none, and give an older one the mode of this one."""
        if not make:
            return Folder(os.open(name, FOLDER, dir_fd=self.descriptor))
        sharing = self.sharing
        descriptor = self._open_or_make(name, sharing)
        try:
            found = os.fstat(descriptor)
            if sharing.writers & ~found.st_mode:
                self._open_up(name, descriptor, found, sharing)
            elif not sharing.writers and found.st_mode & 0o077 and _is_ours(found, sharing):
                os.fchmod(descriptor, PRIVATE)
        except BaseException:
            os.close(descriptor)
            raise
        return Folder(descriptor)

    def _open_or_make(self, name: str, sharing: Sharing) -> int:
        for _ in range(ADMISSION_TRIES):
            try:
                return os.open(name, FOLDER, dir_fd=self.descriptor)
            except FileNotFoundError:
                _make(name, self.descriptor, sharing)
            except PermissionError:  # made by another user a moment ago, and not yet opened to us
                if not sharing.writers:
                    raise
                time.sleep(PAUSE_SECONDS)
        return os.open(name, FOLDER, dir_fd=self.descriptor)

    @staticmethod
    def _open_up(of: str, descriptor: int, found: os.stat_result, sharing: Sharing) -> None:
        """Admit the users to a folder that was made before its directory was shared.

        Up to now no other user could put anything into it, so what is in it is ours. But where others may
        move it, it may be any folder of ours. Where another user is just making the folder, wait a moment
        for its mode.
        """
        is_ours = found.st_uid == sharing.user == os.geteuid() and sharing.keeps_names
        if is_ours and not found.st_mode & OTHERS_WRITE and _holds_ours_alone(descriptor):
            for name in os.listdir(descriptor):
                with contextlib.suppress(OSError):
                    _admit_older(name, descriptor, of, sharing)
            sharing.admit_to_folder(descriptor)
            return
        for _ in range(ADMISSION_TRIES):
            if not sharing.writers & ~os.fstat(descriptor).st_mode:
                return
            time.sleep(PAUSE_SECONDS)

    def create(self, name: str, *, to_write: bool = False) -> int:
        """Create a file that must not exist yet, and open it for reading and writing."""
        descriptor = os.open(name, CREATE, CLOSED_FILE, dir_fd=self.descriptor)
        try:
            self.sharing.admit(descriptor, to_write=to_write)
        except BaseException:
            os.close(descriptor)
            self.unlink(name)
            raise
        return descriptor

    @contextlib.contextmanager
    def workshop(self, sharing: Sharing) -> Iterator[int]:
        """Give the folder in which to make what is opened again by its name: no other user can exchange it there.

        That is this one, or a new one in it that is closed to others; what was made is moved out of it.
        """
        if sharing.keeps_names:
            yield self.descriptor
            return
        from coterie.engines.file.directory.way import make_folder  # noqa: PLC0415 - seldom needed

        name = f"{os.urandom(8).hex()}{WORKSHOP}"
        descriptor = make_folder(name, self.descriptor)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=self.descriptor)

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


def exchanged(name: str) -> OSError:
    """Make the error for a name that leads no longer to what we have made under it."""
    return OSError(errno.ESTALE, "another user has put something else in its place", name)


def _leads_through_no_link(path: str, descriptor: int) -> bool:
    """Return whether a folder that was opened by its path has that very path; False where the system does not say."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == path
    except OSError:
        return False


def _make(name: str, parent: int, sharing: Sharing) -> None:
    """Make a folder, unless another process is faster.

    Not by renaming one that is complete: that would replace an empty one, which others have open.
    """
    from coterie.engines.file.directory.way import make_folder  # noqa: PLC0415 - seldom needed

    try:
        descriptor = make_folder(name, parent, keeps_names=sharing.keeps_names)
    except FileExistsError:
        return
    except OSError as error:
        # Another process of ours may have put something into it before we looked. It is opened, looked at
        # and admitted like one that was made earlier.
        if error.errno != errno.ESTALE or not sharing.writers:
            raise
        return
    try:
        sharing.admit_to_folder(descriptor)
    finally:
        os.close(descriptor)


def _holds_ours_alone(folder: int) -> bool:
    """Return whether all in a folder is called as programs call what they put there."""
    names = (name.partition(".") for name in os.listdir(folder))
    return all(
        not stem.removesuffix("-orders").strip("0123456789abcdef-")
        and kind in ("", "life", "bell", "order", "new")
        for stem, _, kind in names
    )


def _admit_older(name: str, folder: int, of: str, sharing: Sharing) -> None:
    """Admit the users to a file or pipe in one of our folders, by which of them it is in."""
    descriptor = os.open(name, READ, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISFIFO(found.st_mode)
        if is_plain and found.st_uid == os.geteuid() and found.st_nlink == 1:
            sharing.admit(descriptor, to_write=of == LINES or name.endswith("bell"))
    finally:
        os.close(descriptor)


def _is_ours(found: os.stat_result, sharing: Sharing) -> bool:
    """Return whether we may change the mode of what is in a directory of one user: as this one, or as root."""
    return found.st_uid == sharing.user and os.geteuid() in (0, sharing.user)


class Directory:
    """A lock directory, which may be removed and made again while we use it."""

    def __init__(self, path: str, mode: int = PRIVATE, *, of_machine: bool = False) -> None:
        """Use that path; if nothing is there, a directory of that mode is made.

        That `of_machine` is for all users, and should be root's.
        """
        self.path = path
        self.of_machine = of_machine
        self._sharing = Sharing(mode, os.geteuid(), os.getegid())

    def open(self, *, make: bool = False) -> Folder:
        """Open it as it is now; `make` it if there is none."""
        try:
            descriptor = self._open()
        except FileNotFoundError:
            if not make:
                raise
            self._make()
            descriptor = self._open()
        # If it is removed and we make it again, it is again for the users who had it.
        self._sharing = Sharing.of(descriptor)
        return Folder(descriptor)

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

    def owner_remark(self, sharing: Sharing) -> str:
        """Say that the directory of all users is one user's, unless it is root's or our own; else nothing."""
        if not self.of_machine or sharing.user in (0, os.geteuid()):
            return ""
        whose = f"the lock directory {self.path} belongs to uid {sharing.user}, who can take its locks away"
        if not sharing.is_for_all:
            return f"{whose}, and is closed to others: remove it when no lock is held, or choose another by COTERIE_DIR"
        return f"{whose}: let root take a lock once, which makes it root's, or choose another by COTERIE_DIR"

    def _open(self) -> int:
        try:
            descriptor = os.open(self.path, FOLDER)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
        else:
            if _leads_through_no_link(self.path, descriptor):
                return descriptor
            os.close(descriptor)
        from coterie.engines.file.directory.way import walk  # noqa: PLC0415 - seldom needed

        # The administrator and we ourselves may put the directory elsewhere, but no other user.
        passed = walk(self.path)
        try:
            return os.open(".", FOLDER, dir_fd=passed)
        finally:
            os.close(passed)

    def _make(self) -> None:
        from coterie.engines.file.directory.way import make_private, make_shared  # noqa: PLC0415 - seldom needed

        sharing = self._sharing
        if sharing.writers:
            make_shared(self.path, sharing.admit_to_folder, (BOARDS, LINES, WAITS))
        else:
            make_private(self.path)


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
    if path == DEFAULT_FOLDER:
        return Directory(path, COMMON, of_machine=True)
    return Directory(path)


def read_quietly(descriptor: int) -> int:
    """Let reads of an open file not note their time, which would be a write for each; return the descriptor.

    Only the owner of a file may; others read it as ever.
    """
    if hasattr(os, "O_NOATIME"):
        with contextlib.suppress(OSError):
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NOATIME)
    return descriptor
