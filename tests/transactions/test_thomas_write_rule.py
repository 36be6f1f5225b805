"""Thomas's write rule by the letters of its rules, in all interleavings, storms, and broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.transactions.schemes.thomas_write_rule import SCHEME, ThomasWriteRule
from coterie.transactions.schemes.timestamp_ordering import TimestampOrdering
from coterie.transactions.serializability import check
from tests.transactions.histories import textbook
from tests.transactions.precedence import conflict_serializable
from tests.transactions.stamped import (
    HISTORIES,
    Ends,
    Hand,
    WatchedThomasWriteRule,
    ends,
    explored_figures,
    outcomes,
    page,
    prepared_trial,
    stormy_restarts,
)
from tests.transactions.stamped_mutants import Case, break_rule, noticed
from tests.transactions.storms import KEYS, storm

if TYPE_CHECKING:
    import random

    from coterie.transactions.trials.trial import Trial

READ = "a later transaction has read it"
WRITTEN = "a later transaction has written it"
KINDS = (TimestampOrdering, ThomasWriteRule)
EXPLORED = {
    "lost update": Ends(schedules=17, committed=20, refused=14),
    "write skew": Ends(schedules=58, committed=61, refused=55),
    "blind writes": Ends(schedules=70, committed=140, refused=0),
    "read between writes": Ends(schedules=355, committed=940, refused=125),
    "chain of reads": Ends(schedules=230, committed=434, refused=256),
    "write that aborts": Ends(schedules=389, committed=766, refused=232),
    "insertions into scans": Ends(schedules=17, committed=20, refused=14),
    "deletion under a scan": Ends(schedules=841, committed=2039, refused=484),
    "delete and put again": Ends(schedules=355, committed=940, refused=125),
    "reader between writers": Ends(schedules=876, committed=2174, refused=454),
    "circle of two": Ends(schedules=17, committed=20, refused=14),
    "circle through a gap": Ends(schedules=17, committed=20, refused=14),
    "circle of three": Ends(schedules=506, committed=866, refused=652),
    "circle of writes": Ends(schedules=1082, committed=1856, refused=1390),
    "insertion that aborts": Ends(schedules=520, committed=655, refused=385),
    "two scans": Ends(schedules=17, committed=20, refused=14),
}
MUTANTS = {
    "a write behind a later read is ignored, too": Case(
        "timestamp_ordering.rules",
        "            if stamp < cell.read:\n",
        "            if stamp < cell.read and not cell.overtaken(stamp):\n",
    ),
    "writes behind a pending one are ignored and lost when that aborts": Case(
        "timestamp_ordering.rules",
        "if cell.overtaken(stamp):\n                return self._place_behind(",
        "if cell.pending and stamp < cell.pending[-1].stamp:\n                return self._place_behind(",
    ),
    "a late write is installed": Case(
        "timestamp_ordering.rules",
        "if cell.overtaken(stamp):\n                return self._place_behind(",
        "if False:\n                return self._place_behind(",
    ),
    "a late read is granted": Case(
        "timestamp_ordering.rules",
        "if cell.overtaken(stamp):\n            return self._overtaken(",
        "if False:\n            return self._overtaken(",
    ),
}


@pytest.fixture
def hand() -> Hand:
    return Hand(ThomasWriteRule())


def test_a_write_behind_a_later_committed_write_is_accepted_and_ignored(hand: Hand) -> None:
    """2.3 a."""
    hand.put(20, x="twenty")
    assert hand.write(10, "x", "ten") == ["T10 may write"]
    assert hand.commit(10) == ["T10 has committed"]
    assert hand.latest() == {"x": "twenty"}


def test_a_write_behind_a_later_read_is_refused_even_if_it_would_be_ignored(hand: Hand) -> None:
    """2.3 a: T15 saw that there was no x, so T10 must not have written it."""
    hand.read(15, "x")
    hand.put(20, x="twenty")
    assert hand.write(10, "x", "ten") == [f"T10 refused: {READ}: x"]


def test_who_writes_what_is_ignored_still_sees_it_and_may_write_it_again(hand: Hand) -> None:
    """2.0 b, 2.3 a."""
    hand.put(20, x="twenty")
    hand.write(10, "x", "ten")
    assert hand.read(10, "x") == ["T10 sees x=ten"]
    assert hand.write(10, "x", "more") == ["T10 may write"]
    assert hand.scan(10, "a", "z") == ["T10 lists x=more"]


def test_nobody_between_reads_what_was_ignored(hand: Hand) -> None:
    """2.3 a: which is why it can be ignored."""
    hand.put(20, x="twenty")
    hand.write(10, "x", "ten")
    hand.commit(10)
    assert hand.read(15, "x") == [f"T15 refused: {WRITTEN}: x T20"]


def test_behind_a_pending_write_nothing_is_ignored(hand: Hand) -> None:
    """2.3 b: T20 may abort."""
    hand.write(20, "x", "twenty")
    hand.write(10, "x", "ten")
    hand.commit(10)
    hand.abort(20)
    assert hand.latest() == {"x": "ten"}
    assert hand.read(30, "x") == ["T30 sees x=ten"]


def test_an_undo_in_place_would_lose_the_write_that_was_skipped() -> None:
    """2.3 b: the survey's undo, as a history: T20 undone to what was there before T10 came."""
    lost = textbook("w20(x@20) w10(x@10) w10(y@10) c10 a20 r30(x) r30(y=10) c30")
    assert not check(lost).serializable
    kept = textbook("w20(x@20) w10(x@10) w10(y@10) c10 a20 r30(x=10) r30(y=10) c30")
    assert check(kept).serializable


