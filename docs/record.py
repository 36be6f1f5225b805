"""Run everything that the docs show, and write down what it printed.

    python docs/record.py            renew all pages and pictures
    python docs/record.py --check    say which would change, and fail if any would
    python docs/record.py --live     write each scenario as a page beside its picture, for live.js

A page asks for output by a marker; what stands between it and the end marker is replaced:

    <!-- run: coterie algorithms -->                     the command and what it prints
    <!-- run in examples: coterie check naive.py -->     ... in that folder, not that of the page
    <!-- source: src/coterie/errors.py -->               a file
    <!-- source: src/coterie/errors.py#LockLost -->      one class or function of it
    <!-- source: src/coterie/locks/held.py#Held.ensure Held.valid -->   some methods
    <!-- scenario: maekawa-basic -->                     the diagram of a file of tests/scenarios,
                                                         with its transcript folded below
    <!-- picture: maekawa-circle -->                     ... with a link to it, where there are many
    <!-- moving: maekawa-basic -->                       the diagram alone, as it happens
    <!-- drawing: coteries-plane -->                     what docs/drawings/coteries_plane.py draws
    <!-- statements: survey -->                          what a source states, and what the commands
                                                         that judge it print; a verdict that they do
                                                         not bear out is an error
    <!-- end -->
"""

from __future__ import annotations

import ast
import contextlib
import html
import importlib
import io
import re
import shlex
import sys
import textwrap
from pathlib import Path
from typing import TypeAlias

from coterie.cli import run
from coterie.diagram import space_time
from coterie.errors import UsageError
from coterie.lab.play.runs.fork import address_of
from coterie.lab.scenario import perform
from coterie.lab.sources import Section, Source, Statement, source
from coterie.lab.web.file import run_page

Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LOOK = 200  # milliseconds, at each place of a live run
BLOCK = re.compile(
    r"(<!-- (run|source|scenario|picture|moving|drawing|statements)(?: in (\w+))?: (.+?) -->\n).*?(<!-- end -->)",
    re.DOTALL,
)
TEXTS = ("run", "source", "statements")  # the others are pictures

LIFELINE = re.compile(
    r'<line x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)"[^>]*stroke-width="1.2"[^>]*/>'
)
PASSING_SECONDS = 10
LABEL_MARGIN = 26  # above the first lifeline and below the last one, where labels stand
# It begins with the whole picture, which is what stills, prints and previews show.
PASSING = """<style>
@keyframes passing {{
0%, 15% {{ transform: scaleX(1) }} 15.01% {{ transform: scaleX(0) }} 90%, 100% {{ transform: scaleX(1) }}
}}
#passed {{ transform-origin: {left}px 0; animation: passing {seconds}s linear infinite }}
@media (prefers-reduced-motion: reduce) {{ #passed {{ animation: none }} }}
</style>
<clipPath id="so-far"><rect id="passed" x="{left}" y="{top}" width="{width}" height="{height}"/>
<rect x="0" y="{bottom}" width="10000" height="10000"/></clipPath>
<g clip-path="url(#so-far)">
"""


def main(arguments: list[str]) -> int:
    if "--live" in arguments:
        return write_live_runs()
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


def write_live_runs() -> int:
    """Write the scenarios that have a picture as pages to be played; say which cannot be."""
    for picture in sorted((DOCS / "pictures").glob("*.svg")):
        scenario = ROOT / "tests" / "scenarios" / f"{picture.stem}.txt"
        if not scenario.exists():
            continue
        trace = perform(scenario.read_text(encoding="utf-8")).trace
        try:
            run = address_of(trace)
            page = run_page(run.first, run.moves, milliseconds=LOOK)
        except UsageError as error:
            print("stays a picture:", picture.name, error)
        else:
            picture.with_suffix(".html").write_text(page, encoding="utf-8")
            print("live:", picture.name)
    return 0


def recorded() -> dict[Path, str]:
    """Return every page and picture as it should read now."""
    files: dict[Path, str] = {}
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]:
        files |= record_page(page)
    return files


