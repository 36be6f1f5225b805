"""What the guide shows is what Python prints."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
SESSION = re.compile(r"```pycon\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", ["clocks.md", "coteries.md"])
def test_the_sessions_of_a_page_print_what_it_shows(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    session = "".join(SESSION.findall(text))
    examples = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    assert len(examples.examples) > 10
    failures: list[str] = []
    doctest.DocTestRunner().run(examples, out=failures.append)
    assert not failures, "".join(failures)
