"""Audits of real stores: weak levels are caught, strong ones pass, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from coterie.cli import run
from coterie.lab.servers.child import ServerMissing
from coterie.lab.servers.etcd import EtcdSupplier
from coterie.lab.servers.postgresql import MISSING, PostgresqlServer
from tests.engines.conformance.suppliers import SUPPLIERS, leave_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from coterie.lab.servers.supplier import Supplier

BRIEF = ("--transactions", "100", "--for", "60s")


def audit(
    capsys: pytest.CaptureFixture[str], url: str, isolation: str, *options: str
) -> tuple[int, dict[str, Any]]:
    status = run(["audit", url, "--isolation", isolation, *BRIEF, "-o", "json", *options])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    return status, json.loads(captured.out)


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    if MISSING:
        leave_out(ServerMissing(MISSING))
    with PostgresqlServer() as server:
        yield server


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "audited.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma synchronous = off")
        connection.execute("create table other (x)")
    return path


def tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("select name from sqlite_master")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("isolation", "kept", "caught"),
    [
        ("read-committed", "read-committed", {"bank", "lost-update", "write-skew", "phantom"}),
        ("repeatable-read", "snapshot-isolation", {"write-skew", "phantom"}),
        ("serializable", "serializable", set()),
    ],
)
def test_postgresql_is_as_strong_as_it_says(
    postgresql: PostgresqlServer,
    capsys: pytest.CaptureFixture[str],
    isolation: str,
    kept: str,
    caught: set[str],
) -> None:
    status, facts = audit(capsys, postgresql.url(), isolation)
    assert status == (1 if caught else 0)
    assert facts["promises"] == kept
    assert facts["levels"][kept] is True
    found = {tally["workload"] for tally in facts["workloads"] if tally["anomalies"]}
    assert caught <= found
    assert found <= caught | ({"list-append"} if caught else set())
    assert all(tally["committed"] for tally in facts["workloads"])

    async def left() -> list[Any]:
        connection = await asyncpg.connect(postgresql.url())
        try:
            return list(
                await connection.fetch("select 1 from pg_class where relname like 'coterie_audit%'")
            )
        finally:
            await connection.close()

    assert asyncio.run(left()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("isolation", "status"), [("autocommit", 1), ("serializable", 0)])
def test_sqlite(
    database: Path, capsys: pytest.CaptureFixture[str], isolation: str, status: int
) -> None:
    assert audit(capsys, f"sqlite:///{database}", isolation)[0] == status
    assert tables(database) == ["other"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Supplier]]:
    folder = tmp_path_factory.mktemp("servers")
    try:
        with (
            SUPPLIERS["etcd"](folder / "etcd") as etcd,
            SUPPLIERS["valkey"](folder / "valkey") as valkey,
        ):
            yield {"etcd": etcd, "valkey": valkey}
    except ServerMissing as error:
        leave_out(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "isolation", "status"),
    [
        ("valkey", "plain", 1),
        ("valkey", "multi", 1),
        ("valkey", "watch", 0),
        ("etcd", "plain", 1),
        ("etcd", "txn", 1),
        ("etcd", "compare", 0),
    ],
)
def test_redis_and_etcd(
    servers: dict[str, Supplier],
    capsys: pytest.CaptureFixture[str],
    kind: str,
    isolation: str,
    status: int,
) -> None:
    server = servers[kind]
    assert audit(capsys, server.url(), isolation)[0] == status
    if isinstance(server, EtcdSupplier):
        everything = {"key": "AA==", "range_end": "AA==", "count_only": True}
        assert "count" not in server.call(0, "kv/range", everything)
    else:
        assert asyncio.run(_keys(server.port)) == []


async def _keys(port: int) -> list[bytes]:
    from redis import asyncio as client  # noqa: PLC0415 - an extra

    async with client.Redis(port=port) as connection:
        return [key async for key in connection.scan_iter()]


@pytest.mark.slow
def test_an_interrupt_removes_the_table(database: Path) -> None:
    url = f"sqlite:///{database}"
    program = "from coterie.cli import main; main()"
    command = [sys.executable, "-c", program, "audit", url, "--for", "60s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        end = time.monotonic() + 30
        while tables(database) == ["other"]:
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    assert tables(database) == ["other"]


def test_a_database_of_redis_has_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "redis://127.0.0.1:1/notanumber"]) == 64
    assert "redis://host:6379/0, got 'notanumber'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://127.0.0.1:1/none",
        "redis://127.0.0.1:1",
        "etcd://127.0.0.1:1",
        "sqlite:///nowhere.db",
    ],
)
def test_a_store_that_is_not_there_ends_with_69(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", url]) == 69
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
