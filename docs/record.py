"""Run everything that the docs show, and write down what it printed.

    python docs/record.py            renew all pages and pictures
    python docs/record.py --check    say which would change, and fail if any would

A page asks for output by a marker; what stands between it and the end marker is replaced:

    <!-- run: coterie algorithms -->            the command and what it prints
    <!-- source: src/coterie/clocks/__init__.py -->      a file
    <!-- scenario: maekawa_basic -->            a transcript of tests/scenarios, and its diagram
    <!-- end -->
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

from coterie.cli import run
from coterie.diagram import space_time
from coterie.scenario import perform

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(<!-- (run|source|scenario): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(arguments: list[str]) -> int:
    stale = []
    for path, text in recorded().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT))
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in stale:
        print("stale:" if "--check" in arguments else "renewed:", path)
    return 1 if stale and "--check" in arguments else 0


def recorded() -> dict[Path, str]:
    """Make every page and picture anew."""
    files: dict[Path, str] = {}
    for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        files |= record_page(page)
    return files


def record_page(page: Path) -> dict[Path, str]:
    pictures: dict[Path, str] = {}

    def fill(match: re.Match[str]) -> str:
        marker, kind, argument, end = match.groups()
        if kind == "run":
            body = fenced("console", f"$ {argument}\n{output_of(argument, page.parent)}")
        elif kind == "source":
            body = fenced("python", (ROOT / argument).read_text(encoding="utf-8"))
        else:
            text = (ROOT / "tests" / "scenarios" / f"{argument}.txt").read_text(encoding="utf-8")
            picture = DOCS / "pictures" / f"{argument}.svg"
            pictures[picture] = space_time(perform(text).trace)
            link = (
                Path("../" * len(page.parent.relative_to(DOCS).parts)) / "pictures" / picture.name
            )
            body = f"{fenced('text', text)}\n![Space-time diagram of the scenario]({link})\n"
        return f"{marker}{body}{end}"

    text = BLOCK.sub(fill, page.read_text(encoding="utf-8"))
    return {page: text, **pictures}


def output_of(command: str, folder: Path) -> str:
    """Run a coterie command in the page's folder and return what it prints."""
    program, *arguments = shlex.split(command)
    assert program == "coterie", f"only coterie is run from pages, not {program}"
    stdout, talk = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(talk),
    ):
        run(arguments)
    return stdout.getvalue()


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
