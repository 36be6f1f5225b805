"""Parts of rules of which the other files have only the first half: over time, and over sites."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie import errors
from coterie.clocks import Stamp
from coterie.lab.serializability import check
from coterie.lab.trials.sites import simulate_store
from coterie.lab.trials.trial import program
from coterie.transactions import Store
from coterie.transactions.history import TransactionOutcome
from coterie.transactions.schemes.scheduler import Attempt, Found
from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import StampOrdered
from coterie.transactions.store.record import Record
from tests.transactions.jumbled import FORMS, assert_idle, scheduler_of
from tests.transactions.site_world import key_at, world
from tests.transactions.test_store_storms import run_storm

if TYPE_CHECKING:
    from random import Random

    from coterie.lab.trials.sites import Outcome as Result
    from coterie.lab.trials.trial import Program
    from coterie.transactions.history import History, Key


def test_clocks_are_merged_with_every_message() -> None:
    """2.0 g, 2.2 h: a site that has heard of a stamp begins nothing below it."""
    sites = world("two-phase-locking", sites=3)
    key = key_at(2, 3)
    for _ in range(40):
        sites.put(2, {key: b"1"})
    reader = sites.call(1, "begin")
    assert reader.stamp.time < sites.site(2).clock - 30
    sites.call(1, "read", reader.name, key)
    sites.run()
    assert isinstance(sites.answer(reader.name), Found)
    assert sites.call(1, "begin").stamp.time > sites.site(2).clock


def transfers(dice: Random) -> Program:
    first, second = dice.sample([f"k{number}" for number in range(40)], 2)
    return program(f"u({first}) w({first}) u({second}) w({second})")


def conservative(sites: int, clients: int) -> Result:
    return simulate_store(
        "conservative", draw=transfers, sites=sites, clients=clients, until=300.0, seed=1
    )


@pytest.mark.slow
@pytest.mark.parametrize(("sites", "messages"), [(2, 12), (4, 24), (8, 44)])
def test_what_promises_cost_and_let_through_with_more_sites(sites: int, messages: int) -> None:
    """2.5 c: a question and an answer for each other site, where many wait hardly more than alone.

    In virtual time, in which a message takes 1. Transactions of one client follow each other, so
    with twice the clients half as much again is committed at least: a promise serves all who
    wait for it.
    """
    alone, many = conservative(sites, sites), conservative(sites, 2 * sites)
    assert many.commits > 1.5 * alone.commits > 60
    assert alone.aborts == many.aborts == 0
    assert many.messages / many.commits < alone.messages / alone.commits < messages
    promises = alone.kinds["Promise"] / alone.commits
    assert promises < 2 * (sites - 1)  # at each of the two sites that it asks
    assert many.kinds["Promise"] / many.commits < 1.2 * promises


@pytest.mark.slow
@pytest.mark.parametrize("sites", [2, 4, 8])
def test_an_idle_source_stops_nobody(sites: int) -> None:
    """2.5 c: the last site begins nothing by itself; the others commit as often as with it."""
    busy, idle = conservative(sites, sites), conservative(sites, sites - 1)
    assert idle.commits / (sites - 1) > 0.9 * busy.commits / sites
    assert idle.aborts == 0


def versions(until: float) -> tuple[int, int]:
    def draw(dice: Random) -> Program:
        first, second = dice.sample([f"k{number}" for number in range(6)], 2)
        return program(f"u({first}) w({first}) w({second})")

    outcome = simulate_store("multiversion", draw=draw, sites=3, clients=1, until=until, seed=1)
    kept = [
        len(chain.versions)
        for site in outcome.sites
        for chain in site.scheduler.table.items.values()
    ]
    return outcome.commits, sum(kept)


@pytest.mark.slow
def test_versions_at_several_sites_do_not_grow_with_time() -> None:
    """2.4 e: two of the three sites are idle, and asked for promises."""
    (commits, kept), (commits_later, kept_later) = versions(2000.0), versions(8000.0)
    assert commits_later > 3.9 * commits > 1000
    assert kept_later < 1.5 * kept


def deleted(history: History) -> set[Key]:
    """Name the keys that a committed transaction has deleted, whether they were there or not."""
    return {
        access.key
        for transaction in history.transactions.values()
        if transaction.outcome is TransactionOutcome.COMMITTED
        for access in transaction.accesses
        if access.op == "write" and access.value is None
    }


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "variant"), FORMS)
def test_histories_stay_true_while_deletions_are_forgotten(
    scheme: str, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a scheme has forgotten is told as the version that it was, in the midst of a storm."""
    monkeypatch.setattr("coterie.transactions.schemes.newest.DELETED_MAX", 0)
    monkeypatch.setattr("coterie.transactions.schemes.two_phase_locking.rules.DELETIONS_MAX", 0)
    monkeypatch.setattr("coterie.transactions.schemes.timestamp_ordering.deletions.KEYS_MAX", 0)
    forgotten = 0
    for seed in range(60):
        store = Store(scheme, variant=variant, record=True)
        scheduler = scheduler_of(store)
        if isinstance(scheduler, StampOrdered):
            scheduler.deletions.keys_max = 0
        run_storm(store, seed)
        history = store.history()
        assert check(history).serializable, f"seed {seed}"
        assert check(history, real_time=True).serializable, f"seed {seed}"
        assert_idle(store)
        forgotten += len(deleted(history) - {key for key, _ in scheduler.latest()})
    assert forgotten > 10


def test_a_number_from_another_site_does_not_make_a_reader_see_the_future() -> None:
    """T1 has only read at a site, and leaves it with its vote; its number is another site's.

    There T2 and T3 commit after it with smaller ones. T1 has seen that there was no x.
    """
    record = Record()
    for number in (1, 2, 3):
        stamp = Stamp(number, 1)
        record.begin(Attempt(f"T{number}", stamp, stamp))
    record.read(Found("T1", "x", None, None))
    record.read(Found("T1", "y", None, None))
    record.write("T2", "x", b"\x01")
    record.write("T2", "y", b"\x01")
    record.write("T3", "x", None)
    for name, number in (("T1", 100), ("T2", 7), ("T3", 8)):
        record.ask(name)
        record.commit(name, Stamp(number, 1))
    assert check(record.history()).order == ("T1", "T2", "T3")


def test_every_error_stands_in_the_tree_and_at_the_top_of_the_package() -> None:
    """With its parent above it, and as many as there are."""
    assert errors.__doc__ is not None
    tree = errors.__doc__.split("Two questions")[0]
    lines = re.findall(r"^    ([│├└─ ]*)(\w+)", tree, re.MULTILINE)
    parents: list[str] = []
    told = {}
    for indent, name in lines:
        depth = len(indent) // 4
        parents[depth:] = [name]
        told[name] = parents[depth - 1] if depth else "Exception"
    classes = {
        name: kind
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, Exception)
    }
    assert told == {name: kind.__bases__[0].__name__ for name, kind in classes.items()}
    for name, kind in classes.items():
        assert name in coterie.__all__
        assert getattr(coterie, name) is kind
