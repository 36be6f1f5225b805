"""The pictures of the pages in the browser: python docs/screenshots.py [NAME ...].

Each page of the laboratory and the dashboard, in both themes, at 1440 and 390 pixels, from a real browser on real programs: a
cluster of three nodes with programs that take its locks, and a recorded cluster of a classic algorithm. Written
into docs/pictures/pages, with as few colours as a page needs, so that all of them are small.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from playwright.sync_api import sync_playwright

import coterie
from coterie.cluster.classic.record import record_cluster
from coterie.cluster.membership.config import convert
from coterie.testing.nodes import local_document, write_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

PICTURES = Path(__file__).parent / "pictures" / "pages"
COTERIE = (sys.executable, "-m", "coterie")
SIZES = {1440: 900, 390: 844}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
COLOURS = 64
RECORD_SECONDS = 0.5
HOLD_SECONDS = 0.02


class Shot(NamedTuple):
    """A page, and what shows when it is complete."""

    name: str
    fragment: str
    shown: str


SHOTS = (
    Shot("first", "", ".film figcaption"),
    Shot("play", "#/run/maekawa%203%20variant=basic/a1/a2/a3@3", ".verdict strong"),
    Shot("simulate", "#/sim/maekawa%205?entries=1", ".timeline canvas"),
    Shot("check", "#/check/maekawa%203%20variant=basic", ".outcome"),
    Shot("compare", "#/compare/maekawa,ricart-agrawala?N=4", ".score"),
    Shot("proofs", "#/prove/centralized", "text=The code follows it"),
    Shot("lessons", "#/learn", "main h2"),
    Shot("lesson", "#/learn/maekawa/1", ".verdict strong"),
    Shot("challenges", "#/break", "main h2"),
    Shot("challenge", "#/break/deadlock", "svg.run"),
    Shot("graphs", "#/graph", ".drawing svg"),
    Shot("schedules", "#/history", "main svg"),
    Shot("coteries", "#/coterie", "main svg"),
)

# Reads a picture as the browser shows it, and reduces it to the colours that occur most.
REDUCE = """async ([encoded, most]) => {
  const bytes = Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const pen = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
  pen.drawImage(picture, 0, 0);
  const { data } = pen.getImageData(0, 0, picture.width, picture.height);
  const counts = new Map();
  const keyOf = (i) => (data[i] << 16) | (data[i + 1] << 8) | data[i + 2];
  for (let i = 0; i < data.length; i += 4) counts.set(keyOf(i), (counts.get(keyOf(i)) ?? 0) + 1);
  const parts = (key) => [key >> 16, (key >> 8) & 255, key & 255];
  const away = (one, other) => one.reduce((sum, value, i) => sum + (value - other[i]) ** 2, 0);
  const chosen = [];
  for (const least of [600, 150, 0]) // far apart first, so that rare colours are not lost to shades of one
    for (const [key] of [...counts].sort((a, b) => b[1] - a[1]).slice(0, 3000))
      if (chosen.length < most * (least === 600 ? 0.5 : least ? 0.8 : 1) && !chosen.some((each) => away(each, parts(key)) <= least)) chosen.push(parts(key));
  const nearest = new Map();
  for (const key of counts.keys()) {
    let best = 0;
    chosen.forEach((each, i) => { if (away(each, parts(key)) < away(chosen[best], parts(key))) best = i; });
    nearest.set(key, best);
  }
  let places = "";
  for (let i = 0; i < data.length; i += 4) places += String.fromCharCode(nearest.get(keyOf(i)));
  return [picture.width, picture.height, chosen.flat(), btoa(places)];
}"""


def png(width: int, height: int, palette: list[int], places: bytes) -> bytes:
    """Encode a picture of few colours."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    rows = b"".join(
        b"\0" + places[start : start + width] for start in range(0, width * height, width)
    )
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            chunk(b"PLTE", bytes(palette)),
            chunk(b"IDAT", zlib.compress(rows, 9)),
            chunk(b"IEND", b""),
        ]
    )


