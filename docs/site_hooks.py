"""What mkdocs.yml leaves to code: the site's navigation, and links to files outside docs/.

Pages are written to be read in a checkout: docs/README.md is their table of contents, and they link
to source files beside them. The site takes its navigation from that table, and gets a page of its own
for each file that a page links to; so the pages say nothing about the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

Navigation: TypeAlias = "list[dict[str, str | Navigation]]"

ROOT = Path(__file__).parent.parent
CONTENTS = "README.md"

# What a program may import; a module that is not here may change at any time.
PUBLIC = (
    "coterie",
    "coterie.sync",
    "coterie.testing",
    "coterie.errors",
    "coterie.telemetry",
    "coterie.transactions",
    "coterie.process",
    "coterie.catalogue",
    "coterie.lab.simulate",
    "coterie.lab.explore",
    "coterie.lab.scenario",
    "coterie.lab.charts",
    "coterie.coteries",
    "coterie.clocks",
    "coterie.clocks.synchronisation",
    "coterie.algorithms.deadlock",
    "coterie.diagram",
)

LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
TARGET = re.compile(r"(?<=\]\()[^)\s#]+(?=[)#])")
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
FOLDED = re.compile(r"<details(?= |>)")
LANGUAGES = {".py": "python", ".json": "json", ".ipynb": "json", ".toml": "toml", ".yml": "yaml"}
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n"


# Navigation


def navigation() -> Navigation:
    """Return the navigation: the sections of the table of contents, then the public modules."""
    contents = (ROOT / "docs" / CONTENTS).read_text(encoding="utf-8")
    found: Navigation = [{"Documentation": CONTENTS}]
    for section in re.split(r"^## ", contents, flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        entries = re.findall(r"^- (.+?)(?=^- |^$|\Z)", text, flags=re.DOTALL | re.MULTILINE)
        found.append({title: [entry_of(entry) for entry in entries]})
    found.append({"Reference": [{module: reference_of(module)} for module in PUBLIC]})
    return found


def entry_of(entry: str) -> dict[str, str | Navigation]:
    """Return a page, or a folded list of them where an entry links to several or to a folder."""
    links = [(name, site_path(f"docs/{target}")) for name, target in LINK.findall(entry)]
    title, first = links[0]
    if first.endswith("/README.md"):
        named = {page for _, page in links}
        links += [(heading(page), page) for page in pages_below(first) if page not in named]
    if len(links) == 1:
        return {title: first}
    if not entry.startswith("["):
        title = entry.partition(":")[0]
    return {title: [{name[0].upper() + name[1:]: page} for name, page in links]}


def pages_below(contents: str) -> list[str]:
    """Return the pages of its own folder that a README.md links to, in its order."""
    text = (ROOT / "docs" / contents).read_text(encoding="utf-8")
    folder = posixpath.dirname(contents)
    linked = [path.removeprefix("docs/") for path in links_of(f"docs/{contents}", text)]
    pages = [path for path in linked if re.fullmatch(rf"{folder}/[^/]+\.md", path)]
    return list(dict.fromkeys(pages))


def heading(page: str) -> str:
    """Return the first heading of a page of docs/."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.partition("\n")[0].removeprefix("# ")


def reference_of(module: str) -> str:
    return f"reference/{module}.md"


def reference_page(module: str) -> str:
    """Return the text that asks for the docstrings of a module and of what it exports.

    A function that has the name of its own file (`coterie.lab.explore.check.check`) is asked for by itself:
    by its short name, the file is found.
    """
    text = f"# {module}\n\n::: {module}\n"
    there = ROOT / "src" / module.replace(".", "/") / "__init__.py"
    if not there.exists():
        return text
    for name in re.findall(rf"from {module}\.(\w+) import .*\b\1\b", there.read_text("utf-8")):
        text += f"\n::: {module}.{name}.{name}\n    options:\n      show_root_heading: true\n"
        text += "      show_root_full_path: false\n      show_root_toc_entry: true\n"
    return text


# Links


def is_in_site(path: str) -> bool:
    """Return True if a file is in the site as it is; the scripts of docs/ are not."""
    return path.startswith("docs/") and not path.endswith(".py")


def site_path(path: str) -> str:
    """Return where the site has a file or folder of the repository, by its path there."""
    path = posixpath.normpath(path)
    if is_in_site(path):
        return path.removeprefix("docs/")
    if path.endswith(".md"):
        return f"project/{path}"
    return f"source/{path}.md"


def links_of(path: str, text: str) -> Iterator[str]:
    """Yield the paths in the repository to which a page of it links."""
    for part in FENCED.split(text)[::2]:
        for target in TARGET.findall(part):
            if "://" not in target:
                yield posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def linked_files() -> dict[str, str]:
    """Return the files outside docs/ that pages link to, by their paths, with their pages' texts."""
    waiting = [str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")]
    pages: dict[str, str] = {}
    while waiting:
        page = waiting.pop()
        text = (ROOT / page).read_text(encoding="utf-8")
        if not is_in_site(page):
            pages[page] = text
        for path in links_of(page, text):
            if is_in_site(path) or path in pages:
                continue
            if path.endswith(".md"):
                waiting.append(path)
            else:
                pages[path] = source_page(path)
    return pages


def source_page(path: str) -> str:
    """Return a page that shows a file, or the names in a folder."""
    there = ROOT / path
    if there.is_dir():
        names = sorted(f"{each.name}/" if each.is_dir() else each.name for each in there.iterdir())
        text = "\n".join(name for name in names if name != "__pycache__/")
        language = "text"
    else:
        text = there.read_text(encoding="utf-8").rstrip()
        language = LANGUAGES.get(there.suffix, "text")
    return f'{NOT_SEARCHED}# {path}\n\n``````{{.{language} linenums="1"}}\n{text}\n``````\n'


def for_the_site(path: str, text: str) -> str:
    """Return a page of the repository as the site needs it: its links, and what it folds."""
    here = posixpath.dirname(site_path(path))

    def moved(match: re.Match[str]) -> str:
        target = match.group()
        if "://" in target:
            return target
        there = posixpath.join(posixpath.dirname(path), target)
        return posixpath.relpath(site_path(there), here or ".")

    parts = FENCED.split(text)
    parts[::2] = [FOLDED.sub("<details markdown", TARGET.sub(moved, part)) for part in parts[::2]]
    return "".join(parts)


# What mkdocs calls


def on_config(config: MkDocsConfig) -> None:
    config.nav = navigation()


def on_files(files: Files, config: MkDocsConfig) -> None:
    from mkdocs.structure.files import File, InclusionLevel  # noqa: PLC0415 - tests have none

    navigated = str(config.nav)
    for path, text in linked_files().items():
        uri = site_path(path)
        page = File.generated(config, uri, content=text)
        if repr(uri) not in navigated:
            page.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(page)
    for module in PUBLIC:
        page = File.generated(config, reference_of(module), content=reference_page(module))
        files.append(page)


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    uri = page.file.src_uri
    if uri.startswith(("source/", "reference/")):
        return markdown
    path = uri.removeprefix("project/") if uri.startswith("project/") else f"docs/{uri}"
    return for_the_site(path, markdown)
