"""The plain meaning of each level: some order of commits, or of beginnings and commits, explains all reads."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

from coterie.lab.isolation import GUARANTEES
from coterie.transactions.history import TransactionOutcome, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from coterie.transactions.history import History, HistoryTransaction

    Reads = list[tuple[int, Any, int | None]]
    Relation = set[tuple[int, int]]


def kept(history: History, level: str, *, sessions: bool = False) -> bool | None:
    """Try every choice of those of unknown outcome that count, and every order.

    Of a guarantee nothing is said (None) where a read saw what no committed state has.
    """
    transactions = list(history.transactions.values())
    committed = [t for t in transactions if t.outcome is TransactionOutcome.COMMITTED]
    unknown = [t for t in transactions if t.outcome is TransactionOutcome.UNKNOWN]
    is_clean = False
    for count in range(len(unknown) + 1):
        for chosen in combinations(unknown, count):
            counted = sorted([*committed, *chosen], key=lambda t: t.first)
            reads = resolved(counted)
            if reads is None:
                continue
            is_clean = True
            earlier = succession(counted) if sessions else set()
            if level == "snapshot-isolation":
                if any(snapshots(counted, reads, order, earlier) for order in moments(counted)):
                    return True
            elif any(
                agrees(counted, reads, order, level, earlier)
                for order in permutations(range(len(counted)))
            ):
                return True
    return None if not is_clean and level in GUARANTEES else False


def resolved(counted: Sequence[HistoryTransaction]) -> Reads | None:
    """Say from which transaction each read was, None if one saw what no committed state has."""
    reads: Reads = []
    final: dict[tuple[Any, Any], int] = {}
    for number, transaction in enumerate(counted):
        last = {a.key: identity(a.value) for a in transaction.accesses if a.op == "write"}
        final.update(dict.fromkeys(last.items(), number))
    for number, transaction in enumerate(counted):
        own: dict[Any, Any] = {}
        for access in transaction.accesses:
            seen = identity(access.value)
            if access.op == "write":
                own[access.key] = seen
            elif access.key in own:
                if own[access.key] != seen:
                    return None
            elif seen is None:
                reads.append((number, access.key, None))
            elif final.get((access.key, seen), number) == number:
                return None
            else:
                reads.append((number, access.key, final[access.key, seen]))
    return reads


def succession(counted: Sequence[HistoryTransaction]) -> Relation:
    return {
        (one, other)
        for one, t in enumerate(counted)
        for other, u in enumerate(counted)
        if one < other and t.session is not None and t.session == u.session
        if t.outcome is not TransactionOutcome.UNKNOWN
    }


def written(transaction: HistoryTransaction) -> dict[Any, Any]:
    return {a.key: a.version for a in transaction.accesses if a.op == "write"}


def in_version_order(counted: Sequence[HistoryTransaction], order: Sequence[int]) -> bool:
    newest: dict[Any, Any] = {}
    for number in order:
        for key, version in written(counted[number]).items():
            if version is not None:
                if key in newest and newest[key] > version:
                    return False
                newest[key] = version
    return True


def agrees(
    counted: Sequence[HistoryTransaction],
    reads: Reads,
    order: Sequence[int],
    level: str,
    so: Relation,
) -> bool:
    """Hold an order of commits against the axiom of a level, as it is written."""
    place = {number: index for index, number in enumerate(order)}
    wr = {(writer, reader) for reader, _, writer in reads if writer is not None}
    writing = {number for number, transaction in enumerate(counted) if written(transaction)}
    needed = wr | ordered(level, so, wr, writing)
    if not in_version_order(counted, order) or any(place[a] >= place[b] for a, b in needed):
        return False
    if level == "read-committed":
        return True
    visible = VISIBLE[level](so, wr)
    for reader, key, writer in reads:
        for rival, transaction in enumerate(counted):
            if rival in (reader, writer) or key not in written(transaction):
                continue
            if (rival, reader) in visible and (writer is None or place[rival] > place[writer]):
                return False
    return True


def after(one: Relation, other: Relation) -> Relation:
    return {(a, d) for a, b in one for c, d in other if b == c}


def closed(relation: Relation) -> Relation:
    while more := after(relation, relation) - relation:
        relation = relation | more
    return relation


def ordered(level: str, so: Relation, wr: Relation, writing: set[int]) -> Relation:
    """Return what the order of commits has to respect of the sessions (Terry and others, 1994)."""
    if level == "monotonic-writes":
        return {(one, other) for one, other in so if one in writing and other in writing}
    if level == "writes-follow-reads":
        return {(source, writer) for source, writer in after(wr, so) if writer in writing}
    return set() if level in GUARANTEES else so


VISIBLE: dict[str, Callable[[Relation, Relation], Relation]] = {
    "read-atomic": lambda so, wr: so | wr,
    "causal": lambda so, wr: closed(so | wr),
    "read-your-writes": lambda so, wr: so,
    "monotonic-reads": lambda so, wr: after(wr, so),
    "monotonic-writes": after,
    "writes-follow-reads": lambda so, wr: after(wr, wr) | after(after(wr, so), wr),
}


def moments(counted: Sequence[HistoryTransaction]) -> Iterator[list[tuple[str, int]]]:
    """Yield every order of the beginnings and commits of transactions."""

    def extend(done: list[tuple[str, int]], begun: set[int]) -> Iterator[list[tuple[str, int]]]:
        if len(done) == 2 * len(counted):
            yield done
        ended = {number for what, number in done if what == "commit"}
        for number in range(len(counted)):
            if number not in begun:
                yield from extend([*done, ("begin", number)], begun | {number})
            elif number not in ended:
                yield from extend([*done, ("commit", number)], begun)

    return extend([], set())


def snapshots(
    counted: Sequence[HistoryTransaction], reads: Reads, order: list[tuple[str, int]], so: Relation
) -> bool:
    """Run the transactions on snapshots: the first committer wins."""
    place = {event: index for index, event in enumerate(order)}
    if any(place["commit", one] > place["begin", other] for one, other in so):
        return False
    latest: dict[Any, int] = {}
    active: set[int] = set()
    for what, number in order:
        keys = written(counted[number])
        if what == "begin":
            active.add(number)
            if any(r == number and latest.get(key) != writer for r, key, writer in reads):
                return False
            continue
        active.remove(number)
        if any(keys.keys() & written(counted[other]).keys() for other in active):
            return False
        latest.update(dict.fromkeys(keys, number))
    commits = [number for what, number in order if what == "commit"]
    return in_version_order(counted, commits)
