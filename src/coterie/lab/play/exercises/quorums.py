"""Quorums that a reader has written: are they a coterie, is it dominated, how often is it alive?

1,2 1,3 2,3          the quorums themselves
majority 5           a named coterie, and the number of its members
weighted:3,1,1 3     one with a parameter
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import msgspec

from coterie.coteries import Coterie, parse_coterie
from coterie.coteries.coterie import show
from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXT_MAX = 2_000  # characters
MEMBERS_MAX = 31  # a plane of order 5
QUORUMS_MAX = 200
LISTED_IDS_MAX = 30_000  # of an algorithm that lists its quorums; with more a crash takes seconds
SIZES_MAX = {"majority": 9, "weighted": 9, "tree": 14, "grid": 15}  # some 200 quorums
NAMED = re.compile(r"([a-z]+(?::[0-9,]+)?)\s+([0-9]{1,4})", re.ASCII)
CURVE = 20  # steps from 0 to 1
SAMPLES = 500  # of live members, where there are too many sets of them to look at all
FAILURES_MAX = 5  # that are tried
EXACT_MAX = 16  # members up to which every split is tried for one without a quorum


class CoterieAnswer(msgspec.Struct, frozen=True):
    """Everything that a page shows of quorums."""

    members: list[int]
    quorums: list[list[int]]
    kind: str  # the name of a construction, or `quorums`
    coterie: bool
    faults: list[str]  # pairs that do not meet, or are nested
    nondominated: bool | None  # None: it is no coterie
    split: list[list[int]]  # two parts without a quorum in either, if it is dominated
    dominating: list[list[int]]  # the quorums of a coterie that dominates it
    failures: int  # as many members may fail, whichever they are; more are not tried than a few
    tolerates: str  # the same in words
    load: list[float]  # of the busiest member, with the best choice of quorums: between these
    availability: list[list[float]]  # of a member, and of a quorum
    exact: bool  # whether these are exact, not estimated


def parse_quorums(text: str) -> tuple[str, Coterie]:
    """Read the kind and the quorums; raise a `CoterieError` that says what is wrong."""
    if len(text) > TEXT_MAX:
        raise UsageError(f"quorums have at most {TEXT_MAX:,} characters, not {len(text):,}")
    words = " ".join(text.replace("{", " ").replace("}", " ").split())
    if named := NAMED.fullmatch(words):
        size = int(named[2])
        kind = named[1].partition(":")[0]
        most = SIZES_MAX.get(kind, MEMBERS_MAX)
        if size > most:
            raise UsageError(f"on a page {kind} has at most {most} members, not {size}")
        return kind, parse_coterie(named[1], size)
    if not re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{1,3})*(?: [0-9]{1,3}(?:,[0-9]{1,3})*)*", words):
        raise UsageError(
            "expected quorums such as '1,2 1,3 2,3', or a name and a number of members such as 'grid 9'"
        )
    quorums = [frozenset(map(int, quorum.split(","))) for quorum in words.split()]
    members = frozenset().union(*quorums)
    if len(members) > MEMBERS_MAX or len(quorums) > QUORUMS_MAX:
        raise UsageError(
            f"on a page there are at most {MEMBERS_MAX} members, {QUORUMS_MAX} quorums"
        )
    return "quorums", Coterie(members, quorums)


def judge_quorums(text: str) -> CoterieAnswer:
    """Judge quorums that a reader has written."""
    kind, given = parse_quorums(text)
    faults = _faults(given)
    split = None if faults else _split(given)
    failures = _failures(given)
    steps = [step / CURVE for step in range(CURVE + 1)] + [0.99]
    alive = [given.availability(p, samples=SAMPLES) for p in sorted(steps)]
    return CoterieAnswer(
        members=list(given.members),
        quorums=[sorted(quorum) for quorum in given.quorums],
        kind=kind,
        coterie=not faults,
        faults=faults,
        nondominated=None if faults else split is None and given.is_nondominated(),
        split=[] if split is None else split,
        dominating=[] if split is None else [sorted(q) for q in _dominating(given, split).quorums],
        failures=failures,
        tolerates="-" if faults else _tolerates(given, failures),
        load=[] if faults else _load(given),
        availability=[[p, each.probability] for p, each in zip(sorted(steps), alive, strict=True)],
        exact=all(each.exact for each in alive),
    )


def _faults(given: Coterie) -> list[str]:
    """Name the pairs because of which it is no coterie, a few of them."""
    found = []
    for one, other in itertools.combinations(given.quorums, 2):
        if one.isdisjoint(other):
            found.append(f"{show(one)} and {show(other)} have no member in common")
        elif one < other or other < one:
            large, small = (other, one) if one < other else (one, other)
            found.append(f"{show(large)} contains {show(small)}")
    return found[:10]


def _split(given: Coterie) -> list[list[int]] | None:
    """Find two parts of the members without a quorum in either; None if there is no such split."""
    members = given.members
    if len(members) > EXACT_MAX or given.is_nondominated():
        return None
    for size in range(len(members) // 2 + 1):
        for part in itertools.combinations(members, size):
            rest = [member for member in members if member not in part]
            if not given.contains_quorum(part) and not given.contains_quorum(rest):
                return [list(part), rest]
    raise AssertionError("a dominated coterie has a split without a quorum in either part")


def _dominating(given: Coterie, split: Sequence[Sequence[int]]) -> Coterie:
    """Add a quorum, and drop those that contain it.

    Each part of the split meets all quorums, since none lies in the other part. Made as small as it can be
    while it still does, it has a member in common with every quorum and contains none; so with it
    there is a coterie still, and one that has a quorum alive more often.
    """
    added = _smallest_meeting(split[1], given.quorums)
    kept = [quorum for quorum in given.quorums if not added <= quorum]
    return Coterie(given.members, [*kept, added])


def _smallest_meeting(part: Sequence[int], quorums: Sequence[frozenset[int]]) -> frozenset[int]:
    """Leave out members as long as every quorum still has one among those that are left."""
    left = set(part)
    for member in part:
        if all(quorum & (left - {member}) for quorum in quorums):
            left.remove(member)
    return frozenset(left)


def _load(given: Coterie) -> list[float]:
    load = given.load()
    return [float(load.low), float(load.high)]


def _failures(given: Coterie) -> int:
    """Return how many members may fail, whichever they are, with a quorum left alive."""
    for failed in range(1, min(len(given.members), FAILURES_MAX) + 1):
        for crashed in itertools.combinations(given.members, failed):
            if given.without(crashed) is None:
                return failed - 1
    return FAILURES_MAX


def _tolerates(given: Coterie, failures: int) -> str:
    # The loss of a whole quorum is never survived: every other one has a member in common with it.
    most = min(map(len, given.quorums)) - 1
    return str(failures) if failures < FAILURES_MAX or failures == most else f"{failures} or more"
