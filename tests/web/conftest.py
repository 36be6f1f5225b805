"""One browser for all tests of a module: while it is open, no other test can run an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.browser import open_browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened
