"""What the docs show is what the commands print, and their links lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record", ROOT / "docs" / "record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_what_its_commands_print(page: Path, recorder: ModuleType) -> None:
    """Run `make docs` to record it again."""
    for path, text in recorder.record_page(page).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.relative_to(ROOT)} is stale"


SHAPES = '''"""Shapes."""


@final
class Square(Shape):
    """A square."""

    side: int

    @property
    def area(self) -> int:
        return self.side**2


async def draw() -> None: ...
'''

SQUARE = '''@final
class Square(Shape):
    """A square."""

    side: int

    @property
    def area(self) -> int:
        return self.side**2'''


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("shapes.py", SHAPES),
        ("shapes.py#Square", SQUARE),
        ("shapes.py#Square.area", "@property\ndef area(self) -> int:\n    return self.side**2"),
        ("shapes.py#draw", "async def draw() -> None: ..."),
        ("shapes.py#draw Square", f"async def draw() -> None: ...\n\n\n{SQUARE}"),
    ],
)
def test_a_marker_names_a_file_or_definitions_of_it(
    argument: str,
    shown: str,
    recorder: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "shapes.py").write_text(SHAPES, encoding="utf-8")
    monkeypatch.setattr(recorder, "ROOT", tmp_path)
    assert recorder.source_of(argument) == shown


@pytest.mark.parametrize("name", ["LockLoss", "LockLost.area", "LockLost.message"])
def test_a_marker_that_names_nothing_is_an_error(name: str, recorder: ModuleType) -> None:
    argument = f"src/coterie/errors.py#{name}"
    with pytest.raises(LookupError, match=f"{argument}: no class or function"):
        recorder.source_of(argument)


def test_a_transcript_is_folded_below_its_picture(
    recorder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blank lines inside <details> are what makes Markdown render its block."""
    page = tmp_path / "algorithms" / "page.md"
    page.parent.mkdir()
    page.write_text("<!-- scenario: lamport-plain -->\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(recorder, "DOCS", tmp_path)
    recorded = recorder.record_page(page)
    transcript = (ROOT / "tests" / "scenarios" / "lamport-plain.txt").read_text(encoding="utf-8")
    assert recorded[page] == (
        "<!-- scenario: lamport-plain -->\n"
        "![Space-time diagram of the scenario](../pictures/lamport-plain.svg)\n\n"
        "<details><summary>The transcript</summary>\n\n"
        f"```text\n{transcript.rstrip()}\n```\n\n"
        "</details>\n"
        "<!-- end -->\n"
    )
    assert recorded[tmp_path / "pictures" / "lamport-plain.svg"].startswith("<svg")


def test_a_picture_links_its_transcript(
    recorder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "algorithms" / "page.md"
    page.parent.mkdir()
    page.write_text("<!-- picture: ring-suspicion -->\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(recorder, "DOCS", tmp_path)
    recorded = recorder.record_page(page)
    title = "Two false suspicions: the list without the leader is the last to come round"
    assert recorded[page] == (
        "<!-- picture: ring-suspicion -->\n"
        f"![{title}](../pictures/ring-suspicion.svg)\n\n"
        "[Its transcript](../../tests/scenarios/ring-suspicion.txt)\n"
        "<!-- end -->\n"
    )


def test_each_drawing_is_on_a_page() -> None:
    modules = (ROOT / "docs" / "drawings").glob("*.py")
    drawings = {path.stem.replace("_", "-") for path in modules} - {"figure", "lanes"}
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert drawings == set(re.findall(r"<!-- drawing: (.+?) -->", text))


def test_pictures_bring_their_own_paper() -> None:
    """So they read on dark pages: the paper is white or follows the reader, never what lies below."""
    for path in (ROOT / "docs").rglob("*.svg"):
        picture = path.read_text(encoding="utf-8")
        paper = re.search(r"<rect x=\"0.5\" y=\"0.5\"[^>]* fill=\"#ffffff\"", picture)
        assert paper is not None, path.name


def without_code(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the names under which headings can be linked to, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", without_code(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(there), f"{target}: no such heading"


def test_the_example_of_the_readme_works_as_pasted(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert examples
    for example in examples:
        subprocess.run(
            [sys.executable, "-c", example],
            check=True,
            timeout=120,
            cwd=tmp_path,
            env={"COTERIE_DIR": str(tmp_path)},
        )


TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"
UNSAID = re.compile(r"…|'[^']*'|\d+")  # what differs from case to case


def messages_of_the_code() -> str:
    """Return all texts of the code, one per line, without what is filled into them."""
    texts = []
    for path in (ROOT / "src" / "coterie").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts += [part.value for part in node.values if isinstance(part, ast.Constant)]
            elif isinstance(node, ast.Constant):
                texts.append(node.value)
    return "\n".join(text for text in texts if isinstance(text, str))


def test_the_troubleshooting_page_quotes_what_the_code_says() -> None:
    """A message that changes is to change there, too."""
    said = messages_of_the_code()
    page = " ".join(TROUBLESHOOTING.read_text(encoding="utf-8").split())
    quoted = [
        quote
        for title in re.findall(r"\*\*(.+?)\*\*", page)
        for quote in re.findall(r'"([^"]+)"', title)
    ]
    assert len(quoted) > 30
    for quote in quoted:
        for part in UNSAID.split(quote):
            assert part.strip(" ,;:()") in said, f"no message of the code has {part!r}"


def test_the_page_about_changes_quotes_what_the_code_says() -> None:
    said = messages_of_the_code()
    page = (ROOT / "docs" / "change.md").read_text(encoding="utf-8")
    rows = page[page.index("| message |") :].split("\n\n")[0].splitlines()[2:]
    quoted = [quote for row in rows for quote in re.findall(r"\*([^*]+)\*", row.split("|")[1])]
    assert len(quoted) > 15
    for quote in quoted:
        for part in UNSAID.split(quote):
            assert part.strip(" ,;:()") in said, f"no message of the code has {part!r}"


def test_the_glossary_names_what_is_in_the_code() -> None:
    """Classes, fields and methods; one that is renamed is to be renamed there, too."""
    names = set()
    for path in (ROOT / "src" / "coterie").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    rows = re.findall(r"^\|.*\|(.*)\|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert len(named) > 30
    for name in named:
        assert set(name.split(".")) <= names, f"nothing is called {name}"
