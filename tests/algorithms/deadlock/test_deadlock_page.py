"""What the pages on deadlocks show is what the program prints."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from coterie.cli import run

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {
    name: (DOCS / name).read_text(encoding="utf-8")
    for name in ("deadlock.md", "deadlock-detectors.md", "deadlock-locks.md")
}


@pytest.mark.parametrize("name", PAGES)
def test_the_sessions_print_what_the_page_shows(name: str) -> None:
    session = "".join(re.findall(r"```pycon\n(.*?)```", PAGES[name], re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(session, {}, name, name, 0)
    assert len(examples.examples) > 5
    failures: list[str] = []
    doctest.DocTestRunner().run(examples, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("deadlock.md", "crossed"),
        ("deadlock.md", "quorum"),
        ("deadlock-detectors.md", "missed"),
        ("deadlock-locks.md", "service"),
    ],
)
def test_the_commands_print_what_the_page_shows(
    page: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["deadlock", str(DOCS / "graphs" / f"{name}.json")]) == 1
    assert capsys.readouterr().out.rstrip() in PAGES[page]


@pytest.mark.parametrize("name", ["crossed", "service"])
def test_the_pictures_are_those_that_the_command_draws(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["deadlock", str(DOCS / "graphs" / f"{name}.json"), "-o", "svg"])
    picture = (DOCS / "graphs" / f"{name}.svg").read_text(encoding="utf-8")
    assert capsys.readouterr().out == picture
