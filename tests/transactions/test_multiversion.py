"""Multiversion timestamp ordering by the letters of its rules; T10 has stamp 10."""

from __future__ import annotations

import pytest

from coterie.clocks import Stamp
from coterie.transactions.schemes.multiversion import SCHEME, Multiversion
from coterie.transactions.schemes.multiversion.chain import TRIM_AT
from coterie.transactions.schemes.multiversion.rules import SUPERSEDED_MAX, TOO_OLD
from coterie.transactions.schemes.scheduler import BEGINNING, Declaration
from coterie.transactions.schemes.span import Span
from tests.transactions.stamped import Hand

READ = "a later transaction has read it"


@pytest.fixture
def hand() -> Hand:
    """A site of two, the other of which never promises anything: all versions are kept."""
    return Hand(Multiversion(promises=[BEGINNING, BEGINNING]))


def versions(hand: Hand, key: str) -> list[int]:
    """List the stamps of the versions of a key; -1 stands for there being none."""
    assert isinstance(hand.scheduler, Multiversion)
    chain = hand.scheduler.table.get(key)
    return [version.number.time for version in chain.versions] if chain else []


def collect(hand: Hand) -> int:
    assert isinstance(hand.scheduler, Multiversion)
    return hand.scheduler.collect()


def test_a_read_sees_the_newest_version_not_later_than_its_stamp(hand: Hand) -> None:
    """2.4 a."""
    hand.put(10, x="ten")
    hand.put(30, x="thirty")
    assert hand.read(5, "x") == ["T5 sees no x"]
    assert hand.read(20, "x") == ["T20 sees x=ten"]
    assert hand.read(40, "x") == ["T40 sees x=thirty"]
    assert hand.scan(20, "a", "z") == ["T20 lists x=ten"]


def test_a_read_waits_for_a_pending_version_and_sees_it(hand: Hand) -> None:
    """2.4 a."""
    hand.put(10, x="ten")
    hand.write(20, "x", "twenty")
    assert hand.read(30, "x") == []
    assert hand.waits() == {"T30": ("T20",)}
    assert hand.read(15, "x") == ["T15 sees x=ten"]
    assert hand.commit(20) == ["T20 has committed", "T30 sees x=twenty"]


def test_a_read_does_not_wait_for_a_pending_version_behind_a_committed_one(hand: Hand) -> None:
    """2.4 a."""
    hand.write(10, "x", "ten")
    hand.put(20, x="twenty")
    assert hand.read(30, "x") == ["T30 sees x=twenty"]


def test_a_read_that_waited_chooses_again(hand: Hand) -> None:
    """2.4 a: meanwhile another version came in between."""
    hand.write(10, "x", "ten")
    assert hand.read(30, "x") == []
    hand.write(20, "x", "twenty")
    assert hand.commit(10) == ["T10 has committed"]
    assert hand.waits() == {"T30": ("T20",)}
    assert hand.abort(20) == ["T30 sees x=ten"]


def test_read_stamps_belong_to_versions(hand: Hand) -> None:
    """2.4 b."""
    hand.put(10, x="ten")
    hand.put(30, x="thirty")
    hand.read(40, "x")
    assert hand.write(20, "x", "twenty") == ["T20 may write"]
    assert hand.abort(20) == []
    hand.read(25, "x")
    assert hand.write(21, "x", "late") == [f"T21 refused: {READ}: x T25"]
    assert hand.refusals[0].above == Stamp(25, 1)


def test_the_version_that_is_not_there_has_a_read_stamp_too(hand: Hand) -> None:
    """2.4 c."""
    assert hand.read(30, "k") == ["T30 sees no k"]
    assert hand.write(20, "k", "twenty") == [f"T20 refused: {READ}: k"]
    assert hand.write(40, "k", "forty") == ["T40 may write"]
    assert hand.read(35, "k") == ["T35 sees no k"]
    assert hand.write(32, "k", "late") == [f"T32 refused: {READ}: k T35"]


def test_an_aborted_version_lets_its_readers_mark_the_one_before(hand: Hand) -> None:
    """2.4 d."""
    hand.put(10, x="ten")
    hand.write(20, "x", "twenty")
    assert hand.read(30, "x") == []
    assert hand.abort(20) == ["T30 sees x=ten"]
    assert hand.write(25, "x", "late") == [f"T25 refused: {READ}: x T30"]


