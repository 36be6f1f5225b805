"""The laboratory in a real browser: played by keys and by clicks, shared, branched, saved."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import expect

from coterie.catalogue import algorithms
from coterie.cli import run
from coterie.lab.play.entries import entry_of
from tests.browser import serious_findings, watched_page
from tests.processes import BOUND_SECONDS, directory, line

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.real
expect.set_options(timeout=1000 * BOUND_SECONDS)
# With a clock of its own an algorithm can be played, but not judged yet; and what four processes do
# is too much for a page's few seconds on a busy machine.
FLAWED = [
    (entry.name, variant.name, variant.flaw)
    for entry in map(entry_of, algorithms().values())
    for variant in entry.variants
    if variant.flaw is not None and variant.flaw.size == 3 and not entry.timed
]


def open_run(page: Page, lab: str, fragment: str) -> None:
    page.goto(lab + fragment)
    expect(page.locator(".verdict strong")).to_be_visible()


def at(page: Page, moves: int) -> None:
    """Wait until the page stands after so many moves, and has judged that place."""
    expect(page.locator(".time-bar")).to_contain_text(f"{moves} of")
    expect(page.locator(".verdict strong")).to_be_visible()


def test_maekawas_deadlock_by_keyboard_alone_and_back(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        open_run(page, lab, "#/run/maekawa%203%20variant=basic@0")
        page.keyboard.type("111")  # faster than any server answers
        at(page, 3)
        expect(page.locator(".verdict")).to_contain_text("Lost")
        expect(page.locator("svg.run")).to_contain_text("point of no return")
        page.keyboard.press("g")
        at(page, 6)
        expect(page.locator(".verdict")).to_contain_text("Broken")
        assert page.url.endswith("/a1/a2/a3/d1.2/d2.3/d3.1@6")
        page.keyboard.press("ArrowLeft")
        at(page, 5)
        page.keyboard.press("Home")
        at(page, 0)
        page.keyboard.press("End")
        at(page, 6)
        page.keyboard.press("Control+z")
        at(page, 3)
        page.keyboard.press("Control+y")
        at(page, 6)
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert serious_findings(page) == []


def test_the_same_deadlock_by_clicking_in_the_diagram(browser: Browser, lab: str) -> None:
    with watched_page(browser, color_scheme="dark") as watched:
        page = watched.page
        open_run(page, lab, "#/run/maekawa%203%20variant=basic@0")
        for moves, name in enumerate(
            [
                "acquire 1",
                "acquire 2",
                "acquire 3",
                "deliver 1 > 2",
                "deliver 2 > 3",
                "deliver 3 > 1",
            ],
            1,
        ):
            page.locator("svg.run").get_by_role("button", name=name).locator("circle").click()
            at(page, moves)
        expect(page.locator(".verdict")).to_contain_text("wait forever")
        assert serious_findings(page) == []


def test_a_wait_that_another_request_may_end_is_not_called_endless(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        open_run(page, lab, "#/run/suzuki-kasami%203/a2/x2.1/d2.3@3")
        expect(page.locator(".verdict")).to_contain_text("can enter only if another user asks")
        asked = page.locator(".moves li").filter(has_text="acquire 3")
        expect(asked.locator(".fate")).to_contain_text("safe")
        expect(page.locator("svg.run")).not_to_contain_text("point of no return")
        for word in ("forever", "never"):
            expect(page.locator("main")).not_to_contain_text(word)
        page.get_by_role("button", name="one move back").click()
        expect(page.locator(".verdict.is-stalled")).to_contain_text("Stalled: process 2 can enter")
        assert serious_findings(page) == []


def test_a_move_in_the_past_is_a_branch_and_the_address_is_the_run(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        open_run(page, lab, "#/run/ricart-agrawala%203/a1/a2@1")
        page.get_by_role("button", name="acquire 3").first.click()
        at(page, 2)
        assert unquote(page.url).endswith("#/run/ricart-agrawala 3/a1/a3@2")
        shared = page.url
        page.get_by_role("button", name="compare").click()
        beside = page.get_by_label("the branch beside this run")
        expect(beside).to_contain_text("the same up to move 1")
        expect(beside.locator("circle.found")).to_have_count(1)
        differs = beside.get_by_role("row").filter(has_text="p3").filter(has_text="phase")
        expect(differs).to_contain_text("waiting")
        expect(differs).to_contain_text("idle")
        assert serious_findings(page) == []
        page.get_by_role("button", name="2 moves, to acquire 2").click()
        expect(beside).to_have_count(0)
        expect(page.locator(".event-list")).to_contain_text("acquire 2")
        assert unquote(page.url).endswith("#/run/ricart-agrawala 3/a1/a2@2")
        with watched_page(browser) as other:
            other.page.goto(shared)
            expect(other.page.locator(".event-list")).to_contain_text("acquire 3")
            at(other.page, 2)


def test_every_flawed_variant_is_broken_by_its_shortest_violation(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        for name, variant, flaw in FLAWED:
            page.goto("about:blank")
            choices = [
                f"variant={variant}",
                *(f"{key}={value}" for key, value in flaw.parameters.items()),
            ]
            open_run(page, lab, f"#/run/{quote(' '.join([name, str(flaw.size), *choices]))}@0")
            page.get_by_label("entries").fill(str(flaw.entries))
            page.get_by_label("crashes").fill(str(flaw.crashes))
            page.get_by_label("crashes").blur()
            page.keyboard.press("f")
            expect(page.locator(".verdict .sign")).to_have_text("✕")  # broken, or past saving


def test_a_hostile_address_is_answered_in_words(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{lab}#/run/<img src=x onerror=alert(1)>/a1")
        expect(page.get_by_role("alert")).to_be_visible()
        # The refusal of a question is an answer; browsers write it down as a failed request.
        watched.complaints.clear()


@pytest.mark.parametrize("width", [390, 700])
def test_a_narrow_page_does_not_scroll_sideways(browser: Browser, lab: str, width: int) -> None:
    with watched_page(browser, viewport={"width": width, "height": 800}) as watched:
        page = watched.page
        open_run(page, lab, "#/run/maekawa%203%20variant=basic/a1/a2/a3@3")
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_a_run_is_saved_as_a_file(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        open_run(page, lab, "#/run/maekawa%203%20variant=basic/a1/a2/a3@3")
        with page.expect_download() as download:
            page.get_by_text("Menu").click()
            page.get_by_label("save as").select_option("scenario")
        assert download.value.suggested_filename == "maekawa-3.txt"


def test_a_saved_page_works_from_disk_with_the_network_off(
    browser: Browser, tmp_path: Path
) -> None:
    saved = tmp_path / "run.html"
    assert run(["check", "maekawa", "--variant", "basic", "--trace", str(saved)]) == 1
    assert saved.stat().st_size <= 200_000
    with watched_page(browser, offline=True) as watched:
        page = watched.page
        page.goto(saved.as_uri())
        at(page, 6)
        expect(page.locator("body")).to_have_css("font-size", "15px")  # the sheets are in it, too
        expect(page.locator(".verdict")).to_have_css("background-color", "rgb(253, 238, 240)")
        expect(page.locator("svg.run")).to_contain_text("point of no return")
        expect(page.locator(".verdict")).to_contain_text("Broken")
        page.keyboard.press("ArrowLeft")
        at(page, 5)
        expect(page.locator(".verdict")).to_contain_text("Lost")
        page.keyboard.press("1")
        at(page, 6)
        page.keyboard.press("Home")
        at(page, 0)
        page.keyboard.press("1")  # the run begins with another move
        expect(page.get_by_role("alert")).to_contain_text("This file holds one run")
        assert serious_findings(page) == []


def test_a_lesson_is_opened_its_goal_reached_and_the_next_page_turned(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab)
        page.get_by_role("link", name="Lessons", exact=True).click()
        expect(page.get_by_role("heading", name="Lessons")).to_be_visible()
        assert serious_findings(page) == []
        page.get_by_role("link", name="Maekawa's deadlock").click()
        card = page.locator(".lesson")
        expect(card).to_contain_text("in at most 6 moves")
        expect(card).not_to_contain_text("reached")
        card.get_by_role("button", name="show me").click()
        expect(card).to_contain_text("✓ reached")
        card.get_by_role("link", name="next").click()
        expect(card).to_contain_text("The point of no return")
        at(page, 2)
        expect(card).not_to_contain_text("reached")
        page.get_by_role("button", name="acquire 3").first.click()
        expect(card).to_contain_text("✓ reached")
        assert serious_findings(page) == []


def test_a_graph_is_written_and_its_deadlock_named(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab)
        page.get_by_role("link", name="Graphs").click()
        expect(page.get_by_role("heading", name="No deadlock")).to_be_visible()
        page.get_by_role("button", name="a knot").click()
        expect(page.locator(".right")).to_contain_text("a knot: P1, P2, P3")
        picture = page.get_by_role("img", name="the wait-for graph")
        expect(picture).to_be_visible()
        page.get_by_role("textbox").fill("{")
        expect(page.get_by_role("alert")).to_be_visible()
        watched.complaints.clear()  # a refusal is an answer; browsers write it down
        page.get_by_role("textbox").fill('{"a": "b", "b": "a"}')
        expect(page.locator(".right")).to_contain_text("a cycle: a, b")
        assert serious_findings(page) == []
        page.get_by_role("link", name="Play").click()
        expect(page.locator("svg.run")).to_be_visible()


def test_what_could_happen_is_part_of_the_address(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        open_run(page, lab, "#/run/ricart-agrawala%203@0")
        expect(page.locator(".verdict strong")).to_have_text("Safe:")
        page.get_by_label("crashes").fill("1")
        expect(page.locator(".verdict strong")).to_have_text("Fragile:")
        expect(page).to_have_url(re.compile(r"@0\?crashes=1$"))
        with watched_page(browser) as other:
            open_run(other.page, lab, page.url.removeprefix(lab))
            expect(other.page.locator(".verdict strong")).to_have_text("Fragile:")
            expect(other.page.get_by_label("crashes")).to_have_value("1")
        # Another address has bounds of its own.
        open_run(page, lab, "#/run/ricart-agrawala%203/a1@1")
        expect(page.get_by_label("crashes")).to_have_value("0")


def test_the_run_is_there_again_after_another_page(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        open_run(page, lab, "#/run/maekawa%203%20variant=basic/a1/a2@2")
        page.get_by_role("link", name="Challenges").click()
        expect(page.locator(".tiles")).to_be_visible()
        page.get_by_role("link", name="Play").click()
        expect(page.locator(".time-bar")).to_contain_text("2 of 2")


def test_the_run_stays_when_the_server_is_gone(browser: Browser, tmp_path: Path) -> None:
    with directory(tmp_path / "lab") as started, browser.new_context() as context:
        serving = started.start("lab", "--port", "0", "--no-open")
        page = context.new_page()
        open_run(page, line(serving), "#/run/maekawa%203%20variant=basic/a1@1")
        serving.send_signal(signal.SIGINT)
        assert serving.wait(BOUND_SECONDS) == 0
        page.keyboard.press("1")
        expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
        expect(page.locator(".time-bar")).to_contain_text("1 of 1")
        expect(page.locator("svg.run circle.event").first).to_be_visible()


LABELS = """() => {
  const boxes = [...document.querySelectorAll("svg.run .label")].map((each) => each.getBoundingClientRect());
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => meet(a, b))).length;
}"""


def test_the_diagram_is_as_wide_as_the_page_and_its_labels_do_not_meet(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser, viewport={"width": 1440, "height": 900}) as watched:
        page = watched.page
        open_run(page, lab, "#/run/ricart-agrawala%204/a1/a2/d1.2/d1.4/a3@5")
        frame = page.locator(".picture-frame")
        box = frame.bounding_box()
        assert box is not None
        assert box["width"] > 0.85 * 1440
        assert page.locator("svg.run .label").count() > 8
        assert page.evaluate(LABELS) == 0
        whole = page.locator("svg.run").get_attribute("width")
        page.keyboard.press("+")
        expect(page.locator("svg.run")).not_to_have_attribute("width", whole or "")
        page.keyboard.press("0")
        expect(page.locator("svg.run")).to_have_attribute("width", whole or "")
        page.get_by_role("button", name="p3 waiting").click()
        expect(page.locator("svg.run .lane")).to_have_count(3)
        page.get_by_role("button", name="show p3").click()
        expect(page.locator("svg.run .lane")).to_have_count(4)


def test_moves_say_what_arrives_and_the_state_what_has_changed(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        open_run(page, lab, "#/run/maekawa%203%20variant=basic/a1/a2@2")
        arriving = page.locator(".moves li").filter(has_text="deliver 1 > 2")
        expect(arriving).to_contain_text("receives Request(1.1) from 1")
        expect(arriving.locator(".fate")).to_contain_text("risky")
        changes = page.locator(".process").filter(has_text="p2").locator(".changes")
        expect(changes).to_contain_text("locked [] → [2]")
        expect(page.locator(".process .fields")).to_have_count(0)
        page.get_by_role("button", name="All fields").click()
        expect(page.locator(".process .fields")).to_have_count(3)
        page.get_by_label("find").fill("2 > 3")
        expect(page.locator(".event-list .found")).to_have_count(1)
        page.get_by_text("The code of this move").click()
        expect(page.locator(".code .ran").first).to_be_visible()
        # By keys alone: the list of moves keeps the focus, and goes on.
        page.locator(".moves button").first.focus()
        page.keyboard.press("Enter")
        at(page, 3)
        expect(page.locator(".moves button").first).to_be_focused()


def test_a_search_that_finds_nothing_says_so(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        open_run(page, lab, "#/run/centralized%202@0")
        page.keyboard.press("f")
        expect(page.locator(".verdict")).to_contain_text("No violation:")
