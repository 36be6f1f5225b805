"""The first minute in the laboratory: from the first screen to a deadlock, its reason and its cure, without docs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from coterie.cli import run
from tests.browser import watched_page
from tests.processes import BOUND_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.real
expect.set_options(timeout=1000 * BOUND_SECONDS)


def expect_word(page: Page, word: str) -> None:
    expect(page.locator(".verdict strong")).to_have_text(f"{word}:")


def test_a_newcomer_breaks_maekawa_and_finds_the_cure_by_clicks(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab)
        expect(page.locator(".film figcaption")).to_contain_text("waits for another, forever")
        page.get_by_role("link", name="Break something").click()
        expect_word(page, "Risky")
        expect(page.get_by_text("a move that could come next")).to_be_visible()
        page.locator(".moves li").filter(has_text="lost").get_by_role("button").click()
        expect_word(page, "Lost")
        page.get_by_role("button", name="run until quiet").click()
        expect_word(page, "Broken")
        expect(page.locator(".why")).to_contain_text("A cycle of 1, 2, 3")
        page.get_by_role("button", name="Go back to move 2").click()
        page.locator(".moves li").filter(has_text="safe").get_by_role("button").click()
        expect_word(page, "Safe")
        page.get_by_label("variant").select_option("eager")  # the cure for every order
        expect(page.locator(".time-bar")).to_contain_text("0 of 0")
        expect_word(page, "Safe")


def test_the_same_path_by_keyboard_alone(browser: Browser, lab: str) -> None:
    with watched_page(browser, reduced_motion="reduce") as watched:
        page = watched.page
        page.goto(lab)
        door = page.get_by_role("link", name="Break something")
        expect(door).to_be_visible()
        for _ in range(30):
            page.keyboard.press("Tab")
            if door.evaluate("(each) => each === document.activeElement"):
                break
        page.keyboard.press("Enter")
        expect_word(page, "Risky")
        page.keyboard.press("1")
        expect_word(page, "Lost")
        page.keyboard.press("g")
        expect_word(page, "Broken")
        expect(page.locator(".why")).to_contain_text("A cycle of 1, 2, 3")
        for _ in range(4):
            page.keyboard.press("ArrowLeft")
        expect_word(page, "Risky")
        page.keyboard.press("3")
        expect_word(page, "Safe")


def test_the_algorithm_that_the_first_screen_shows_can_be_checked(
    browser: Browser, lab: str, tmp_path: Path
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab)
        page.get_by_text("Your own algorithm").click()
        (tmp_path / "naive.py").write_text(page.locator("pre").inner_text(), encoding="utf-8")
    assert run(["check", f"{tmp_path / 'naive.py'}:Naive", "-N", "2"]) == 1


def test_the_head_is_one_line_and_names_all_pages(browser: Browser, lab: str) -> None:
    with watched_page(browser, viewport={"width": 1280, "height": 800}) as watched:
        page = watched.page
        page.goto(lab)
        places = page.get_by_role("navigation", name="pages").get_by_role("link")
        expect(places).to_have_count(10)
        tops = places.evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().top)")
        assert len(set(tops)) == 1
        page.set_viewport_size({"width": 390, "height": 800})
        page.get_by_text("Menu").click()
        page.get_by_role("navigation", name="all pages").get_by_role("link", name="Check").click()
        expect(page.locator(".outcome")).to_contain_text(re.compile("violated|verified"))
