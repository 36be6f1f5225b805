"""SECURITY.md: each of its sentences names tests, and these exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAME = re.compile(r"`(test_\w+)`")
SECTIONS = ("What is a vulnerability here", "What is none", "Supported versions")


def sentences(section: str) -> list[str]:
    """Return the items of a section, each on one line."""
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    text = page.partition(f"## {section}\n")[2].partition("\n## ")[0].strip()
    assert text, f"no section is called {section}"
    items = re.split(r"^- ", text, flags=re.MULTILINE)
    assert not items[0], "all that is said there is an item"
    return [" ".join(item.split()) for item in items[1:]]


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Name all modules of tests, and all tests in them."""
    names = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        names.add(path.stem)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tests = (ast.FunctionDef, ast.AsyncFunctionDef)
        names |= {node.name for node in ast.walk(tree) if isinstance(node, tests)}
    return names


@pytest.mark.parametrize("section", SECTIONS)
def test_each_sentence_names_its_tests(section: str, known: set[str]) -> None:
    for sentence in sentences(section):
        named = set(NAME.findall(sentence))
        assert named, f"no test holds this: {sentence}"
        assert named <= known, f"{sentence}: {named - known}"
