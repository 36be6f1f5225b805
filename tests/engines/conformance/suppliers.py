"""Where the locks of the suite come from: for each engine a server of its own, to be killed and restarted."""

from __future__ import annotations

import contextlib
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from coterie.lab.servers.child import ServerMissing, SystemServerMissing
from coterie.lab.servers.etcd import etcd, etcd3
from coterie.lab.servers.folder import file
from coterie.lab.servers.postgresql import postgresql
from coterie.lab.servers.supplier import (
    CUTS,
    FAILS_OVER,
    LEASED,
    REMEMBERS,
    RESTARTS,
    VALUES,
)
from coterie.lab.servers.valkey import valkey
from coterie.lab.servers.zookeeper import zookeeper
from tests.cluster.local_cluster import LEASE as CLUSTER_LEASE
from tests.cluster.local_cluster import processes
from tests.engines.mariadb_server import MISSING as MARIADB_MISSING
from tests.engines.mariadb_server import MariadbTestServer
from tests.engines.nats_server import MISSING as NATS_MISSING
from tests.engines.nats_server import NatsTestServer
from tests.engines.seaweedfs_server import MISSING as SEAWEEDFS_MISSING
from tests.engines.seaweedfs_server import SeaweedfsServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from coterie.lab.servers.supplier import Supplier

ENGINES = Path(__file__).parents[3] / ".venv" / "engines"


def leave_out(error: ServerMissing) -> NoReturn:
    """Skip tests for the lack of a server; fail where it has to be there.

    That is so for servers that come as wheels where their environment is there, and for all where
    COTERIE_TEST_ENGINES is `all`.
    """
    has_to_be = not isinstance(error, SystemServerMissing) and (ENGINES / "ready").exists()
    if has_to_be or os.environ.get("COTERIE_TEST_ENGINES") == "all":
        pytest.fail(str(error))
    pytest.skip(str(error))


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
        raise SystemServerMissing(MARIADB_MISSING)
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
        raise ServerMissing(NATS_MISSING)
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
        raise ServerMissing(SEAWEEDFS_MISSING)
    with SeaweedfsServer(*prefix) as server:
        server.begin()
        yield S3Supplier(server)


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
