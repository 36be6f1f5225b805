"""Snapshot isolation: each transaction reads the state of one moment, and no two that overlap write a key.

With a known order of versions that is so if and only if no cycle of dependencies is without two
anti-dependencies in a row (Cerone and Gotsman, 2018), which one pass decides. Where the order is not
known, it is NP-complete to find one. But a transaction that reads a key and writes it replaces what it has
read, which leaves chains of versions; the orders of these are tried, if they are not too many.
"""

from __future__ import annotations

from itertools import permutations, product
from math import factorial, prod
from typing import TYPE_CHECKING, NamedTuple

from coterie.lab.serializability.dependencies import dependencies, serial_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.isolation.part import Part
    from coterie.transactions.history import Key

ORDERS_MAX = 2_000  # of versions that are tried
WORK_MAX = 20_000_000  # transactions and reads, over all orders that are tried


class _Chains(NamedTuple):
    """Writers of a key in pieces whose order among each other is open, behind those that are known."""

    known: list[int]
    pieces: list[list[int]]

    def orders(self) -> Iterator[list[int]]:
        for pieces in permutations(self.pieces):
            yield [*self.known, *(number for piece in pieces for number in piece)]


def holds_snapshot(part: Part) -> bool | None:
    """Return whether a part keeps snapshot isolation; None if there are too many orders of versions."""
    read_from = {(r.reader, r.key): r.writer for r in part.readings}
    if len(read_from) < len({(r.reader, r.key, r.writer) for r in part.readings}):
        return False  # one that has read two versions of a key
    chains: dict[Key, _Chains] = {}
    for key, writers in part.unknown.items():
        found = _chained(key, [], writers, read_from)
        if found is None:
            return False
        chains[key] = found
    for key, known in part.versions.items():
        found = _chained(key, known, part.tails.get(key, []), read_from)
        if found is None:
            return False
        chains[key] = found
    orders = prod(factorial(len(chain.pieces)) for chain in chains.values())
    work = (part.size + len(part.readings)) * min(orders, ORDERS_MAX)
    tried = min(orders, ORDERS_MAX, max(1, ORDERS_MAX * WORK_MAX // (work or 1)))
    choices = product(*(chain.orders() for chain in chains.values()))
    for _, choice in zip(range(tried), choices, strict=False):
        if _is_sound(part, dict(zip(chains, choice, strict=True))):
            return True
    return None if orders > tried else False


def _chained(
    key: Key,
    known: Sequence[int],
    others: Sequence[int],
    read_from: dict[tuple[int, Key], int | None],
) -> _Chains | None:
    """Put each writer right behind the version that it has read; None if two would stand there."""
    successors: dict[int | None, int] = dict(
        zip([None, *known], known, strict=False)
    )  # of known versions
    follows = set()
    for number in others:
        if (number, key) in read_from:
            replaced = read_from[number, key]
            if replaced in successors:
                return None  # a lost update
            successors[replaced] = number
            follows.add(number)
    pieces = []
    start: int | None = known[-1] if known else None
    first = _follow(start, successors)
    placed = {*known, *first}
    for number in others:
        if number not in follows:
            pieces.append([number, *_follow(number, successors)])
            placed.update(pieces[-1])
    if len(placed) < len(known) + len(others):
        return None  # some have read from each other in a circle, or from what was replaced
    return _Chains([*known, *first], pieces)


def _follow(number: int | None, successors: dict[int | None, int]) -> list[int]:
    chain: dict[int, None] = {}
    while number in successors and successors[number] not in chain:
        number = successors[number]
        chain[number] = None
    return list(chain)


def _is_sound(part: Part, versions: dict[Key, list[int]]) -> bool:
    """Look for a cycle without two anti-dependencies in a row, in a graph with each node twice.

    One stands for a transaction that was reached by a dependency, its double (behind all of them) for one that was
    reached by an anti-dependency; only a dependency leads on from there.
    """
    pairs: list[tuple[int, int]] = []
    for source, target, kind, _ in dependencies(part.readings, versions):
        if kind == "rw":
            pairs.append((source, part.size + target))
        else:
            pairs += [(source, target), (part.size + source, target)]
    for number, earlier in part.before.items():
        pairs += [(earlier, number), (part.size + earlier, number)]
    _, tangled = serial_order(range(2 * part.size), pairs)
    return not tangled
