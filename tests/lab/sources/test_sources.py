"""What our sources state: the rows are whole, and a verdict needs what its command prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from coterie.cli import run
from coterie.errors import UsageError
from coterie.lab.sources import SOURCES, Section, Source, Statement, Verdict, source

DOCS = Path(__file__).parents[3] / "docs"
STATEMENTS = [each for known in SOURCES for each in known.statements]
JUDGED = [each for each in STATEMENTS if each.verdict is not Verdict.MISSING]

PLAIN = Statement(
    "Nobody starves.", Verdict.SHOWN, "N = 3", "check -N 3", ("verified", "ends$"), 0, "explore.md"
)
PRINTED = "lock, N = 3: verified\n  12 states\n  every wait ends\n"


def test_lines_that_decide_are_those_with_what_the_verdict_needs() -> None:
    assert PLAIN.deciding_lines(PRINTED, 0) == ["lock, N = 3: verified", "  every wait ends"]


@pytest.mark.parametrize(
    ("printed", "status"),
    [
        (PRINTED, 1),
        (PRINTED.replace("verified", "violated"), 0),
        (PRINTED.replace("  every wait ends\n", ""), 0),
        ("", 0),
    ],
)
def test_an_output_that_does_not_bear_the_verdict_out_is_an_error(
    printed: str, status: int
) -> None:
    with pytest.raises(ValueError, match="Nobody starves"):
        PLAIN.deciding_lines(printed, status)


@pytest.mark.parametrize("statement", JUDGED, ids=lambda each: each.text[:40])
def test_a_verdict_rests_on_evidence_and_a_page(statement: Statement) -> None:
    """What the commands print is judged where the pages are recorded, by tests/test_docs.py."""
    assert statement.prints
    assert all(re.compile(each) for each in statement.prints)
    assert (statement.command is None) is not (statement.scenario is None)
    assert (DOCS / statement.page).is_file()
    assert bool(statement.words) or statement.verdict is Verdict.HOLDS
    if statement.scenario:
        assert (DOCS.parent / "tests" / "scenarios" / f"{statement.scenario}.txt").is_file()


def test_what_is_missing_has_no_evidence_and_says_what_there_is() -> None:
    missing = [each for each in STATEMENTS if each.verdict is Verdict.MISSING]
    assert not any(each.evidence or each.prints for each in missing)
    assert all(each.words for each in missing)


@pytest.mark.parametrize("known", SOURCES, ids=lambda known: known.name)
def test_each_statement_stands_once_and_is_counted(known: Source) -> None:
    texts = [each.text for each in known.statements]
    assert len(set(texts)) == len(texts) == sum(known.counts().values())
    page = (DOCS / "sources" / f"{known.name}.md").read_text(encoding="utf-8")
    assert f"**{known.summary()}**" in page


def test_a_summary_counts_by_verdict() -> None:
    missing, wrong = (
        msgspec.structs.replace(PLAIN, verdict=verdict)
        for verdict in (Verdict.MISSING, Verdict.REFUTED)
    )
    sections = (Section("One", (PLAIN, PLAIN)), Section("Two", (missing, wrong)))
    assert Source("told", "Told", sections).summary() == (
        "4 statements: 0 hold, 0 hold under a condition, 1 is refuted, 2 are shown for some cases,"
        " 1 missing."
    )


def test_a_source_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="no source 'book': choose one of survey, paper, lectures"):
        source("book")
    assert run(["sources", "book"]) == UsageError.exit_status


def test_the_command_counts_all_and_lists_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sources"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["source", "statements"]
    assert [row.split()[0] for row in rows] == ["survey", "paper", "lectures"]
    assert run(["sources", "paper"]) == 0
    listed = capsys.readouterr().out
    for number, statement in enumerate(source("paper").statements, 1):
        assert f"{number:4}  {statement.text}\n      {statement.says}\n" in listed
        assert not statement.command or f"      $ {statement.command}\n" in listed


def test_the_command_gives_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sources", "lectures", "-o", "json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert sum(told["counts"].values()) == len(told["statements"])
    assert told["statements"][0]["command"] == "coterie history histories/cash-machines.jsonl"
    assert told["statements"][0]["verdict"] == "shown"