def run(scheduler: TimestampOrdering, seed: int, *, transfers: bool = False) -> Trial:
    def transfer(dice: random.Random) -> str:
        source, target = dice.sample(KEYS, 2)
        return f"u({source}) u({target}) w({source}) w({target})"

    def blind(dice: random.Random) -> str:
        source, target = dice.sample(KEYS, 2)
        return f"w({source}) w({target})"

    return storm(scheduler, seed, scripts=transfer if transfers else blind)


def test_where_everybody_reads_what_it_writes_the_rule_gains_nothing() -> None:
    """2.3 c: not one step of any run is different."""
    committed = refused = 0
    for seed in range(100):
        plain, ruled = (run(kind(), seed, transfers=True) for kind in KINDS)
        assert plain.runners == ruled.runners
        committed += outcomes(plain).count("committed")
        refused += outcomes(plain).count("refused")
    assert f"| timestamp ordering | {committed:,} | {refused:,} |" in page("thomas-write-rule")
    assert f"| with the rule | {committed:,} | {refused:,} |" in page("thomas-write-rule")


def test_where_writes_are_blind_the_rule_refuses_nobody() -> None:
    """2.3 c: where timestamp ordering does, with the same seeds."""
    rows = []
    for kind in KINDS:
        states = [state for seed in range(100) for state in outcomes(run(kind(), seed))]
        rows.append((states.count("committed"), states.count("refused")))
    (plain, late), (ruled, never) = rows
    assert late > 100
    assert never == 0
    assert f"| timestamp ordering | {plain:,} | {late:,} |" in page("thomas-write-rule")
    assert f"| with the rule | {ruled:,} | 0 |" in page("thomas-write-rule")


def test_what_the_rule_accepts_may_have_a_cycle_of_conflicts_in_order_of_arrival() -> None:
    """2.3 d: r10(x) w20(x) w10(x)."""
    trial = prepared_trial(ThomasWriteRule(), ("r(x) w(x)", "w(x)"))
    for name in ("T10", "T20", "T20", "T20", "T10", "T10", "T10"):
        trial.move(name)
    assert outcomes(trial) == ["committed", "committed"]
    assert check(trial.history()).order == ("T10", "T20")
    assert not conflict_serializable(trial.history())


def test_whatever_the_textbooks_test_accepts_our_checker_accepts() -> None:
    """2.3 d: the other fixture, in both directions."""
    assert not conflict_serializable(textbook("r10(x) w20(x@20) w10(x@10) c10 c20"))
    assert check(textbook("r10(x) w20(x@20) w10(x@10) c10 c20")).serializable
    assert conflict_serializable(textbook("r10(x) w10(x@10) w20(x@20) c10 c20"))
    accepted = 0
    for seed in range(100):
        history = storm(ThomasWriteRule(), seed).history()
        if conflict_serializable(history):
            accepted += 1
            assert check(history).serializable
    assert 0 < accepted < 100


def test_an_older_put_does_not_bring_back_what_was_deleted_later(hand: Hand) -> None:
    """2.3 e."""
    hand.put(5, x="old")
    hand.delete(20, "x")
    hand.commit(20)
    assert hand.write(10, "x", "ten") == ["T10 may write"]
    hand.commit(10)
    assert hand.read(30, "x") == ["T30 sees x deleted"]
    hand.restart(now=30)
    assert hand.read(40, "x") == ["T40 sees x deleted"]


@pytest.mark.parametrize("history", HISTORIES)
def test_all_interleavings_are_serializable_and_nobody_is_stuck(history: str) -> None:
    first, scripts = HISTORIES[history]
    assert ends(WatchedThomasWriteRule(), scripts, first) == EXPLORED[history]


@pytest.mark.parametrize("aborts", [0.0, 0.03, 0.3])
def test_storms_are_serializable(aborts: float) -> None:
    for seed in range(300):
        trial = storm(WatchedThomasWriteRule(patience=seed % 6), seed, aborts=aborts)
        assert not trial.waiting(), f"seed {seed}"
        report = check(trial.history())
        assert report.serializable, f"seed {seed}: {report}"


def test_storms_with_restarts_are_serializable() -> None:
    for seed in range(300):
        trial = stormy_restarts(WatchedThomasWriteRule(), seed)
        assert not trial.waiting(), f"seed {seed}"
        report = check(trial.history())
        assert report.serializable, f"seed {seed}: {report}"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rule(MUTANTS[name], monkeypatch)
    assert noticed("thomas-write-rule")


def test_nothing_is_noticed_where_nothing_is_broken() -> None:
    assert not noticed("thomas-write-rule")


def test_the_scheme_builds_its_scheduler() -> None:
    assert isinstance(SCHEME.build(), ThomasWriteRule)


def test_the_page_tells_what_was_explored() -> None:
    assert explored_figures(EXPLORED) in page("thomas-write-rule")
