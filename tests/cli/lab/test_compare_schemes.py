"""`coterie compare-schemes` prints, draws and explains what it cannot do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from coterie.cli import run
from coterie.transactions.schemes.multiversion.rules import Multiversion
from tests.harness import broken_class

if TYPE_CHECKING:
    from pathlib import Path

QUICK = ["compare-schemes", "--duration", "30ms", "--clients", "8", "--keys", "100"]


def test_it_prints_a_row_for_each_scheme_and_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*QUICK, "--workload", "bank", "--theta", "0,0.9"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split()[:5] == ["workload", "theta", "sites", "clients", "scheme"]
    assert sum(row.startswith("bank") for row in rows) == 12


def test_it_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["conservative", "two-phase-locking:wound-wait"]
    assert run([*QUICK, *names, "--workload", "smallbank", "--theta", "0.9", "-o", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["scheme"] == "conservative"
    assert first["abort_rate"] == 0
    assert first["conditions"]["theta"] == 0.9
    assert second["variant"] == "wound-wait"


@pytest.mark.parametrize("sites", ["1", "2"])
def test_it_checks_the_histories(capsys: pytest.CaptureFixture[str], sites: str) -> None:
    options = ["--workload", "smallbank", "--theta", "0.99", "--sites", sites]
    assert run([*QUICK, *options]) == 0
    assert "serializable" not in capsys.readouterr().out
    assert run([*QUICK, *options, "--check"]) == 0
    header, *rows = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert header.split()[-1] == "serializable"
    assert [row.split()[-1] for row in rows] == ["yes"] * 6


def test_a_scheme_that_does_not_serialize_is_noticed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers that do not look at who has read: two withdraw what only one of them may."""
    mutant = broken_class(Multiversion, "if stamp < before.read:", "if False:")
    monkeypatch.setattr(Multiversion, "_place", vars(mutant)["_place"])
    options = ["--workload", "smallbank", "--theta", "0.99", "--duration", "100ms"]
    assert run([*QUICK, "multiversion", *options, "--check", "-o", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["serializable"] is False


def test_it_draws_over_whatever_varies_most(tmp_path: Path) -> None:
    picture = tmp_path / "schemes.svg"
    options = ["--workload", "bank", "--theta", "0.5", "--sites", "1,2", "--plot", str(picture)]
    assert run([*QUICK, "optimistic", *options]) == 0
    text = picture.read_text()
    assert "bank, theta 0.5, 8 clients" in text
    assert ">sites<" in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["two-phase"], "there is no scheme 'two-phase'"),
        (["optimistic:eager"], "choose one of parallel, serial"),
        (["--workload", "tpc-c"], "there is no workload 'tpc-c'"),
        (["--theta", "much"], "--theta must be values such as"),
        (["--think", "1 day"], "expected a duration"),
        (["--think", "0"], "without think and work a transaction takes no time"),
        (["--theta", "2"], "theta must be from 0 (all keys alike) to less than 2"),
        (["--theta", "0", "--plot", "/nowhere/x.svg"], "cannot write /nowhere/x.svg: No such"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*QUICK, *arguments]) == 64
    assert complaint in capsys.readouterr().err
