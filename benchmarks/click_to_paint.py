"""How long the laboratory takes from a click on a move to the frame that shows it: python -m benchmarks.click_to_paint [--clicks N].

It is measured in the page, with its own clock: from the event of the click until the frame has been drawn in which the
number of moves is another one. The CPU load of the machine stands beside it: other programs make single frames late.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.browser import open_browser
from tests.processes import directory, line

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUNS = ("maekawa 3 variant=basic", "lamport 3", "ricart-agrawala 3")
PAUSE_MILLISECONDS = 300
WATCH = """() => {
  window.painted = [];
  addEventListener("click", (event) => {
    if (!event.target.closest(".moves")) return;
    const begun = performance.now(), bar = () => document.querySelector(".time-bar").textContent, before = bar();
    const changes = new MutationObserver(() => {
      if (bar() === before) return;
      changes.disconnect();
      requestAnimationFrame(() => { // a message is taken after the frame of this callback
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => window.painted.push(performance.now() - begun);
        port2.postMessage(null);
      });
    });
    changes.observe(document.body, { subtree: true, childList: true, characterData: true });
  }, true);
}"""


def milliseconds(page: Page, address: str, clicks: int) -> list[float]:
    """Click so many moves, and begin again where there are no more; return how long each took."""
    page.goto("about:blank")
    page.goto(address)
    page.locator(".verdict strong").wait_for()
    page.evaluate(WATCH)
    moves = page.locator(".moves li button:visible")
    for count in range(clicks):
        if count % 12 == 11 or moves.count() == 0:
            page.keyboard.press("Home")
            page.wait_for_timeout(PAUSE_MILLISECONDS)
        page.wait_for_timeout(PAUSE_MILLISECONDS)  # until the moves of this place have come
        moves.first.click()
        page.wait_for_function("(count) => window.painted.length > count", arg=count)
    taken: list[float] = page.evaluate("() => window.painted")
    return sorted(taken)


def main(arguments: list[str]) -> int:
    """Measure, and print a line for each algorithm."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.click_to_paint")
    parser.add_argument("--clicks", type=int, default=100)
    clicks = parser.parse_args(arguments).clicks
    with (
        tempfile.TemporaryDirectory() as name,
        directory(Path(name)) as started,
        open_browser() as browser,
    ):
        address = line(started.start("lab", "--port", "0", "--no-open"))
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        for first in RUNS:
            taken = milliseconds(page, f"{address}#/run/{quote(first)}@0", clicks)
            print(
                f"{first}: median {statistics.median(taken):.1f} ms,"
                f" p95 {taken[int(0.95 * len(taken))]:.1f} ms, at most {taken[-1]:.1f} ms;"
                f" load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