def test_the_read_stamp_of_a_missing_key_survives_an_insertion_that_aborts(hand: Hand) -> None:
    """2.4 c, d."""
    hand.write(30, "k", "thirty")
    assert hand.read(20, "k") == ["T20 sees no k"]
    hand.abort(30)
    assert hand.write(10, "k", "ten") == [f"T10 refused: {READ}: k"]


def test_of_each_key_one_version_is_kept_for_each_reader() -> None:
    """2.4 e: what was written and replaced since it began no transaction can see."""
    hand = Hand(Multiversion())
    hand.put(40, x="forty")
    hand.begin(50)
    for stamp in range(60, 110, 10):
        hand.put(stamp, x=f"{stamp}")
    assert collect(hand) == 5  # that there was no x, and all but the last since
    assert versions(hand, "x") == [40, 100]
    assert hand.read(50, "x") == ["T50 sees x=forty"]
    assert isinstance(hand.scheduler, Multiversion)
    oldest = hand.scheduler.oldest()
    assert oldest is not None
    assert oldest.name == "T50"
    hand.commit(50)
    assert hand.scheduler.oldest() is None
    assert collect(hand) == 1
    assert versions(hand, "x") == [100]


def test_a_stamp_whose_version_was_dropped_between_two_others_sees_no_older_one() -> None:
    """2.4 e: it comes against the promise, and a wrong value would be worse than a refusal."""
    hand = Hand(Multiversion())
    hand.put(10, x="ten")
    hand.begin(15)
    for stamp in (20, 30, 40):
        hand.put(stamp, x=f"{stamp}")
    collect(hand)
    assert versions(hand, "x") == [10, 40]
    assert hand.read(19, "x") == ["T19 sees x=ten"]
    assert hand.read(21, "x") == [f"T21 refused: {TOO_OLD}: x"]
    assert hand.write(25, "x", "late") == [f"T25 refused: {TOO_OLD}: x"]
    assert hand.refusals[-1].above == Stamp(40, 1)
    hand.put(50, x="fifty")
    collect(hand)
    assert versions(hand, "x") == [10, 50]
    assert hand.read(22, "x") == [f"T22 refused: {TOO_OLD}: x"]
    assert hand.refusals[-1].above == Stamp(50, 1)


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_what_was_dropped_stays_known_where_a_version_comes_and_goes(ends: str) -> None:
    """2.4 e: a transaction that was under way writes behind the one that was kept for it."""
    hand = Hand(Multiversion())
    hand.put(10, x="ten")
    hand.begin(15)
    hand.put(20, x="twenty")
    hand.put(30, x="thirty")
    collect(hand)
    hand.write(15, "x", "fifteen")
    collect(hand)
    assert versions(hand, "x") == [10, 15, 30]
    hand.begin(16)
    (hand.commit if ends == "commit" else hand.abort)(15)
    assert hand.read(16, "x") == [f"T16 sees x={'fifteen' if ends == 'commit' else 'ten'}"]
    assert hand.read(25, "x") == [f"T25 refused: {TOO_OLD}: x"]
    assert hand.read(35, "x") == ["T35 sees x=thirty"]


def test_pending_versions_are_never_dropped() -> None:
    """2.4 e."""
    hand = Hand(Multiversion())
    hand.put(5, x="five")
    hand.write(10, "x", "ten")
    hand.put(20, x="twenty")
    hand.put(30, x="thirty")
    assert collect(hand) == 2
    assert versions(hand, "x") == [5, 10, 30]
    hand.abort(10)
    assert collect(hand) == 1


def test_a_site_that_is_silent_holds_everything_until_it_promises() -> None:
    """2.4 e."""
    hand = Hand(Multiversion(promises=[BEGINNING] * 3))
    for stamp in (10, 20, 30):
        hand.put(stamp, x=f"{stamp}")
    hand.scheduler.promise(1, Stamp(35, 1), [])
    hand.scheduler.promise(2, Stamp(35, 2), [])
    assert collect(hand) == 0
    hand.scheduler.promise(3, Stamp(22, 3), [])
    assert collect(hand) == 2
    assert versions(hand, "x") == [20, 30]
    hand.scheduler.promise(3, Stamp(15, 3), [])  # takes nothing back
    hand.scheduler.promise(3, Stamp(40, 3), [])
    assert collect(hand) == 1
    assert hand.read(25, "x") == [f"T25 refused: {TOO_OLD}: x"], "against the promise"
    assert hand.refusals[0].above == Stamp(30, 1)
    assert hand.write(26, "x", "late") == [f"T26 refused: {TOO_OLD}: x"]


