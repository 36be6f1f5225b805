"""The hash table numbers keys as a dictionary would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.lab.explore.tables.hashing import HashIndex, scatter, scatter_all

NEAR = st.integers(0, 40)  # few enough to repeat, and all in the first slots of the table
KEYS = st.lists(st.lists(NEAR | NEAR.map(scatter) | st.integers(2**64 - 9, 2**64 - 1)), max_size=8)


@pytest.mark.slow
@given(KEYS)
def test_equal_keys_get_equal_numbers_and_new_ones_are_reported_once(
    batches: list[list[int]],
) -> None:
    index = HashIndex()
    known: dict[int, int] = {}
    for batch in batches:
        size = len(known)
        numbers, fresh = index.add(np.array(batch, np.uint64))
        new = [batch[position] for position in fresh.tolist()]
        known |= {key: size + rank for rank, key in enumerate(new)}
        assert sorted(known.values()) == list(range(len(known)))
        assert numbers.tolist() == [known[key] for key in batch]
        assert index.keys.tolist() == sorted(known, key=known.__getitem__)


@given(st.lists(NEAR), st.lists(NEAR))
def test_find_tells_what_was_never_shown(shown: list[int], sought: list[int]) -> None:
    index = HashIndex()
    index.add(np.array(shown, np.uint64))
    found = index.find(np.array(sought, np.uint64)).tolist()
    assert [number >= 0 for number in found] == [key in shown for key in sought]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 9))))
def test_rows_with_equal_keys_are_told_apart(items: list[tuple[int, int, int]]) -> None:
    index = HashIndex()
    for half in (items[::2], items[1::2], items):
        keys = np.array([key for key, *_ in half], np.uint64)
        rows = np.array([row for _, *row in half], np.uint16).reshape(-1, 2).T
        numbers, _ = index.add(keys, rows)
        assert np.array_equal(index.rows[:, numbers], rows)
    assert index.size == len(set(items))


def test_a_table_grows_far_beyond_its_first_size() -> None:
    index = HashIndex()
    keys = scatter_all(np.arange(100_000, dtype=np.uint64))
    for batch in np.split(keys, 10):
        index.add(batch)
    assert index.find(keys).tolist() == index.add(keys)[0].tolist()
    assert index.size == len(keys)


def test_numbers_scatter_alike_one_by_one_and_all_at_once() -> None:
    numbers = [0, 1, 2, 2**32, 2**64 - 1]
    assert scatter_all(np.array(numbers, np.uint64)).tolist() == [scatter(n) for n in numbers]
