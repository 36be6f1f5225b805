"""Simulate, Check and Compare in a real browser: chosen, run, stepped through, and played on by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from coterie.cli import run
from tests.browser import serious_findings, watched_page
from tests.processes import BOUND_SECONDS, directory, line

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.real
expect.set_options(timeout=1000 * BOUND_SECONDS)
PAGES = {
    "simulate": "#/sim/maekawa%205?entries=1",
    "check": "#/check/maekawa%203%20variant=basic",
    "compare": "#/compare/maekawa,raymond?N=4",
}


def diagram(page: Page, number: int = 0) -> bytes:
    """Return what is drawn, once it is."""
    canvas = page.locator(".timeline canvas").nth(number)
    expect(canvas).to_be_visible()
    return canvas.screenshot()


def test_a_run_is_chosen_stepped_through_by_keys_and_played_from_an_event(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab + "#/sim/ricart-agrawala%203?entries=1")
        expect(page.locator(".figures")).to_contain_text("4messages per entry")
        page.get_by_label("processes").fill("4")
        page.get_by_label("processes").press("Enter")
        expect(page.locator(".figures")).to_contain_text("6messages per entry")
        before = diagram(page)
        page.locator(".timeline").focus()
        for _ in range(6):
            page.keyboard.press("ArrowRight")
        expect(page.locator(".chosen")).to_contain_text("receives Request")
        assert diagram(page) != before
        page.keyboard.press("+")
        expect(page.get_by_role("button", name="whole run")).to_be_enabled()
        page.keyboard.press("0")
        expect(page.get_by_role("button", name="whole run")).to_be_disabled()
        shared = page.url
        assert unquote(shared).endswith("#/sim/ricart-agrawala 4?entries=1@5")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("whole run")
        page.keyboard.press("Escape")
        page.locator(".timeline").focus()
        page.keyboard.press("Enter")
        expect(page.locator(".time-bar")).to_contain_text("6 of 6")
        page.go_back()
        expect(page.locator(".chosen")).to_contain_text("receives Request")
        assert page.evaluate("() => location.href") == shared


def test_an_event_is_chosen_by_a_click_in_the_diagram(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab + PAGES["simulate"])
        diagram(page)
        page.locator(".timeline canvas").click(position={"x": 300, "y": 60})
        expect(page.get_by_role("button", name="play from here")).to_be_visible()
        expect(page.locator(".around [aria-current]")).to_have_count(1)


def test_a_run_that_fails_says_why_and_a_choice_that_is_none_is_refused(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab + "#/sim/lamport%204?fault=crash+2+@+1")
        expect(page.locator(".outcome")).to_contain_text("does not tolerate a crash")
        page.get_by_label("latency").fill("soon")
        page.get_by_label("latency").press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("bad latency")
        watched.complaints.clear()  # a refusal is an answer; browsers write it down
        page.get_by_label("latency").fill("1")
        page.get_by_label("latency").press("Enter")
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_violation_is_found_and_played(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab + PAGES["check"])
        expect(page.locator(".outcome")).to_contain_text("violated")
        expect(page.locator(".command")).to_contain_text("coterie check maekawa -N 3")
        page.get_by_label("variant").select_option("eager")
        expect(page.locator(".outcome")).to_contain_text("verified")
        page.get_by_label("variant").select_option("basic")
        page.get_by_role("link", name="play it").click()
        expect(page.locator(".verdict")).to_contain_text("Broken")
        page.get_by_role("link", name="Check", exact=True).click()
        expect(page.locator(".outcome")).to_contain_text("violated")


def test_a_long_search_shows_progress_and_is_cancelled(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab + "#/check/lamport%204?entries=2")
        expect(page.locator(".progress-line")).to_contain_text("states a second")
        page.get_by_role("button", name="cancel").click()
        expect(page.get_by_role("button", name="search again")).to_be_visible()
        # The thread of the searches is free again, or this would wait for minutes.
        page.goto(lab + "#/check/maekawa%203")
        expect(page.locator(".outcome")).to_contain_text("verified")


def test_a_flawed_variant_is_checked_where_it_is_known_to_fail(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab + "#/check/maekawa%203%20variant=deferred")
        expect(page.locator(".outcome")).to_contain_text("verified")
        page.get_by_role("button", name="where it is known to fail").click()
        expect(page.locator(".outcome")).to_contain_text("violated")
        assert "maekawa 4 variant=deferred coterie=grid" in unquote(page.url)


def test_a_trace_that_cannot_be_played_to_its_end_is_drawn(
    browser: Browser, tmp_path: Path
) -> None:
    trace = tmp_path / "run.jsonl"
    fault = ("--fault", "pause 2 @ 1 for 2")
    assert run(["simulate", "maekawa", "-N", "3", *fault, "--trace", str(trace)]) == 0
    with directory(tmp_path / "locks") as started, watched_page(browser) as watched:
        page = watched.page
        page.goto(line(started.start("lab", str(trace), "--port", "0", "--no-open")))
        diagram(page)
        expect(page.locator(".wide-column")).to_contain_text("Only its beginning can be played")
        page.locator(".timeline").focus()
        page.keyboard.press("End")
        expect(page.locator(".chosen")).to_contain_text("receives")
        assert serious_findings(page) == []
        page.get_by_role("button", name="play from here").click()
        expect(page.get_by_role("alert")).to_contain_text("pause")
        watched.complaints.clear()  # a refusal is an answer; browsers write it down
        page.locator(".timeline").focus()
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        expect(page.locator(".time-bar")).to_contain_text("1 of 1")


def test_two_algorithms_race_and_are_measured_beside_their_formulas(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser, reduced_motion="reduce") as watched:
        page = watched.page
        page.goto(lab + PAGES["compare"])
        expect(page.locator(".timeline")).to_have_count(2)
        expect(page.locator(".wide-column")).to_contain_text("3(K - 1)")
        total = page.locator(".score .value").first.inner_text()
        whole = diagram(page, 1)
        page.get_by_role("button", name="to the start").click()
        expect(page.locator(".score .value").first).to_have_text("0")
        page.get_by_role("button", name="the next entry").click()
        expect(page.locator(".score .value").first).not_to_have_text("0")
        assert diagram(page, 1) != whole
        page.get_by_role("button", name="to the end").click()
        expect(page.locator(".score .value").first).to_have_text(total)
        page.get_by_role("button", name="add one").click()
        expect(page.locator(".timeline")).to_have_count(3)
        page.get_by_role("link", name="simulate", exact=True).first.click()
        expect(page.locator(".figures")).to_contain_text("messages per entry")


@pytest.mark.parametrize("fragment", ["", "#/run/maekawa%203@0", *PAGES.values()])
def test_a_first_visit_is_small(browser: Browser, lab: str, fragment: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        files: list[bytes] = []
        page.on("response", lambda each: None if "/api/" in each.url else files.append(each.body()))
        page.goto(lab + fragment)
        expect(page.locator("svg.run, canvas").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert sum(map(len, files)) <= 200_000


@pytest.mark.parametrize("page_of", ["sim", "check", "compare"])
def test_a_hostile_address_is_answered_in_words(browser: Browser, lab: str, page_of: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{lab}#/{page_of}/<img src=x onerror=alert(1)>%E0%A4%A?seed=NaN&fault=%00@9999")
        expect(page.get_by_role("alert").first).to_be_visible()
        watched.complaints.clear()  # a refusal is an answer; browsers write it down