class Tools(NamedTuple):
    """A page that is shown, and one that reduces its pictures."""

    page: Page
    reducer: Page

    def show(self, name: str, address: str, shown: str, seconds: float = 0.0) -> None:
        """Open an address, and take its pictures when something shows, and some seconds later."""
        self.page.emulate_media(reduced_motion="reduce")
        self.page.goto("about:blank")
        self.page.goto(address)
        self.page.locator(shown).first.wait_for()
        self.page.wait_for_timeout(1000 * seconds)
        self.save(name)

    def save(self, name: str) -> None:
        """Write what the page shows, in both themes and sizes."""
        for theme in THEMES:
            self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            for width, height in SIZES.items():
                self.page.set_viewport_size({"width": width, "height": height})
                self.page.wait_for_timeout(700)
                taken = base64.b64encode(self.page.screenshot()).decode()
                wide, high, palette, places = self.reducer.evaluate(REDUCE, [taken, COLOURS])
                file = PICTURES / f"{name}-{width}-{theme}.png"
                file.write_bytes(png(wide, high, palette, base64.b64decode(places)))


@contextlib.contextmanager
def program(*arguments: str, folder: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command until the pictures are taken."""
    process = subprocess.Popen(
        [*COTERIE, *arguments],
        env={**os.environ, **variables},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    """Wait for the next line that a command prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def take_laboratory(tools: Tools, folder: Path, names: list[str]) -> None:
    """Show each page of the laboratory."""
    with program("lab", "--port", "0", "--no-open", folder=folder) as serving:
        address = line(serving)
        for shot in SHOTS:
            if not names or shot.name in names:
                tools.show(shot.name, address + shot.fragment, shot.shown, seconds=1)


async def record() -> str:
    """Record a cluster of five nodes of a classic algorithm that is in use: such a trace is drawn, not played."""
    config = convert(local_document("abcde", cluster="classic", algorithm="ricart-agrawala"))
    begun, over = asyncio.Event(), asyncio.Event()

    async def use(coordinator: coterie.Coordinator) -> None:
        async with coordinator.lock("orders"):
            pass
        await begun.wait()
        while not over.is_set():
            async with coordinator.lock("orders"):
                await asyncio.sleep(HOLD_SECONDS)

    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        for member in config.membership.members:
            joined = await stack.enter_async_context(coterie.join(config, node=member.name))
            group.create_task(use(joined))
        found = await record_cluster(
            config.membership, config.security, RECORD_SECONDS, lambda _: begun.set()
        )
        over.set()
    return found.trace("orders").to_lines()


def take_trace(tools: Tools, trace: Path, folder: Path) -> None:
    """Show a recorded cluster."""
    with program("lab", str(trace), "--port", "0", "--no-open", folder=folder) as serving:
        tools.show("trace", line(serving), ".timeline canvas")


def take_dashboard(tools: Tools, folder: Path) -> None:
    """Show a cluster of three nodes whose programs hold locks and wait for them; an operator looks at one of these."""
    operators = folder / "operators"
    operators.write_text("a secret of operators alone", encoding="utf-8")
    operators.chmod(0o600)
    security = {"operator-secret-file": str(operators), "data": str(folder / "data")}
    document = {**local_document(["n1", "n2", "n3"], cluster="orders", lease=10), **security}
    file = write_document(document, folder)
    with contextlib.ExitStack() as stack:

        def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
            return stack.enter_context(program(*arguments, folder=folder, **variables))

        for name in document["nodes"]:
            start("serve", "--config", str(file), "--node", name, "--new-cluster")
        url = f"coterie:{file}"
        for name, programs in (("nightly/report", 3), ("orders/import", 1), ("cleanup", 2)):
            for _ in range(programs):
                start("lock", "--url", url, name, "-c", "echo inside; sleep 1000")
        serving = start("status", "--url", url, "--web", "--port", "0", "--no-open")
        tools.show("dashboard", line(serving), ".queue .waiter", seconds=8)
        tools.page.get_by_role("button", name="nightly/report").click()
        tools.save("dashboard-lock")


def main(names: list[str]) -> None:
    """Take the pictures that are named, or all."""
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    found = shutil.which(os.environ.get("COTERIE_BROWSER") or "chromium")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trace = folder / "orders.jsonl"
        trace.write_text(asyncio.run(record()), encoding="utf-8")
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        tools = Tools(browser.new_page(), browser.new_page())
        if not names or {shot.name for shot in SHOTS} & set(names):
            take_laboratory(tools, folder, names)
        if not names or "trace" in names:
            take_trace(tools, trace, folder)
        if not names or "dashboard" in names:
            take_dashboard(tools, folder)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
