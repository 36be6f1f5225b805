"""A function of two numbers is computed once per pair, in a dense table or in a sparse one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from coterie.lab.explore.tables.arrays import distinct
from coterie.lab.explore.tables.memo import PairMemo


@pytest.mark.parametrize("dense_cells", [0, 2_000, 1 << 24])
def test_each_pair_is_computed_once_while_the_domain_grows(
    dense_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PairMemo, "DENSE_CELLS", dense_cells)
    computed: Counter[tuple[int, int]] = Counter()

    def compute(first: int, second: int) -> int:
        computed[first, second] += 1
        return 1000 * first + second + 1

    memo = PairMemo(compute)
    random = np.random.default_rng(7)
    for bound in (5, 30, 30, 200):
        first, second = random.integers(0, bound, (2, 500)).astype(np.uint16)
        values = memo(first, second, (bound, bound))
        assert values.tolist() == (1000 * first.astype(int) + second + 1).tolist()
        slot = memo(np.intp(3), second, (bound, bound))
        assert slot.tolist() == (3000 + second.astype(int) + 1).tolist()
    assert set(computed.values()) == {1}


@pytest.mark.parametrize("values", [[], [3], [2, 2], [5, 1, 5, 3, 1]])
def test_distinct_values_are_in_order(values: list[int]) -> None:
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))
