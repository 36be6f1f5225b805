"""A whole map as a file: what is played from disk, with the network off, is what the laboratory plays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from playwright.sync_api import expect

from coterie.lab.notebook import live_run
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question
from coterie.lab.scenario import perform
from coterie.lab.web.file import map_page
from tests.browser import serious_findings, watched_page
from tests.processes import BOUND_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.real
expect.set_options(timeout=1000 * BOUND_SECONDS)
ENOUGH = 60_000
ASK = """async ([path, question]) => {
  const map = await import("coterie/lab/map.js");
  return map.answer(JSON.parse(document.getElementById("answers").textContent), path, question);
}"""


def saved(tmp_path: Path, first: str, bound: Bound) -> str:
    page = map_page(first, bound=bound)
    path = tmp_path / "map.html"
    path.write_text(page, encoding="utf-8")
    return path.as_uri()


def test_a_deadlock_is_played_found_and_gone_back_from_on_a_file(
    browser: Browser, tmp_path: Path
) -> None:
    with watched_page(browser, offline=True) as watched:
        page = watched.page
        page.goto(saved(tmp_path, "maekawa 3 variant=basic", Bound()))
        expect(page.locator(".verdict")).to_contain_text("Risky")
        page.keyboard.type("111")
        expect(page.locator(".verdict")).to_contain_text("Lost")
        expect(page.locator("svg.run")).to_contain_text("point of no return")
        expect(page.locator(".verdict")).to_contain_text("Move 3 was the blunder: acquire 3")
        page.keyboard.press("g")
        expect(page.locator(".verdict")).to_contain_text("Broken")
        expect(page.locator(".time-bar")).to_contain_text("6 of 6")
        assert page.url.endswith("/a1/a2/a3/d1.2/d2.3/d3.1@6")
        page.keyboard.press("Home")
        page.keyboard.press("3")
        expect(page.locator(".time-bar")).to_contain_text("1 of 1")
        expect(page.get_by_text("6 moves, to deliver 3 > 1")).to_be_visible()  # a branch
        page.keyboard.press("f")
        expect(page.locator(".verdict")).to_contain_text("Broken")
        page.reload()
        expect(page.locator(".verdict")).to_contain_text("Broken")
        assert serious_findings(page) == []


@pytest.mark.parametrize(
    ("first", "bound"),
    [
        ("maekawa 3 variant=basic", Bound()),
        ("lamport 2 channel=unordered", Bound(losses=1)),
        ("suzuki-kasami 3 variant=survey", Bound()),
        ("centralized 3 variant=failover", Bound(suspicions=1)),
        ("bully 2", Bound(1, crashes=1)),
    ],
    ids=str,
)
def test_a_walk_on_a_file_is_a_walk_in_the_laboratory(
    browser: Browser, tmp_path: Path, first: str, bound: Bound
) -> None:
    lab, chance = Laboratory(ENOUGH), random.Random(first)
    with watched_page(browser, offline=True) as watched:
        page = watched.page
        page.goto(saved(tmp_path, first, bound))
        moves: list[str] = []
        for _ in range(14):
            question = Question(first, moves, bound=bound, budget_ms=ENOUGH)
            shown = compare(page, lab, question)
            choices = [move["text"] for move in shown["enabled"]]
            if not choices:
                break
            moves = [*moves, chance.choice(choices)]
        assert len(moves) > 3


def compare(page: Page, lab: Laboratory, question: Question) -> dict[str, Any]:
    """Ask both; return what the file says of the place."""
    asked = {"first": question.first, "moves": question.moves, "cursor": len(question.moves)}
    shown: dict[str, Any] = page.evaluate(ASK, ["/api/play", asked])
    fates: dict[str, Any] = page.evaluate(ASK, ["/api/fates", asked])
    there, judged = lab.play(question), lab.fates(question)
    assert len(shown["steps"]) == len(there.steps)
    if shown["steps"][-1]["violation"] is None:
        phases = [state["phase"] for state in shown["states"]]
        assert phases == [state.phase for state in there.states]
    down = {state.process for state in there.states if state.phase == "crashed"}
    under_way = [(x.sender, x.receiver, x.label) for x in there.transit if x.receiver not in down]
    if not any(step.violation for step in there.steps):
        found = [(x["sender"], x["receiver"], x["label"]) for x in shown["transit"]]
        assert sorted(found) == sorted(under_way)
    assert fates["here"] == msgspec.json.decode(msgspec.json.encode(judged.here))
    assert fates["no_return"] == judged.no_return
    known = {text: fate.word for text, fate in judged.moves.items()}
    for text, fate in fates["moves"].items():
        assert known.get(text, fate["word"]) == fate["word"]
    return shown


def test_a_run_in_a_notebook_is_played_in_a_frame_that_reaches_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    shown = perform("maekawa 3 variant=basic\nacquire 1\nacquire 2\nacquire 3\n").trace
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>notebook</title>{live_run(shown)}")
    with watched_page(browser, offline=True) as watched:
        watched.page.goto(path.as_uri())
        frame = watched.page.frame_locator("iframe")
        expect(frame.locator(".verdict")).to_contain_text("Lost")
        frame.get_by_role("button", name="one move back").click()
        expect(frame.locator(".time-bar")).to_contain_text("2 of 3")


def test_a_picture_of_the_docs_is_played_where_it_is_html(browser: Browser, tmp_path: Path) -> None:
    live = tmp_path / "run.html"
    page = map_page("maekawa 3 variant=basic", ["acquire 1"])
    live.write_text(page)
    script = (Path(__file__).parents[3] / "docs" / "live.js").read_text()
    (tmp_path / "page.html").write_text(
        "<!doctype html><title>docs</title>"
        f'<coterie-run src="run.html"><img alt="a run"></coterie-run><script>{script}</script>'
    )
    with watched_page(browser, offline=True) as watched:
        watched.page.goto((tmp_path / "page.html").as_uri())
        watched.page.get_by_role("button", name="Play this run").click()
        frame = watched.page.frame_locator("iframe[title='a run']")
        expect(frame.locator(".time-bar")).to_contain_text("1 of 1")
        frame.get_by_role("button", name="acquire 2").first.click()
        expect(frame.locator(".time-bar")).to_contain_text("2 of 2")
