"""What both ends say of a certificate that does not serve, and of one end that speaks TLS while the other does not."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.cli.doctor.reach import look_at_lines
from coterie.cluster.membership.config import convert
from coterie.cluster.wire.certificate import own_trouble
from coterie.cluster.wire.security import Security
from tests.cluster.certificates import certificates, openssl, tls
from tests.cluster.local_cluster import document, running, url_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make certificates of our authority and of another one, and two of ours that serve for little."""
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("ours", "theirs"):
        certificates(folder, name)
    openssl(folder, "req", "-new", "-key", "ours.key", "-subj", "/CN=ours", "-out", "ours.csr")
    sign = ["x509", "-req", "-in", "ours.csr", "-CA", "ours-ca.pem", "-CAkey", "ours-ca.key"]
    openssl(folder, *sign, "-days", "-1", "-out", "expired.pem")
    (folder / "calls").write_text("extendedKeyUsage=clientAuth\nsubjectAltName=IP:127.0.0.1\n")
    openssl(folder, *sign, "-days", "2", "-extfile", "calls", "-out", "calls.pem")
    return folder


def files(folder: Path, name: str) -> dict[str, Any]:
    """Name a certificate of our authority, with its key, or a foreign one."""
    key = "theirs" if name == "theirs" else "ours"
    return {**tls(folder, key, ca="ours"), "certificate": str(folder / f"{name}.pem")}


@pytest.mark.parametrize(
    ("name", "host", "trouble"),
    [
        ("ours", "127.0.0.1", ""),
        ("ours", "127.0.0.2", "callers of 127.0.0.2 will not accept it: IP address mismatch"),
        ("expired", "", "nodes will not accept it: certificate has expired"),
        ("theirs", "", "nodes will not accept it: unable to get local issuer certificate"),
        ("calls", "", ""),
        ("calls", "127.0.0.1", "callers of 127.0.0.1 will not accept it: unsuitable certificate"),
    ],
)
def test_what_is_wrong_with_our_certificate_is_known_without_a_network(
    folder: Path, name: str, host: str, trouble: str
) -> None:
    found = own_trouble(Security(**files(folder, name)), host)
    assert found.replace("unsupported", "unsuitable").startswith(trouble)
    assert bool(found) is bool(trouble)
    assert own_trouble(Security()) == ""


CASES: dict[str, tuple[str, str, str, str]] = {
    "plain at TLS": ("ours", "", "it may ask for TLS", "TLS: it does not speak TLS"),
    "TLS at plain": ("", "ours", "it may not speak TLS", "the caller speaks TLS"),
    "expired": ("ours", "expired", "may not accept our certificate", "certificate has expired"),
    "foreign": ("ours", "theirs", "may not accept our certificate", "issuer certificate"),
}


@pytest.mark.parametrize("case", CASES)
def test_both_ends_say_what_is_wrong(
    folder: Path, case: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.cluster.membership.discovery.DISCOVERY_SECONDS_MAX", 0.2)
    of_node, of_program, program_says, node_says = CASES[case]
    extra: dict[str, Any] = {"tls": files(folder, of_node)} if of_node else {}
    config = convert(document(1, **extra))
    given = files(folder, of_program) if of_program else {}
    query = "&".join(f"{key}={value}" for key, value in given.items())
    url = f"{url_of(config).partition('?')[0]}?{query}".rstrip("?")

    async def main() -> None:
        async with running(config):
            with pytest.raises(coterie.Unavailable, match=program_says):
                await coterie.connect(url).open()
            found = await asyncio.to_thread(lambda: list(look_at_lines(url)))
            states = {each.what.partition(" ")[0]: each.state for each in found}
            assert states["line"] == ("bad" if case == "TLS at plain" else "good")
            if of_program:
                assert states["our"] == ("look" if of_program == "ours" else "bad")

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert node_says in caplog.text
    unfit = [each for each in caplog.records if getattr(each, "event", "") == "certificate-unfit"]
    assert bool(unfit) is (of_program in ("expired", "theirs"))


def test_a_word_of_another_service_is_named(caplog: pytest.LogCaptureFixture) -> None:
    config = convert(document(1))

    async def main() -> None:
        async with running(config):
            address = config.membership.members[0].address
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await reader.read() is not None
            writer.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "'GET ' is no word of ours" in caplog.text


def test_what_the_environment_overrides_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).write_text("x" * 16)
    monkeypatch.setenv("COTERIE_SECRET_FILE", str(tmp_path / "other"))
    with caplog.at_level(logging.INFO):
        convert(document(1, **{"secret-file": "one"}), tmp_path)
    assert f"COTERIE_SECRET_FILE={tmp_path}/other is used, and not {tmp_path}/one" in caplog.text
