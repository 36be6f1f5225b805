"""The notebook of the examples runs as plain Python, and its figure is the one that the docs show.

REWRITE=1 records the figure again.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "examples" / "load.ipynb"
PICTURE = ROOT / "docs" / "pictures" / "load.svg"


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Run the code cells one after the other, and return the names that they define."""
    names: dict[str, Any] = {}
    folder = tmp_path_factory.mktemp("notebook")
    with contextlib.chdir(folder):
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)  # noqa: S102
    names["written"] = (folder / "load.svg").read_text(encoding="utf-8")
    return names


@pytest.mark.slow
def test_the_figure_of_the_docs_is_that_of_the_notebook(notebook: Mapping[str, Any]) -> None:
    if os.environ.get("REWRITE"):
        PICTURE.write_text(notebook["written"], encoding="utf-8")
    assert notebook["written"] == PICTURE.read_text(encoding="utf-8")
    assert notebook["figure"]._repr_svg_().startswith("<svg")


@pytest.mark.slow
def test_the_curves_are_as_the_notebook_describes_them(notebook: Mapping[str, Any]) -> None:
    def messages(name: str) -> list[float]:
        line = notebook["series"](name, notebook["COLUMNS"]["messages per entry"])
        return [y for _, y in line.measured]

    assert set(messages("ricart-agrawala")) == {60.0}
    assert set(messages("centralized")) == {3.0}
    assert all(29 < value < 31 for value in messages("suzuki-kasami"))
    maekawa = messages("maekawa")
    assert maekawa[0] == pytest.approx(15, abs=0.1)
    assert max(range(8), key=maekawa.__getitem__) in (3, 4, 5)
    raymond = messages("raymond")
    assert raymond[0] == pytest.approx(9.5, abs=0.5)
    assert raymond[-1] == pytest.approx(4.5, abs=0.5)
    assert all(3.5 < value < 4.5 for value in messages("naimi-trehel"))


def test_the_notebook_is_stored_without_results() -> None:
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert stored["nbformat"] == 4
    cells = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
