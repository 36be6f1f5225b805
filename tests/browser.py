"""A real browser for tests: found on this machine, cut off from everything but loopback, and watched."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Route

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
LOOPBACK = ("http://127.0.0.1:", "http://localhost:", "http://[::1]:", "data:", "blob:", "file:")


def chromium() -> str:
    """Find a browser, or skip; fail where COTERIE_BROWSER says that one is required."""
    wanted = os.environ.get("COTERIE_BROWSER", "")
    names = [wanted] if wanted not in {"", "required"} else []
    names = names or ["chromium", "chromium-browser", "google-chrome"]
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        refuse = pytest.fail if wanted else pytest.skip
        refuse("no Chromium: apt install chromium, or name one in COTERIE_BROWSER")
    return found


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    path = chromium()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page, with what it has tried to reach outside this machine and what it has complained of."""

    page: Page
    outside: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def judge(self) -> None:
        assert not self.outside
        assert not self.complaints


@contextlib.contextmanager
def watched_page(browser: Browser, **options: Any) -> Iterator[Watched]:
    """Open a page that reaches loopback only; at the end it must not have complained."""
    context = browser.new_context(**options)
    watched = Watched(context.new_page())

    def route(asked: Route) -> None:
        if asked.request.url.startswith(LOOPBACK):
            asked.continue_()
        else:
            watched.outside.append(asked.request.url)
            asked.abort()

    context.route("**/*", route)
    page = watched.page
    page.on("console", lambda message: watched.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    yield watched
    watched.judge()
    context.close()


def serious_findings(page: Page) -> list[str]:
    """Let axe look at the page, and return what it finds serious or critical.

    It is evaluated in the page rather than loaded by it, since our pages load nothing foreign.
    """
    page.evaluate(AXE.read_text(encoding="utf-8"))
    result: dict[str, Any] = page.evaluate("() => axe.run()")
    return [
        f"{finding['id']}: {node['target']}"
        for finding in result["violations"]
        if finding["impact"] in {"serious", "critical"}
        for node in finding["nodes"]
    ]
