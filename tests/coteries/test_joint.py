"""Coteries side by side: what is computed without lists is what all pairs of quorums say."""

from __future__ import annotations

import random

import pytest

from coterie.coteries import Coterie, grid, majority, parse_coterie, projective_plane, weighted
from coterie.coteries.joint import Joint, is_blocking, meet, seated
from coterie.coteries.votes import Votes
from tests.coteries.strategies import all_coteries, from_sets

SEEDS = range(120)


def draw(chance: random.Random) -> Coterie:
    """Draw votes, a list, a grid, a tree or a plane, of members between 1 and 12."""
    kind = chance.choice(("votes", "votes", "list", "grid", "tree", "plane"))
    size = 7 if kind == "plane" else chance.randint(1, 6)
    seats = sorted(chance.sample(range(1, 13 if chance.random() < 0.3 else size + 2), size))
    if kind == "votes":
        votes = [chance.randint(0, 3) for _ in range(size - 1)] + [chance.randint(1, 3)]
        total = sum(votes)
        threshold = chance.randint(total // 2 + 1, total)
        return weighted(dict(zip(seats, votes, strict=True)), threshold)
    if kind == "list":
        sets = [frozenset(chance.sample(seats, chance.randint(1, size))) for _ in range(3 * size)]
        return from_sets(seats, sets)
    text = {"grid": "grid", "tree": "tree", "plane": "plane:2"}[kind]
    return seated(parse_coterie(text, size), seats)


def subsets(members: tuple[int, ...], chance: random.Random) -> list[frozenset[int]]:
    return [
        frozenset(member for member in members if chance.random() < density)
        for density in (0.1, 0.3, 0.5, 0.7, 0.9)
        for _ in range(4)
    ]


def pairs_meet(one: Coterie, other: Coterie) -> bool:
    return all(q & r for q in one.quorums for r in other.quorums)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_coteries_meet_if_all_their_quorums_do(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        one, other = draw(chance), draw(chance)
        assert meet(one, other) is meet(other, one) is pairs_meet(one, other)
        assert meet(one, one)


def test_all_small_coteries_meet_where_their_quorums_do() -> None:
    small = [each for size in (1, 2, 3) for each in all_coteries(size)]
    verdicts = {meet(one, other) for one in small for other in small}
    assert verdicts == {True, False}
    for one in small:
        for other in small:
            assert meet(one, other) is pairs_meet(one, other)


def test_both_answers_come_for_votes_and_for_lists() -> None:
    """Otherwise the random ones above show little."""
    chance = random.Random(1)
    seen = set()
    for _ in range(1000):
        one, other = draw(chance), draw(chance)
        seen.add((isinstance(one, Votes), isinstance(other, Votes), meet(one, other)))
    assert len(seen) == 8


@pytest.mark.parametrize("seed", SEEDS)
def test_a_joint_quorum_contains_one_of_each(seed: int) -> None:
    chance = random.Random(seed)
    old, new = draw(chance), draw(chance)
    joint = Joint(old, new)
    listed = Coterie(joint.members, joint.quorums)
    assert set(joint.members) == {*old.members, *new.members}
    for alive in [*subsets(joint.members, chance), *joint.quorums]:
        both = old.contains_quorum(alive) and new.contains_quorum(alive)
        assert joint.contains_quorum(alive) is listed.contains_quorum(alive) is both
        suspects = frozenset(joint.members) - alive
        found = joint.without(suspects)
        assert (found is None) is (not both)
        assert found is None or (joint.contains_quorum(found) and not found & suspects)
    for member in joint.members:
        assert joint.contains_quorum(joint.quorum_for(member))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_joint_coterie_meets_itself_and_both_parts(seed: int) -> None:
    chance = random.Random(seed)
    old, new = draw(chance), draw(chance)
    joint = Joint(old, new)
    joint.check()
    assert meet(joint, old)
    assert meet(new, joint)
    assert meet(joint, joint)
    third = draw(chance)
    assert meet(joint, third) is pairs_meet(joint, third)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_blocking_set_has_a_member_of_every_quorum(seed: int) -> None:
    chance = random.Random(seed)
    coterie = draw(chance)
    for members in subsets(coterie.members, chance):
        assert is_blocking(coterie, members) is all(q & members for q in coterie.quorums)
    assert is_blocking(coterie, [*coterie.members, 99])


@pytest.mark.parametrize("seed", SEEDS)
def test_on_other_seats_the_quorums_are_the_same_by_place(seed: int) -> None:
    chance = random.Random(seed)
    coterie = draw(chance)
    seats = sorted(chance.sample(range(20, 40), len(coterie.members)))
    places = dict(zip(coterie.members, seats, strict=True))
    moved = seated(coterie, seats)
    assert set(moved.quorums) == {frozenset(places[m] for m in q) for q in coterie.quorums}
    assert moved.members == tuple(seats)
    assert isinstance(moved, Votes) is isinstance(coterie, Votes)
    assert seated(coterie, coterie.members) is coterie


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (majority([1, 2, 3]), majority([1, 2, 3, 4]), True),
        (majority([1, 2, 3, 4]), majority([1, 2, 3]), True),
        (majority([1, 2]), majority([1, 2, 3]), True),
        (majority([1, 2, 3]), majority([1, 2, 4]), False),
        (majority([1, 2]), majority([3, 4]), False),
        (majority([1, 2, 3]), majority([1, 2, 3, 4, 5]), False),
        (weighted({1: 2, 2: 1, 3: 1}), majority([1, 2, 3]), True),
        (projective_plane(2), majority(range(1, 8)), False),
        (grid(range(1, 10)), majority(range(1, 10)), True),
        (grid(range(1, 17)), majority(range(1, 17)), False),
        (majority(range(1, 1001)), majority(range(1, 1002)), True),
    ],
)
def test_changes_of_one_step_and_of_two(old: Coterie, new: Coterie, expected: bool) -> None:
    """One voter more or less of a majority is one step; another voter in its place is two."""
    assert meet(old, new) is expected
