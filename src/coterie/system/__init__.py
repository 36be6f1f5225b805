"""The system that this process runs on: its clocks, its randomness, its name and its disk.

Whatever is not decided by the code and its inputs comes from here, so that all of it can be replaced
together: a simulation moves each of its processes to a system of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import sys
import time
from pathlib import Path
from random import Random, SystemRandom
from typing import IO, TYPE_CHECKING, Protocol

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TIME_NAMESPACE = Path("/proc/self/ns/time")
TIME_OFFSETS = Path("/proc/self/timens_offsets")


class Syncer(Protocol):
    """Puts files on the disk, one at a time, while the event loop goes on."""

    def begin(self, descriptor: int, done: Callable[[OSError | None], None]) -> None:
        """Sync a file, which stays open until `done` has heard on the event loop how it went."""

    def wait(self) -> None:
        """Block until what is under way is over, and has been told."""

    def close(self) -> None:
        """Wait, and begin nothing any more."""


class LifeWatch(Protocol):
    """Tells of programs of this machine when they have ended."""

    def set(self, lives: Sequence[str]) -> None:
        """Watch these from now on, and no others; one that is not for us to judge is never told of."""

    def add(self, life: str) -> None:
        """Watch this one, too."""

    def remove(self, life: str) -> None:
        """Watch this one no more."""

    def close(self) -> None:
        """Watch nothing any more."""


class System(Protocol):
    """What a process asks of its surroundings."""

    random: Random
    """Draws what no other process can guess."""

    def now(self) -> float:
        """Return the seconds since some fixed instant, those in which the machine slept included.

        Leases are counted on it: a holder that slept through its lease must find it over.
        """

    def monotonic(self) -> float:
        """Return the seconds since some fixed instant, by the clock of timers."""

    def wall(self) -> float:
        """Return the time of day, in seconds since 1970."""

    def boot(self) -> str:
        """Return a name of this run of the machine, in which readings of `now` can be compared."""

    def pid(self) -> int:
        """Return the number of this process."""

    def life(self, children: Sequence[int] | None = ()) -> str:
        """Return a name of this process, and of children of it, by which others can see it end.

        None: only of where it is, as its children are not known yet. It is empty where no other
        process can see it end.
        """

    def is_near(self, life: str) -> bool:
        """Return whether a life is one whose end this process could see."""

    def watch(self, tell: Callable[[str], None]) -> LifeWatch:
        """Return what tells of each watched life when it has ended, in the event loop that runs now."""

    def host_name(self) -> str:
        """Return the name of the machine."""

    def sync(self, descriptor: int) -> None:
        """Put a file, or the names in a folder, on the disk."""

    def syncer(self) -> Syncer:
        """Return what puts files on the disk while the event loop goes on."""

    def lock(self, file: IO[bytes]) -> None:
        """Lock a file until it is closed; raise `BlockingIOError` if another process has."""


class RealSystem:
    """The one that there is."""

    def __init__(self) -> None:
        """Begin; the randomness is the kernel's, fit for secrets and not repeated after a fork."""
        self.random: Random = SystemRandom()
        # On Linux `time.monotonic` stands still while the machine sleeps.
        boottime = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
        # These three are read many times for each lock, so nothing stands before them.
        self.monotonic = time.monotonic
        self.pid = os.getpid
        self.now = (
            time.monotonic if boottime is None else functools.partial(time.clock_gettime, boottime)
        )

    def wall(self) -> float:
        """Return the time of day, in seconds since 1970."""
        return time.time()

    def boot(self) -> str:
        """Return a name of this run of the machine; it is empty where the system has none.

        Processes in different time namespaces have the same boot and different clocks. The number of
        a namespace may be used again for another one, so its offsets are part of the name; a kernel
        without such namespaces has neither.
        """
        try:
            parts = [BOOT_ID.read_text(encoding="ascii").strip()]
        except OSError:
            return ""
        with contextlib.suppress(OSError):
            parts.append(str(TIME_NAMESPACE.readlink()))
        with contextlib.suppress(OSError):
            parts += TIME_OFFSETS.read_text(encoding="ascii").split()
        return " ".join(parts)

    def life(self, children: Sequence[int] | None = ()) -> str:
        """Return a name of this process, and of children of it, by which others can see it end."""
        if sys.platform != "linux":
            return ""
        from coterie.system.witness import own_life, own_place  # noqa: PLC0415 - not for locks of this machine

        return own_place() if children is None else own_life(children)

    def is_near(self, life: str) -> bool:
        """Return whether a life is one that this process can look up."""
        from coterie.system import witness  # noqa: PLC0415 - not for locks of this machine

        return witness.is_near(life)

    def watch(self, tell: Callable[[str], None]) -> LifeWatch:
        """Return what tells of each watched life when it has ended."""
        from coterie.system import witness  # noqa: PLC0415 - not for locks of this machine

        return witness.Watch(tell)

    def host_name(self) -> str:
        """Return the name of the machine."""
        return socket.gethostname()

    def sync(self, descriptor: int) -> None:
        """Put a file, or the names in a folder, on the disk."""
        os.fsync(descriptor)

    def syncer(self) -> Syncer:
        """Return what puts files on the disk while the event loop goes on."""
        from coterie.system.file_syncer import FileSyncer  # noqa: PLC0415 - most programs need no event loop

        return FileSyncer()

    def lock(self, file: IO[bytes]) -> None:
        """Lock a file until it is closed; where there is no `flock`, do nothing."""
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


_here: System = RealSystem()


def move_to(system: System) -> System:
    """Let everything below ask another system from now on; return the one before."""
    global _here
    before, _here = _here, system
    return before


def now() -> float:
    """Return the seconds since some fixed instant, those in which the machine slept included."""
    return _here.now()


def monotonic() -> float:
    """Return the seconds since some fixed instant, by the clock of timers."""
    return _here.monotonic()


def wall() -> float:
    """Return the time of day, in seconds since 1970."""
    return _here.wall()


def boot() -> str:
    """Return a name of this run of the machine, in which readings of `now` can be compared.

    It is empty where the system has none.
    """
    return _here.boot()


def pid() -> int:
    """Return the number of this process."""
    return _here.pid()


def life(children: Sequence[int] | None = ()) -> str:
    """Return a name of this process, and of children of it, by which others can see it end.

    None: only of where it is, as its children are not known yet. It is empty where no other process
    can see it end.
    """
    return _here.life(children)


def is_near(life: str) -> bool:
    """Return whether a life is one whose end this process could see."""
    return _here.is_near(life)


def watch(tell: Callable[[str], None]) -> LifeWatch:
    """Return what tells of each watched life when it has ended, in the event loop that runs now."""
    return _here.watch(tell)


def host_name() -> str:
    """Return the name of the machine."""
    return _here.host_name()


def random() -> Random:
    """Return the source of all randomness."""
    return _here.random


def secret(count: int) -> bytes:
    """Return this many bytes that no other process can guess."""
    return _here.random.randbytes(count)


def sync(descriptor: int) -> None:
    """Put a file, or the names in a folder, on the disk."""
    _here.sync(descriptor)


def syncer() -> Syncer:
    """Return what puts files on the disk while the event loop goes on."""
    return _here.syncer()


def lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed; raise `BlockingIOError` if another process has."""
    _here.lock(file)
