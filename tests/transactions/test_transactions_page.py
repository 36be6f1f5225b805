"""What the guide to transactions shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coterie.cli import run
from coterie.transactions.catalogue import schemes

DOCS = Path(__file__).parents[2] / "docs" / "transactions"
PAGE = (DOCS / "README.md").read_text("utf-8")
SHOWN = PAGE + (DOCS / "on-disk.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n(?:```text\n(.*?)```)?", SHOWN, re.DOTALL)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("program", "shown"), PROGRAMS)
def test_the_programs_print_what_is_shown(
    program: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(program, "README.md", "exec"), {})  # noqa: S102 - it is our own page
    assert capsys.readouterr().out == shown


def test_the_recorded_run_is_judged_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    (recording,) = [program for program, _ in PROGRAMS if "history_lines" in program]
    exec(compile(recording, "README.md", "exec"), {})  # noqa: S102 - it is our own page
    ((command, shown),) = re.findall(r"```console\n\$ coterie (.*?)\n(.*?)```", PAGE, re.DOTALL)
    assert run(command.split()) == 0
    assert capsys.readouterr().out == shown


def test_every_scheme_is_in_the_table_with_its_page() -> None:
    assert re.findall(r"^\| \[([\w-]+)\]\(\1\.md\) \|", PAGE, re.MULTILINE) == list(schemes())
