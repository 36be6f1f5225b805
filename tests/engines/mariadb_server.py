"""A MariaDB server of a test's own, from the system's packages, which are not to be started as a service."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.cluster.membership.ports import free_ports

if TYPE_CHECKING:
    from typing import Any, Self

USER, PASSWORD = "coterie", "correct horse"
START_SECONDS_MAX = 30
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"
PROGRAM, INSTALLER = (shutil.which(name, path=PATH) for name in ("mariadbd", "mariadb-install-db"))
MISSING = "" if PROGRAM and INSTALLER else "no mariadb-server-core, mariadb-client-core"
OPTIONS = {
    "bind-address": "127.0.0.1",
    "skip-name-resolve": "ON",
    "innodb-flush-method": "nosync",  # what a killed server has written is still there, as long as the machine runs
    "innodb-buffer-pool-size": "16M",
    "performance-schema": "OFF",
    "max-connections": "400",
}


class MariadbTestServer:
    """A server without databases, which can be killed and started again."""

    def __init__(self, *prefix: str, **options: str) -> None:
        self.port = free_ports(1)[0]
        self._prefix = prefix  # of the command that starts it
        self._options = OPTIONS | {name.replace("_", "-"): value for name, value in options.items()}
        self._folder = Path(tempfile.mkdtemp(prefix="coterie-mariadb-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._make()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def url(self, lease: float | None = None, *, port: int | None = None, user: str = USER) -> str:
        """Return the URL of the server, or of what stands before it at another port."""
        password = PASSWORD.replace(" ", "%20")
        query = "" if lease is None else f"?lease={lease:g}"
        return f"mariadb://{user}:{password}@127.0.0.1:{port or self.port}{query}"

    def start(self) -> None:
        """Start, and wait until it accepts connections."""
        options = self._options | {
            "datadir": f"{self._folder}/data",
            "socket": f"{self._folder}/socket",
            "pid-file": f"{self._folder}/pid",
            "init-file": f"{self._folder}/init.sql",
            "port": str(self.port),
        }
        command = [*self._prefix, str(PROGRAM), "--no-defaults", *self._as_user()]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *(f"--{name}={value}" for name, value in options.items())],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        end = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server without a word."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server in good order."""
        self._end(signal.SIGTERM)

    def suspend(self) -> None:
        """Stop the server for a moment, as a machine does that hangs."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def say(self, text: str, user: str = "root") -> list[tuple[Any, ...]]:
        """Carry out statements, and return the rows of the last one."""
        import pymysql  # noqa: PLC0415 - where it is not installed, other engines are tested all the same
        from pymysql.constants import CLIENT  # noqa: PLC0415 - as above

        connection = pymysql.connect(
            unix_socket=f"{self._folder}/socket",
            user=user,
            password="" if user == "root" else PASSWORD,
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(text)
            rows = list(cursor.fetchall())
            while cursor.nextset():
                rows = list(cursor.fetchall())
            return rows

    def end_connections(self) -> None:
        """End all connections of programs at the server's side."""
        self.say(f"kill user {USER}")

    def log(self) -> str:
        """Return what the server has said."""
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def remove(self) -> None:
        """Kill the server, and remove all that it has."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make(self) -> None:
        made = subprocess.run(
            [
                str(INSTALLER),
                "--no-defaults",
                *self._as_user(),
                f"--datadir={self._folder}/data",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--innodb-flush-method=nosync",
            ],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PATH": PATH},
        )
        assert made.returncode == 0, made.stdout + made.stderr
        (self._folder / "init.sql").write_text(
            f"create user if not exists {USER} identified by '{PASSWORD}';\n"
            f"grant select, insert, update, delete, create on coterie.* to {USER};\n",
            encoding="utf-8",
        )

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as line:  # the client leaves open what it cannot connect
            if line.connect_ex(f"{self._folder}/socket"):
                return False
        self.say("select 1")
        return True

    @staticmethod
    def _as_user() -> list[str]:
        return ["--user=root"] if os.geteuid() == 0 else []

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait()
