"""The way to a lock directory, and how the directory is made: by descriptors, one step after the other.

A path names another place as soon as a user who owns a folder on it puts a link there. So what is made is
made in a folder that is open already, opened again without following links, looked at, and given its mode
by its descriptor. Links on the way are followed where they are root's or our own, and no others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from coterie.engines.file.directory.folder import FOLDER, OTHERS_WRITE, exchanged
from coterie.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CLOSED = 0o700  # the mode in which every folder is made; what others may do is added later
ON_THE_WAY = 0o755  # of folders above a lock directory
# Where a folder needs only be passed, as one that others may not list, a path is all that is opened of it.
PASS = (
    getattr(os, "O_PATH", os.O_RDONLY)
    | os.O_DIRECTORY
    | os.O_NOFOLLOW
    | os.O_NONBLOCK
    | os.O_CLOEXEC
)
LINKS_MAX = 40


def walk(path: str, *, make: bool = False) -> int:
    """Open the folder at an absolute path to be passed; `make` what is missing on the way."""
    steps = _steps(path)
    links = 0
    here = os.open("/", PASS)
    try:
        while steps:
            step = steps.pop()
            try:
                there = _open_or_make(step, here) if make else os.open(step, PASS, dir_fd=here)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR) or links == LINKS_MAX:
                    raise
                links += 1
                target = followed(step, here, path)
                steps += _steps(target)
                if not target.startswith("/"):
                    continue
                there = os.open("/", PASS)
            here, passed = there, here
            os.close(passed)
    except BaseException:
        os.close(here)
        raise
    return here


def followed(name: str, folder: int, path: str) -> str:
    """Return where a link leads; raise `Unavailable` if it is another user's, and `OSError` if it is none."""
    with contextlib.ExitStack() as stack:
        where, link = name, folder
        if hasattr(os, "O_PATH"):  # then what is looked at is what is read
            link = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            stack.callback(os.close, link)
            where = ""
            found = os.fstat(link)
        else:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISLNK(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if found.st_uid not in (0, os.geteuid()):
            raise Unavailable(
                f"{name} in the path of the lock directory {path} is a symbolic link of another user"
                f" (uid {found.st_uid}), which is not followed; remove it, or choose another"
                " directory by COTERIE_DIR or file:/path"
            )
        return os.readlink(where, dir_fd=link)


def make_private(path: str) -> None:
    """Make a directory for ourselves, and the folders above it that are missing."""
    parent, name = os.path.split(path)
    descriptor = walk(parent, make=True)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, CLOSED, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def make_shared(path: str, admit: Callable[[int], None], folders: Iterable[str]) -> None:
    """Make a directory with these folders, complete before it has its name; `admit` gives one its mode.

    All folders belong to the user who makes the directory: in one that is sticky no other user but root
    can remove what is in them.
    """
    above, name = os.path.split(path)
    parent = walk(above)
    try:
        _check_parent(os.fstat(parent), above, path)
        new = f".{name}.{os.urandom(8).hex()}"
        made = make_folder(new, parent)
        try:
            _fill(made, admit, folders)
            os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError as error:
            for folder in folders:
                with contextlib.suppress(OSError):
                    os.rmdir(folder, dir_fd=made)
            with contextlib.suppress(OSError):
                os.rmdir(new, dir_fd=parent)
            # Another process may have been faster.
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        finally:
            os.close(made)
    finally:
        os.close(parent)


def _fill(made: int, admit: Callable[[int], None], folders: Iterable[str]) -> None:
    for folder in folders:
        inner = make_folder(folder, made)
        try:
            admit(inner)
        finally:
            os.close(inner)
    admit(made)


def make_folder(name: str, parent: int, *, keeps_names: bool = False) -> int:
    """Make a folder that only we may use, and open it; raise `OSError` if another is in its place.

    Args:
        name: Of the folder.
        parent: Where it is made.
        keeps_names: No other user can put something else in the place of what we make in the parent.
    """
    os.mkdir(name, CLOSED, dir_fd=parent)
    descriptor = os.open(name, FOLDER, dir_fd=parent)
    if keeps_names:
        return descriptor  # other processes of ours may use it already
    found = os.fstat(descriptor)
    # Another user cannot move a folder into our parent that it may not write to. So what is ours, closed
    # and empty is the one that we have made, or as good as that.
    closed = not stat.S_IMODE(found.st_mode) & ~(CLOSED | stat.S_ISGID)
    if found.st_uid == os.geteuid() and closed and not os.listdir(descriptor):
        return descriptor
    os.close(descriptor)
    raise exchanged(name)


def _check_parent(found: os.stat_result, parent: str, path: str) -> None:
    """Refuse a parent in which another user could put something else in the place of what we make."""
    if found.st_uid not in (0, os.geteuid()):
        why = f"belongs to uid {found.st_uid}"
    elif found.st_mode & OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
        why = "can be written by other users and is not sticky"
    else:
        return
    raise Unavailable(
        f"the lock directory {path} is not there, and is not made for several users below {parent},"
        f" which {why}: let its owner make it (install -d -m 1777 {path}), or choose another by"
        " COTERIE_DIR or file:/path"
    )


def _open_or_make(step: str, here: int) -> int:
    try:
        return os.open(step, PASS, dir_fd=here)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(step, ON_THE_WAY, dir_fd=here)
        return os.open(step, PASS, dir_fd=here)


def _steps(path: str) -> list[str]:
    """Return the steps of a path, the last one first."""
    return [step for step in reversed(path.split("/")) if step and step != "."]
