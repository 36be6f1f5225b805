"""What a page with an editor requires beside its goal: how much of the given text has to stay.

Without it a goal is reached by leaving out what makes it hard: a graph without processes has no deadlock.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from coterie.lab.play.exercises.quorums import parse_quorums
from coterie.lab.play.exercises.schedule import parse_schedule
from coterie.lab.play.proofs.sheet import read_head

if TYPE_CHECKING:
    from collections.abc import Callable

REQUIREMENTS: dict[str, dict[str, str]] = {
    "graph": {"one entry": "with one entry changed and all others kept"},
    "history": {
        "operations": "with the same operations, those of each transaction in the same order"
    },
    "coterie": {
        "members": "with the same members",
        "images": "with given quorums only, each of the others nested with one that is kept",
    },
    "prove": {
        "own clauses": "by clauses of your own",
        "one clause": "with the other clauses as they are",
    },
}


def kept(requirement: str, given: str, text: str) -> bool:
    """Return whether a text, which its editor can read, keeps what is required of the given one."""
    judges: dict[str, Callable[[str, str], bool]] = {
        "one entry": _one_entry,
        "operations": _operations,
        "members": _members,
        "images": _images,
        "own clauses": _own_clauses,
        "one clause": _one_clause,
    }
    return judges[requirement](given, text)


def _one_entry(given: str, text: str) -> bool:
    before, after = json.loads(given), json.loads(text)
    return set(before) == set(after) and sum(before[name] != after[name] for name in before) == 1


def _operations(given: str, text: str) -> bool:
    return _by_transaction(given) == _by_transaction(text)


def _by_transaction(text: str) -> dict[int, list[str]]:
    found = defaultdict(list)
    for operation in parse_schedule(text):
        found[operation.transaction].append(str(operation))
    return found


def _members(given: str, text: str) -> bool:
    return _union(_quorums(given)) == _union(_quorums(text))


def _images(given: str, text: str) -> bool:
    images, written = _quorums(given), _quorums(text)
    nested = all(any(image <= one or one <= image for one in written) for image in images)
    return written <= images and nested


def _quorums(text: str) -> set[frozenset[int]]:
    return {frozenset(quorum) for quorum in parse_quorums(text)[1].quorums}


def _union(quorums: set[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*quorums)


def _own_clauses(given: str, text: str) -> bool:
    return read_head(given) == read_head(text)


def _one_clause(given: str, text: str) -> bool:
    """One more is left out, and what was written before is still there."""
    before, after = read_head(given), read_head(text)
    more = set(after.without) - set(before.without)
    same = before._replace(without=()) == after._replace(without=())
    return same and len(more) == 1 and set(before.without) <= set(after.without)
