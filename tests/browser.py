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
    from typing import Literal

    from playwright.sync_api import Browser, Page, Route

LOOKS: dict[Literal["light", "dark"], tuple[int, int]] = {"light": (390, 1024), "dark": (768, 1440)}
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
        assert not self.outside, self.outside
        assert not self.complaints, self.complaints


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
    return _findings(page)


def _findings(page: Page) -> list[str]:
    result: dict[str, Any] = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
    return [
        f"{finding['id']}: {node['target']}"
        for finding in result["violations"]
        if finding["impact"] in {"serious", "critical"}
        for node in finding["nodes"]
    ]


def findings_everywhere(page: Page) -> list[str]:
    """Look in both themes and at four widths, two in each, also whether the page scrolls sideways."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = []
    for theme, widths in LOOKS.items():
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            found += [f"{theme} {width}: {finding}" for finding in _findings(page)]
            if page.evaluate("() => document.documentElement.scrollWidth > innerWidth"):
                found.append(f"{theme} {width}: scrolls sideways")
    return found
