"""What the page on histories shows is what Python prints."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "history.md").read_text(encoding="utf-8")


def test_the_session_prints_what_the_page_shows() -> None:
    session = "".join(re.findall(r"```pycon\n(.*?)```", PAGE, re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(session, {}, "history.md", "history.md", 0)
    assert len(examples.examples) == 17
    failures: list[str] = []
    doctest.DocTestRunner().run(examples, out=failures.append)
    assert not failures, "".join(failures)


def test_the_file_is_the_one_that_the_page_shows() -> None:
    assert (DOCS / "histories" / "on-call.jsonl").read_text(encoding="utf-8") in PAGE
