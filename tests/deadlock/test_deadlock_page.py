"""What the page on deadlocks shows is what the program prints."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from coterie.cli import run

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "deadlock.md").read_text(encoding="utf-8")


def test_the_sessions_print_what_the_page_shows() -> None:
    session = "".join(re.findall(r"```pycon\n(.*?)```", PAGE, re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(session, {}, "deadlock.md", "deadlock.md", 0)
    assert len(examples.examples) > 10
    failures: list[str] = []
    doctest.DocTestRunner().run(examples, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize("name", ["crossed", "quorum", "missed"])
def test_the_commands_print_what_the_page_shows(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["deadlock", str(DOCS / "graphs" / f"{name}.json")]) == 1
    assert capsys.readouterr().out.rstrip() in PAGE


def test_the_picture_is_the_one_that_the_command_draws(capsys: pytest.CaptureFixture[str]) -> None:
    run(["deadlock", str(DOCS / "graphs" / "crossed.json"), "-o", "svg"])
    assert capsys.readouterr().out == (DOCS / "graphs" / "crossed.svg").read_text(encoding="utf-8")
