"""The page of proofs in a real browser: clauses left out and added, pictures, a lesson, narrow and dark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser import serious_findings, watched_page
from tests.processes import BOUND_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

expect.set_options(timeout=1000 * BOUND_SECONDS)
ONE = """def one_is_let_in(p: Process, q: Process):
    return (holder(p) & holder(q)) >> (p == q)"""


def test_a_clause_is_left_out_its_loss_is_drawn_and_one_of_ones_own_mends_it(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{lab}#/prove/centralized")
        outcome = page.locator(".verdict")
        expect(outcome).to_contain_text("Proved: mutual exclusion, no deadlock: for every N.")
        expect(page.get_by_text("The code follows it")).to_be_visible()
        page.get_by_label("use one holder").uncheck()
        expect(outcome).to_contain_text("Not proved: the step receive grant breaks")
        expect(page).to_have_url(re.compile("#/prove/centralized%20without%20one_holder$"))
        expect(page.locator(".drawing svg")).to_have_count(2)
        expect(page.locator(".meaning")).to_contain_text("No run from the start is known")
        assert serious_findings(page) == []
        page.locator("textarea").fill(ONE[:30])
        expect(page.get_by_role("alert")).to_contain_text("line 1: ")
        page.locator("textarea").fill(ONE)
        expect(outcome).to_contain_text("Proved: ")
        expect(page.locator(".clauses")).to_contain_text(["one is let in"])
        page.reload()
        expect(page.locator("textarea")).to_have_value(ONE)
        expect(outcome).to_contain_text("Proved: ")


def test_a_flawed_page_shows_its_run_on_a_narrow_dark_page(browser: Browser, lab: str) -> None:
    options = {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}
    with watched_page(browser, **options) as watched:
        page = watched.page
        page.goto(f"{lab}#/prove/centralized%20variant=serves-while-one-is-inside")
        expect(page.locator(".meaning")).to_contain_text(
            " steps from the start break “mutual exclusion”"
        )
        expect(page.locator(".run-steps")).to_contain_text("let_in(")
        page.get_by_role("button", name="mutual exclusion").click()
        expect(page.locator(".clauses .clause-text").first).to_contain_text("def mutual_exclusion(")
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        assert serious_findings(page) == []


def test_a_page_of_the_lesson_is_reached_by_a_clause_that_is_typed(
    browser: Browser, lab: str
) -> None:
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(f"{lab}#/learn/induction/4")
        expect(page.locator(".verdict")).to_contain_text("does not follow from the clauses")
        expect(page.locator(".lesson")).not_to_contain_text("✓ reached")
        page.locator("textarea").fill(
            "def nothing_is_lost(p: Process):\n    return waiting(p) >> (request(p) | queued(p) | grant(p))"
        )
        expect(page.locator(".lesson")).to_contain_text("✓ reached")
        assert serious_findings(page) == []
