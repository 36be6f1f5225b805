"""Timestamp ordering by the letters of its rules; T10 has stamp 10. Every wait is watched."""

from __future__ import annotations

import random

import pytest

from coterie.clocks import LamportClock, Stamp
from coterie.transactions.schemes.scheduler import Answer, Attempt, Declaration, Refused
from coterie.transactions.schemes.span import Span
from coterie.transactions.schemes.timestamp_ordering import TimestampOrdering
from coterie.transactions.schemes.timestamp_ordering.deletions import KEYS_MAX
from tests.transactions.stamped import SCHEMES, Hand

READ = "a later transaction has read it"
WRITTEN = "a later transaction has written it"


@pytest.fixture
def hand() -> Hand:
    return Hand(TimestampOrdering())


def test_a_read_behind_a_larger_write_is_refused(hand: Hand) -> None:
    """2.2 a."""
    hand.put(20, x="twenty")
    assert hand.read(10, "x") == [f"T10 refused: {WRITTEN}: x T20"]
    assert hand.read(30, "x") == ["T30 sees x=twenty"]


def test_a_write_behind_a_larger_read_or_write_is_refused(hand: Hand) -> None:
    """2.2 a."""
    hand.put(20, x="twenty")
    assert hand.write(10, "x", "ten") == [f"T10 refused: {WRITTEN}: x T20"]
    hand.read(30, "x")
    assert hand.write(25, "x", "late") == [f"T25 refused: {READ}: x T30"]
    assert hand.refusals[1].above == Stamp(30, 1)


def test_equality_is_allowed_for_ones_own_operations(hand: Hand) -> None:
    """2.2 a."""
    assert hand.read(10, "x") == ["T10 sees no x"]
    assert hand.write(10, "x", "one") == ["T10 may write"]
    assert hand.write(10, "x", "two") == ["T10 may write"]
    assert hand.read(10, "x") == ["T10 sees x=two"]
    assert hand.commit(10) == ["T10 has committed"]
    assert hand.latest() == {"x": "two"}


def test_stamps_of_equal_time_are_ordered_by_site() -> None:
    """2.0 g."""
    scheduler = TimestampOrdering()
    for name, site in (("first", 1), ("second", 2)):
        stamp = Stamp(5, site)
        scheduler.begin(Attempt(name, stamp, stamp), [])
    out: list[Answer] = []
    scheduler.read("second", "x", out)
    scheduler.write("first", "x", b"", out)
    assert isinstance(out[-1], Refused)


def test_stamps_are_unique_and_grow_at_each_site_without_looking_at_a_clock() -> None:
    """2.0 g: there is no clock that could stand still or go back."""
    dice = random.Random(7)  # any seed will do
    clocks = {1: LamportClock(), 2: LamportClock()}
    stamps = []
    for _ in range(100_000):
        site = dice.choice((1, 2))
        if dice.random() < 0.2:
            clocks[site].merge(clocks[3 - site].time)
        stamps.append(Stamp(clocks[site].tick(), site))
    assert len(set(stamps)) == len(stamps)
    for site in (1, 2):
        own = [stamp for stamp in stamps if stamp.process == site]
        assert own == sorted(own)


