"""What the page about locks shows is what happens."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "locks.md").read_text(encoding="utf-8")
BOUND_SECONDS = 30


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_URL", raising=False)
    monkeypatch.setenv("COTERIE_DIR", str(tmp_path / "locks"))
    command = tmp_path / "bin" / "coterie"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom coterie.cli import main\nmain()\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")


def blocks(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found


def test_the_sessions_print_what_is_shown() -> None:
    session = "".join(blocks("pycon"))
    examples = doctest.DocTestParser().get_doctest(session, {}, "locks.md", "locks.md", 0)
    assert len(examples.examples) > 20
    failures: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize("block", blocks("console"))
def test_the_commands_print_what_is_shown(block: str) -> None:
    command, shown = block.removeprefix("$ ").split("\n", 1)
    outcome = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, timeout=BOUND_SECONDS
    )
    assert changing(outcome.stdout) == changing(shown)
    assert outcome.stderr == ""


def changing(text: str) -> str:
    """Leave out what is different every time: tokens, hosts and processes."""
    return re.sub(r"held by \S+:\d+", "held by HOST:PID", re.sub(r"\d{16}", "TOKEN", text))


@pytest.mark.parametrize("block", blocks("python"))
def test_the_programs_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "locks.md", "exec"), {})  # noqa: S102 - it is our own page
    assert capsys.readouterr().out == "inside with nightly True\n"
