"""The pages on algorithms of one's own: commands run, names are there, answers are given."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.cli import run
from tests.processes import BOUND_SECONDS, COTERIE
from tests.test_own_algorithm import MISTAKES

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
PAGES = ("your-own-algorithm.md", "algorithm-files.md")
TEXT = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES)
# Those in blocks are recorded, which another test does again.
PROSE = re.sub(r"```.*?```|<!--.*?-->", "", TEXT, flags=re.DOTALL)
COMMANDS = re.findall(r"`(coterie [^`]+ [^`]+)`", PROSE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder as the reader has it: both files, and a trace."""
    for name in ("naive.py", "ordered.py"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    run(["check", "naive.py:Naive", "-N", "2", "--trace", "run.jsonl"])
    return tmp_path


def test_the_page_has_commands_that_open_the_browser() -> None:
    assert [shlex.split(command)[1] for command in COMMANDS] == ["check", "lab", "lab"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_opens_the_browser_shows_a_run(command: str, folder: Path) -> None:
    process = subprocess.Popen(
        [*COTERIE, *shlex.split(command)[1:]],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "BROWSER": "true", "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        address = next(line for line in process.stdout if "#/run/" in line)
        assert "naive.py" in address
        process.send_signal(signal.SIGINT)
        assert process.wait(BOUND_SECONDS) in (0, 1)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_program_of_the_page_runs(folder: Path) -> None:
    (program,) = re.findall(r"```python\n(from coterie.lab.explore.*?)```", TEXT, re.DOTALL)
    subprocess.run([sys.executable, "-c", program], check=True, cwd=folder, timeout=BOUND_SECONDS)


def test_the_names_of_the_page_are_there() -> None:
    tables = re.findall(r"\| from `([\w.]+)` \| \|\n\|---\|---\|\n((?:\|.*\n)+)", TEXT)
    assert [module for module, _ in tables] == ["coterie.process", "coterie.clocks"]
    for module, rows in tables:
        for row in rows.splitlines():
            for name in re.findall(r"`(\w+)`", row.split("|")[1]):
                assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


def test_the_answers_of_the_page_are_those_of_the_tests() -> None:
    """Which are what the commands say."""
    answers = re.findall(r'^\| .* \| "(.+)" \|$', TEXT, re.MULTILINE)
    assert len(answers) >= 12
    for answer in answers:
        assert any(answer in mistake.words for mistake in MISTAKES.values()), answer


def test_the_index_names_every_example_and_its_commands_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(EXAMPLES)
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert files <= set(re.findall(r"^\| \[([\w.]+)\]", index, re.MULTILINE))
    commands = re.findall(r"`coterie ([^`]+)`", index)
    assert len(commands) >= 2
    for command in commands:
        assert run(shlex.split(command)) in (0, 1)
