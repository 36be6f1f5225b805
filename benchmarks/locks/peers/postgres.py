"""PostgreSQL, one server, with advisory locks of the session: each client has its own connection."""

from __future__ import annotations

import getpass
import hashlib
import importlib
import os
import pwd
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from benchmarks.locks.machine import HOST, Server, free_ports, wait_until
from benchmarks.locks.peers.base import Need, Peer
from benchmarks.locks.programs import find_postgresql

if TYPE_CHECKING:
    from pathlib import Path


def _unprivileged() -> str:
    """Name the user of the system's server, if there is one."""
    return next(
        (entry.pw_name for entry in pwd.getpwall() if entry.pw_name == "postgres"), "nobody"
    )


class Postgres(Peer):
    label = "PostgreSQL, advisory locks, asyncpg"
    servers_label = "1"
    on_disk = "nothing"
    needs = (
        Need("postgresql", program=find_postgresql("initdb")),
        Need("asyncpg", module="asyncpg"),
    )
    user: str
    port: int

    def start(self, folder: Path) -> None:
        self.user = "postgres" if os.geteuid() == 0 else getpass.getuser()
        user = _unprivileged() if os.geteuid() == 0 else None  # it refuses to run as root
        options: dict[str, Any] = {}
        home = folder / "home"
        home.mkdir()
        if user is not None:
            options = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
            shutil.chown(home, user)
        (self.port,) = free_ports(1)
        subprocess.run(
            [find_postgresql("initdb"), "-D", str(home / "data"), "-A", "trust", "-U", self.user],
            cwd=home,
            check=True,
            capture_output=True,
            **options,
        )
        command = [find_postgresql("postgres"), "-D", str(home / "data"), "-p", str(self.port)]
        command += ["-h", HOST, "-k", str(home), "-c", "max_connections=200"]
        self.servers = [Server(command, home, user=user, stop_signal=signal.SIGINT)]
        ready = [find_postgresql("pg_isready"), "-h", HOST, "-p", str(self.port)]
        wait_until(
            lambda: not subprocess.run(ready, capture_output=True, check=False).returncode, "it"
        )

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        return {"port": self.port, "user": self.user}

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> PostgresClient:
        library = importlib.import_module("asyncpg")
        return PostgresClient(
            await library.connect(
                host=HOST,
                port=settings["port"],
                user=settings["user"],
                database="postgres",
                ssl=False,
            )
        )


class PostgresClient:
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def acquire(self, name: str, timeout: float | None) -> int:  # noqa: ASYNC109 - as peers
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        key = int.from_bytes(digest, "big", signed=True)
        await self.connection.fetchval("SELECT pg_advisory_lock($1)", key, timeout=timeout)
        return key

    async def release(self, held: int) -> None:
        if not await self.connection.fetchval("SELECT pg_advisory_unlock($1)", held):
            raise RuntimeError("the lock was not held")
