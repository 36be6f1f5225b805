"""The world: one heap of what happens when, and everything that lives in it."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import heapq
import logging
import shutil
import struct
import sys
import tempfile
import warnings
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from coterie.lab.stack.world.encryption import write_certificates
from coterie.lab.stack.world.machine import Machine, Process, as_current
from coterie.lab.stack.world.network import Network
from coterie.lab.stack.world.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from types import TracebackType
    from typing import Self

    from coterie.lab.stack.world.network import Pipe, Socket

TURN_SECONDS = 20e-6  # at least, and three times that at most
LONG_TURN_SHARE = 0.001
LONG_TURN_SECONDS = 0.01
MEMORY = Path("/dev/shm")  # noqa: S108 - a disk that is simulated needs no real one
_STAMP = struct.Struct(">dIB")
_LENGTH = struct.Struct(">I")
_LOGGER = logging.getLogger("coterie")


def memory() -> Path:
    """Return a folder for files that are needed for a moment only."""
    return MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())


class ViolationError(Exception):
    """Something was promised and did not hold; the run ends here."""

    def __init__(self, name: str, text: str) -> None:
        """Name the promise, and say what happened."""
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


class World:
    """Everything of one run; use it in `with`, for it has files and processes that have to be closed."""

    def __init__(
        self, seed: int | str, *, traced: bool = False, folder: Path | None = None
    ) -> None:
        """Begin at time 0 with no machine; `folder` is where disks are, by default in memory."""
        self.seed = seed
        self.now = 0.0
        self.random = Random(f"{seed}/world")
        self.network = Network(self, Random(f"{seed}/network"))
        self.machines: dict[str, Machine] = {}
        self.has_witnesses = False  # whether processes of one machine see each other end
        self.shelf: list[
            Machine
        ] = []  # for disks that no machine has now: they are never switched on
        self.recorder = Recorder(traced=traced)
        self.turns = 0
        self.deliveries = 0
        self.errors: list[str] = []  # that nothing has caught
        self._digest = hashlib.blake2b(digest_size=16)
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._sequence = 0
        self._pids = 100
        self._numbers: dict[str, int] = {}  # of processes, by name
        self._graveyard: list[Process] = []
        self._place = folder or memory()
        self._folder: Path | None = None
        self._collected = True
        self._log_level = logging.NOTSET
        self._violation: ViolationError | None = None

    def __enter__(self) -> Self:
        """Make room for the disks."""
        self._folder = Path(tempfile.mkdtemp(prefix="coterie-stack-", dir=self._place))
        self._collected = gc.isenabled()
        gc.disable()  # what is collected when would depend on what ran before
        self._log_level = _LOGGER.level
        _LOGGER.setLevel(logging.CRITICAL + 1)  # simulated nodes complain a lot
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give everything back, and close what is left of the processes."""
        try:
            self._close_all()
        finally:
            _LOGGER.setLevel(self._log_level)
            if self._collected:
                gc.enable()
            assert self._folder is not None, "it was entered"
            shutil.rmtree(self._folder, ignore_errors=True)

    def certificates(self) -> dict[str, str]:
        """Write the certificates that all nodes and programs have, and say where they are."""
        assert self._folder is not None, "a world is used in `with`"
        return write_certificates(self._folder)

    # Time

    def at(self, time: float, callback: Callable[..., object], *arguments: Any) -> None:
        """Call back at that true time."""
        self._sequence += 1
        heapq.heappush(self._heap, (time, self._sequence, callback, arguments))

    def run(self, until: float, is_over: Callable[[], bool] | None = None) -> None:
        """Let everything happen that is due until then, or until it is over."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            time, _, callback, arguments = heapq.heappop(heap)
            if time > self.now:
                self.now = time
            callback(*arguments)
            if self._violation is not None:
                raise self._violation
            if is_over is not None and is_over():
                return
        self.now = max(self.now, until)

    def turn_cost(self) -> float:
        """Draw how long a turn takes, in which little was done."""
        self.turns += 1
        share = self.random.random()
        if share < LONG_TURN_SHARE:
            return LONG_TURN_SECONDS
        return TURN_SECONDS * (1 + 2 * share)

    # Machines and processes

    def machine(self, name: str, *, rate: float = 1.0, wall: float = 0.0) -> Machine:
        """Add a machine, with a clock of this rate that is off by `wall` seconds."""
        assert self._folder is not None, "a world is used in `with`"
        machine = self.machines[name] = Machine(self, name, self._folder / name, rate, wall)
        return machine

    def lay_aside(self, what: str) -> Machine:
        """Make a place with an empty disk, for one that is not in use."""
        assert self._folder is not None, "a world is used in `with`"
        name = f"shelf-{len(self.shelf)}-{what}"
        place = Machine(self, name, self._folder / name, 1.0, 0.0)
        place.is_up = False
        self.shelf.append(place)
        return place

    def give_back_disk(self, name: str) -> None:
        """Let a machine that is off have its own disk again, wherever that is; what it had goes there.

        The machine that has it is switched off.
        """
        machine = self.machines[name]
        others = [*self.machines.values(), *self.shelf]
        place = next(each for each in others if each.disk is machine.own_disk)
        if place is not machine:
            if place.is_up:
                place.power_off()
            machine.swap_disks(place)

    def start(
        self,
        machine: str,
        name: str,
        life: int,
        main: Callable[[Process], Coroutine[Any, Any, None]],
        on_end: Callable[[Process], None] | None = None,
    ) -> Process:
        """Start a process, for the `life`-th time under that name; hear when it ends by itself."""
        process = Process(self.machines[machine], name, life, on_end or _ignore)
        self.recorder.started(self.now, process.number)
        with as_current(process):
            process.run(main(process))
        return process

    def number_of(self, name: str) -> int:
        """Return the number by which traces know a process, the same in all its lives."""
        return self._numbers.setdefault(name, len(self._numbers) + 1)

    def names(self) -> list[str]:
        """List the names of all processes that ever were, by number."""
        return list(self._numbers)

    def next_pid(self) -> int:
        """Return a process id that no process has had."""
        self._pids += 1
        return self._pids

    # What happens

    def note_delivery(self, socket: Socket, data: bytes) -> None:
        """Take note of bytes that a process has read."""
        self.deliveries += 1
        connection = socket.connection
        side = connection.listener is socket
        self._digest.update(_STAMP.pack(self.now, connection.number, side))
        self._digest.update(data)
        if self.recorder.traced:
            self.recorder.delivered(self.now, connection, socket, data)

    def note_encrypted(self, socket: Socket, data: bytes) -> None:
        """Take note of bytes of TLS that a process has read: how many there are is all that a seed decides."""
        self.deliveries += 1
        connection = socket.connection
        side = connection.listener is socket
        self._digest.update(_STAMP.pack(self.now, connection.number, side))
        self._digest.update(_LENGTH.pack(len(data)))
        if self.recorder.traced:
            self.recorder.delivered(self.now, connection, socket, data)

    def note_plain_text(self, socket: Socket, data: bytes) -> None:
        """Take note of what a process has decrypted."""
        self._digest.update(data)
        if self.recorder.traced:
            self.recorder.decrypted(self.now, socket, data)

    def note_sending(self, pipe: Pipe, data: bytes) -> None:
        """Take note of bytes that leave."""
        if self.recorder.traced:
            self.recorder.sent(pipe.source.process.true_now(), pipe, data)

    def note_end(self, process: Process) -> None:
        """Take note that a process has ended by itself."""
        self.recorder.log(self.now, process.name, f"ends: {process.error or 'all done'}")

    def note_error(self, process: Process, context: dict[str, Any]) -> None:
        """Take note of an error that nothing has caught."""
        if process.is_alive:
            error = context.get("exception")
            text = f"{process.name}: {context.get('message')}: {error!r}"
            self.errors.append(text)
            self.recorder.log(self.now, process.name, text)

    def violate(self, name: str, text: str) -> None:
        """End the run when this turn is over, for a promise that did not hold."""
        if self._violation is None:
            self._violation = ViolationError(name, text)

    def raise_error(self) -> None:
        """Raise if there was an error that nothing has caught."""
        if self.errors:
            raise ViolationError("error", self.errors[0])

    def digest(self) -> str:
        """Return the hash of all that was delivered so far, and when."""
        return self._digest.copy().hexdigest()

    def bury(self, process: Process) -> None:
        """Keep a dead process until the end: if collected now, its `finally` blocks would run."""
        self.recorder.crashed(self.now, process.number)
        self._graveyard.append(process)

    def _close_all(self) -> None:
        """Close the coroutines that are left, in the name of a process that nothing listens to."""
        left = [*self._graveyard]
        for machine in self.machines.values():
            left += machine.living()
        self.recorder.traced = False
        for process in left:
            process.vanish()
        with warnings.catch_warnings(), _unheard():
            warnings.simplefilter("ignore")
            while left:
                left.pop().bury()
            self._graveyard.clear()
            for machine in [*self.machines.values(), *self.shelf]:
                machine.disk.close()
            self.machines.clear()
            self.shelf.clear()
            self._heap.clear()
            gc.collect()


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Ignore what `finally` blocks raise that find no event loop any more."""
    before = sys.unraisablehook
    sys.unraisablehook = _drop
    try:
        yield
    finally:
        sys.unraisablehook = before


def _drop(_: object) -> None:
    """Leave an error unsaid."""


def _ignore(process: Process) -> None:
    """Let a process end."""
