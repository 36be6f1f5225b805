"""What the docs show is what the commands print, and their links lead somewhere."""

from __future__ import annotations

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
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{target} is not there"


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
