"""Servers that greet in the clear before TLS begins: whoever is on the way may have written the greeting."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.engines.nats.connection import NatsConnection
from coterie.engines.queue.url import parse_server_url
from tests.cluster.certificates import certificates
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from pathlib import Path

INFO = b'INFO {"server_id": "x", "version": "2.11.0", "headers": true, "tls_required": true}\r\n'
HALF = b"MSG x 1 100\r\nhalf of a message"  # of which what comes over TLS would be the rest


@in_loop
async def check(folder: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ours.pem", folder / "ours.key")
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO + HALF)
        await writer.start_tls(context)
        while line := await reader.readline():
            asked.append(line.split()[0])
            if asked[-1] == b"PING":
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"natss://127.0.0.1:{port}?ca={folder}/ours-ca.pem"
        connection = NatsConnection(parse_server_url(url, port=port, parameters=("ca",)), 5.0)
        await connection.connect()
        await connection.close()
    assert asked == [b"CONNECT", b"PING", b"SUB", b"PING"]


def test_nothing_that_came_in_the_clear_is_read_with_what_comes_over_tls(tmp_path: Path) -> None:
    certificates(tmp_path, "ours")
    check(tmp_path)


def test_no_client_is_used_that_goes_on_without_tls_where_a_greeting_offers_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pymysql = pytest.importorskip("pymysql")
    monkeypatch.setattr(pymysql, "VERSION", (1, 1, 3, "final", 1))
    with pytest.raises(coterie.ConfigError, match=r"TLS needs PyMySQL 1\.2"):
        asyncio.run(coterie.connect("mariadbs://127.0.0.1:1").open())
    with pytest.raises(coterie.Unavailable):
        asyncio.run(coterie.connect("mariadb://127.0.0.1:1").open())


def test_a_certificate_has_to_be_for_the_server_that_was_named() -> None:
    """Whatever the client library checks by itself, of the versions that may be installed."""
    pytest.importorskip("redis")
    from coterie.engines.redis.server import make_engine  # noqa: PLC0415 - not without the client

    server = make_engine("rediss://127.0.0.1:1").server
    made = server.client(alone=True).connection_pool.connection_kwargs  # type: ignore[attr-defined]
    assert made["ssl_check_hostname"] is True
    assert made.get("ssl_cert_reqs", "required") == "required"
