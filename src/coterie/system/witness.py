"""Witnesses of death: which processes a program consists of, and whether they are all gone.

A lease waits for a program that may be slow, cut off or gone, as no machine far away can tell which. A process
of the same kernel can: a program all of whose threads are gone executes nothing any more, so it neither
believes that it holds a lock nor sends.

`own_life` names a program in words that another process of the same kernel can look up. `is_dead` answers
True (proved), False (it lives, or may) or None (not for us to say), and only True may move a lock: each
doubt ends in one of the others, and then the lease decides. Linux only; elsewhere no
process can say.

What is no proof, and is never taken for one: the state Z of a process, whose other threads may go on when
its first one has ended; a missing entry in /proc, which `hidepid` hides from other users; silence; and
anything about a process of another kernel, pid namespace or time namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coterie import system

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

PROC = Path("/proc")
WITNESS_SECONDS = 2.0  # that one waits for a program whose connections are closed to be gone
PROCESSES_MAX = 8  # of one program
LIFE_LENGTH_MAX = 256
START = 22  # the field of /proc/PID/stat, counted from 1; the name before it may hold spaces


class ProcessStart(NamedTuple):
    """One process of a kernel. `exec` changes neither number nor start, whichever thread calls it."""

    pid: int
    start: int  # in ticks since boot, as readers of our time namespace see it


class Life(NamedTuple):
    """The processes of a program, which is dead when all of them are."""

    kernel: str  # of which run of which machine
    pid_space: int  # the namespace in which the numbers count
    time_offset: str  # of the time namespace, by which the starts are shifted for its readers
    processes: tuple[ProcessStart, ...]

    def __str__(self) -> str:
        """Write it for a record that other processes read."""
        processes = ",".join(f"{process.pid}:{process.start}" for process in self.processes)
        return f"{self.kernel} {self.pid_space} {self.time_offset} {processes}"


def read_life(text: str) -> Life | None:
    """Read what `own_life` has written; None if it is empty, or makes no sense here."""
    if len(text) > LIFE_LENGTH_MAX or not text.isascii():
        return None
    words = text.split(" ")
    if len(words) != 4:
        return None
    try:
        pairs = [pair.split(":") for pair in words[3].split(",")]
        processes = tuple(ProcessStart(int(pid), int(start)) for pid, start in pairs)
        life = Life(words[0], int(words[1]), words[2], processes)
    except ValueError:
        return None
    if len(processes) > PROCESSES_MAX or min(min(process) for process in processes) <= 0:
        return None  # a start of 0 was not readable
    return life


def own_life(children: Sequence[int] = ()) -> str:
    """Name this process and these children of it; empty where no other process could look it up.

    A child that goes on when its parent is killed belongs to the program. It has to be named before it
    does anything: a program that is known by fewer processes than it has is taken for dead too early.
    """
    try:
        kernel, pid_space, time_offset = _surroundings()
        pids = (os.getpid(), *children)
        processes = tuple(ProcessStart(pid, _start_of(pid)) for pid in pids)
    except (OSError, ValueError, IndexError):
        return ""
    text = str(Life(kernel, pid_space, time_offset, processes))
    return text if read_life(text) is not None else ""


def own_place() -> str:
    """Name only the machine of this process: for a program whose processes are not all known yet."""
    life = read_life(own_life())
    return "" if life is None else str(life._replace(processes=()))


def is_near(text: str) -> bool:
    """Return whether a life is one that this process can look up: of its kernel and namespaces."""
    life = read_life(text)
    if life is None or not hasattr(os, "pidfd_open"):
        return False
    try:
        return _surroundings() == life[:3]
    except (OSError, ValueError, IndexError):
        return False


def is_dead(text: str) -> bool | None:
    """Return True if all processes of a life are gone, False if not, None if we cannot know."""
    life = read_life(text)
    if life is None or not is_near(text):
        return None
    answers = set()
    for process in life.processes:
        dead, descriptor = _look(process)
        if descriptor >= 0:
            os.close(descriptor)
        answers.add(dead)
    if answers == {True}:
        return True
    return False if False in answers else None


class Watch:
    """Tells of each watched life when it has ended. To be used in the event loop that runs now."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Watch nothing yet; `tell` is called once for each life that is proved to have ended."""
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._watched: dict[str, int] = {}  # the descriptor of a process that still lives

    def set(self, lives: Sequence[str]) -> None:
        """Watch these from now on, and no others; one that is not for us to judge is never told of."""
        wanted = {*lives}
        for life in [life for life in self._watched if life not in wanted]:
            self._forget(life)
        for life in wanted:
            self.add(life)

    def add(self, life: str) -> None:
        """Watch this one, too."""
        if life not in self._watched and is_near(life):
            # In a turn of its own: who asks may be in the middle of something, and a life that is
            # over already is told of at once.
            self._watched[life] = -1
            self._loop.call_soon(self._go_on, life)

    def remove(self, life: str) -> None:
        """Watch this one no more."""
        if life in self._watched:
            self._forget(life)

    def close(self) -> None:
        """Watch nothing any more."""
        for life in list(self._watched):
            self._forget(life)

    def _go_on(self, text: str) -> None:
        """Wait for the next of its processes that lives; tell of it if none does."""
        if self._watched.get(text) != -1:
            return  # it was left meanwhile, or left and taken up again
        life = read_life(text)
        assert life is not None, "only a life that can be read is watched"
        for process in life.processes:
            dead, descriptor = _look(process)
            if dead:
                continue
            if dead is None or not self._await_end(text, descriptor):
                del self._watched[text]  # the lease has to decide
            return
        del self._watched[text]
        self._tell(text)

    def _await_end(self, life: str, descriptor: int) -> bool:
        try:
            self._loop.add_reader(descriptor, self._wake, life)
        except NotImplementedError:  # an event loop that is not of this machine
            os.close(descriptor)
            return False
        self._watched[life] = descriptor
        return True

    def _wake(self, life: str) -> None:
        """Look again at all of it: that the descriptor is readable is no answer for the others."""
        self._drop_descriptor(life)
        self._watched[life] = -1
        self._go_on(life)

    def _forget(self, life: str) -> None:
        self._drop_descriptor(life)
        del self._watched[life]

    def _drop_descriptor(self, life: str) -> None:
        descriptor = self._watched[life]
        if descriptor >= 0:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)


