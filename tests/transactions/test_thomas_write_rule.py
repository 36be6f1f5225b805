"""Thomas's write rule by the letters of its rules, beside timestamp ordering, and broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.lab.serializability import check
from coterie.transactions.schemes.thomas_write_rule import ThomasWriteRule
from coterie.transactions.schemes.timestamp_ordering import TimestampOrdering
from tests.transactions.desk import page
from tests.transactions.histories import textbook
from tests.transactions.mutants import Mutant
from tests.transactions.precedence import conflict_serializable
from tests.transactions.stamped import Hand, outcomes, prepared_trial
from tests.transactions.storms import KEYS, storm

if TYPE_CHECKING:
    import random

    from coterie.lab.trials.trial import Trial

READ = "a later transaction has read it"
WRITTEN = "a later transaction has written it"
KINDS = (TimestampOrdering, ThomasWriteRule)
MUTANTS = {
    "a write behind a later read is ignored, too": Mutant(
        TimestampOrdering,
        "            if stamp < cell.read:\n",
        "            if stamp < cell.read and not cell.overtaken(stamp):\n",
    ),
    "writes behind a pending one are ignored and lost when that aborts": Mutant(
        TimestampOrdering,
        "if cell.overtaken(stamp):\n                return self._place_behind(",
        "if cell.pending and stamp < cell.pending[-1].stamp:\n                return self._place_behind(",
    ),
    "a late write is installed": Mutant(
        TimestampOrdering,
        "if cell.overtaken(stamp):\n                return self._place_behind(",
        "if False:\n                return self._place_behind(",
    ),
    "a late read is granted": Mutant(
        TimestampOrdering,
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
