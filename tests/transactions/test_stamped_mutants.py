"""Rules of the schemes that order by stamps, broken one at a time: something must notice."""

from __future__ import annotations

import pytest

from tests.transactions import (
    test_multiversion_runs,
    test_thomas_write_rule,
    test_timestamp_ordering_runs,
)
from tests.transactions.mutants import break_rule
from tests.transactions.stamped import WATCHED
from tests.transactions.stamped_mutants import noticed

MUTANTS = {
    "timestamp-ordering": test_timestamp_ordering_runs.MUTANTS,
    "thomas-write-rule": test_thomas_write_rule.MUTANTS,
    "multiversion": test_multiversion_runs.MUTANTS,
    "multiversion, collecting": test_multiversion_runs.COLLECTING_MUTANTS,
}


@pytest.mark.parametrize(
    ("scheme", "name"), [(scheme, name) for scheme, mutants in MUTANTS.items() for name in mutants]
)
def test_a_broken_rule_is_noticed(scheme: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rule(MUTANTS[scheme][name], monkeypatch)
    assert noticed(scheme)


@pytest.mark.parametrize("scheme", WATCHED)
def test_nothing_is_noticed_where_nothing_is_broken(scheme: str) -> None:
    assert not noticed(scheme)
