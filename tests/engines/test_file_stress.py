"""Programs in one lock directory that are killed with -9: the small version of `benchmarks/files/stress.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.files.stress import Grant, judge, stress

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork, if pytest has threads
def test_promises_are_kept_while_programs_are_killed(tmp_path: Path) -> None:
    report = stress(tmp_path, grants=600, kills=12, seed=1)
    assert report.problems == []
    assert report.kills >= 12
    assert report.waited > 100
    assert 100 < report.shared < report.grants


def grant(token: int, *, shared: bool = False, began: int = 0, stood: int | None = None) -> Grant:
    return Grant(0, shared, True, 1, began, began if stood is None else stood, token)


def test_what_is_wrong_would_be_seen() -> None:
    assert judge([grant(1), grant(1)], 0, []).problems, "a token twice"
    assert judge([grant(2), grant(1, shared=True)], 0, []).problems, "a reader below a writer"
    assert judge([grant(2, shared=True), grant(1)], 0, []).problems, "a writer below a reader"
    first, second = grant(1, began=20, stood=30), grant(2, began=5, stood=10)
    assert judge([first, second], 0, []).problems, "the second stood there before the first asked"
    assert judge([], 0, ["Traceback\nBlockingIOError"]).problems, "two inside"


def test_what_is_right_is_not_complained_of() -> None:
    line = [
        grant(2, shared=True, began=9, stood=9),
        grant(1, shared=True, began=1, stood=2),
        grant(3, began=3, stood=12),
        grant(4, began=4, stood=11),
    ]
    assert judge(line, 0, []).problems == []