def record_page(page: Path) -> dict[Path, str]:
    """Return the page and its pictures as they should read now."""
    pictures: dict[Path, str] = {}

    def fill(match: re.Match[str]) -> str:
        marker, kind, folder, argument, end = match.groups()
        try:
            return (
                f"{marker}{body_of(kind, argument, ROOT / folder if folder else page.parent)}{end}"
            )
        except Exception as error:
            error.add_note(f"asked for by {page.relative_to(ROOT)}: {marker.strip()}")
            raise

    def body_of(kind: str, argument: str, folder: Path) -> str:
        if kind in TEXTS:
            return text_of(kind, argument, folder)
        if kind == "drawing":
            picture = DOCS / "pictures" / f"{argument}.svg"
            pictures[picture] = drawing_of(argument)
            return f"![{title_of(pictures[picture])}]({up_to_docs(page)}pictures/{picture.name})\n"
        text = (ROOT / "tests" / "scenarios" / f"{argument}.txt").read_text(encoding="utf-8")
        trace = perform(text).trace
        if kind == "moving":
            picture = DOCS / "pictures" / f"{argument}-moving.svg"
            pictures[picture] = moving(space_time(trace))
            return f"![{trace.header.title}]({picture.relative_to(page.parent)})\n"
        picture = DOCS / "pictures" / f"{argument}.svg"
        pictures[picture] = space_time(trace)
        up = up_to_docs(page)
        if kind == "picture":
            transcript = f"{up}../tests/scenarios/{argument}.txt"
            return f"![{trace.header.title}]({up}pictures/{picture.name})\n\n[Its transcript]({transcript})\n"
        return (
            f"![Space-time diagram of the scenario]({up}pictures/{picture.name})\n\n{folded(text)}"
        )

    text = BLOCK.sub(fill, page.read_text(encoding="utf-8"))
    return {page: text, **pictures}


def text_of(kind: str, argument: str, folder: Path) -> str:
    """Return what a marker of `TEXTS` asks for."""
    match kind:
        case "run":
            return fenced("console", f"$ {argument}\n{output_of(argument, folder)}")
        case "source":
            return fenced("python", source_of(argument))
        case _:
            return statements_of(source(argument), folder)


def up_to_docs(page: Path) -> str:
    """Return the way from a page to docs/, which the page may stand above."""
    if not page.is_relative_to(DOCS):
        return "docs/"
    return "../" * len(page.parent.relative_to(DOCS).parts)


def drawing_of(name: str) -> str:
    """Return what a module of docs/drawings draws."""
    if str(ROOT) not in sys.path:  # as it is where this file is run as a script
        sys.path.append(str(ROOT))
    module = importlib.import_module(f"docs.drawings.{name.replace('-', '_')}")
    drawing: str = module.draw()
    return drawing


def title_of(picture: str) -> str:
    """Return the title of a picture, for readers who do not see it."""
    found = re.search(r"<title>(.+?)</title>", picture)
    assert found is not None
    return html.unescape(found[1])


def moving(picture: str) -> str:
    """Let what happens in a diagram appear in its time; the frame, the names and the legend stand still."""
    lines = list(LIFELINE.finditer(picture))
    left, right = float(lines[0][1]), float(lines[0][3])
    top, bottom = float(lines[0][2]) - LABEL_MARGIN, float(lines[-1][2]) + LABEL_MARGIN
    size = {"left": left, "top": top, "width": right - left, "height": bottom - top}
    split = lines[-1].end() + 1
    head = PASSING.format(**size, bottom=bottom, seconds=PASSING_SECONDS)
    return f"{picture[:split]}{head}{picture[split:].replace('</svg>', '</g></svg>')}"


