"""Each seeded bug of changing the voters is noticed by a range of seeds."""

from __future__ import annotations

import pytest

from tests.stack.seeded_bugs import seeded
from tests.stack.seeded_changes import CHANGES
from tests.stack.test_seeded_bugs import noticed


@pytest.mark.parametrize("name", CHANGES)
def test_a_broken_change_is_noticed(name: str) -> None:
    with seeded(CHANGES[name]):
        assert noticed(CHANGES[name])
