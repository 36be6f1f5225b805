"""What a voter keeps on disk, the identity of that disk, and its memory over an orderly restart.

`bound` says that no token above it was ever handed out, and once the configuration has a number also
what was decided, promised and accepted. It is durable before what rests on it leaves: a new file is
written and synced, takes the name, and the directory is synced. A checksum tells a file that lost its
end from one that was written so: half a number would be a smaller one. `abstention` says for how long
to give no votes after a start, until `bound` says it as well: an earlier version reads a bound alone, and
a lease in the file of the cluster may have become shorter since votes were given. `identity` is drawn when the
directory is made: a node that comes back without it is another voter. `values` has the records that were appended
to `bound` since, as soon as there are values of locks. Once anything but a bound was
saved, the two belong together. `memory` is written by an orderly end and taken away before the next
start serves, so it is never used twice; it counts only in the run of the machine and the time
namespace that wrote it, whose clock its times are readings of.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import TYPE_CHECKING

import msgspec

from coterie import system
from coterie.algorithms.mutex.quorum.leased.register import Register
from coterie.algorithms.mutex.quorum.leased.saved import is_unnumbered
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.cluster.runtime.descriptors import Reserve
from coterie.cluster.runtime.durable import (
    LOCK,
    FolderLock,
    make_private,
    open_private,
    replace,
    sync_folder,
)
from coterie.cluster.voter.value_log import ValueLog
from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


OLD = "old"  # after the identity of a directory that was written before there were identities
DECIDED = "decided"  # the same, if what was saved says more than a bound
VOUCHED = (
    "vouched"  # the same, if an operator has vouched that nothing was lost with an earlier disk
)
MEMORY_VERSION = 3  # of the form and the meaning of a `Memory`; another one is not read


def _checksum(value: bytes) -> bytes:
    return b"%08x\n" % zlib.crc32(value)


class Memory(msgspec.Struct, frozen=True, array_like=True):
    """All that a voter knew when it ended in good order."""

    version: int
    boot: str
    configuration: str
    voter: Voter
    labels: dict[str, str]
    written_at: float  # by the clock of that run; one that shows less is another clock


class Storage:
    """A directory that belongs to one node."""

    def __init__(self, folder: Path) -> None:
        """Remember the directory; `open` takes it."""
        self._folder = folder
        self._bound = folder / "bound"
        self._abstention = folder / "abstention"
        self._memory = folder / "memory"
        self._identity = folder / "identity"
        self._log = ValueLog(folder / "values")
        self.identity = ""  # of this directory, when it is open
        self.is_old = False  # it was written before directories had identities
        self.is_vouched = (
            False  # no voter of this name has given a vote, nor has this directory since
        )
        self._is_decided = False  # it has a part in a decision, so its identity must not outlive it
        self._lock = FolderLock(folder, "node")
        self._reserve = Reserve()  # so that connections cannot keep a bound from being saved

    def open(self) -> None:
        """Make the directory, and make sure that no other process runs this node."""
        try:
            was_used = self._begin()
        except OSError as error:
            raise Unavailable(f"the data directory {self._folder}: {error.strerror}") from None
        self._lock.take()
        try:
            self._reserve.fill()
            # A start that was killed may have given a file its name, and not have synced the name. What
            # we read we go by: tokens up to a bound, a number that is served. So it has to last first.
            sync_folder(self._folder)
            self._read_identity(was_used=was_used)
        except OSError as error:
            self.close()
            raise Unavailable(f"the data directory {self._folder}: {error.strerror}") from None
        except BaseException:
            self.close()
            raise

    def _begin(self) -> bool:
        """Make the directory; return whether an earlier version may have used it, without identities.

        The file for the identity is there before the lock, though empty. So a start that was killed in
        between is not taken for one of an earlier version.
        """
        make_private(self._folder)
        if not (self._folder / LOCK).exists():
            os.close(open_private(self._identity, os.O_WRONLY | os.O_CREAT))
            sync_folder(self._folder)
        return not self._identity.exists() or self._bound.exists()

    def _read_identity(self, *, was_used: bool) -> None:
        """Take the identity of the directory, or draw one if it has none yet."""
        try:
            identity, *marks = self._identity.read_text(encoding="ascii").split() or [""]
        except (FileNotFoundError, UnicodeDecodeError):
            identity, marks = "", []
        self.identity, self._is_decided = identity, DECIDED in marks
        self.is_old, self.is_vouched = OLD in marks, VOUCHED in marks
        if not identity:
            self.is_old = was_used
            self.identity = system.secret(16).hex()
            self._write_identity()
        if self.is_vouched and self._bound.exists():
            self._end_vouch()
        if self._is_decided and not self._bound.exists():
            # It would vote as the voter that it was, without what that one has promised and given.
            raise ConfigError(
                f"{self._bound} is missing, so what this voter has promised is lost; move the"
                f" directory {self._folder} away, and coterie cluster replace makes the node a voter"
                " again"
            )

    def _write_identity(self) -> None:
        marks = {DECIDED: self._is_decided, OLD: self.is_old, VOUCHED: self.is_vouched}
        words = [self.identity, *(mark for mark, is_set in marks.items() if is_set)]
        replace(self._identity, " ".join(words).encode() + b"\n")

    def vouch(self) -> None:
        """Note for later starts that nothing was lost, and no vote given, before the first bound."""
        if self.is_vouched or self._bound.exists():
            return
        self.is_vouched = True
        try:
            self._write_identity()
        except OSError as error:
            raise Unavailable(f"the data directory {self._folder}: {error.strerror}") from None

    def _end_vouch(self) -> None:
        """Forget it once there is a bound: if that is lost later, votes may have been given."""
        self.is_vouched = False
        self._write_identity()

    def close(self) -> None:
        """Let another process have the directory."""
        self._log.close()
        self._reserve.empty()
        self._lock.release()

    def load(self) -> tuple[bytes, Sequence[bytes]]:
        """Return what was saved, empty if there is nothing, and what was appended to it since."""
        value = self._read(self._bound, "is damaged, so tokens that only grow cannot be promised")
        records = self._log.read(value)
        if is_unnumbered(value):
            value = b" ".join((value, self._read_abstention())).rstrip()
        return value, records

    def _read_abstention(self) -> bytes:
        problem = "is damaged, so it is unknown for how long votes of an earlier start count"
        return self._read(self._abstention, problem)

    def _read(self, path: Path, problem: str) -> bytes:
        """Return what a file says, empty if it is not there; raise `ConfigError` with the problem."""
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return b""
        value, _, checksum = content.rpartition(b" ")
        if not value or checksum != _checksum(value):
            raise ConfigError(
                f"{path} {problem}; move the directory {self._folder} away, and the node starts as"
                " with a new disk"
            )
        return value

    def save(self, value: bytes) -> None:
        """Make a value durable."""
        with self._reserve.lent():
            if is_unnumbered(value):
                value, _, abstention = value.partition(b" ")
                # Before the bound, as a vote may leave with that one. If it becomes shorter, no vote of
                # before counts any more (19.9), and the order does not matter.
                if abstention and abstention != self._read_abstention():
                    replace(self._abstention, abstention + b" " + _checksum(abstention))
            replace(self._bound, value + b" " + _checksum(value))
            self._log.restart(value)
            # In this order: a mark without a bound would keep a node from starting that has crashed
            # in between, though nothing rests yet on what it wanted to save. A vouch that ended before
            # there is a bound would leave a lone node without votes until an operator comes.
            if self.is_vouched:
                # sometimes: a vouch is over when a bound is saved
                self._end_vouch()
            if not self._is_decided and not is_unnumbered(value):
                self._is_decided, self.is_old = True, False
                self._write_identity()

    def append(self, records: Sequence[bytes]) -> None:
        """Write records of values, and of a bound among them; they last when they are synced."""
        with self._reserve.lent():
            self._log.append(records)

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Put on disk what was appended; `done` hears on the event loop how it went."""
        self._log.sync(done)

    def wait(self) -> None:
        """Block until a sync that is under way is over."""
        self._log.wait()

    def remember(self, configuration: str, voter: Voter, labels: dict[str, str]) -> None:
        """Keep what the voter knows for the next start."""
        with self._reserve.lent():
            # Values are on disk already, and a start reads them there.
            essence = msgspec.structs.replace(voter, register=Register())
            memory = Memory(
                MEMORY_VERSION, system.boot(), configuration, essence, labels, system.now()
            )
            if memory.boot:
                replace(self._memory, msgspec.msgpack.encode(memory))

    def recall(self, configuration: str) -> Memory | None:
        """Take away what the last orderly end has left, if it is of use here and now."""
        try:
            content = self._memory.read_bytes()
        except FileNotFoundError:
            return None
        self._memory.unlink()
        sync_folder(self._folder)
        with contextlib.suppress(msgspec.MsgspecError):
            memory = msgspec.msgpack.decode(content, type=Memory)
            is_comparable = memory.boot == system.boot() and memory.written_at <= system.now()
            is_ours = memory.version == MEMORY_VERSION and memory.configuration == configuration
            if is_comparable and is_ours:
                # sometimes: a voter finds what an orderly end has left
                return memory
        return None


class NoDisk:
    """Stands in for the directory of a node that has none: numbers rest on the time of day then."""

    def load(self) -> tuple[bytes, Sequence[bytes]]:
        """Return nothing: what an earlier start has saved is forgotten."""
        return b"", ()

    def save(self, bound: bytes) -> None:
        """Forget the bound."""

    def append(self, records: Sequence[bytes]) -> None:
        """Forget values: no cluster without data directories keeps any, but a frame may claim that ours does."""

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Say that all is where it can be."""
        done(None)

    def wait(self) -> None:
        """Return at once: nothing is on its way."""