def test_memory_is_bounded_under_a_steady_load() -> None:
    """2.4 e: without anybody asking for it."""
    hand = Hand(Multiversion())
    for stamp in range(1, 3001):
        key = f"k{stamp * 7 % 10}"
        hand.read(stamp, key)
        hand.write(stamp, key, "")
        hand.commit(stamp)
        if stamp % 100 == 0:
            assert all(len(versions(hand, f"k{number}")) <= TRIM_AT for number in range(10))


def test_an_idle_transaction_keeps_one_version_of_a_key_however_often_it_is_written() -> None:
    """2.4 e: without any call of `collect`."""
    hand = Hand(Multiversion())
    hand.put(1, x="one")
    hand.begin(2)
    for stamp in range(3, 203):
        hand.put(stamp, x="")
        assert len(versions(hand, "x")) <= TRIM_AT
    assert hand.read(2, "x") == ["T2 sees x=one"]


def test_many_transactions_keep_many_versions_and_looking_for_others_stays_cheap() -> None:
    """2.4 e: a chain that could not be shortened is looked at again when it has doubled."""
    hand = Hand(Multiversion())
    for stamp in range(1, 201, 2):
        hand.put(stamp, x="")
        hand.begin(stamp + 1)
    assert isinstance(hand.scheduler, Multiversion)
    chain = hand.scheduler.table.items["x"]
    assert len(chain.versions) == 100
    assert len(chain.versions) < chain.trim_at < 2.1 * len(chain.versions)
    for stamp in range(1, 201, 2):
        hand.abort(stamp + 1)
    for stamp in range(201, 201 + chain.trim_at):
        hand.put(stamp, x="")
    assert len(versions(hand, "x")) <= TRIM_AT


def test_versions_of_keys_that_are_not_written_any_more_are_dropped_in_the_end() -> None:
    """2.4 e: all keys are looked at after as many commits as there are keys."""
    hand = Hand(Multiversion())
    keys = [f"k{number}" for number in range(50)]
    for stamp in range(1, 4):
        hand.put(stamp, **dict.fromkeys(keys, ""))
    assert all(len(versions(hand, key)) > 1 for key in keys)
    for stamp in range(4, 4 + SUPERSEDED_MAX):
        hand.put(stamp, x="")
    assert [len(versions(hand, key)) for key in keys] == [1] * len(keys)


def test_with_a_limit_the_oldest_reader_is_refused_and_never_sees_a_wrong_value() -> None:
    """2.4 e."""
    hand = Hand(Multiversion(versions_max=3))
    hand.put(10, x="ten", y="ten")
    hand.begin(15)
    hand.begin(16)
    for stamp in (20, 30, 40):
        hand.put(stamp, x=f"{stamp}")
        hand.begin(stamp + 5)
    assert versions(hand, "x") == [20, 30, 40]
    assert hand.read(15, "y") == ["T15 sees y=ten"]
    assert hand.read(15, "x") == [f"T15 refused: {TOO_OLD}: x"]
    assert hand.scan(16, "x", "z") == [f"T16 refused: {TOO_OLD}: x"]


def test_a_limit_that_is_not_reached_drops_nothing() -> None:
    """2.4 e."""
    hand = Hand(Multiversion(versions_max=3))
    hand.put(10, x="ten")
    hand.begin(15)
    hand.put(20, x="twenty")
    collect(hand)
    assert versions(hand, "x") == [10, 20]


def test_with_a_limit_pending_versions_are_still_kept() -> None:
    """2.4 e."""
    hand = Hand(Multiversion(versions_max=2))
    hand.put(10, x="ten")
    hand.begin(12)  # so that without the limit all would be kept
    hand.write(15, "x", "fifteen")
    for stamp in (20, 30, 40):
        hand.put(stamp, x=f"{stamp}")
        hand.begin(stamp + 5)
    assert versions(hand, "x") == [10, 15, 20, 30, 40]
    hand.commit(15)
    assert versions(hand, "x") == [30, 40]