def test_own_writes_and_deletes_are_seen_in_reads_and_scans(hand: Hand) -> None:
    """2.0 b."""
    hand.put(5, a="old", b="old")
    hand.write(10, "a", "new")
    hand.delete(10, "b")
    hand.write(10, "c", "new")
    assert hand.read(10, "a") == ["T10 sees a=new"]
    assert hand.scan(10, "a", "z") == ["T10 lists a=new b deleted c=new"]
    hand.delete(10, "a")
    assert hand.read(10, "a") == ["T10 sees a deleted"]
    assert hand.scan(10, "a", "z", 1) == ["T10 lists a deleted b deleted c=new"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_of_two_who_see_a_key_missing_and_insert_it_one_commits(scheme: str) -> None:
    """2.0 h."""
    hand = Hand(SCHEMES[scheme]())
    assert hand.read(10, "k") == ["T10 sees no k"]
    assert hand.read(20, "k") == ["T20 sees no k"]
    assert hand.write(10, "k", "ten") == [f"T10 refused: {READ}: k"]
    hand.put(20, k="twenty")
    assert hand.latest() == {"k": "twenty"}


def test_a_read_waits_for_a_smaller_pending_write_and_sees_it(hand: Hand) -> None:
    """2.2 b."""
    hand.put(5, x="old")
    hand.write(10, "x", "new")
    assert hand.read(20, "x") == []
    assert hand.waits() == {"T20": ("T10",)}
    assert hand.commit(10) == ["T10 has committed", "T20 sees x=new"]


def test_a_read_that_waited_for_a_write_that_aborts_sees_the_old_value(hand: Hand) -> None:
    """2.2 b."""
    hand.put(5, x="old")
    hand.write(10, "x", "new")
    hand.read(20, "x")
    assert hand.abort(10) == ["T20 sees x=old"]


def test_a_read_does_not_wait_for_a_larger_pending_write(hand: Hand) -> None:
    """2.2 b."""
    hand.write(30, "x", "later")
    assert hand.read(20, "x") == ["T20 sees no x"]
    assert hand.commit(30) == ["T30 has committed"]


def test_a_read_waits_again_if_another_smaller_write_has_come(hand: Hand) -> None:
    """2.2 c."""
    hand.write(10, "x", "ten")
    assert hand.read(30, "x") == []
    hand.write(20, "x", "twenty")
    assert hand.commit(10) == ["T10 has committed"]
    assert hand.waits() == {"T30": ("T20",)}
    assert hand.commit(20) == ["T20 has committed", "T30 sees x=twenty"]


def test_a_scan_that_waited_is_refused_if_a_larger_write_was_committed(hand: Hand) -> None:
    """2.2 c."""
    hand.write(10, "a", "ten")
    assert hand.scan(20, "a", "m") == []
    hand.put(30, b="thirty")
    assert hand.commit(10) == ["T10 has committed", f"T20 refused: {WRITTEN}: b T30"]


def test_a_read_that_waited_comes_before_the_larger_write_that_waited_with_it(hand: Hand) -> None:
    """2.2 c, d: the larger write is installed when nobody is left who comes before it."""
    hand.write(10, "x", "ten")
    hand.write(30, "x", "thirty")
    assert hand.read(20, "x") == []
    assert hand.read(40, "x") == []
    assert hand.commit(30) == ["T30 has committed"]
    assert hand.commit(10) == ["T10 has committed", "T20 sees x=ten", "T40 sees x=thirty"]


def test_who_is_refused_after_waiting_frees_whoever_waited_for_it(hand: Hand) -> None:
    """2.2 c: and so on along the line, without recursion."""
    count = 500
    hand.write(1, "a1", "")
    for stamp in range(2, count):
        hand.write(stamp, f"a{stamp}", "")
        assert hand.scan(stamp, f"a{stamp - 1}", f"a{stamp - 1}~") == []
    hand.put(count, **{f"a{stamp}x": "" for stamp in range(1, count)})
    told = hand.abort(1)
    assert len(told) == count - 2
    assert all("refused" in text for text in told)


def test_writes_are_installed_in_the_order_of_stamps(hand: Hand) -> None:
    """2.2 d."""
    hand.write(10, "x", "ten")
    hand.write(20, "x", "twenty")
    assert hand.commit(20) == ["T20 has committed"]
    assert hand.latest() == {"x": "twenty"}
    assert hand.read(30, "x") == []  # for T10 may still commit
    assert hand.commit(10) == ["T10 has committed", "T30 sees x=twenty"]
    assert hand.latest() == {"x": "twenty"}


def test_a_write_may_take_its_place_before_a_pending_one(hand: Hand) -> None:
    """2.2 d."""
    hand.write(20, "x", "twenty")
    assert hand.write(10, "x", "ten") == ["T10 may write"]
    hand.commit(20)
    hand.abort(10)
    assert hand.read(30, "x") == ["T30 sees x=twenty"]


def test_read_stamps_survive_the_abort_of_the_reader(hand: Hand) -> None:
    """2.2 e."""
    hand.put(5, x="old")
    hand.read(20, "x")
    hand.read(20, "y")
    hand.abort(20)
    assert hand.write(10, "x", "ten") == [f"T10 refused: {READ}: x T20"]
    assert hand.write(11, "y", "eleven") == [f"T11 refused: {READ}: y"]


def test_read_stamps_survive_a_restart(hand: Hand) -> None:
    """2.2 e."""
    hand.put(5, x="old")
    hand.read(20, "x")
    hand.read(20, "y")
    hand.restart(now=20)
    assert hand.write(10, "x", "ten") == [f"T10 refused: {READ}: x"]
    assert hand.write(11, "y", "eleven") == [f"T11 refused: {READ}: y"]
    assert hand.read(30, "x") == ["T30 sees x=old"]


def test_the_read_stamp_of_a_key_survives_an_insertion_that_aborts(hand: Hand) -> None:
    """2.2 e."""
    hand.write(30, "k", "thirty")
    assert hand.read(20, "k") == ["T20 sees no k"]
    hand.abort(30)
    assert hand.write(10, "k", "ten") == [f"T10 refused: {READ}: k"]


def test_prepared_writes_survive_a_restart_in_their_order(hand: Hand) -> None:
    """2.2 d, e: T20 is on disk, T10 prepared before it; then T10 changes nothing any more."""
    hand.write(10, "x", "ten")
    hand.write(10, "y", "ten")
    hand.write(20, "x", "twenty")
    hand.prepare(10)
    hand.commit(20)
    hand.restart(now=20)
    assert hand.read(30, "y") == []
    assert hand.commit(10) == ["T10 has committed", "T30 sees y=ten"]
    assert hand.read(30, "x") == ["T30 sees x=twenty"]


def test_waits_go_from_larger_to_smaller_stamps(hand: Hand) -> None:
    """2.2 f: two who read what the other writes do not deadlock."""
    hand.write(10, "x", "ten")
    hand.write(20, "y", "twenty")
    assert hand.read(20, "x") == []
    assert hand.read(10, "y") == ["T10 sees no y"]
    assert hand.commit(10) == ["T10 has committed", "T20 sees x=ten"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("patience", [0, 3, 5])
def test_a_long_transaction_finishes_once_it_has_failed_often_enough(
    scheme: str, patience: int
) -> None:
    """2.2 g: it reads and writes 50 keys; before each step somebody reads and writes some key."""
    scheduler = SCHEMES[scheme](patience=patience)
    keys = [f"k{number:02}" for number in range(50)]
    hand = Hand(scheduler)
    hand.put(1, **dict.fromkeys(keys, "old"))
    clock, failures, dice = 1, 0, random.Random(patience)
    while True:
        clock += 1
        long = clock
        hand.begin(long, failures)
        steps = [("scan", "k"), *[("write", key) for key in keys]]
        while steps and f"T{long}" in scheduler.active:
            clock += 1
            hand.begin(clock)
            key = dice.choice(keys)
            if hand.read(clock, key) and f"T{clock}" in scheduler.active:
                hand.write(clock, key, "short")
                hand.commit(clock)
            op, key = steps.pop(0)
            if op == "scan":
                hand.scan(long, key, "l")
            elif f"T{long}" in scheduler.active:
                hand.write(long, key, "long")
        if f"T{long}" in scheduler.active:
            break
        failures += 1
    assert failures == patience
    told = hand.commit(long)
    assert told[0] == f"T{long} has committed"
    assert len(told) > 1, "those it has held back go on"
    assert f"T{long}" not in scheduler.reserved


def test_a_reservation_holds_back_what_meets_the_declaration_and_is_later(hand: Hand) -> None:
    """2.2 g."""
    reads, writes = (Span("a", "c"),), (Span("b", "d"),)
    hand.begin(20, failures=5, declaration=Declaration(reads, writes))
    assert hand.read(30, "a") == ["T30 sees no a"]
    assert hand.read(30, "b") == []
    assert hand.waits() == {"T30": ("T20",)}
    assert hand.write(31, "a", "") == []
    assert hand.scan(32, "d", "z") == ["T32 lists nothing"]
    assert hand.write(32, "d", "") == ["T32 may write"]
    assert hand.read(10, "c") == ["T10 sees no c"]
    assert hand.write(10, "c", "ten") == ["T10 may write"]
    hand.commit(10)
    assert hand.abort(31) == []  # it leaves while it waits
    assert hand.commit(20) == ["T20 has committed", "T30 sees no b"]


def test_of_two_reservations_the_later_waits_for_the_earlier(hand: Hand) -> None:
    """2.2 g."""
    hand.begin(10, failures=5)
    hand.begin(20, failures=9)
    assert hand.read(20, "x") == []
    assert hand.read(30, "x") == []
    assert hand.waits() == {"T20": ("T10",), "T30": ("T10", "T20")}
    assert hand.abort(10) == ["T20 sees no x"]
    assert hand.commit(20) == ["T20 has committed", "T30 sees no x"]


def test_a_slow_clock_catches_up_with_the_stamp_that_beat_it() -> None:
    """2.2 h: with the hint one transaction is refused, without it a thousand are."""

    def refused(*, hint: bool) -> int:
        scheduler = TimestampOrdering()
        clocks, count = {1: 1000, 2: 0}, 0
        for turn in range(3000):
            site = turn % 2 + 1
            clocks[site] += 1
            stamp, name = Stamp(clocks[site], site), f"T{turn}"
            out: list[Answer] = []
            scheduler.begin(Attempt(name, stamp, stamp), [])
            scheduler.write(name, "x", b"", out)
            answer = out[0]
            if isinstance(answer, Refused):
                count += 1
                if hint and answer.above is not None:
                    clocks[site] = max(clocks[site], answer.above.time)
            else:
                scheduler.prepare(name, [])
                scheduler.commit(name, stamp, [])
        return count

    assert refused(hint=True) == 1
    assert refused(hint=False) == 1500


def test_an_insertion_into_what_was_scanned_later_is_refused(hand: Hand) -> None:
    """2.2 i."""
    hand.put(5, c="old")
    assert hand.scan(20, "a", "m") == ["T20 lists c=old"]
    assert hand.write(10, "b", "ten") == [f"T10 refused: {READ}: b"]
    assert hand.write(11, "m", "eleven") == ["T11 may write"]
    assert hand.write(30, "b", "thirty") == ["T30 may write"]


def test_a_deletion_in_what_was_scanned_later_is_refused(hand: Hand) -> None:
    """2.2 i."""
    hand.put(5, c="old")
    hand.scan(20, "a", "m")
    assert hand.delete(10, "c") == [f"T10 refused: {READ}: c T20"]


def test_a_limited_scan_protects_only_what_it_has_seen(hand: Hand) -> None:
    """2.2 i."""
    hand.put(5, c="old", e="old")
    assert hand.scan(20, "a", "m", 1) == ["T20 lists c=old"]
    assert hand.write(10, "b", "ten") == [f"T10 refused: {READ}: b"]
    assert hand.write(11, "d", "eleven") == ["T11 may write"]
    assert hand.delete(11, "e") == ["T11 may write"]


def test_a_scan_waits_for_an_insertion_before_it(hand: Hand) -> None:
    """2.2 b, i."""
    hand.write(10, "b", "ten")
    assert hand.scan(20, "a", "m") == []
    assert hand.waits() == {"T20": ("T10",)}
    assert hand.commit(10) == ["T10 has committed", "T20 lists b=ten"]


def test_who_gives_up_while_it_waits_leaves_no_trace(hand: Hand) -> None:
    hand.write(10, "x", "ten")
    hand.write(20, "y", "twenty")
    hand.read(20, "x")
    assert hand.read(30, "y") == []
    assert hand.abort(20) == ["T30 sees no y"]
    assert hand.commit(10) == ["T10 has committed"]
    assert hand.latest() == {"x": "ten"}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_deletions_are_forgotten_in_bulk_and_older_stamps_refused(scheme: str) -> None:
    hand = Hand(SCHEMES[scheme]())
    names = [f"k{number}" for number in range(KEYS_MAX + 1)]
    hand.put(1, **dict.fromkeys(names, "old"), kept="old")
    hand.begin(3)
    for stamp, key in enumerate(names, start=5):
        hand.delete(stamp, key)
        hand.commit(stamp)
    assert len(list(hand.scheduler.latest())) == KEYS_MAX + 2, "T3 may ask for them"
    hand.abort(3)
    newest = KEYS_MAX + 6
    for stamp in range(newest, newest + 2 * KEYS_MAX):
        hand.delete(stamp, "again")
        hand.commit(stamp)
    assert [key for key, _ in hand.scheduler.latest()] == ["again", "kept"]
    forgotten = "what was deleted before is forgotten"
    assert hand.read(4, "k7") == [f"T4 refused: {forgotten}: k7"]
    hand.begun.discard(4)
    assert hand.scan(4, "a", "b") == [f"T4 refused: {forgotten}: a"]
    hand.begun.discard(4)
    assert hand.write(4, "k7", "") == [f"T4 refused: {READ}: k7"]
    assert hand.read(10_000, "k7") == ["T10000 sees no k7"]


def swept(hand: Hand, stamp: int) -> list[str]:
    """Let all deletions be looked at when a transaction of that stamp ends; return those left."""
    hand.begin(stamp)
    hand.scheduler.deletions.keys_max = -1
    hand.abort(stamp)
    return hand.scheduler.deletions.keys


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_deletion_is_forgotten_with_everything_before_it(scheme: str) -> None:
    hand = Hand(SCHEMES[scheme]())
    hand.put(10, x="ten")
    hand.delete(20, "x")
    hand.commit(20)
    hand.read(30, "x")  # under way, and as late as anything that is known of x
    assert swept(hand, 40) == []
    assert "x" not in hand.scheduler.table.items
    assert hand.write(30, "x", "thirty") == ["T30 may write"]
    assert hand.write(25, "y", "late") == [f"T25 refused: {READ}: y"], "of which nothing is known"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_deleted_key_that_is_there_again_is_not_forgotten(scheme: str) -> None:
    hand = Hand(SCHEMES[scheme]())
    hand.put(10, x="ten")
    hand.delete(20, "x")
    hand.commit(20)
    hand.put(30, x="thirty")
    assert swept(hand, 40) == [], "it is no deletion any more"
    assert hand.read(50, "x") == ["T50 sees x=thirty"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_deletion_that_a_later_one_has_read_stays_while_an_older_may_write(scheme: str) -> None:
    hand = Hand(SCHEMES[scheme]())
    hand.put(10, x="ten")
    hand.delete(20, "x")
    hand.commit(20)
    hand.begin(30)
    assert hand.read(50, "x") == ["T50 sees x deleted"]
    hand.commit(50)
    assert swept(hand, 60) == ["x"]
    assert hand.write(30, "x", "thirty") == [f"T30 refused: {READ}: x T50"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_deletion_stays_while_the_key_is_being_written(scheme: str) -> None:
    hand = Hand(SCHEMES[scheme]())
    hand.put(10, x="ten")
    hand.delete(20, "x")
    hand.commit(20)
    hand.write(40, "x", "forty")
    assert swept(hand, 50) == ["x"]
    hand.commit(40)
    assert hand.read(60, "x") == ["T60 sees x=forty"]
