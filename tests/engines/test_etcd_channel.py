"""The connection to etcd: over a network that takes its time, with certificates, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from pathlib import Path

import pytest

import coterie
from coterie.errors import ConfigError
from tests.cli.engine_servers import engine_server
from tests.cluster.certificates import certificates, tls
from tests.cluster.proxy import DOWN, UP, Proxy
from tests.engines.conformance.suppliers import EtcdSupplier, Missing

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
def test_a_closed_coordinator_leaves_no_sockets_to_the_garbage_collector(tmp_path: Path) -> None:
    async def use(port: int) -> None:
        async with coterie.connect(f"etcd://127.0.0.1:{port}") as c, c.lock("x"):
            pass

    async def count(port: int) -> list[int]:
        counts = []
        for _ in range(6):
            await use(port)
            counts.append(open_sockets())
        return counts

    with engine_server("etcd", tmp_path) as server:
        gc.collect()
        gc.disable()
        try:
            counts = asyncio.run(count(server.port))
        finally:
            gc.enable()
    assert counts[-1] <= counts[1], counts


def test_a_wrong_certificate_is_a_mistake_and_not_an_outage(tmp_path: Path) -> None:
    for name in ("ours", "strangers"):
        certificates(tmp_path, name)
    files = tls(tmp_path, "ours")
    options = ["--cert-file", files["certificate"], "--key-file", files["key"]]
    try:
        supplier = EtcdSupplier(
            "etcd", tmp_path, 1, *options, "--trusted-ca-file", files["ca"], "--client-cert-auth"
        )
    except Missing as missing:
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
