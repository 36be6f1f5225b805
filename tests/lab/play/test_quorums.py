"""Quorums that a reader writes: coterie or not, dominated or not, and by what."""

from __future__ import annotations

import contextlib
import itertools
import random
import string

import pytest

from coterie.coteries import Coterie
from coterie.errors import CoterieError
from coterie.lab.play.exercises.quorums import CoterieAnswer, judge_quorums


def judged(text: str) -> CoterieAnswer:
    return judge_quorums(text)


@pytest.mark.parametrize(
    ("text", "nondominated", "tolerates"),
    [
        ("1,2 1,3 2,3", True, 1),
        ("{1,2} {2,3}", False, 0),
        ("plane 7", True, 2),
        ("grid 9", False, 2),
        ("majority 4", False, 1),
        ("majority 5", True, 2),
        ("tree 7", True, 2),
        ("weighted:3,1,1 3", True, 0),
        ("singleton 3", True, 0),
    ],
)
def test_coteries_are_judged(text: str, nondominated: bool, tolerates: int) -> None:
    found = judged(text)
    assert found.coterie
    assert found.nondominated is nondominated
    assert (found.failures, found.tolerates) == (tolerates, str(tolerates))
    assert bool(found.dominating) is not nondominated


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("1,2 3,4", "{1,2} and {3,4} have no member in common"),
        ("1,2 1,2,3", "{1,2,3} contains {1,2}"),
    ],
)
def test_what_is_no_coterie_is_named(text: str, fault: str) -> None:
    found = judged(text)
    assert not found.coterie
    assert found.faults == [fault]
    assert found.nondominated is None
    assert found.tolerates == "-"


def test_where_failures_are_no_longer_tried_it_says_so() -> None:
    """A line of six points meets all others; with one point more on each, what is lost is not known."""
    assert judged("plane 31").tolerates == "5"
    line = (0, 1, 2, 3, 8, 12, 18)  # without 2 it is a line, and its shifts are the others
    quorums = [",".join(str((x + shift) % 31 + 1) for x in line) for shift in range(31)]
    assert judged(" ".join(quorums)).tolerates == "5 or more"


def test_what_dominates_is_a_coterie_with_a_quorum_alive_more_often() -> None:
    """Try every dominated coterie of up to four members, and some larger ones."""
    members = (1, 2, 3, 4)
    sets = [set(x) for size in (1, 2, 3, 4) for x in itertools.combinations(members, size)]
    texts = ["grid 9", "majority 6", "plane 13"]
    for count in (1, 2, 3):
        texts += [
            " ".join(",".join(map(str, sorted(each))) for each in chosen)
            for chosen in itertools.combinations(sets, count)
        ]
    dominated = 0
    for text in texts:
        found = judged(text)
        if not found.dominating:
            continue
        dominated += 1
        weak = Coterie(found.members, found.quorums)
        strong = Coterie(found.members, found.dominating)
        strong.check()
        assert strong != weak
        assert all(strong.contains_quorum(quorum) for quorum in weak.quorums)
        assert strong.availability(0.9).probability > weak.availability(0.9).probability
        one, other = found.split
        assert not weak.contains_quorum(one)
        assert not weak.contains_quorum(other)
    assert dominated > 20


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "expected quorums"),
        ("plane", "expected quorums"),
        ("plane:2 9", "7 members"),
        ("plane 99", "at most 31 members"),
        ("majority 20", "at most 9 members"),
        ("wonder 3", "unknown coterie"),
        ("1," * 1_001, "at most 2,000 characters"),
        (" ".join(str(n) for n in range(40)), "at most 31 members"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, error: str) -> None:
    with pytest.raises(CoterieError, match=error):
        judge_quorums(text)


def test_any_text_is_judged_or_refused() -> None:
    chance = random.Random(3)
    for letters in (string.printable, "0123456789, "):
        for length in (1, 9, 60, 2_000):
            text = "".join(chance.choices(letters, k=length))
            with contextlib.suppress(CoterieError):
                judge_quorums(text)
