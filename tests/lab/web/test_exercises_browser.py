"""Lessons, challenges and editors in a real browser: by keyboard, with axe, narrow and dark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from tests.browser import serious_findings, watched_page
from tests.processes import BOUND_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.real
expect.set_options(timeout=1000 * BOUND_SECONDS)


def test_a_challenge_is_done_by_keyboard_kept_shared_and_handed_in(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{lab}#/break")
        expect(page.locator(".tiles .tile")).to_have_count(12)
        assert serious_findings(page) == []
        page.get_by_role("link", name="Make it deadlock").click()
        card = page.locator(".lesson")
        expect(card).to_contain_text("the goal is not reached")
        expect(page.locator(".verdict")).to_contain_text("hidden in a challenge")
        assert page.locator(".fate").count() == 0
        page.keyboard.type("111")
        expect(page.locator(".time-bar")).to_contain_text("3 of 3")
        page.keyboard.press("f")  # a challenge is to be done by hand
        expect(page.locator(".time-bar")).to_contain_text("3 of 3")
        page.keyboard.press("g")
        expect(card).to_contain_text("✓ reached: 6 moves, as few as can be")
        assert page.url.endswith("#/break/deadlock/a1/a2/a3/d1.2/d2.3/d3.1")
        assert serious_findings(page) == []
        with watched_page(browser) as other:
            other.page.goto(page.url)
            expect(other.page.locator(".lesson")).to_contain_text("✓ reached")
        page.get_by_role("link", name="Challenges").first.click()
        expect(page.locator("main")).to_contain_text("1 of 12 reached")
        with page.expect_download() as download:
            page.get_by_role("button", name="save answers").click()
        assert download.value.suggested_filename == "coterie-answers.txt"
        assert download.value.path().read_text() == "#/break/deadlock/a1/a2/a3/d1.2/d2.3/d3.1\n"
        page.reload()
        expect(page.locator("main")).to_contain_text("1 of 12 reached")


def test_hints_lead_to_the_goal_and_are_counted(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{lab}#/break/overtaken")
        card = page.locator(".lesson")
        page.get_by_role("button", name="hint", exact=True).click()
        expect(card).to_contain_text("Hint: deliver 1 > 2; the goal is then 3 more moves away")
        expect(card).to_contain_text("1 hint")
        page.get_by_role("button", name="show where moves lead").click()
        expect(page.locator(".verdict strong")).to_be_visible()
        expect(card).to_contain_text("2 hints")


def test_questions_of_a_lesson_are_answered(browser: Browser, lab: str) -> None:
    with watched_page(browser, color_scheme="dark") as watched:
        page = watched.page
        page.goto(f"{lab}#/learn/clocks/1")
        answers = page.locator(".asks input")
        expect(answers).to_have_count(3)
        for place, text in enumerate(["no", "no", "Yes"]):
            answers.nth(place).fill(text)
            answers.nth(place).press("Enter")
        expect(page.locator(".asks li").nth(0)).to_contain_text("not so")
        expect(page.locator(".asks li").nth(1)).to_contain_text("✓ right")
        answers.nth(0).fill("yes")
        answers.nth(0).press("Enter")
        expect(page.locator(".asks li").nth(0)).to_contain_text("✓ right")
        assert serious_findings(page) == []
        # What is concurrent with an event that is pointed at turns pale.
        page.locator("svg.run circle.event").nth(0).hover()
        expect(page.locator("svg.run circle.concurrent")).to_have_count(1)
        page.get_by_role("link", name="Lessons").first.click()
        expect(page.locator(".tiles")).to_contain_text("1 of 4 reached")


def test_a_lesson_stays_open_over_a_reload_a_way_back_and_a_share(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{lab}#/learn/maekawa/1")
        card = page.locator(".lesson")
        expect(card).to_contain_text("1 of")
        expect(page.locator(".time-bar")).to_be_visible()
        page.keyboard.press("1")
        expect(page.locator(".time-bar")).not_to_contain_text("0 of 0")
        made = page.locator(".time-bar .where").inner_text()
        expect(page).to_have_url(re.compile(r"#/learn/maekawa/1/a1@1$"))
        shared = page.url
        page.reload()
        expect(card).to_contain_text("1 of")
        expect(page.locator(".time-bar")).to_contain_text(made)
        page.goto(f"{lab}#/learn")
        page.go_back()
        expect(card).to_contain_text("1 of")
        expect(page.locator(".time-bar")).to_contain_text(made)
        page.get_by_role("button", name="begin again").click()
        expect(page.locator(".time-bar")).not_to_contain_text(made)
        expect(page).to_have_url(re.compile("#/learn/maekawa/1$"))
        with watched_page(browser) as other:
            other.page.goto(shared)
            expect(other.page.locator(".lesson")).to_contain_text("1 of")
            expect(other.page.locator(".time-bar")).to_contain_text(made)


def test_the_text_of_a_lesson_is_in_its_address(browser: Browser, lab: str) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{lab}#/learn/transactions/1")
        page.locator("textarea").fill("r1(x) w1(x) r2(x)")
        expect(page).to_have_url(re.compile(r"#/learn/transactions/1/r1"))
        page.reload()
        expect(page.locator(".lesson")).to_be_visible()
        assert page.locator("textarea").input_value() == "r1(x) w1(x) r2(x)"


@pytest.mark.parametrize(
    ("address", "heading"),
    [
        ("#/learn/deadlock/2", "No deadlock"),
        ("#/learn/transactions/1", "Not conflict-serializable"),
        ("#/learn/quorums/4", "A coterie"),
    ],
)
def test_an_editor_of_a_lesson_judges_its_goal(
    browser: Browser, lab: str, address: str, heading: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(lab + address)
        expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
        expect(page.locator(".lesson")).not_to_contain_text("reached")
        page.get_by_role("button", name="show me").click()
        expect(page.locator(".lesson")).to_contain_text("✓ reached")
        assert serious_findings(page) == []


def test_a_text_that_keeps_too_little_of_the_given_one_is_told_so(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{lab}#/learn/deadlock/5")
        expect(page.locator(".lesson")).to_contain_text("with one entry changed")
        page.locator("textarea").fill("{}")
        expect(page.locator(".lesson")).to_contain_text("! too much is changed")


def test_conflicts_are_told_by_their_order_and_blind_writes_named(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{lab}#/history/w1(x)%20w2(x)%20r3(x)")
        expect(page.locator(".left")).to_contain_text("T3 read after T1 wrote")
        page.locator("textarea").fill("r1(x) w2(x) w1(x) w3(x)")
        verdict = page.locator(".right .card").first
        expect(verdict).to_contain_text("Not conflict-serializable")
        expect(verdict).to_contain_text("may be view-serializable")
        page.locator("textarea").fill("r1(x) r2(x) w1(x) w2(x)")
        expect(verdict).not_to_contain_text("view-serializable")
        expect(verdict).to_contain_text("Not conflict-serializable")
        page.get_by_role("button", name="aborted read", exact=True).click()
        expect(verdict.get_by_role("heading")).to_have_text("Not serializable")


def test_a_schedule_is_written_and_its_cycle_named(browser: Browser, lab: str) -> None:
    with watched_page(browser, color_scheme="dark") as watched:
        page = watched.page
        page.goto(f"{lab}#/history")
        expect(page.locator(".right")).to_contain_text("lost update")
        assert page.locator("svg.graph .edge.bad").count() == 2
        page.get_by_role("button", name="serial", exact=True).click()
        expect(page.get_by_role("heading", name="Serializable", exact=True)).to_be_visible()
        expect(page.locator(".right .good")).to_have_count(7)
        assert unquote(page.url).endswith("#/history/r1(x) w1(x) c1 r2(x) w2(x) c2")
        assert serious_findings(page) == []


def test_quorums_are_written_and_what_dominates_them_is_taken(browser: Browser, lab: str) -> None:
    with watched_page(browser, viewport={"width": 390, "height": 800}) as watched:
        page = watched.page
        page.goto(f"{lab}#/coterie/1,2%202,3")
        expect(page.locator(".right")).to_contain_text("neither {2} nor {1,3} contains a quorum")
        page.get_by_role("button", name="take it").click()
        expect(page.locator(".right")).to_contain_text("nondominated: no other coterie")
        page.get_by_role("button", name="plane", exact=True).click()
        expect(page.locator("svg.members .lines circle")).to_be_visible()
        page.get_by_role("button", name="{2,4,6}").click()
        expect(page.locator("svg.members .in")).to_have_count(3)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        assert serious_findings(page) == []


@pytest.mark.parametrize("editor", ["graph", "history", "coterie", "break", "learn"])
def test_any_text_in_an_address_is_answered_in_words(
    browser: Browser, lab: str, editor: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{lab}#/{editor}/<img src=x onerror=alert(1)>%")
        expect(page.get_by_role("navigation")).to_be_visible()
        if editor not in ("break", "learn"):
            expect(page.locator("textarea")).to_be_visible()
        else:
            expect(page.get_by_role("alert")).to_be_visible()
        watched.complaints.clear()  # a refusal is an answer; browsers write it down


def test_a_drawing_has_the_colours_of_the_page(browser: Browser, lab: str) -> None:
    with watched_page(browser, color_scheme="light") as watched:
        page = watched.page
        page.goto(f"{lab}#/graph")
        paper = page.locator(".drawing rect.fill-paper").first
        expect(paper).to_have_css("fill", "rgb(255, 255, 255)")
        page.get_by_text("Menu").click()
        page.get_by_label("theme").select_option("dark")
        expect(paper).to_have_css("fill", "rgb(18, 20, 23)")
        wide = page.locator(".drawing svg").bounding_box()
        assert wide is not None
        assert wide["width"] > 400
