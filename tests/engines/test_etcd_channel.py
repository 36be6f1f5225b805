"""The connection to etcd: over a network that takes its time, with certificates, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import subprocess
import sys
from pathlib import Path

import pytest

import coterie
from coterie.engines.etcd.channel import TLS_ADVICE
from coterie.errors import ConfigError
from coterie.lab.servers.child import ServerMissing
from coterie.lab.servers.etcd import EtcdSupplier
from coterie.lab.servers.proxy import DOWN, UP, Proxy
from tests.cli.engine_servers import EngineServer, engine_server
from tests.cluster.certificates import certificates, tls
from tests.cluster.local_cluster import PATIENCE_SECONDS

DESCRIPTORS = Path("/proc/self/fd")


def test_a_member_on_another_continent_can_be_connected_to(tmp_path: Path) -> None:
    async def take(port: int) -> int:
        proxy = Proxy(port)
        await proxy.start()
        proxy.delay = {UP: 0.1, DOWN: 0.1}
        try:
            async with coterie.connect(f"etcd://127.0.0.1:{proxy.port}") as c, c.lock("x") as held:
                return held.token
        finally:
            await proxy.stop()

    with engine_server("etcd", tmp_path) as server:
        assert asyncio.run(take(server.port))


def open_sockets() -> int:
    found = 0
    for descriptor in DESCRIPTORS.iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one of the listing is closed by then
            found += str(descriptor.readlink()).startswith("socket:")
    return found


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="counts descriptors in /proc")
@pytest.mark.parametrize("hangs", [False, True])
def test_a_closed_coordinator_leaves_no_sockets_to_the_garbage_collector(
    tmp_path: Path, hangs: bool
) -> None:
    """Nor does one with a request under way, which the server does not answer."""

    async def use(server: EngineServer) -> None:
        try:
            async with coterie.connect(server.url) as c, c.lock("x"):
                if hangs:
                    server.supplier.suspend()
        finally:
            if hangs:
                server.supplier.resume()

    async def use_again(server: EngineServer) -> None:
        await use(server)
        first = open_sockets()
        for _ in range(2 if hangs else 5):
            await use(server)
        async with asyncio.timeout(PATIENCE_SECONDS):  # gRPC closes them in a thread of its own
            while open_sockets() > first:  # noqa: ASYNC110 - of descriptors there are no events
                await asyncio.sleep(0.01)

    with engine_server("etcd", tmp_path) as server:
        gc.collect()
        gc.disable()
        try:
            asyncio.run(use_again(server))
        finally:
            gc.enable()


def test_a_wrong_certificate_is_a_mistake_and_not_an_outage(tmp_path: Path) -> None:
    for name in ("ours", "strangers"):
        certificates(tmp_path, name)
    files = tls(tmp_path, "ours")
    options = ["--cert-file", files["certificate"], "--key-file", files["key"]]
    try:
        supplier = EtcdSupplier(
            "etcd", tmp_path, 1, *options, "--trusted-ca-file", files["ca"], "--client-cert-auth"
        )
    except ServerMissing as missing:
        pytest.skip(str(missing))

    async def refusal(host: str, ca: str, certificate: str) -> str:
        given = tls(tmp_path, certificate, ca)
        parameters = "&".join(f"{name}={path}" for name, path in given.items())
        url = f"etcds://{host}:{supplier.port}?{parameters}"
        with pytest.raises(ConfigError) as refused:
            async with coterie.connect(url) as c:
                await c.lock("x").acquire()
        return str(refused.value).partition(": ")[2]

    for member in supplier.members:
        member.start()
    try:
        while supplier.members[0].is_up:  # until it listens
            try:
                wrong_ca = asyncio.run(refusal("127.0.0.1", "strangers", "ours"))
                break
            except coterie.Unavailable:
                continue
        wrong_own = asyncio.run(refusal("127.0.0.1", "ours", "strangers"))
        wrong_host = asyncio.run(refusal("localhost", "ours", "ours"))
    finally:
        supplier.end()
    assert "its certificate was not accepted" in wrong_ca
    assert "it does not accept our certificate" in wrong_own
    assert "its certificate is for another host" in wrong_host
    for text in (wrong_ca, wrong_own, wrong_host):
        assert text.endswith(TLS_ADVICE)  # and not with gRPC's status, ": OK"


SILENT = """
import asyncio, sys, coterie
async def main():
    async with coterie.connect(sys.argv[1]) as c, c.lock("x") as held:
        print("holds", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        async with c.lock("y"):
            print(held.valid)
asyncio.run(main())
"""


def test_a_server_that_says_goodbye_leaves_no_line_on_stderr(tmp_path: Path) -> None:
    """HTTP/2 has a GOAWAY for it, which gRPC may tell of."""
    with engine_server("etcd", tmp_path) as server:
        assert isinstance(server.supplier, EtcdSupplier)
        (member,) = server.supplier.members
        program = subprocess.Popen(
            [sys.executable, "-c", SILENT, server.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with program:
            assert program.stdout is not None
            assert program.stdout.readline() == "holds\n"
            member.stop()
            server.supplier.start()
            said, errors = program.communicate("\n", PATIENCE_SECONDS)
    assert (said, errors) == ("True\n", "")
