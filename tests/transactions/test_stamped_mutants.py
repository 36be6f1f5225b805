"""Rules of the schemes that order by stamps, broken one at a time: something must notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.lab.serializability import check
from tests.transactions import (
    test_multiversion_runs,
    test_thomas_write_rule,
    test_timestamp_ordering_runs,
)
from tests.transactions.mutants import break_rule
from tests.transactions.stamped import HISTORIES, RESTARTED, WATCHED, ends, stormy_restarts
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import StampOrdered

MUTANTS = {
    "timestamp-ordering": test_timestamp_ordering_runs.MUTANTS,
    "thomas-write-rule": test_thomas_write_rule.MUTANTS,
    "multiversion": test_multiversion_runs.MUTANTS,
    "multiversion, collecting": test_multiversion_runs.COLLECTING_MUTANTS,
}

NOTICED = (AssertionError, LookupError)  # by the scheme itself or its watcher


def noticed(scheme: str, seeds: int = 60) -> bool:
    """Explore small histories and run storms until something is wrong."""
    kind = WATCHED[scheme]
    try:
        return (
            any(fails(kind, seed) for seed in range(10))  # most are noticed so, and soon
            or any(explored_wrong(kind))
            or any(fails(kind, seed) for seed in range(10, seeds))
        )
    except NOTICED:
        return True


def explored_wrong(kind: type[StampOrdered]) -> Iterator[bool]:
    for history in HISTORIES.values():
        end = ends(kind(), *history)
        yield bool(end.stuck or end.wrong)
    for name in RESTARTED:
        end = ends(kind(), *HISTORIES[name], restart=True)
        yield bool(end.stuck or end.wrong)


def fails(kind: type[StampOrdered], seed: int) -> bool:
    trials = [
        storm(kind(), seed),
        storm(kind(patience=1), seed, aborts=0.1),
        stormy_restarts(kind(), seed),
    ]
    return any(bool(t.waiting()) or not check(t.history()).serializable for t in trials)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "name"), [(scheme, name) for scheme, mutants in MUTANTS.items() for name in mutants]
)
def test_a_broken_rule_is_noticed(scheme: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rule(MUTANTS[scheme][name], monkeypatch)
    assert noticed(scheme)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", WATCHED)
def test_nothing_is_noticed_where_nothing_is_broken(scheme: str) -> None:
    assert not noticed(scheme)
