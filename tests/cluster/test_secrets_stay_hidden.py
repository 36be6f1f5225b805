"""Secrets that were planted are found in no repr, log, error, status, dashboard, metric or child."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cli import run
from coterie.cluster.membership.config import Config, load
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.cluster.voter.metrics import node_metrics
from coterie.cluster.wire.frames import Proof
from coterie.cluster.wire.handshake import new_identity
from coterie.cluster.wire.security import Security
from coterie.dashboard.monitor import Monitor
from coterie.engines.queue.url import parse_server_url
from coterie.locks.url import without_password
from coterie.testing.nodes import write_document
from tests.cluster.local_cluster import COTERIE, document, url_of

if TYPE_CHECKING:
    from pathlib import Path

SECRET, OPERATORS, PASSWORD = "planted-of-all-4711", "planted-of-operators-4712", "planted-4713"


def found(text: str) -> bool:
    return "planted" in text


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return a cluster of one node whose file names files with secrets."""
    for name, secret in (("secret", SECRET), ("operators", OPERATORS)):
        path = tmp_path / name
        path.write_text(secret + "\n")
        path.chmod(0o600)
    files = {"secret-file": "secret", "operator-secret-file": "operators"}
    path = write_document(document(1, data=str(tmp_path / "data"), **files), tmp_path)
    return load(path)


def test_no_repr_shows_a_secret(config: Config) -> None:
    security = config.security
    membership = config.membership
    values = (
        config,
        security,
        membership.credentials(security.secret_bytes(), security.operator_bytes()),
        membership.stranger(operator=security.operator_bytes()),
        config.local_node("a"),
        make_visit(f"{url_of(config)}?secret-file={security.secret_files[0]}"),
        parse_server_url(f"etcd://user:{PASSWORD}@h:1?lease=5", port=1),
        parse_server_url(
            f"postgres://h/x?sslpassword={PASSWORD}", port=1, parameters=("sslpassword",)
        ),
    )
    for value in values:
        assert not found(repr(value)), value
        assert not found(str(value)), value
        assert not found(f"{vars(value) if hasattr(value, '__dict__') else ''}"), value
    shown = dict(security.__rich_repr__())
    assert not found(repr(shown))
    assert shown["ca"] == ""
    assert repr(Security()) == (
        "Security(secret='', ca='', certificate='', key='', operator_secret='', operator_trouble='',"
        " secret_files=())"
    ), "what is not set is shown as such"
    identity = new_identity("host:1")
    for shows in (identity, Proof(b"", identity.key)):
        assert repr(identity.key) not in repr(shows)


def test_no_url_shows_a_password() -> None:
    for url in (
        f"etcd://user:{PASSWORD}@h:1",
        f"coterie://{PASSWORD}@h:1",
        f"coterie://h:1?password={PASSWORD}",
        f"postgres://h:1/x?sslpassword={PASSWORD}",
        f"redis+sentinel://h:1/x?sentinel-password={PASSWORD}",
    ):
        assert not found(without_password(url))
        with pytest.raises(coterie.CoterieError) as caught:
            asyncio.run(coterie.connect(url).open())
        assert not found(str(caught.value))


