"""TLS with certificates at both ends."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.membership.config import Config, convert
from coterie.cluster.membership.discovery import discover
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.security import Security
from tests.cluster.local_cluster import document, running, url_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates")


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def certificates(folder: Path, name: str) -> None:
    """Make an authority, and one certificate signed by it, for 127.0.0.1."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    ca = ["-x509", "-days", "2", "-subj", f"/CN={name}-ca"]
    openssl(folder, "req", *key, *ca, "-keyout", f"{name}-ca.key", "-out", f"{name}-ca.pem")
    signed = ["-CA", f"{name}-ca.pem", "-CAkey", f"{name}-ca.key"]
    own = ["-x509", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    end = ["-addext", "basicConstraints=critical,CA:FALSE"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
    openssl(folder, "req", *key, *own, *end, *signed, *files)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    certificates(made, "ours")
    certificates(made, "theirs")
    return made


def tls(folder: Path, name: str, ca: str | None = None) -> dict[str, str]:
    return {
        "ca": str(folder / f"{ca or name}-ca.pem"),
        "certificate": str(folder / f"{name}.pem"),
        "key": str(folder / f"{name}.key"),
    }


def protected(folder: Path) -> Config:
    return convert(document(3, tls=tls(folder, "ours")))


def test_a_program_with_a_certificate_of_ours_takes_locks(folder: Path) -> None:
    config = protected(folder)
    query = "&".join(f"{name}={value}" for name, value in tls(folder, "ours").items())

    async def main() -> None:
        async with (
            running(config),
            coterie.connect(f"{url_of(config)}?{query}") as coordinator,
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
