"""How an operator ends a hold in a directory of this machine: by an order, whose rights the kernel knows."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from coterie import system
from coterie.engines.file.directory.folder import BOARDS, Directory, directory_at, folder_of
from coterie.engines.file.directory.orders import order_name, write_order
from coterie.engines.file.directory.pipes import LIFE, ORDERS, Bells, lent
from coterie.engines.file.parties import LockParties, parties_of, party, user_name
from coterie.errors import ConfigError, Unavailable
from coterie.locks.breaker import EndedHolds, FoundHold
from coterie.locks.engine import LockState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.engines.file.directory.folder import Folder
    from coterie.engines.file.directory.program_record import BoardEntry

ANSWER_SECONDS_MAX = 5.0
LOOK_SECONDS = 0.02
AGAIN_SECONDS = 0.5  # between two rings for the same order


def make_breaker(url: str) -> DirectoryBreaker:
    """Return what ends holds in the directory that a URL names."""
    return DirectoryBreaker(directory_at(folder_of(url)))


class DirectoryBreaker:
    """Ends holds in one directory; their programs write on their boards what has become of them."""

    def __init__(self, directory: Directory) -> None:
        """Remember the directory."""
        self._directory = directory

    async def find(self, lock: str) -> FoundHold:
        """Read the boards."""
        inside, waiting = self._parties(lock)
        state = LockState(lock, list(map(party, inside)), [], list(map(party, waiting)))
        return FoundHold(state, tuple(dict.fromkeys(f"{each.program:016x}" for each in inside)))

    async def end(self, found: FoundHold) -> EndedHolds:
        """Give an order to each program, and wait until its board says that it has obeyed."""
        held = self._held(found)
        if not held:
            return EndedHolds()
        try:
            with self._directory.open() as folder, folder.enter(BOARDS) as boards:
                owner = folder.sharing.user
                for entry in held:
                    self._check_right(entry, owner)
                left = await self._order(boards, found, {entry.program for entry in held})
                failed = tuple(dict.fromkeys(_kept(boards, entry) for entry in left))
        except OSError as error:
            raise Unavailable(self._directory.complaint(error)) from None
        deaf = {entry.program for entry in left}
        told = dict.fromkeys(party(entry).owner for entry in held if entry.program not in deaf)
        return EndedHolds(told=tuple(told), failed=failed)

    async def _order(
        self, boards: Folder, found: FoundHold, programs: Iterable[int]
    ) -> list[BoardEntry]:
        """Give the order, and return the holds of which no program says in time that they end."""
        lock, operator = found.state.name, f"{system.host_name()}:{os.getpid()}"
        numbers: dict[int, int] = {}
        bells = Bells(boards.descriptor)
        try:
            for program in programs:
                numbers[program] = write_order(boards, program, lock, found.token, operator)
            deadline = system.now() + ANSWER_SECONDS_MAX
            ring_at = system.now()
            while (left := self._unmoved(found)) and system.now() < deadline:
                if system.now() >= ring_at:
                    ring_at = system.now() + AGAIN_SECONDS
                    for program, number in numbers.items():
                        bells.ring(program, number, ORDERS)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            bells.close()
            for program, number in numbers.items():
                boards.unlink(order_name(program, number))
        return left

    def _held(self, found: FoundHold) -> list[BoardEntry]:
        """List the holds that were found, as far as they are still there."""
        return [
            entry
            for entry in self._parties(found.state.name).inside
            if f"{entry.program:016x}" in found.participants and entry.token <= found.token
        ]

    def _unmoved(self, found: FoundHold) -> list[BoardEntry]:
        """List those of them that are not about to end."""
        return [entry for entry in self._held(found) if not entry.ends]

    def _parties(self, lock: str) -> LockParties:
        try:
            return parties_of(self._directory, lock)
        except OSError as error:
            raise Unavailable(self._directory.complaint(error)) from None

    def _check_right(self, entry: BoardEntry, owner: int) -> None:
        """Raise `ConfigError` if the program would refuse the order."""
        if os.geteuid() not in (0, entry.user, owner):
            raise ConfigError(
                f"{party(entry).owner} holds lock {entry.name!r}: only {user_name(entry.user)}, root, and"
                f" {user_name(owner)}, who owns {self._directory.path}, can end that"
            )


def _kept(boards: Folder, entry: BoardEntry) -> str:
    """Say which processes have to be ended by hand."""
    found = _keepers(boards, entry)
    if found:
        way = f"kill -9 {' '.join(found)}"
    else:
        way = f"that is a program of {user_name(entry.user)}, of which no process can be seen from here"
    return f"{party(entry).owner} does not answer, and the lock is free when it ends: {way}"


def _keepers(boards: Folder, entry: BoardEntry) -> list[str]:
    """Find the processes that keep a lock, by what they have open; a board says what its user likes.

    A program can write its own board, and a child that keeps the lock has the pipe that goes with it. Its user
    could have a process of another user open that pipe, by the name of a bell: none of those is named.
    """
    names = [f"{entry.program:016x}"]
    if entry.lent:
        names.append(f"{lent(entry.program, entry.life)}.{LIFE}")
    kept = []
    for name in names:
        with contextlib.suppress(OSError):
            kept.append(os.stat(name, dir_fd=boards.descriptor, follow_symlinks=False))
    with contextlib.suppress(OSError):  # a system without /proc
        processes = [pid for pid in os.listdir("/proc") if pid.isdecimal()]
        return [pid for pid in processes if _belongs(pid, entry.user) and _writes(pid, kept)]
    return []


def _belongs(pid: str, user: int) -> bool:
    with contextlib.suppress(OSError):  # it has ended
        # Not by the owner of the folder: that is root where the process has changed its user.
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        return int(status.partition("\nUid:")[2].split()[0]) == user
    return False


def _writes(pid: str, files: Sequence[os.stat_result]) -> bool:
    """Return whether a process has one of these files open to write, as far as we may see that."""
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{number}")
                if any(os.path.samestat(found, file) for file in files):
                    info = Path(f"/proc/{pid}/fdinfo/{number}").read_text(encoding="ascii")
                    if int(info.partition("flags:")[2].split()[0], 8) & os.O_ACCMODE != os.O_RDONLY:
                        return True
    return False
