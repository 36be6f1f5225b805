"""Maekawa, rule by rule; then every interleaving; then every line that matters, broken."""

from __future__ import annotations

import pytest

from coterie.algorithms.mutex.quorum.maekawa.catalogue_entry import VARIANTS
from coterie.algorithms.mutex.quorum.maekawa.displaced import Displaced
from coterie.algorithms.mutex.quorum.maekawa.eager import Maekawa
from coterie.algorithms.mutex.quorum.maekawa.messages import (
    Failed,
    Inquire,
    Locked,
    Release,
    Relinquish,
    Request,
)
from coterie.clocks import Stamp
from coterie.errors import ProtocolError
from coterie.lab.explore import check
from coterie.process import Channel, Entered
from tests.harness import Hand, Mutant
from tests.suites import Explored, broken_lines, every_interleaving

EAGER = "coterie.algorithms.mutex.quorum.maekawa.eager"
DISPLACED = "coterie.algorithms.mutex.quorum.maekawa.displaced"

TRIANGLE = [(1, 2), (2, 3), (1, 3)]
UNEVEN = [(1, 2, 3), (2, 3), (2, 3)]  # the smallest quorums that the rules of 1985 deadlock on

old, middle, young = Stamp(1, 4), Stamp(2, 5), Stamp(3, 6)


def arbiter(*, owner: Stamp | None = None, rules: type[Maekawa] = Maekawa) -> Hand:
    hand = Hand(rules(9, (9,)))
    if owner is not None:
        hand.receive(owner.process, Request(owner))
    return hand


def requester(rules: type[Maekawa] = Maekawa) -> Hand:
    hand = Hand(rules(1, (2, 3, 4)))
    assert hand.call("acquire") == [(2, Request(MINE)), (3, Request(MINE)), (4, Request(MINE))]
    return hand


MINE = Stamp(1, 1)


def test_it_enters_when_the_whole_quorum_is_locked() -> None:
    hand = requester()
    assert hand.receive(2, Locked(MINE, MINE.time)) == []
    assert hand.receive(4, Locked(MINE, MINE.time)) == []
    assert hand.receive(3, Locked(MINE, MINE.time)) == [Entered()]


def test_it_unlocks_the_whole_quorum_when_it_leaves() -> None:
    hand = requester()
    for member in (2, 3, 4):
        hand.receive(member, Locked(MINE, MINE.time))
    assert hand.call("release") == [(2, Release(MINE)), (3, Release(MINE)), (4, Release(MINE))]


def test_its_own_lock_costs_no_message() -> None:
    hand = Hand(Maekawa(1, (1, 2)))
    assert hand.call("acquire") == [(2, Request(MINE))]
    assert hand.receive(2, Locked(MINE, MINE.time)) == [Entered()]


def test_an_unlocked_arbiter_locks_itself() -> None:
    assert arbiter().receive(5, Request(middle)) == [(5, Locked(middle, middle.time))]


def test_a_younger_request_waits_and_the_oldest_is_next() -> None:
    hand = arbiter(owner=old)
    assert hand.receive(6, Request(young)) == []
    assert hand.receive(5, Request(middle)) == []
    assert hand.receive(4, Release(old)) == [(5, Locked(middle, young.time))]
    assert hand.receive(5, Release(middle)) == [(6, Locked(young, young.time))]


def test_an_older_request_makes_the_arbiter_ask_for_its_lock_once() -> None:
    hand = arbiter(owner=young)
    assert hand.receive(5, Request(middle)) == [(6, Inquire(young))]
    assert hand.receive(4, Request(old)) == []


def test_a_lock_given_back_goes_to_the_oldest() -> None:
    hand = arbiter(owner=young)
    hand.receive(5, Request(middle))
    hand.receive(4, Request(old))
    assert hand.receive(6, Relinquish(young)) == [(4, Locked(old, young.time))]
    assert hand.receive(4, Release(old)) == [(5, Locked(middle, young.time))]
    assert hand.receive(5, Release(middle)) == [(6, Locked(young, young.time))]


def test_who_is_not_inside_gives_back_at_once() -> None:
    hand = requester()
    hand.receive(2, Locked(MINE, MINE.time))
    assert hand.receive(2, Inquire(MINE)) == [(2, Relinquish(MINE))]
    assert hand.receive(3, Locked(MINE, MINE.time)) == []
    assert hand.receive(4, Locked(MINE, MINE.time)) == []
    assert hand.receive(2, Locked(MINE, MINE.time)) == [Entered()]


def test_an_inquiry_that_overtakes_its_lock_is_answered_when_the_lock_comes() -> None:
    hand = requester()
    assert hand.receive(2, Inquire(MINE)) == []
    assert hand.receive(2, Locked(MINE, MINE.time)) == [(2, Relinquish(MINE))]


def test_an_inquiry_inside_or_about_an_earlier_request_is_ignored() -> None:
    hand = requester()
    for member in (2, 3, 4):
        hand.receive(member, Locked(MINE, MINE.time))
    assert hand.receive(3, Inquire(MINE)) == []
    hand.call("release")
    assert hand.receive(3, Inquire(MINE)) == []


