"""The newest versions: deleted keys are kept for a while, then forgotten all at once."""

from __future__ import annotations

import pytest

from coterie.clocks import Stamp
from coterie.transactions.schemes.conservative import Conservative
from coterie.transactions.schemes.newest import DELETED_MAX, Newest
from coterie.transactions.schemes.optimistic import Optimistic
from coterie.transactions.schemes.scheduler import BEGINNING, Found, Item, Scheduler
from tests.transactions.desk import Desk


def test_deleted_keys_are_forgotten_when_many_have_gathered_and_they_are_the_most() -> None:
    newest = Newest()
    for number in range(DELETED_MAX):
        newest.install({f"gone {number}": None, f"here {number}": b""}, Stamp(number + 1, 1))
    newest.install({"last": None}, Stamp(5000, 1))
    assert newest.read("T1", "gone 7") == Found("T1", "gone 7", None, None)
    assert newest.read("T1", "here 7") == Found("T1", "here 7", b"", Stamp(8, 1))
    assert [key for key, _ in newest] == sorted(f"here {number}" for number in range(DELETED_MAX))


def test_deleted_keys_are_kept_beside_many_others_and_while_they_are_few() -> None:
    newest = Newest()
    newest.install({f"here {number}": b"" for number in range(5000)}, Stamp(1, 1))
    newest.install({f"gone {number}": None for number in range(2000)}, Stamp(2, 1))
    assert newest.read("T1", "gone 7") == Found("T1", "gone 7", None, Stamp(2, 1))


def test_what_is_restored_is_there_and_its_largest_number_is_known() -> None:
    newest = Newest()
    assert newest.restore([]) == BEGINNING
    items = [("a", Item(b"1", Stamp(3, 1))), ("b", Item(None, Stamp(2, 9)))]
    assert newest.restore(items) == Stamp(3, 1)
    assert list(newest) == items


@pytest.mark.parametrize("build", [Optimistic, Conservative])
def test_a_queue_of_keys_that_come_and_go_does_not_grow(build: type[Scheduler]) -> None:
    desk = Desk(build())
    for number in range(3 * DELETED_MAX):
        desk.put(f"put {number}", **{f"k{number}": b""})
        desk.put(f"delete {number}", **{f"k{number}": None})
    assert len(list(desk.scheduler.latest())) <= DELETED_MAX