def source_of(argument: str) -> str:
    """Return a file, or the definitions in it that follow a `#`, with their decorators."""
    path, _, names = argument.partition("#")
    text = (ROOT / path).read_text(encoding="utf-8")
    if not names:
        return text
    module, lines = ast.parse(text), text.splitlines()
    shown = []
    for name in names.split():
        found: ast.AST = module
        for part in name.split("."):
            found = definition(found, part, argument)
        assert isinstance(found, Definition)
        first = min(node.lineno for node in [found, *found.decorator_list])
        shown.append(textwrap.dedent("\n".join(lines[first - 1 : found.end_lineno])))
    return "\n\n\n".join(shown)  # as the formatter, which reads pages too, wants it


def definition(scope: ast.AST, name: str, argument: str) -> Definition:
    """Return the class or function of that name right inside a module or class."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, Definition) and node.name == name:
            return node
    raise LookupError(f"{argument}: no class or function {name} is there")


def output_of(command: str, folder: Path) -> str:
    """Run a coterie command in a folder and return what it prints."""
    return printed_by(command, folder)[0]


def printed_by(command: str, folder: Path) -> tuple[str, str, int]:
    """Run a coterie command in a folder and return its output, its talk and its exit status."""
    program, *arguments = shlex.split(command)
    assert program == "coterie", f"only coterie is run from pages, not {program}"
    stdout, talk = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(talk),
    ):
        status = run(arguments)
    return stdout.getvalue(), talk.getvalue(), status


def statements_of(chosen: Source, folder: Path) -> str:
    """Return the tables of a source, a section each, with all that the commands print below."""
    parts, first = [f"**{chosen.summary()}**\n"], 1
    for section in chosen.sections:
        parts.append(table_of(section, first, folder))
        first += len(section.statements)
    return "\n".join(parts)


def table_of(section: Section, first: int, folder: Path) -> str:
    """Return the table of a section; raise `ValueError` where a command does not print what decides."""
    rows = ["| | statement | verdict | shown by |", "|---|---|---|---|"]
    shown: dict[str, str] = {}
    for number, statement in enumerate(section.statements, first):
        evidence = "-"
        if statement.evidence:
            printed, status = evidence_of(statement, folder)
            lines = [cell(code(line)) for line in statement.deciding_lines(printed, status)]
            evidence = "<br>".join([linked(statement), *lines])
            shown.setdefault(statement.command or "", printed)
        more = f" [More](../{statement.page})" if statement.page else ""
        verdict, words = statement.verdict.value, statement.says[len(statement.verdict.value) :]
        rows.append(f"| {number} | {statement.text} | **{verdict}**{words}.{more} | {evidence} |")
    shown.pop("", None)
    blocks = [fenced("console", f"$ {command}\n{printed}") for command, printed in shown.items()]
    all_of_it = "\n".join(blocks)
    folded_blocks = f"<details><summary>All that they print</summary>\n\n{all_of_it}\n</details>\n"
    return "\n".join([f"## {section.title}\n", *rows, "", folded_blocks])


def evidence_of(statement: Statement, folder: Path) -> tuple[str, int]:
    """Return the transcript of a scenario, or what a command prints, maybe a complaint, and its status."""
    if statement.scenario:
        path = ROOT / "tests" / "scenarios" / f"{statement.scenario}.txt"
        return perform(path.read_text(encoding="utf-8")).transcript, 0
    assert statement.command is not None
    printed, talk, status = printed_by(statement.command, folder.parent)
    return printed or talk, status


def linked(statement: Statement) -> str:
    """Return the command as code, or a link to the scenario."""
    if statement.scenario:
        name = statement.scenario
        return f"[the scenario {name}](../../tests/scenarios/{name}.txt)"
    return cell(code(f"$ {statement.command}"))


def code(line: str) -> str:
    """Return a line as code, with its columns one space apart."""
    return f"`{re.sub(' {2,}', ' ', line.strip())}`"


def cell(text: str) -> str:
    """Return a text that does not end the cell of a table."""
    return text.replace("|", "\\|")


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def folded(transcript: str) -> str:
    """Return the block that opens on a click; the blank lines let Markdown render inside it."""
    block = fenced("text", transcript)
    return f"<details><summary>The transcript</summary>\n\n{block}\n</details>\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
