"""Real handlers on symbolic values do what the page says, and a bug is noticed in the field it spoils."""

from __future__ import annotations

import pytest

from coterie.algorithms.mutex.permission.ricart_agrawala.plain import RicartAgrawala
from coterie.algorithms.mutex.quorum.leased.ballot import Ballot
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.lab.prove.handlers import leased_ballot
from coterie.lab.prove.handlers.ricart_agrawala import follow
from coterie.lab.prove.solver import z3
from coterie.lab.prove.symbolic import AnyInteger, AnySet, Paths
from tests.harness import broken_class


@pytest.mark.parametrize(("size", "ways"), [(1, 2), (2, 24), (3, 75)])
def test_every_way_through_every_handler_is_the_step_of_the_page(size: int, ways: int) -> None:
    followed = follow(size)
    assert followed.troubles == []
    assert followed.ways == ways


@pytest.mark.parametrize(
    ("old", "new", "trouble"),
    [
        (
            "self.stamp < stamp",
            "self.stamp > stamp",
            "receive request of process 2: deferred(1, 2)",
        ),
        ("self.highest = stamp.time", "pass", "receive request of process 2: clock(1)"),
        ("self.highest += 1", "self.highest += 2", "acquire: clock(1)"),
        ("        self.deferred.clear()\n", "", "release: deferred(1, 2)"),
        ("        self.stamp = None\n", "", "release: asking(1)"),
        (
            "            self.awaiting.remove(sender)\n",
            "",
            "receive reply of process 2: awaiting(1, 2)",
        ),
        ("if not self.awaiting:\n                out", "if True:\n                out", "Entered"),
        ("self.awaiting.remove(sender)", "self.awaiting.remove(self.me)", "raises KeyError"),
    ],
)
def test_a_bug_is_noticed_in_the_field_that_it_spoils(old: str, new: str, trouble: str) -> None:
    followed = follow(3, broken_class(RicartAgrawala, old, new))
    assert any(trouble in each for each in followed.troubles)


def test_a_question_that_the_state_leaves_open_is_answered_both_ways() -> None:
    x = z3.Int("x")
    paths = Paths([x > 0])

    def ask() -> str:
        number = AnyInteger(paths, x)
        if number < 0:
            return "negative"
        return "one" if number == 1 else "more"

    assert {way.result for way in paths.each(ask)} == {"one", "more"}


def test_a_set_decides_only_what_it_is_asked() -> None:
    claims = {member: z3.Bool(f"has {member}") for member in (1, 2, 3)}
    paths = Paths([z3.Not(claims[3])])

    def ask() -> object:
        members = AnySet(paths, dict(claims))
        members.add(2)
        return (1 in members, 3 in members, len(members))

    assert {way.result for way in paths.each(ask)} == {(True, False, 2), (False, False, 1)}
    assert all(len(way.conditions) == 1 for way in paths.each(lambda: bool(AnySet(paths, claims))))


def test_ballots_and_voters_of_the_leased_lock_count_as_the_page_of_tokens_does() -> None:
    followed = leased_ballot.follow()
    assert followed.troubles == []
    assert followed.ways == 29


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        ("min(used, tenure.high)", "used", "take back"),
        ("max(self.floor, min(used, tenure.high))", "min(used, tenure.high)", "take back"),
        ("self.owners.remove(tenure)", "pass", "take back"),
        ("self.floor + 1", "self.floor", "grant"),
        ("low + length - 1", "low + length", "grant"),
        (
            "Tenure(claim, claim.stamp, claim.stamp)",
            "Tenure(claim, claim.stamp, claim.stamp + 1)",
            "repair",
        ),
    ],
)
def test_a_wrong_number_of_a_ballot_is_noticed(old: str, new: str, step: str) -> None:
    followed = leased_ballot.follow(broken_class(Ballot, old, new))
    assert any(each.startswith(step) for each in followed.troubles)


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        ("if tenure.high > self.bound:", "if tenure.low > self.bound:", "cover"),
        ("self.bound = tenure.high + self", "self.bound = tenure.high - self", "cover"),
        (
            "self.bound = tenure.high + self.settings.reserve\n            self._save(out)",
            "self.bound = tenure.high + self.settings.reserve",
            "cover",
        ),
        (
            "self.settings.interval - 1)\n        self._cover(tenure, out)",
            "self.settings.interval - 1)",
            "lift",
        ),
        ("max(tenure.high, tenure.low + self.settings", "(tenure.low + self.settings", "lift"),
        ("tenure.low = max(tenure.low, token)", "tenure.low = token", "lift"),
    ],
)
def test_a_wrong_number_of_a_voter_is_noticed(old: str, new: str, step: str) -> None:
    followed = leased_ballot.follow(voter=broken_class(Voter, old, new))
    assert any(each.startswith(step) for each in followed.troubles)
