"""Locks need no numpy, and what needs it says so in one line."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT = """
import sys
sys.modules["numpy"] = None
from coterie.cli import main
sys.exit(main())
"""

EXPLORER = "the explorer needs numpy, which is not there: pip install 'coterie[explore]'"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["check", "maekawa"], EXPLORER),
        (["tour"], EXPLORER),
        (
            ["lab", "--no-open", "maekawa 3"],
            "pages in the browser need numpy: pip install 'coterie[web,explore]'",
        ),
    ],
)
def test_a_command_that_needs_numpy_names_the_extra(command: list[str], line: str) -> None:
    done = run(*command)
    assert done.returncode == 78
    assert done.stderr == f"coterie: {line}\n"


@pytest.mark.parametrize(
    "command", [["algorithms"], ["simulate", "maekawa"], ["compare", "maekawa"]]
)
def test_other_commands_do_without(command: list[str]) -> None:
    done = run(*command)
    assert done.returncode == 0, done.stderr


def test_a_long_history_is_judged_without_it(tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    note = "-" * 500  # fewer transactions are as long
    lines = [
        f'{{"transaction":"t{n}","op":"write","key":"x","value":"{note}{n}","version":{n}}}\n'
        f'{{"transaction":"t{n}","op":"commit"}}\n'
        for n in range(1, 2001)
    ]
    file.write_text("".join(lines))
    done = run("history", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("serializable: 2000 transactions")
