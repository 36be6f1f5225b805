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


@pytest.mark.parametrize("name", ["crossed", "quorum", "missed", "service"])
def test_the_commands_print_what_the_page_shows(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["deadlock", str(DOCS / "graphs" / f"{name}.json")]) == 1
    assert capsys.readouterr().out.rstrip() in PAGE


@pytest.mark.parametrize("name", ["crossed", "service"])
def test_the_pictures_are_those_that_the_command_draws(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["deadlock", str(DOCS / "graphs" / f"{name}.json"), "-o", "svg"])
    picture = (DOCS / "graphs" / f"{name}.svg").read_text(encoding="utf-8")
    assert capsys.readouterr().out == picture