def test_commits_may_come_in_another_order_than_stamps(hand: Hand) -> None:
    """2.4 f."""
    hand.write(20, "x", "twenty")
    hand.put(30, x="thirty")
    assert hand.commit(20) == ["T20 has committed"]
    assert hand.read(25, "x") == ["T25 sees x=twenty"]
    assert hand.read(35, "x") == ["T35 sees x=thirty"]
    assert hand.scan(26, "a", "z") == ["T26 lists x=twenty"]
    assert hand.latest() == {"x": "thirty"}


def on_call(hand: Hand) -> list[str]:
    """Let two doctors who are both on call see that, and each go home."""
    hand.put(1, ann="on", bob="on")
    told = []
    for stamp in (10, 20):
        told += hand.scan(stamp, "a", "z")
    for stamp, doctor in ((10, "ann"), (20, "bob")):
        told += hand.write(stamp, doctor, "off")
    for stamp in (10, 20):
        if f"T{stamp}" in hand.scheduler.active:
            told += hand.commit(stamp)
    return told


def test_of_two_doctors_one_stays_on_call(hand: Hand) -> None:
    """2.4 g."""
    told = on_call(hand)
    assert f"T10 refused: {READ}: ann T20" in told
    assert hand.latest() == {"ann": "on", "bob": "off"}


def test_without_the_rule_for_writes_there_is_a_plain_snapshot_and_both_go(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.4 g: the control."""
    monkeypatch.setattr(
        "coterie.transactions.schemes.multiversion.chain.Version.note", lambda *_: None
    )
    told = on_call(hand)
    assert told[-2:] == ["T10 has committed", "T20 has committed"]
    assert hand.latest() == {"ann": "off", "bob": "off"}


def test_an_insertion_or_deletion_in_what_was_scanned_later_is_refused(hand: Hand) -> None:
    """2.2 i, with versions."""
    hand.put(5, c="old")
    assert hand.scan(20, "a", "m") == ["T20 lists c=old"]
    assert hand.write(10, "b", "ten") == [f"T10 refused: {READ}: b"]
    assert hand.delete(11, "c") == [f"T11 refused: {READ}: c T20"]
    assert hand.write(12, "m", "twelve") == ["T12 may write"]


def test_a_scan_sees_a_key_deleted_later(hand: Hand) -> None:
    """2.4 a, f."""
    hand.put(5, c="old")
    hand.delete(20, "c")
    hand.commit(20)
    assert hand.scan(10, "a", "m") == ["T10 lists c=old"]
    assert hand.scan(30, "a", "m") == ["T30 lists c deleted"]


def test_read_stamps_and_prepared_versions_survive_a_restart(hand: Hand) -> None:
    """2.2 e, with versions: T20 comes back before the version of T25, which is on disk."""
    hand.put(5, x="old", y="old")
    hand.read(30, "y")
    hand.write(20, "x", "twenty")
    hand.prepare(20)
    hand.put(25, x="later")
    hand.restart(now=30)
    assert hand.write(10, "y", "ten") == [f"T10 refused: {READ}: y"]
    assert hand.write(11, "z", "eleven") == [f"T11 refused: {READ}: z"]
    assert hand.read(22, "x") == []
    assert hand.commit(20) == ["T20 has committed", "T22 sees x=twenty"]
    assert hand.read(15, "x") == [f"T15 refused: {TOO_OLD}: x"]
    assert hand.latest() == {"x": "later", "y": "old"}


def test_a_reservation_holds_back_readers_but_not_writers(hand: Hand) -> None:
    """2.2 g, with versions: whoever writes later is not in the way."""
    declared = Declaration((Span(),), (Span("b", "d"),))
    hand.begin(20, failures=5, declaration=declared)
    assert hand.write(30, "b", "thirty") == ["T30 may write"]
    assert hand.read(31, "a") == ["T31 sees no a"]
    assert hand.read(31, "c") == []
    assert hand.waits() == {"T31": ("T20",)}
    hand.write(20, "c", "twenty")
    assert hand.commit(20) == ["T20 has committed", "T31 sees c=twenty"]


def test_the_scheme_builds_schedulers_for_one_site_and_for_several() -> None:
    built = SCHEME.build(sites=3)
    assert isinstance(built, Multiversion)
    assert len(built.promises) == 3
    limited = SCHEME.build("limited")
    assert isinstance(limited, Multiversion)
    assert limited.versions_max == 100
