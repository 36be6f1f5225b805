"""One browser for all tests of pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.browser import open_browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened
