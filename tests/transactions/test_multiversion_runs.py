"""Multiversion timestamp ordering in all interleavings, in storms, and with rules broken."""

from __future__ import annotations

import pytest

from coterie.transactions.serializability import check
from tests.transactions.stamped import (
    HISTORIES,
    CollectingMultiversion,
    Ends,
    WatchedMultiversion,
    ends,
    explored_figures,
    outcomes,
    page,
    stormy_restarts,
)
from tests.transactions.stamped_mutants import Case, break_rule, noticed
from tests.transactions.storms import storm

EXPLORED = {
    "lost update": Ends(schedules=17, committed=20, refused=14),
    "write skew": Ends(schedules=58, committed=61, refused=55),
    "blind writes": Ends(schedules=70, committed=140, refused=0),
    "read between writes": Ends(schedules=357, committed=966, refused=105),
    "chain of reads": Ends(schedules=230, committed=434, refused=256),
    "write that aborts": Ends(schedules=392, committed=784, refused=224),
    "insertions into scans": Ends(schedules=17, committed=20, refused=14),
    "deletion under a scan": Ends(schedules=864, committed=2088, refused=504),
    "delete and put again": Ends(schedules=357, committed=966, refused=105),
    "reader between writers": Ends(schedules=884, committed=2428, refused=224),
    "circle of two": Ends(schedules=17, committed=20, refused=14),
    "circle through a gap": Ends(schedules=17, committed=20, refused=14),
    "circle of three": Ends(schedules=518, committed=890, refused=664),
    "circle of writes": Ends(schedules=1091, committed=1868, refused=1405),
    "insertion that aborts": Ends(schedules=527, committed=662, refused=392),
    "two scans": Ends(schedules=17, committed=20, refused=14),
}
COLLECTING = {  # where versions are dropped, so that who begins late may come too late
    "lost update": Ends(schedules=17, committed=20, refused=14),
    "write skew": Ends(schedules=58, committed=61, refused=55),
    "blind writes": Ends(schedules=70, committed=139, refused=1),
    "read between writes": Ends(schedules=353, committed=934, refused=125),
    "chain of reads": Ends(schedules=230, committed=434, refused=256),
    "write that aborts": Ends(schedules=388, committed=765, refused=233),
    "insertions into scans": Ends(schedules=17, committed=20, refused=14),
    "deletion under a scan": Ends(schedules=841, committed=2039, refused=484),
    "delete and put again": Ends(schedules=353, committed=934, refused=125),
    "reader between writers": Ends(schedules=880, committed=2378, refused=262),
    "circle of two": Ends(schedules=17, committed=20, refused=14),
    "circle through a gap": Ends(schedules=17, committed=20, refused=14),
    "circle of three": Ends(schedules=506, committed=866, refused=652),
    "circle of writes": Ends(schedules=1086, committed=1860, refused=1398),
    "insertion that aborts": Ends(schedules=520, committed=655, refused=385),
    "two scans": Ends(schedules=17, committed=20, refused=14),
}
RESTARTS = {
    "circle of two": Ends(schedules=87, committed=84, refused=50),
    "circle through a gap": Ends(schedules=87, committed=84, refused=50),
}
MUTANTS = {
    "a write behind a later read is granted": Case(
        "multiversion.rules", "if stamp < before.read:", "if False:"
    ),
    "reads wait for nobody": Case(
        "multiversion.rules", "return None if version.pending else version", "return version"
    ),
    "reads see the newest version": Case(
        "multiversion.rules",
        "version = self.table.items[key].at(active.attempt.stamp)\n        if version is None:\n"
        "            return self._too_old(active, key)\n",
        "version = self.table.items[key].versions[-1]\n",
    ),
    "a version takes its place in the order of commits": Case(
        "multiversion.rules",
        "chain.versions.insert(chain.place(stamp), version)",
        "chain.versions.append(version)",
    ),
    "versions remember no readers": Case(
        "multiversion.chain", "if self.read < active.attempt.stamp:", "if False:"
    ),
    "read stamps belong to keys, and a later write clears them": Case(
        "multiversion.rules", "before = chain.at(stamp)", "before = chain.versions[-1]"
    ),
    "the version that is not there has no read stamp": Case(
        "multiversion.rules", "Version(NOTHING, read=self.unwritten.at(key))", "Version(NOTHING)"
    ),
    "an aborted insertion forgets who saw that there was no key": Case(
        "multiversion.rules",
        "self.unwritten.mark(Span.of(key), chain.versions[0].read)",
        "pass",
    ),
    "an aborted version stays": Case(
        "multiversion.rules",
        "del chain.versions[chain.place(active.attempt.stamp) - 1]",
        "chain.at(active.attempt.stamp).pending = False",
    ),
    "nobody is told that a version was decided": Case(
        "multiversion.rules", "self._again(woken, ended, out)", "pass"
    ),
    "a restart loses the read stamps of keys": Case(
        "multiversion.rules", "Version(item.number, item, read=now)", "Version(item.number, item)"
    ),
    "a restart loses the read stamps between keys": Case(
        "multiversion.rules", "self.unwritten.mark(Span(), now)", "pass"
    ),
}
COLLECTING_MUTANTS = {
    "all versions before the horizon are dropped": Case(
        "multiversion.chain",
        "useless = min(self.place(horizon), decided) - 1",
        "useless = min(self.place(horizon), decided, len(self.versions) - 1)",
    ),
    "pending versions are dropped": Case(
        "multiversion.chain",
        "not self.versions[decided].pending",
        "True",
    ),
    "who needs a dropped version gets the oldest that is left": Case(
        "multiversion.chain",
        "return self.versions[place - 1] if place else None",
        "return self.versions[place - 1 if place else 0]",
    ),
}


@pytest.mark.parametrize("history", HISTORIES)
def test_all_interleavings_are_serializable_and_nobody_is_stuck(history: str) -> None:
    first, scripts = HISTORIES[history]
    assert ends(WatchedMultiversion(), scripts, first) == EXPLORED[history]


@pytest.mark.parametrize("history", HISTORIES)
def test_all_interleavings_are_serializable_while_versions_are_dropped(history: str) -> None:
    """2.4 e."""
    first, scripts = HISTORIES[history]
    assert ends(CollectingMultiversion(), scripts, first) == COLLECTING[history]


@pytest.mark.parametrize("history", RESTARTS)
def test_all_interleavings_with_a_restart_are_serializable(history: str) -> None:
    first, scripts = HISTORIES[history]
    assert ends(WatchedMultiversion(), scripts, first, restart=True) == RESTARTS[history]


@pytest.mark.parametrize("aborts", [0.0, 0.03, 0.3])
@pytest.mark.parametrize("kind", [WatchedMultiversion, CollectingMultiversion])
def test_storms_are_serializable_and_leave_nothing_behind(
    kind: type[WatchedMultiversion | CollectingMultiversion], aborts: float
) -> None:
    for seed in range(300):
        trial = storm(kind(patience=seed % 6), seed, aborts=aborts)
        report = check(trial.history())
        assert report.serializable, f"seed {seed}: {report}"
        scheduler = trial.scheduler
        left = [trial.waiting(), scheduler.active, scheduler.waiting, scheduler.reserved]
        for chain in scheduler.table.items.values():
            left += [chain.readers, [version for version in chain.versions if version.pending]]
        assert not any(left), f"seed {seed}"


def test_where_transactions_begin_in_order_readers_are_never_refused() -> None:
    """2.4 a: though versions are dropped all the time."""
    committed = 0
    for seed in range(100):
        trial = storm(CollectingMultiversion(), seed, operations="rrs", in_order=True, aborts=0)
        assert "refused" not in outcomes(trial)
        mixed = storm(CollectingMultiversion(), seed, in_order=True, aborts=0)
        for runner in mixed.runners.values():
            if runner.state == "refused":
                assert any(request.op in "wd" for request in runner.script)
            committed += runner.state == "committed"
    assert committed > 1000


def test_storms_with_restarts_are_serializable() -> None:
    for seed in range(300):
        trial = stormy_restarts(CollectingMultiversion(), seed)
        assert not trial.waiting(), f"seed {seed}"
        report = check(trial.history())
        assert report.serializable, f"seed {seed}: {report}"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rule(MUTANTS[name], monkeypatch)
    assert noticed("multiversion")


@pytest.mark.parametrize("name", COLLECTING_MUTANTS)
def test_a_broken_rule_of_collection_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rule(COLLECTING_MUTANTS[name], monkeypatch)
    assert noticed("multiversion, collecting")


@pytest.mark.parametrize("scheme", ["multiversion", "multiversion, collecting"])
def test_nothing_is_noticed_where_nothing_is_broken(scheme: str) -> None:
    assert not noticed(scheme)


def test_the_page_tells_what_was_explored() -> None:
    assert explored_figures(EXPLORED) in page("multiversion")
    dropping = sum(end.schedules for end in COLLECTING.values())
    assert f"after every step: {dropping:,} schedules" in page("multiversion")
    assert f"{len(MUTANTS)} rules broken, and {len(COLLECTING_MUTANTS)} of" in page("multiversion")
