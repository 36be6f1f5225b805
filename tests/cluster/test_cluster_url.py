"""`coterie://…`, read and refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.url import make_visit, parse_url
from coterie.cluster.wire.address import Address
from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_nodes_cluster_and_files_are_read() -> None:
    addresses, cluster, parameters = parse_url(
        "coterie://a:1,b,[::1]:3/orders?secret-file=/s&ca=/c"
    )
    assert addresses == [Address("a", 1), Address("b", 7420), Address("::1", 3)]
    assert cluster == "orders"
    assert parameters == {"secret-file": "/s", "ca": "/c"}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("coterie://", "names no nodes"),
        ("coterie://a:x", "got 'a:x'"),
        ("coterie://a?color=red", "unknown parameter 'color'"),
        ("coterie://a?secret-file", "secret-file"),
    ],
)
def test_what_makes_no_sense_is_said(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        coterie.connect(url)


def test_a_file_names_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "coterie.toml").write_text('[nodes.a]\naddress = "a.example:1"\n')
    assert make_visit(f"coterie:{tmp_path}/coterie.toml").addresses == [Address("a.example", 1)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_URL", raising=False)
    assert coterie.connect().url == "coterie:coterie.toml"


def test_the_secret_of_the_url_beats_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTERIE_SECRET", "environment " * 2)
    assert make_visit("coterie://a").security.secret.startswith("environment")
    (tmp_path / "secret").write_text("file " * 4)
    visit = make_visit(f"coterie://a?secret-file={tmp_path}/secret")
    assert visit.security.secret.startswith("file")
    with pytest.raises(ConfigError, match="the secret file"):
        make_visit("coterie://a?secret-file=/nowhere/at/all")