def test_only_the_owner_can_give_back() -> None:
    with pytest.raises(ProtocolError, match=r"2\.5 gave back process 9, locked for 3\.6"):
        arbiter(owner=young).receive(5, Release(middle))


def test_1985_whoever_is_not_next_is_told() -> None:
    hand = arbiter(owner=old, rules=Displaced)
    assert hand.receive(5, Request(middle)) == [(5, Failed(middle))]


def test_1985_whoever_was_next_is_told_when_displaced() -> None:
    hand = arbiter(owner=young, rules=Displaced)
    assert hand.receive(5, Request(middle)) == [(6, Inquire(young))]
    assert hand.receive(4, Request(old)) == [(5, Failed(middle))]


def test_1985_an_inquiry_waits_for_the_first_failure() -> None:
    hand = requester(Displaced)
    hand.receive(2, Locked(MINE, MINE.time))
    assert hand.receive(2, Inquire(MINE)) == []
    assert hand.receive(3, Failed(MINE)) == [(2, Relinquish(MINE))]


def test_1985_a_lock_given_back_counts_as_a_failure_until_it_returns() -> None:
    hand = requester(Displaced)
    hand.receive(2, Locked(MINE, MINE.time))
    hand.receive(3, Failed(MINE))
    assert hand.receive(2, Inquire(MINE)) == [(2, Relinquish(MINE))]
    hand.receive(3, Locked(MINE, MINE.time))
    assert hand.receive(3, Inquire(MINE)) == [(3, Relinquish(MINE))]


def test_1985_a_failure_that_its_lock_overtook_is_out_of_date() -> None:
    hand = requester(Displaced)
    hand.receive(2, Locked(MINE, MINE.time))
    hand.receive(2, Inquire(MINE))
    assert hand.receive(2, Failed(MINE)) == []


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(3, 1, Channel.FIFO, 436, 884, variant="eager"),
    Explored(3, 1, Channel.UNORDERED, 436, 884, variant="eager"),
    Explored(3, 1, Channel.FIFO, 466, 953, variant="displaced"),
    Explored(3, 1, Channel.UNORDERED, 558, 1227, variant="displaced"),
]

test_every_interleaving_of_the_triangle_is_safe_and_live = every_interleaving("maekawa", EXPLORED)


@pytest.mark.parametrize(
    ("variant", "quorums", "steps"),
    [
        ("basic", TRIANGLE, 6),
        ("survey", TRIANGLE, 7),
        ("deferred", UNEVEN, 9),
    ],
)
def test_the_flawed_rules_deadlock(
    variant: str, quorums: list[tuple[int, ...]], steps: int
) -> None:
    verdict = check([VARIANTS[variant](me, quorum) for me, quorum in enumerate(quorums, 1)])
    assert verdict.property == "no deadlock"
    assert verdict.depth == steps


@pytest.mark.parametrize("variant", ["eager", "displaced"])
def test_the_sound_rules_do_not_deadlock_where_those_of_1985_do(variant: str) -> None:
    verdict = check([VARIANTS[variant](me, quorum) for me, quorum in enumerate(UNEVEN, 1)])
    assert verdict.verdict == "verified"


EAGER_MUTANTS = {
    "two owners": Mutant(
        "if self.owner is None:\n            self._lock_oldest(out)",
        "if True:\n            self._lock_oldest(out)",
    ),
    "no inquiry": Mutant("out.send(owner.process, Inquire(owner))", "pass"),
    "inquiry ignored": Mutant("self.inquiries.add(sender)", "pass"),
    "given back inside": Mutant(
        "stamp == self.stamp and not self._inside()", "stamp == self.stamp"
    ),
    "lock kept when given back": Mutant("self.locked.remove(arbiter)", "pass"),
    "given back and forgotten": Mutant(
        "insort(self.queue, stamp)\n                self._lock", "self._lock"
    ),
    "next one not locked": Mutant(
        "self.owner = self.queue.pop(0) if self.queue else None", "self.owner = None"
    ),
    "one lock too few": Mutant(
        "len(self.locked) == len(self.quorum)", "len(self.locked) >= len(self.quorum) - 1"
    ),
}


test_a_broken_line_is_noticed = broken_lines(
    Maekawa,
    EAGER_MUTANTS,
    lambda kind, _: [kind(me, quorum) for me, quorum in enumerate(TRIANGLE, 1)],
)


DISPLACED_MUTANTS = {
    "failure not sent": Mutant("out.send(stamp.process, Failed(stamp))", "pass"),
    "displaced not told": Mutant("out.send(self.queue[1].process, Failed(self.queue[1]))", "pass"),
    "failure not minded": Mutant("self.failed.add(sender)", "pass"),
}


test_a_broken_line_of_1985_is_noticed = broken_lines(
    Displaced,
    DISPLACED_MUTANTS,
    lambda kind, _: [kind(me, quorum) for me, quorum in enumerate(UNEVEN, 1)],
)
