"""`coterie.toml`, read and refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.cluster.membership.config import convert, load
from coterie.cluster.wire.address import Address, parse_address
from coterie.errors import ConfigError
from tests.cluster.local_cluster import document

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
cluster = "orders"
secret-file = "secret"
data = "data"
lease = 4

[nodes.a]
address = "a.example:7420"
metrics = "127.0.0.1:9420"

[nodes.b]
address = "b.example"
listen = "0.0.0.0:7420"
data = "elsewhere"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("0123456789abcdef\n")
    path = tmp_path / "coterie.toml"
    path.write_text(FILE)
    return path


def test_a_file_says_who_votes_and_how(path: Path) -> None:
    config = load(path)
    membership = config.membership
    assert membership.cluster == "orders"
    assert [str(member.address) for member in membership.members] == [
        "a.example:7420",
        "b.example:7420",
    ]
    settings = membership.settings
    assert (settings.lease, settings.heartbeat, settings.hedge) == (4, 1, 0.8)
    assert settings.policy == "all"
    assert config.security.secret == "0123456789abcdef"  # noqa: S105 - of this test


def test_paths_count_from_the_place_of_the_file(path: Path) -> None:
    config = load(path)
    assert config.options("a").data == path.parent / "data" / "a"
    assert config.options("b").data == path.parent / "elsewhere"
    assert config.options("a").metrics == Address("127.0.0.1", 9420)
    assert config.options("b").listen == Address("0.0.0.0", 7420)  # noqa: S104


def test_the_environment_beats_the_file_and_a_flag_beats_both(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTERIE_CONFIG", str(path))
    monkeypatch.setenv("COTERIE_DATA", "/environment")
    monkeypatch.setenv("COTERIE_SECRET", "fedcba9876543210")
    assert str(load().options("a").data) == "/environment/a"
    assert load().security.secret == "fedcba9876543210"  # noqa: S105 - of this test
    assert str(load(None, {"COTERIE_DATA": "/flag"}).options("a").data) == "/flag/a"


def test_a_bad_name_is_said_to_be_that_of_a_node_or_of_the_cluster() -> None:
    made = document(1)
    made["nodes"] = {"a b": made["nodes"]["a"]}
    with pytest.raises(ConfigError, match=r"^node name 'a b': ' ' at position 2 is not allowed"):
        convert(made)
    with pytest.raises(ConfigError, match=r"^a cluster name must have 1 to 255 characters, got 0"):
        convert(document(1, cluster=""))


def test_votes_make_weighted_voting() -> None:
    made = document(3)
    made["nodes"]["a"]["votes"] = 2
    assert convert(made).membership.settings.coterie == "weighted:2,1,1"


def test_structured_coteries_ask_one_quorum() -> None:
    assert convert(document(4, coterie="grid")).membership.settings.policy == "quorum"


def test_the_digest_covers_the_rules_and_the_names_but_not_the_addresses() -> None:
    one = convert(document(3)).membership
    assert one.digest == convert(document(3)).membership.digest, "other ports"
    assert one.digest != convert(document(3, lease=2)).membership.digest
    assert one.digest != convert(document(3, cluster="other")).membership.digest
    assert one.digest != convert(document(4)).membership.digest


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": {}}, "the configuration has no nodes"),
        ({"nodes": {"a": {}}}, r"nodes\[...\]: Object missing required field `address`"),
        ({"nodes": {"a": {"address": "x:y"}}}, "got 'x:y'"),
        ({"nodes": {"a": {"address": "x", "votes": 0}}}, "votes must be at least 1"),
        ({"nodes": {"a b": {"address": "x"}}}, "' '"),
        ({"nodes": {"a": {"address": "x"}, "b": {"address": "x:7420"}}}, "the same address"),
        ({"leese": 3}, "unknown field `leese`"),
        ({"lease": "3"}, "lease: Expected `float`, got `str`"),
        ({"lease": 0.01}, "must be at least 0.1 s"),
        ({"hedge": 1.0}, "hedge must be above 0 and below half the lease"),
        ({"margin": 0}, "margin"),
        ({"margin": float("inf")}, "margin"),
        ({"rate-error": 2}, "rate-error"),
        ({"lock-delay": -1}, "lock-delay must be at least 0 s"),
        (
            {"nodes": {"a": {"address": "x", "data": "here"}, "b": {"address": "y"}}},
            "give either all nodes a data directory or none",
        ),
        ({"coterie": "magic"}, "unknown coterie: 'magic'"),
        ({"coterie": "plane:2"}, "a plane of order 2 has 7 members, not 3"),
        ({"coterie": "1,2 3"}, "have no member in common"),
        ({"policy": "some"}, "policy: Invalid enum value 'some'"),
        ({"secret-file": "nowhere"}, "the secret file nowhere"),
    ],
)
def test_what_makes_no_sense_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError), match=message):
        convert(document(3, **changes))


def test_a_short_secret_is_refused(path: Path) -> None:
    (path.parent / "secret").write_text("short")
    with pytest.raises(ConfigError, match=r"coterie.toml: the secret has 5 bytes and needs"):
        load(path)


def test_a_missing_file_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`coterie serve --dev 3` needs none"):
        load(tmp_path / "coterie.toml")


def test_a_file_that_is_no_toml_is_refused(path: Path) -> None:
    path.write_text("cluster = ")
    with pytest.raises(ConfigError, match=r"coterie.toml: Invalid value"):
        load(path)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host", Address("host", 7420)),
        ("host:1", Address("host", 1)),
        ("[::1]:2", Address("::1", 2)),
        ("[::1]", Address("::1", 7420)),
    ],
)
def test_addresses_are_read_and_written(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("text", ["", ":7420", "host:", "host:x", "host:65536", "host:\u0661"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected an address such as host:7420"):
        parse_address(text)


@pytest.mark.parametrize("text", ["d..example:7420", ".d", "d" * 64, "\udc80"])
def test_a_host_that_cannot_be_looked_up_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no host can have the name in"):
        parse_address(text)