@pytest.mark.parametrize(
    ("url", "client"),
    [
        (f"etcd://user:{PASSWORD}@127.0.0.1:1", "grpc"),
        (f"postgres://user:{PASSWORD}@127.0.0.1:1/x", "asyncpg"),
        (f"rediss://user:{PASSWORD}@127.0.0.1:1", "redis"),
        (f"zookeeper://user:{PASSWORD}@127.0.0.1:1", "kazoo"),
        (f"nats://user:{PASSWORD}@127.0.0.1:1", "ssl"),
        (f"s3://user:{PASSWORD}@127.0.0.1:1/bucket", "ssl"),
        (f"mariadb://user:{PASSWORD}@127.0.0.1:1", "pymysql"),
        (f"mysqls://user:{PASSWORD}@127.0.0.1:1", "pymysql"),
    ],
    ids=["etcd", "postgresql", "redis", "zookeeper", "nats", "s3", "mariadb", "mysql"],
)
def test_no_engine_shows_its_password_in_an_error_or_a_log(
    url: str, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing listens there, so that clients say all that they have to say."""
    pytest.importorskip(client)
    coordinator = coterie.connect(url)
    assert not found(repr(coordinator))
    with caplog.at_level(logging.DEBUG), pytest.raises(coterie.Unavailable) as caught:
        asyncio.run(coordinator.open())
    assert not found("".join(traceback.format_exception(caught.value)))
    assert not found(caplog.text)


COMMANDS = ("status", "status locks", "doctor", "cluster status", "cluster finish", "break x --yes")


@pytest.mark.real
@pytest.mark.parametrize("key", ["right", "wrong"])
def test_no_command_log_page_or_metric_shows_a_secret(  # noqa: PLR0917 - fixtures
    config: Config,
    key: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("coterie.cluster.membership.discovery.DISCOVERY_SECONDS_MAX", 0.3)
    monkeypatch.setenv("COTERIE_SECRET", SECRET if key == "right" else f"{SECRET} or another")
    monkeypatch.setenv("COTERIE_OPERATOR_SECRET_FILE", str(tmp_path / "operators"))
    url = url_of(config).partition("?")[0]
    texts: list[str] = []

    async def main() -> None:
        node = Node(config, "a", new_cluster=True)
        await node.start()
        try:
            for command in COMMANDS:
                await asyncio.to_thread(run, [*command.split(), "--url", url])
            texts.append(node_metrics(node.voting))
            monitor = Monitor(url)
            async for update in monitor.updates():
                texts.append(repr(update))
                break
            monitor.close()
        finally:
            await node.stop()

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())
    printed = capsys.readouterr()
    for text in (printed.out, printed.err, caplog.text, *texts):
        assert text
        assert not found(text)
    if key == "right":
        assert "votes" in printed.out
    else:
        assert "secret mismatch" in printed.err


@pytest.mark.real
@pytest.mark.skipif(os.name != "posix", reason="files have other rights there")
def test_files_that_all_can_read_are_named(
    config: Config,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        node = Node(config, "a", new_cluster=True)
        await node.start()
        try:
            async with coterie.connect(f"coterie:{tmp_path / 'coterie.toml'}") as program:
                assert await program.locked("x") is False
            await asyncio.to_thread(
                run, ["doctor", "--url", f"coterie:{tmp_path / 'coterie.toml'}"]
            )
        finally:
            await node.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "every user" not in caplog.text + capsys.readouterr().out
    (tmp_path / "secret").chmod(0o644)
    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    named = [record for record in caplog.records if record.__dict__["event"] == "secret-exposed"]
    assert len(named) == 2, "by the node and by the program"
    assert str(tmp_path / "secret") in caplog.text
    assert "operators" not in caplog.text
    assert f"secret in {tmp_path / 'secret'}" in capsys.readouterr().out


@pytest.mark.real
@pytest.mark.skipif(os.name != "posix", reason="files have other rights there")
def test_data_directories_and_what_is_in_them_belong_to_their_owner_alone(
    config: Config, tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "a"
    before = os.umask(0)
    try:

        async def main() -> None:
            node = Node(config, "a", new_cluster=True)
            await node.start()
            url = f"coterie:{tmp_path / 'coterie.toml'}"
            async with coterie.connect(url) as program, program.lock("x"):
                pass
            await node.stop()

        asyncio.run(main())
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert {"identity", "bound", "lock"} <= set(modes)
        assert set(modes.values()) == {0o600}, modes
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        folder.chmod(0o755)  # as an earlier version has made it
        asyncio.run(main())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(before)


@pytest.mark.real
def test_a_command_under_a_lock_inherits_no_secret_but_the_names_of_files(tmp_path: Path) -> None:
    script = "import os; print({n: v for n, v in os.environ.items() if n.startswith('COTERIE_')})"
    environment = os.environ | {
        "COTERIE_SECRET": SECRET,
        "COTERIE_OPERATOR_SECRET": OPERATORS,
        "COTERIE_PASSWORD": PASSWORD,
        "COTERIE_SENTINEL_PASSWORD": PASSWORD,
        "COTERIE_SECRET_FILE": "/etc/coterie/secret",
        "COTERIE_URL": f"file:{tmp_path}",
    }
    for options in (("lock",), ("lock", "-w", "5s"), ("lock", "--also", "y"), ("elect",)):
        ran = subprocess.run(
            [*COTERIE, *options, "x", "--", sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert not found(ran.stdout)
        assert "'COTERIE_SECRET_FILE': '/etc/coterie/secret'" in ran.stdout
        assert "'COTERIE_URL'" in ran.stdout
