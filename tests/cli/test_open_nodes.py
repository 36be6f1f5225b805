"""Nodes that other machines reach need a secret or TLS; `coterie secret` makes one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from coterie.cli import run
from coterie.cli.serve import check_closed
from coterie.cluster.membership.config import convert
from coterie.cluster.wire.address import Address, parse_address, parse_metrics_address
from coterie.cluster.wire.security import SECRET_BYTES_MIN, Security
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

Captured = pytest.CaptureFixture[str]

SECRETS = (Security("s" * SECRET_BYTES_MIN), Security(ca="ca", certificate="c", key="k"))


def test_a_secret_is_random_and_long_enough(capsys: Captured) -> None:
    made = set()
    for _ in range(3):
        assert run(["secret"]) == 0
        made.add(capsys.readouterr().out)
    assert len(made) == 3
    for line in made:
        assert re.fullmatch(r"[0-9a-f]{64}\n", line)
        Security(line.strip()).secret_bytes()


@pytest.mark.parametrize("place", ["0.0.0.0:7420", "10.0.0.1:7420", "[::]:7420", "a.example:7420"])
def test_other_machines_are_not_let_in_without_a_proof(place: str) -> None:
    with pytest.raises(ConfigError, match="has neither a secret nor TLS: set secret-file"):
        check_closed("a", parse_address(place), Security())
    for security in SECRETS:
        check_closed("a", parse_address(place), security)


@pytest.mark.parametrize("place", ["127.0.0.1:7420", "127.1.2.3:7420", "[::1]:7420", "localhost"])
def test_programs_of_this_machine_need_none(place: str) -> None:
    check_closed("a", parse_address(place), Security())


def test_serve_refuses_it_and_open_allows_it(tmp_path: Path, capsys: Captured) -> None:
    """With --open the node gets as far as its data directory, which is a file here."""
    (tmp_path / "data").touch()
    path = tmp_path / "coterie.toml"
    path.write_text('data = "data"\n[nodes.a]\naddress = "a.example:7420"\nlisten = "0.0.0.0:0"\n')
    assert run(["serve", "--config", str(path)]) == 78
    err = capsys.readouterr().err
    assert "node 'a' listens on 0.0.0.0:0, where other machines reach it" in err
    assert "say --open" in err
    assert run(["serve", "--config", str(path), "--open"]) == 69
    assert "the data directory" in capsys.readouterr().err


def test_serve_refuses_it_for_a_node_that_joins(tmp_path: Path, capsys: Captured) -> None:
    arguments = ["serve", "--node", "d", "--join", "127.0.0.1:1", "--data", str(tmp_path)]
    assert run(arguments) == 78
    assert "node 'd' listens on 0.0.0.0:7420" in capsys.readouterr().err


def test_a_port_alone_shows_metrics_to_this_machine() -> None:
    assert parse_metrics_address("9420") == Address("127.0.0.1", 9420)
    assert parse_metrics_address("0.0.0.0:9420") == Address("0.0.0.0", 9420)  # noqa: S104 - as asked
    node = {"address": "a:7420", "metrics": "9420"}
    assert convert({"nodes": {"a": node}}).options("a").metrics == Address("127.0.0.1", 9420)
