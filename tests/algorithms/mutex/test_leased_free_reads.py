"""Reads of a value without the lock (21.7): which answers of voters show what it is."""

from __future__ import annotations

from coterie.algorithms.mutex.quorum.leased.claimed import ClaimedValue
from coterie.algorithms.mutex.quorum.leased.free_read import FreeRead
from coterie.algorithms.mutex.quorum.leased.stored import NOTHING, StoredValue
from coterie.coteries import parse_coterie
from coterie.coteries.joint import seated

THREE = parse_coterie("majority", 3)


def version(
    token: int, sequence: int, *, loose: bool = False, doubtful: bool = False
) -> StoredValue:
    data = f"{token}/{sequence}".encode()
    return StoredValue(token, sequence, data, loose=loose, doubtful=doubtful)


def answered(*rounds: dict[int, StoredValue]) -> StoredValue | None:
    """Return what a read has found when these answers have come, one round after the other."""
    reading = FreeRead("x", 1, NOTHING)
    for answers in rounds:
        for voter, value in answers.items():
            reading.take(voter, value, whole=True)
            found = reading.agreed(THREE)
            if found is not None:
                return found
    return None


def test_a_quorum_that_has_one_version_is_enough() -> None:
    assert answered({1: version(5, 1), 3: version(5, 1)}) == version(5, 1)
    assert answered({1: version(5, 2), 2: version(5, 1), 3: version(5, 1)}) == version(5, 1)
    assert answered({1: NOTHING, 2: NOTHING}) == NOTHING
    assert answered({1: version(5, 1)}) is None


def test_the_newest_of_a_quorum_counts_when_a_quorum_has_it_or_later_ones_of_its_hold() -> None:
    first = {1: version(5, 3), 2: version(5, 2)}
    assert answered(first) is None, "a later read could meet a quorum with less"
    assert answered(first, {1: version(5, 5), 2: version(5, 4)}) == version(5, 3)


def test_a_reader_is_done_in_two_rounds_however_fast_a_hold_writes() -> None:
    rounds = [{voter: version(5, 10 * number + voter) for voter in (1, 2)} for number in (1, 2)]
    assert answered(*rounds) == version(5, 12)


def test_what_another_hold_has_written_shows_nothing_about_an_earlier_one() -> None:
    # Hold 6 may have begun with neither of the voters that had (5, 3), and have written what was before it.
    first = {1: version(5, 3), 2: version(5, 2)}
    assert answered(first, {2: version(6, 1)}) is None
    assert answered(first, {2: version(6, 1)}, {1: version(6, 2)}) == version(6, 1)


def test_the_oldest_of_a_quorum_may_be_less_than_an_earlier_read_has_returned() -> None:
    # (5, 3) is at voters 1 and 3, who have told another reader.
    assert answered({1: version(5, 3), 2: version(5, 2)}, {2: version(5, 2)}) is None


def test_a_loose_copy_shows_nothing() -> None:
    assert answered({1: version(5, 1, loose=True), 2: version(5, 1)}) is None
    assert answered(
        {1: version(5, 1, loose=True), 2: version(5, 1)}, {3: version(5, 2)}
    ) == version(5, 1)


def test_it_is_doubtful_if_a_voter_says_so_that_shows_it() -> None:
    old = version(4, 1, doubtful=True)
    found = answered({1: old, 2: version(5, 1), 3: version(5, 1)})
    assert found is not None
    assert not found.doubtful
    found = answered({1: version(4, 1), 2: old})
    assert found is not None
    assert found.doubtful


def settled_by(*voters: int) -> ClaimedValue:
    """Return the value of a holder that has written it, with these voters."""
    claimed = ClaimedValue(has_entered=True)
    claimed.write(5, version(0, 0), settles=False)
    assert claimed.writing is not None
    claimed.writing.kept += voters
    claimed.complete()
    claimed.writing = None
    return claimed


def test_a_holder_settles_for_readers_what_voters_of_its_number_may_have_as_a_loose_copy() -> None:
    for seats, is_known in (((1, 2, 3), True), ((1, 2, 4), True), ((1, 4, 5), False)):
        claimed = settled_by(1, 2)
        claimed.settle_for(seated(THREE, seats))
        assert claimed.is_wanted
        assert claimed.is_known == is_known
