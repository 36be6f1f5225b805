"""What the page about several sites shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.cluster.membership.config import load
from coterie.cluster.membership.ports import free_ports

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[2] / "docs" / "transactions" / "several-sites.md"


def block(language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def test_the_program_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    program = block("python")
    ports = iter(free_ports(4))
    program = re.sub(r"127\.0\.0\.1:\d+", lambda _: f"127.0.0.1:{next(ports)}", program)
    exec(compile(program, "several-sites.md", "exec"), {})  # noqa: S102 - it is our own page
    assert capsys.readouterr().out == block("text")


def test_the_configuration_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of more than sixteen characters")
    (tmp_path / "secret").chmod(0o600)
    path = tmp_path / "coterie.toml"
    path.write_text(block("toml"))
    config = load(path)
    assert config.store.scheme == "two-phase-locking"
    assert [str(options.store) for options in config.nodes.values()] == [
        "a.example:7421",
        "b.example:7421",
    ]
