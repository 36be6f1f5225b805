"""Locks on a PostgreSQL whose standby takes over, and behind a real PgBouncer."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.membership.ports import free_ports
from coterie.lab.servers.child import SystemServerMissing
from coterie.lab.servers.postgresql import MISSING, PASSWORD, UNPRIVILEGED, USER, PostgresqlServer
from tests.engines.conformance.suppliers import leave_out
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie import Held

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

LEASE = 2.0
PGBOUNCER = Path("/usr/sbin/pgbouncer")


@pytest.fixture
def primary() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as started:
        yield started


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as started:
        yield started


def url_of(*servers: PostgresqlServer) -> str:
    """Name several servers, of which one is the primary."""
    places = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return servers[0].url(LEASE).replace(f"127.0.0.1:{servers[0].port}", places)


async def get(c: coterie.Coordinator) -> Held:
    """Wait for a lock, also where no server is there for longer than a lease."""
    while True:
        with contextlib.suppress(coterie.Unavailable):
            held = await c.lock("x").acquire()
            assert held is not None
            return held


@pytest.mark.parametrize("hangs", [False, True])
def test_a_standby_takes_over_when_the_leases_are_over(
    primary: PostgresqlServer, *, hangs: bool
) -> None:
    """Whether the primary is killed, or hangs with all of its connections open."""

    @in_loop
    async def trial() -> None:
        url = url_of(primary, standby)
        async with coterie.connect(url) as ann, coterie.connect(url) as bob:
            held = await get(ann)
            waiting = asyncio.create_task(get(bob))
            while not await ann.waiters("x"):  # noqa: ASYNC110 - no events
                await asyncio.sleep(0.01)
            await asyncio.to_thread(primary.suspend if hangs else primary.kill)
            await asyncio.to_thread(standby.promote)
            got = await waiting
            assert not held.valid
            assert got.valid
            assert got.token > held.token
            with pytest.raises(coterie.LockLost):
                await held.release()
            waiting = asyncio.create_task(get(ann))
            await got.release()
            assert (await waiting).token > got.token

    with primary.standby() as standby:
        try:
            trial()
        finally:
            if hangs:
                primary.resume()


def test_a_standby_that_has_not_heard_of_any_lock_waits_for_the_leases_all_the_same(
    primary: PostgresqlServer,
) -> None:
    """Replication may lag: the table of runs, too, is not there yet."""

    @in_loop
    async def trial() -> None:
        async with coterie.connect(primary.url(LEASE)) as ann:
            held = await get(ann)
            await asyncio.to_thread(primary.suspend)
            await asyncio.to_thread(late.promote)
            async with coterie.connect(late.url(LEASE)) as bob:
                got = await get(bob)
                assert not held.valid
                assert got.token > held.token

    with primary.standby(primary_conninfo="") as late:
        try:
            trial()
        finally:
            primary.resume()


@contextlib.contextmanager
def pgbouncer(server: PostgresqlServer, folder: Path, mode: str) -> Iterator[int]:
    """Run a pooler before a server, and yield its port."""
    if not PGBOUNCER.exists():
        leave_out(SystemServerMissing(f"there is no {PGBOUNCER}: apt-get install pgbouncer"))
    (port,) = free_ports(1)
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": mode,
    }
    target = f"host=127.0.0.1 port={server.port} user={USER} password='{PASSWORD}'"
    lines = ["[databases]", f"postgres = {target}", "[pgbouncer]"]
    (folder / "pgbouncer.ini").write_text(
        "\n".join([*lines, *(f"{name} = {value}" for name, value in settings.items())])
    )
    with (folder / "log").open("wb") as log, (folder / "pgbouncer.ini").open("rb") as given:
        # It refuses to run as root, and another user cannot open files in a folder of ours.
        process = subprocess.Popen(
            [PGBOUNCER, "/dev/stdin"], stdin=given, stdout=log, stderr=log, user=UNPRIVILEGED
        )
    try:
        yield port
    finally:
        process.kill()
        process.wait()


async def attempt(url: str) -> str:
    """Take a lock as soon as something listens; return what was said against it."""
    try:
        async with coterie.connect(url) as c, c.lock("x"):
            return ""
    except coterie.Unavailable:
        await asyncio.sleep(0.05)
        return await attempt(url)
    except coterie.ConfigError as error:
        return str(error)


@pytest.mark.parametrize(
    ("mode", "answer"),
    [
        ("transaction", "a pooler in the way does not keep sessions"),
        ("statement", "a pooler in the way does not keep sessions"),
        ("session", ""),
    ],
)
def test_pgbouncer_is_refused_unless_it_keeps_sessions(
    server: PostgresqlServer, tmp_path: Path, mode: str, answer: str
) -> None:
    with pgbouncer(server, tmp_path, mode) as port:
        url = f"postgresql://{USER}@127.0.0.1:{port}/postgres?lease={LEASE:g}"
        said = asyncio.run(asyncio.wait_for(attempt(url), 20))
    assert answer in said
    assert bool(answer) is bool(said)
