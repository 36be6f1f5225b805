"""TLS with certificates at both ends."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import socket
import ssl
from typing import TYPE_CHECKING

import msgspec
import pytest

import coterie
from coterie.cluster.membership.config import Config, convert
from coterie.cluster.membership.discovery import discover
from coterie.cluster.wire.connection import LENGTH
from coterie.cluster.wire.frames import Welcome, decode_welcome
from coterie.cluster.wire.handshake import Caller, Credentials, new_identity
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.security import Security
from tests.cluster.certificates import certificates, openssl, tls
from tests.cluster.local_cluster import document, running, url_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates")


@pytest.fixture
def folder(certificate_folder: Path) -> Path:
    return certificate_folder


def protected(folder: Path) -> Config:
    return convert(document(3, tls=tls(folder, "ours")))


def test_a_program_with_a_certificate_of_ours_takes_locks(folder: Path) -> None:
    config = protected(folder)

    async def main() -> None:
        async with (
            running(config),
            coterie.connect(url_of(config)) as coordinator,
            coordinator.lock("x") as held,
        ):
            assert held.valid

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_node_can_call_itself(folder: Path, kind: str) -> None:
    """Its first bytes are there before its own event loop has gone over to TLS."""
    loops = pytest.importorskip(kind)
    config = protected(folder)

    async def main() -> None:
        async with running(config):
            for _ in range(3):
                await discover([config.membership.members[0].address], "test", config.security)

    with asyncio.Runner(loop_factory=loops.new_event_loop) as runner:
        runner.run(main())


def hello_with_the_handshake(config: Config) -> bytes:
    """Call a node so that the end of the TLS handshake and the hello are one write; return its answer."""
    address = config.membership.members[0].address
    context = config.security.client_context()
    assert context is not None
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=address.host)
    credentials = Credentials("test", "")
    hello = msgspec.msgpack.encode(Caller(credentials, "admin", new_identity("t"), None).hello)
    with socket.create_connection((address.host, address.port), timeout=9) as connection:
        is_greeted = False
        while True:
            try:
                if not is_greeted:
                    tls.do_handshake()
                    tls.write(LENGTH.pack(len(hello)) + hello)
                    is_greeted = True
                    connection.sendall(outgoing.read())
                return tls.read()
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                received = connection.recv(65536)
                assert received, "the node has cut us off"
                incoming.write(received)


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_hello_that_comes_with_the_end_of_the_tls_handshake_is_answered(
    folder: Path, kind: str
) -> None:
    loops = pytest.importorskip(kind)
    config = protected(folder)

    async def main() -> None:
        async with running(config):
            for _ in range(20):
                answer = await asyncio.to_thread(hello_with_the_handshake, config)
                assert isinstance(decode_welcome(memoryview(answer)[LENGTH.size :]), Welcome)

    with asyncio.Runner(loop_factory=loops.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("kind", ["none", "foreign", "distrustful"])
def test_who_has_no_certificate_of_ours_is_kept_out(
    folder: Path,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("coterie.cluster.membership.discovery.DISCOVERY_SECONDS_MAX", 0.3)
    security = {
        "none": Security(),
        "foreign": Security(**tls(folder, "theirs", ca="ours")),
        "distrustful": Security(**tls(folder, "ours", ca="theirs")),
    }[kind]
    config = protected(folder)

    async def main() -> None:
        async with running(config) as nodes:
            with pytest.raises(coterie.Unavailable, match="no node of the cluster can be reached"):
                await discover([config.membership.members[0].address], "", security)
            assert not any(node.voting.programs.sinks for node in nodes)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert re.search(r"connection with 127\.0\.0\.1:\d+ refused: TLS: \S", caplog.text)


def test_callers_that_never_begin_with_tls_have_to_make_room_the_oldest_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.cluster.wire.listener.UNPROVEN_MAX", 4)
    config = protected(folder)

    async def main() -> None:
        async with running(config):
            address = config.membership.members[0].address
            idle = [await dial(address, None) for _ in range(6)]
            for connection in idle[:2]:
                await connection.wait_ended()
            assert not any(connection.closed for connection in idle[2:])
            await discover([address], "", config.security)
            for connection in idle:
                connection.abort("done")

    asyncio.run(main())


def test_half_of_a_tls_configuration_is_refused(folder: Path) -> None:
    with pytest.raises(coterie.ConfigError, match="TLS needs all three"):
        convert(document(3, tls={"ca": str(folder / "ours-ca.pem")}))


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(coterie.ConfigError, match="No such file"):
        convert(document(3, tls=tls(tmp_path, "ours")))


def test_the_common_name_of_a_certificate_makes_no_node_of_it(tmp_path: Path) -> None:
    """A program chooses its common name itself; only the alternative names say for which host it is."""
    certificates(tmp_path, "ours")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    signed = ["-x509", "-days", "2", "-CA", "ours-ca.pem", "-CAkey", "ours-ca.key"]
    files = ["-keyout", "named.key", "-out", "named.pem"]
    end = ["-addext", "basicConstraints=critical,CA:FALSE"]
    openssl(tmp_path, "req", *key, "-subj", "/CN=localhost", *signed, *end, *files)
    named = Security(**tls(tmp_path, "named", ca="ours"))

    async def main() -> None:
        server = await asyncio.start_server(
            lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=named.server_context()
        )
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ssl.SSLCertVerificationError, match="ostname mismatch"):
            await asyncio.open_connection(
                "127.0.0.1", port, ssl=named.client_context(), server_hostname="localhost"
            )
        server.close()

    asyncio.run(main())
