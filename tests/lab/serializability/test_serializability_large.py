"""Histories of ten thousand events and more are decided, with versions and without."""

from __future__ import annotations

import pytest

from coterie.lab.serializability import check
from coterie.transactions.history import History, HistoryEvent
from tests.transactions.histories import shuffled
from tests.transactions.serial_oracle import explains


def with_versions(history: History) -> History:
    """State as version of each write the name of its transaction, which ran in that order."""
    stated = History()
    for transaction in history.transactions.values():
        name = int(transaction.name)
        for _, op, key, value, _ in transaction.accesses:
            stated.add(HistoryEvent(name, op, key, value, name if op == "write" else None))
        stated.add(HistoryEvent(name, "commit"))
    return stated


def decided(history: History) -> bool:
    report = check(history)
    assert report.serializable
    assert report.order is not None
    return explains([history.transactions[name] for name in report.order])


@pytest.mark.slow
@pytest.mark.parametrize("blind", [False, True])
def test_ten_thousand_transactions_with_versions_in_any_order(blind: bool) -> None:
    assert decided(with_versions(shuffled(1, 10_000, 500, blind=blind)))


@pytest.mark.slow
def test_ten_thousand_transactions_without_versions_in_the_order_of_their_ends() -> None:
    assert decided(shuffled(1, 10_000, 20, blind=True, near=0))


@pytest.mark.slow
def test_ten_thousand_transactions_without_versions_that_read_what_they_write() -> None:
    """Who reads what it replaces leaves no doubt about the order of versions."""
    assert decided(shuffled(1, 10_000, 500, blind=False))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "near"), [(10_000, 8), (2_000, None)])
def test_blind_writes_without_versions_nor_order(size: int, near: int | None) -> None:
    assert decided(shuffled(1, size, 20, blind=True, near=near))


@pytest.mark.slow
@pytest.mark.parametrize("blind", [False, True])
def test_one_wrong_read_among_ten_thousand_transactions_is_found(blind: bool) -> None:
    """A late reader sees the newest version of one key and nothing in another."""
    history = shuffled(1, 10_000, 500, blind=blind, near=0)
    newest = next(
        access.value
        for transaction in reversed(history.transactions.values())
        for access in transaction.accesses
        if access.op == "write" and access.key == 8
    )
    history.add(HistoryEvent("late", "read", 7, None))
    history.add(HistoryEvent("late", "read", 8, newest))
    history.add(HistoryEvent("late", "commit"))
    (anomaly,) = check(history).anomalies
    assert anomaly.name == "G-single"
    assert "late" in anomaly.cycle
    assert len(anomaly.cycle) < 50
