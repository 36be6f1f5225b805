"""Schemes are compared on the same transactions, and the figures mean what they say."""

from __future__ import annotations

import msgspec
import pytest

from coterie.errors import UsageError
from coterie.lab.trials.comparison import Conditions, measure
from coterie.transactions.catalogue import schemes

BUSY = Conditions(theta=0.99, clients=12, keys=200, duration=60.0)


@pytest.mark.parametrize("name", schemes())
def test_every_scheme_gets_along_and_the_same_seed_gives_the_same_figures(name: str) -> None:
    first, second = (measure(name, None, BUSY) for _ in range(2))
    assert first == second
    assert first.commits > 20
    assert first.commits_per_second == pytest.approx(1000 * first.commits / 60)
    assert first.messages_per_commit == 0, "one site has nobody to write to"


def test_conservative_never_refuses_and_the_others_do() -> None:
    rates = {name: measure(name, None, BUSY).abort_rate for name in schemes()}
    assert rates.pop("conservative") == 0
    assert all(rate > 0 for rate in rates.values()), rates


@pytest.mark.parametrize("name", schemes())
def test_several_sites_cost_messages(name: str) -> None:
    measured = measure(name, None, msgspec.structs.replace(BUSY, sites=3))
    assert measured.commits > 10
    assert measured.messages_per_commit > 4


def test_a_transaction_that_nobody_hinders_takes_the_time_of_its_thoughts() -> None:
    """Four requests and the commit have four thoughts between them."""
    alone = measure("two-phase-locking", None, Conditions(clients=1, think=2.0, duration=100.0))
    assert alone.milliseconds_p50 == 8
    assert alone.milliseconds_p99 == 8
    assert alone.waiting == 0
    assert alone.commits == 12


def test_a_site_that_is_kept_busy_serves_one_request_after_the_other() -> None:
    """Five requests of 1 ms each make 200 transactions a second, however many clients there are."""
    for clients in (4, 16):
        conditions = Conditions(clients=clients, keys=1000, think=0.0, work=1.0, duration=1000.0)
        rate = measure("two-phase-locking", None, conditions).commits_per_second
        assert rate == pytest.approx(200, rel=0.05)


def test_transactions_that_take_no_time_are_refused() -> None:
    """There would be no end to them in any time."""
    with pytest.raises(UsageError, match="choose one above 0"):
        measure("optimistic", None, Conditions(think=0.0))


def test_a_variant_is_named_beside_its_scheme() -> None:
    measured = measure("two-phase-locking", "wait-die", BUSY)
    assert measured.name == "two-phase-locking:wait-die"
    assert measure("two-phase-locking", None, BUSY).name == "two-phase-locking"
