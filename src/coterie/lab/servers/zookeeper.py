"""ZooKeeper, from the packages of the system: one server on a free port, with short ticks."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.cluster.membership.ports import free_ports
from coterie.lab.servers.child import SystemServerMissing
from coterie.lab.servers.supplier import CUTS, LEASED, REMEMBERS, RESTARTS, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

JARS = Path("/usr/share/java")
NEEDED = ("zookeeper.jar", "slf4j-nop.jar")
START_SECONDS_MAX = 90
TICK_MILLISECONDS = 200  # a session lasts from 2 ticks to 20


def missing() -> str:
    """Return why no server can be started here; nothing if one can."""
    if shutil.which("java") is None:
        return "there is no java"
    for name in NEEDED:
        if not (JARS / name).exists():
            return f"there is no {JARS / name}"
    return ""


class ZooKeeper:
    """One server, with its folder; `start` may be called again after `kill`."""

    lease = 2.0

    def __init__(self, folder: Path, *prefix: str) -> None:
        """Write its configuration into the folder."""
        self.folder = folder
        self._prefix = prefix  # of the command that starts it
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._configuration = folder / "zoo.cfg"
        self._configuration.write_text(
            f"tickTime={TICK_MILLISECONDS}\n"
            f"dataDir={folder}/data\n"
            f"clientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\n"
            "maxClientCnxns=0\n"
            "admin.enableServer=false\n"
            "4lw.commands.whitelist=srvr\n"
        )

    def url(self, port: int | None = None) -> str:
        """Name the server, or what stands before it at another port; with a short lease."""
        return f"zookeeper://127.0.0.1:{port or self.port}?lease={self.lease:g}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        classes = ":".join(str(JARS / name) for name in NEEDED)
        # A small server on few cores, whose machine does not fail: its log need not reach the disk.
        options = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        settings = ("-Dzookeeper.forceSync=no",)
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - of the system
                [
                    *self._prefix,
                    "java",
                    *options,
                    *settings,
                    "-cp",
                    classes,
                    main,
                    str(self._configuration),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while b"Mode:" not in self.command(b"srvr"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text(encoding="utf-8"))
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it without a warning; what it has on its disk stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def suspend(self) -> None:
        """Stop it, as a machine does that hangs."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run again."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def command(self, word: bytes) -> bytes:
        """Return the answer to one of its commands of four letters; nothing if there is none."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), 5) as line,
        ):
            line.sendall(word)
            return b"".join(iter(lambda: line.recv(65536), b""))
        return b""


@contextlib.contextmanager
def running_zookeeper(*prefix: str) -> Iterator[ZooKeeper]:
    """Run a server for the time of a block."""
    with tempfile.TemporaryDirectory(prefix="coterie-zookeeper-") as folder:
        server = ZooKeeper(Path(folder), *prefix)
        try:
            server.start()
            yield server
        finally:
            server.kill()


class ZooKeeperSupplier:
    """One server."""

    name = "zookeeper"
    lease = 2.0
    can = frozenset({LEASED, RESTARTS, CUTS, REMEMBERS, VALUES})

    def __init__(self, server: ZooKeeper) -> None:
        """Break this server."""
        self.port = server.port
        self.url = server.url
        self.kill = server.kill
        self.start = server.start
        self.suspend = server.suspend
        self.resume = server.resume


@contextlib.contextmanager
def zookeeper(_: Path, *prefix: str) -> Iterator[ZooKeeperSupplier]:
    """Run a server for the time of a block."""
    if reason := missing():
        raise SystemServerMissing(reason)
    with running_zookeeper(*prefix) as server:
        yield ZooKeeperSupplier(server)
