"""What the trials of faults take for a violation."""

from __future__ import annotations

import pytest

pytest.importorskip("uvloop", reason="one of the programs of the trials runs on it")

from benchmarks.engine_faults import Hold, check

ALONE, SHARED = False, True


def hold(entered: float, until: float, token: int, shared: bool = ALONE, lock: str = "x") -> Hold:
    return Hold(entered, until, token, lock, shared)


@pytest.mark.parametrize(
    "holds",
    [
        [hold(1, 2, 10), hold(2, 3, 11)],
        [hold(1, 3, 10, lock="y"), hold(2, 3, 9)],
        [hold(1, 3, 11, SHARED), hold(2, 4, 10, SHARED), hold(4, 5, 12)],
    ],
    ids=["one after the other", "two locks", "sharers in any order"],
)
def test_what_may_be(holds: list[Hold]) -> None:
    assert check(holds) == []


@pytest.mark.parametrize(
    ("holds", "says"),
    [
        ([hold(1, 3, 10), hold(2, 4, 11)], "overlap"),
        ([hold(1, 9, 10, lock="y"), hold(1, 3, 10), hold(2, 4, 11)], "overlap"),
        ([hold(1, 3, 10, SHARED), hold(2, 4, 11)], "overlap"),
        ([hold(1, 3, 10), hold(2, 4, 11, SHARED)], "overlap"),
        ([hold(1, 2, 10), hold(3, 4, 10)], "token"),
        ([hold(1, 2, 10, SHARED), hold(3, 4, 9)], "token"),
    ],
)
def test_what_must_not_be(holds: list[Hold], says: str) -> None:
    assert [line.partition(":")[0] for line in check(sorted(holds))] == [says]