async def ends_of(lives: Sequence[str], seconds: float | None) -> AsyncIterator[str]:
    """Yield each of these lives when it has ended, for so long at most; None: until it has.

    It is over at once when none is left that this process can judge.
    """
    near = [life for life in dict.fromkeys(lives) if system.is_near(life)]
    ended: asyncio.Queue[str] = asyncio.Queue()
    watch = system.watch(ended.put_nowait)
    watch.set(near)
    due = None if seconds is None else asyncio.get_running_loop().time() + seconds
    try:
        for _ in near:
            async with asyncio.timeout_at(due):
                life = await ended.get()
            yield life
    except TimeoutError:
        pass
    finally:
        watch.close()


# What the kernel says


def _surroundings() -> tuple[str, int, str]:
    """Return what two processes must have in common to mean the same by a number and a start.

    Raise `OSError` or `ValueError` where /proc does not tell.
    """
    # What /proc shows depends on the namespace for which it was mounted. It has one number for us if
    # and only if that is the namespace in which our number counts.
    spaces = _field("self/status", "NSpid:").split()
    if spaces != [str(os.getpid())]:
        raise OSError(errno.ENOTSUP, "/proc belongs to another pid namespace")
    time_offset = "0"
    with contextlib.suppress(FileNotFoundError):  # a kernel without time namespaces
        # The offsets are those of our children, and the starts that we read are shifted by our own. The
        # two differ in a process that has made a namespace for its children.
        own = PROC / "self/ns/time"
        if own.readlink() != own.with_name("time_for_children").readlink():
            raise OSError(errno.ENOTSUP, "children of this process have another clock")
        time_offset = ".".join(_field("self/timens_offsets", "boottime").split())
    kernel = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return kernel, (PROC / "self/ns/pid").stat().st_ino, time_offset


def _field(path: str, name: str) -> str:
    """Return what stands behind a name at the beginning of a line."""
    for line in (PROC / path).read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(name):
            return line.removeprefix(name)
    raise ValueError(f"{path} has no {name}")


def _start_of(pid: int) -> int:
    """Return when a process began."""
    stat = (PROC / f"{pid}/stat").read_text(encoding="utf-8", errors="replace")
    # The second field is the name in parentheses, which may hold some itself.
    return int(stat.rpartition(")")[2].split()[START - 3])


def _look(process: ProcessStart) -> tuple[bool | None, int]:
    """Return whether a process of our surroundings is dead, and a descriptor of one that lives.

    The descriptor becomes readable when all of its threads are gone.
    """
    try:
        # It needs no rights to the process, and no entry in /proc that could be hidden from us.
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True, -1
    except OSError as error:
        # The number may be that of a thread by now; anything else is a lack of our own.
        if error.errno not in (errno.EINVAL, errno.ENOENT):
            return None, -1
        descriptor = -1
    dead = _judge(process, descriptor)
    if dead is not False and descriptor >= 0:
        os.close(descriptor)
        descriptor = -1
    return dead, descriptor


def _judge(process: ProcessStart, descriptor: int) -> bool | None:
    # The descriptor is older than this reading. So if the start is ours, the descriptor was opened for
    # our process and not for an earlier one of the same number, of which the start would be told.
    try:
        start = _start_of(process.pid)
    except (OSError, ValueError, IndexError):
        start = 0  # gone meanwhile, or hidden from us
    if start and start != process.start:
        return True  # the number was given to another, so ours is gone
    if descriptor < 0:
        return None
    # Readable when all threads are gone, also for a zombie that was not waited for, and not for one
    # whose first thread has ended while others go on.
    look = select.poll()  # `select` cannot look at large numbers of descriptors
    look.register(descriptor, select.POLLIN)
    if look.poll(0):
        return True
    return False if start else None  # it lives, and may be ours
