"""The man page is what the help says, and the shell completes what the commands take."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from coterie.catalogue import every_algorithm
from coterie.cli.root import COMMANDS, root

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "man" / "coterie.1"


def test_the_man_page_is_made_from_the_help() -> None:
    """Run `make docs` to make it again. A process of its own: other tests load algorithms."""
    made = subprocess.run(
        [sys.executable, ROOT / "docs" / "manual.py"],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    assert made.stdout == PAGE.read_text(encoding="utf-8"), "docs/man/coterie.1 is stale"


def test_the_man_page_has_every_command() -> None:
    sections = re.findall(r"^\.SS coterie (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    names = [name.replace("\\-", "-") for name in sections]
    assert [name for name in names if " " not in name] == list(COMMANDS)
    below = [name.removeprefix("cluster ") for name in names if name.startswith("cluster ")]
    assert below == [
        "status",
        "add",
        "remove",
        "replace",
        "set",
        "finish",
        "abort",
        "force",
        "vouch",
    ]


def completions(*words: str) -> list[tuple[str, str]]:
    """Return what the shell is told after these words, of which the last is not complete."""
    *before, incomplete = words
    shell = BashComplete(root, {}, "coterie", "_COTERIE_COMPLETE")
    return [(each.type, each.value) for each in shell.get_completions(before, incomplete)]


@pytest.mark.parametrize("command", ["check", "compare", "simulate"])
def test_names_of_algorithms_are_completed(command: str) -> None:
    assert completions(command, "") == [("plain", name) for name in every_algorithm()]
    assert completions(command, "mae") == [("plain", "maekawa")]


def test_a_file_is_completed_where_no_algorithm_is_called_so() -> None:
    assert completions("check", "./my") == [("file", "./my")]


def test_commands_and_values_of_options_are_completed() -> None:
    assert completions("simulate-") == [("plain", "simulate-stack")]
    assert completions("lock", "--on-lost", "k") == [("plain", "kill")]


def test_the_commands_of_a_cluster_are_completed() -> None:
    assert ("plain", "replace") in completions("cluster", "re")
    assert ("plain", "--if-number") in completions("cluster", "add", "--if")
