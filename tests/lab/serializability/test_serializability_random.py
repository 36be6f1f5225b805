"""The checkers agree with the plain meaning of serializability on random small histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from coterie.lab.serializability import check
from tests.transactions.histories import interleavings, tangled
from tests.transactions.serial_oracle import explains, serializable

if TYPE_CHECKING:
    from coterie.transactions.history import History


def judge(history: History) -> bool:
    """Check, and hold the proof of a yes against the history."""
    report = check(history)
    assert report.serializable is not None
    if report.serializable:
        assert report.order is not None
        assert not report.anomalies
        assert explains([history.transactions[name] for name in report.order])
    else:
        assert report.order is None
        assert report.anomalies
    return report.serializable


@pytest.mark.slow
@settings(max_examples=400)
@given(interleavings("none"))
def test_clients_observations_are_judged_as_every_serial_order_would(history: History) -> None:
    assert judge(history) == serializable(history)


@pytest.mark.slow
@settings(max_examples=400)
@given(interleavings("all"))
def test_stated_versions_are_judged_as_every_serial_order_would(history: History) -> None:
    assert judge(history) == serializable(history)


@pytest.mark.slow
@settings(max_examples=200)
@given(interleavings("some"))
def test_keys_with_and_without_versions_are_judged_together(history: History) -> None:
    assert judge(history) == serializable(history)


@pytest.mark.parametrize("hundred", range(12))
def test_tangled_histories_are_judged_as_every_serial_order_would(hundred: int) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        history = tangled(seed)
        assert judge(history) == serializable(history), f"seed {seed}"
