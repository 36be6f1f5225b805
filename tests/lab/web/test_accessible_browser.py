"""Every page of the laboratory in both themes, at four widths: nothing serious for axe, no scrolling sideways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser import findings_everywhere, watched_page
from tests.processes import BOUND_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.real
PAGES = {  # by what shows when a page is complete
    "": ".film figcaption",
    "#/run/maekawa%203%20variant=basic/a1/a2/a3@2": ".verdict strong",
    "#/sim/maekawa%205?entries=1": ".timeline canvas",
    "#/check/maekawa%203%20variant=basic": ".outcome",
    "#/compare/maekawa,raymond?N=4": ".timeline canvas",
    "#/prove": "main a",
    "#/prove/centralized": ".clauses",
    "#/learn": "main h2",
    "#/learn/maekawa/1": "main h2",
    "#/break": "main h2",
    "#/break/deadlock": "main h2",
    "#/graph": "main svg",
    "#/history": "main svg",
    "#/coterie": "main svg",
}


@pytest.mark.parametrize("fragment", PAGES)
def test_a_page_is_accessible_in_both_themes_at_all_widths(
    browser: Browser, lab: str, fragment: str
) -> None:
    with watched_page(browser, reduced_motion="reduce") as watched:
        page = watched.page
        page.goto(lab + fragment)
        shown = page.locator(PAGES[fragment]).first
        expect(shown).to_be_visible(timeout=1000 * BOUND_SECONDS)
        assert findings_everywhere(page) == []
