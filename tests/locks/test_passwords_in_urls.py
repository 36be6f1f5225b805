"""A URL is shown without its password, whatever stands in it and wherever it is shown."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import coterie
import coterie.sync
from coterie.cli import run
from coterie.dashboard.monitor import Monitor, Trouble
from coterie.engines.queue.url import parse_server_url
from coterie.lab.audit.target import make_target
from coterie.locks.url import SCHEMES, without_password
from coterie.transactions.store import Store

if TYPE_CHECKING:
    from pathlib import Path

SERVERS = sorted(SCHEMES.keys() - {"coterie", "file"})
HALVES = (
    "hunter",
    "tiger",
)  # a password is one, a character that means something in a URL, the other
MARKS = "@:/?#%&=,[];\\ é℀"

HIDDEN = "…"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://one", "redis://one"),
        ("redis://one:6379/0", "redis://one:6379/0"),
        ("redis://me:secret@one:6379/0", "redis://one:6379/0"),
        ("redis://me:p@ss@one", "redis://one"),
        ("redis://me:a:b@one", "redis://one"),
        ("redis://me:a%40b@one", "redis://one"),
        ("redis://:secret@one", "redis://one"),
        ("redis://token@one", "redis://one"),
        ("REDIS://me:secret@one", "REDIS://one"),
        ("postgresql://me:secret@one:1,two:2/db", "postgresql://one:1,two:2/db"),
        ("etcd://me:secret@[::1]:2379,[fe80::1%25eth0]", "etcd://[::1]:2379,[fe80::1%25eth0]"),
        ("redis://me:secret@one#secret", "redis://one"),
        ("redis://me:secret@", "redis://"),
        ("postgresql:///db", "postgresql:///db"),
        ("coterie://a:1,b:2/orders?secret-file=/s", "coterie://a:1,b:2/orders?secret-file=/s"),
        # A file has no password, and its name may have an @.
        ("file:/a@b", "file:/a@b"),
        ("file:///home/a@b", "file:///home/a@b"),
        ("coterie:/etc/a@b/coterie.toml", "coterie:/etc/a@b/coterie.toml"),
        ("file:", "file:"),
    ],
)
def test_the_user_and_the_password_are_left_out(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("lease=10&deadlock-detection=off", "lease=10&deadlock-detection=off"),
        ("sslmode=require&sslpassword=secret", f"sslmode=require&sslpassword={HIDDEN}"),
        ("password=secret", f"password={HIDDEN}"),
        ("secret=a=b", f"secret={HIDDEN}"),
        ("PASSWORD=secret&lease=3", f"PASSWORD={HIDDEN}&lease=3"),
        ("leese=secret", f"leese={HIDDEN}"),
        ("secret", HIDDEN),
        ("a=b;secret", f"a={HIDDEN}"),
    ],
)
def test_a_parameter_is_shown_where_it_is_known_to_be_no_secret(query: str, shown: str) -> None:
    assert without_password(f"postgresql://me:secret@one/db?{query}") == (
        f"postgresql://one/db?{shown}"
    )


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:hunter/tiger@one",
        "redis://me:hunter?tiger@one",
        "redis://me:hunter#tiger@one",
        "redis://me:12/tiger@one",
        "redis://me:hunter@/tiger@one",
        "redis:///me:hunter@one",
        "postgresql://one/db?sslpassword=hunter@tiger",
        "redis://me:hunter",
        "redis://[::1:hunter",
        "redis:me:hunter@one",
        "redis:me:hunter",
        "me:hunter@one",
        "hunter@one",
        "://me:hunter@one",
    ],
)
def test_where_the_end_of_the_password_is_not_clear_nothing_is_shown(url: str) -> None:
    shown = without_password(url)
    assert shown.endswith(HIDDEN)
    assert not any(half in shown for half in HALVES)


def hostile(scheme: str) -> list[str]:
    """Return URLs with a password in two halves, of servers that nothing listens at."""
    at = "127.0.0.1:1"
    passwords = [*(f"hunter{mark}tiger" for mark in MARKS), "12/tiger", "12?tiger=1", "1@/tiger"]
    return [
        *(f"{scheme}://me:{password}@{at}" for password in passwords),
        *(f"{scheme}://:{password}@[::1]:1,[::1]:2" for password in passwords),
        *(f"{scheme}://{at}?{name}=hunter@tiger" for name in ("password", "secret", "sslpassword")),
        f"{scheme}://{at}?sslpassword=hunter%40tiger&color=tiger",
        *([] if scheme == "coterie" else [f"{scheme}://me:hunter"]),  # a host and a port there
        f"{scheme}://[::1:hunter",
        *([] if scheme in ("coterie", "file") else [f"{scheme}:me:hunter@{at}"]),  # a path there
        f"{scheme}://me:hunter@{at}:tiger",
        f"{scheme}://me:hunter@{at}?lease=0",
        f"{scheme}://me:hunter@{at}?deadlock-detection=maybe",
        f"{scheme}://me:hunter@{at}/a/b/c",
    ]


def check(text: str, url: str) -> None:
    assert not any(half in text for half in HALVES), f"{url} is shown as {text}"


async def taken(coordinator: coterie.Coordinator) -> None:
    async with coordinator.lock("x"):
        pass


@pytest.mark.parametrize("scheme", [*SERVERS, "coterie", "file", "REDIS", "mysql"])
def test_no_error_of_a_coordinator_shows_a_password(scheme: str) -> None:
    for url in hostile(scheme):
        try:
            coordinator = coterie.connect(url)
        except coterie.CoterieError as error:
            check(str(error), url)
            continue
        check(repr(coordinator), url)
        check(repr(coterie.sync.connect(url)), url)
        with pytest.raises(coterie.MisuseError) as refused:
            asyncio.run(taken(coordinator))
        check(str(refused.value), url)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_no_error_of_a_store_shows_a_password(scheme: str) -> None:
    async def main(url: str) -> None:
        async with Store(url) as store, store.transaction() as transaction:
            await transaction.get("key")

    for url in hostile(scheme):
        with pytest.raises(coterie.CoterieError) as refused:
            asyncio.run(main(url))
        check(str(refused.value), url)


@pytest.mark.parametrize("scheme", ["etcd", "mysql", "postgresql", "redis"])
def test_no_error_of_an_audit_shows_a_password(scheme: str) -> None:
    for url in hostile(scheme):
        try:
            target = make_target(url, "audit")
        except coterie.CoterieError as error:
            check(str(error), url)
        else:
            check(str(target), url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:hunter@tiger@127.0.0.1:1",
        "redis://me:hunter/tiger@127.0.0.1:1",
        "postgresql://me:hunter@127.0.0.1:1/db?sslpassword=tiger",
        "etcd://me:hunter#tiger@127.0.0.1:1",
        "coterie://me:hunter@tiger@127.0.0.1:1",
    ],
)
def test_no_command_shows_a_password(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["doctor", "-o", "json"],
        ["status"],
        ["status", "locks"],
        ["cluster", "status"],
        ["lock", "x", "--node", "a", "--url", url, "--", "true"],
    ):
        given = [] if "--url" in command else ["--url", url]
        assert run([*command, *given]) != 0
        check("".join(capsys.readouterr()), f"{url} by {command}")


def test_the_dashboard_shows_no_password() -> None:
    async def main(url: str) -> Trouble:
        updates = Monitor(url).updates()
        async for kind, update in updates:
            assert kind == "trouble"
            assert isinstance(update, Trouble)
            await updates.aclose()  # type: ignore[attr-defined]
            return update
        raise AssertionError("there is an update")

    for url in ("redis://me:hunter@tiger@127.0.0.1:1", "redis://me:hunter/tiger@127.0.0.1:1"):
        check(asyncio.run(main(url)).error, url)


def test_no_error_of_the_configuration_shows_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "coterie.toml").write_text('url = ["redis://me:hunter@one"]')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_URL", raising=False)
    with pytest.raises(coterie.ConfigError, match="url must be a string") as refused:
        coterie.connect()
    check(str(refused.value), "a list")


def test_an_at_sign_in_a_parameter_or_a_database_is_written_in_percents() -> None:
    with pytest.raises(coterie.UsageError, match="%40"):
        coterie.connect("etcds://one?ca=/home/a@b/ca")
    coterie.connect("etcds://one?ca=/home/a%40b/ca")
    assert parse_server_url("postgresql://one/a%40b", port=5432).path == "a@b"
