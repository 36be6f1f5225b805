"""MariaDB, one server, with its own user-level locks: `get_lock`, which each client takes on its own connection."""

from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
from typing import TYPE_CHECKING, Any

from benchmarks.locks.machine import HOST, Server, free_ports, is_listening, wait_until
from benchmarks.locks.peers.base import Need, Peer

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM, INSTALLER = "/usr/sbin/mariadbd", "/usr/bin/mariadb-install-db"
USER = "bench"
FOREVER_SECONDS = 86400.0


class Mariadb(Peer):
    label = "MariaDB, get_lock, PyMySQL"
    servers_label = "1"
    on_disk = "nothing"
    needs = (
        Need("mariadb-server-core", program=PROGRAM),
        Need("mariadb-client-core", program="/usr/bin/my_print_defaults"),
        Need("pymysql", module="pymysql"),
    )
    is_blocking = True
    port: int

    def start(self, folder: Path) -> None:
        home = folder / "home"
        home.mkdir()
        user = ["--user=root"] if os.geteuid() == 0 else []
        subprocess.run(
            [INSTALLER, "--no-defaults", *user, f"--datadir={home}/data", "--skip-test-db"],
            cwd=home,
            check=True,
            capture_output=True,
        )
        (home / "init.sql").write_text(
            f"create user if not exists {USER}; grant all on coterie.* to {USER};\n".replace(
                "; ", ";\n"
            ),
            encoding="utf-8",
        )
        (self.port,) = free_ports(1)
        command = [PROGRAM, "--no-defaults", *user, f"--datadir={home}/data", f"--port={self.port}"]
        command += [f"--bind-address={HOST}", f"--socket={home}/socket", f"--pid-file={home}/pid"]
        command += [f"--init-file={home}/init.sql", "--skip-name-resolve", "--max-connections=400"]
        self.servers = [Server(command, home)]
        wait_until(lambda: is_listening(self.port), "MariaDB")

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        return {"port": self.port}

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> MariadbClient:
        library = importlib.import_module("pymysql")
        return MariadbClient(
            library.connect(
                host=HOST, port=settings["port"], user=USER, autocommit=True, ssl_disabled=True
            )
        )


class MariadbClient:
    def __init__(self, connection: Any) -> None:
        self._cursor = connection.cursor()

    def acquire(self, name: str, timeout: float | None) -> str:
        key = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()  # at most 64 characters
        if not self._ask("get_lock(%s, %s)", key, timeout or FOREVER_SECONDS):
            raise TimeoutError
        return key

    def release(self, held: str) -> None:
        if not self._ask("release_lock(%s)", held):
            raise RuntimeError("the lock was not held")

    def _ask(self, expression: str, *arguments: object) -> bool:
        self._cursor.execute(f"select {expression}", arguments)
        return bool(self._cursor.fetchone()[0])
