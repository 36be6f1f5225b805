"""The site has every page of docs/, and its links lead to pages that it has; nothing is built here."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parent.parent
PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def added(hooks: ModuleType) -> set[str]:
    """Return the pages that the site has beside those of docs/."""
    return {hooks.site_path(path) for path in hooks.linked_files()}


def pages_of(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    assert isinstance(entry, dict | list)
    below = entry.values() if isinstance(entry, dict) else entry
    return [page for each in below for page in pages_of(each)]


def test_the_navigation_names_every_page_once(hooks: ModuleType) -> None:
    """One that is missing is to be named in docs/README.md, or in the README.md of its folder."""
    named = pages_of(hooks.navigation())
    here = [page for page in named if not page.startswith(("project/", "reference/"))]
    assert sorted(f"docs/{page}" for page in here) == PAGES


def test_the_navigation_follows_the_table_of_contents(hooks: ModuleType) -> None:
    contents = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    sections = [line[3:] for line in contents.splitlines() if line.startswith("## ")]
    titles = [title for entry in hooks.navigation() for title in entry]
    assert titles == ["Documentation", *sections, "Reference"]


def test_the_reference_names_modules_that_are_there(hooks: ModuleType) -> None:
    for name in hooks.PUBLIC:
        assert importlib.import_module(name).__doc__


@pytest.mark.parametrize("page", PAGES)
def test_links_of_the_site_lead_to_its_pages(page: str, hooks: ModuleType, added: set[str]) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    here = page.removeprefix("docs/")
    for target in hooks.links_of(here, hooks.for_the_site(page, text)):
        assert target in added or (ROOT / "docs" / target).exists(), target


def test_a_link_out_of_the_docs_leads_to_a_page_that_shows_the_file(hooks: ModuleType) -> None:
    text = "[contract](../../src/coterie/process.py#L7), [map](../../CONTRIBUTING.md), [here](#x)\n"
    assert hooks.for_the_site("docs/algorithms/ring.md", text) == (
        "[contract](../source/src/coterie/process.py.md#L7), [map](../project/CONTRIBUTING.md),"
        " [here](#x)\n"
    )
    shown = hooks.source_page("src/coterie/process.py")
    assert (ROOT / "src" / "coterie" / "process.py").read_text(encoding="utf-8").rstrip() in shown


def test_code_is_left_alone_and_folded_text_is_markdown(hooks: ModuleType) -> None:
    code = "```text\n[x](../src/a.py) <details>\n```"
    text = f"<details><summary>More</summary>\n\n{code}\n\n</details>\n"
    expected = f"<details markdown><summary>More</summary>\n\n{code}\n\n</details>\n"
    assert hooks.for_the_site("docs/ring.md", text) == expected


def test_a_function_named_like_its_file_is_asked_for_by_itself(hooks: ModuleType) -> None:
    assert "::: coterie.lab.explore.check.check\n" in hooks.reference_page("coterie.lab.explore")
