"""What the page about figures and traces shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from coterie.telemetry import Metrics, Outcome

if TYPE_CHECKING:
    import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_URL", raising=False)
    monkeypatch.setenv("COTERIE_DIR", str(tmp_path / "locks"))
    (example, *_) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(example, {})  # noqa: S102 - it is ours
    shown = capsys.readouterr().out
    assert shown.startswith("1 1 0\n")
    assert "coterie_client_hold_seconds_count 1\n" in shown


def test_the_tables_name_every_figure_and_every_outcome() -> None:
    figures = set(re.findall(r"# TYPE (\w+)", Metrics().text()))
    assert set(re.findall(r"`(coterie_(?:client|job)_\w+)", PAGE)) == figures
    listed = re.findall(
        r"^\| `([a-z]+)` \|", PAGE.split("The outcomes:")[1].split("## ")[0], re.MULTILINE
    )
    assert listed == list(get_args(Outcome))
