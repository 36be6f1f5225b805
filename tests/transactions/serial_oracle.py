"""The plain meaning of serializability: some serial execution shows exactly what was seen."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

from coterie.transactions.history import TransactionOutcome, identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.transactions.history import History, HistoryTransaction


def serializable(history: History) -> bool:
    """Try every serial order of the committed and any choice of those of unknown outcome."""
    return any(explains(order) for order in orders(history))


def orders(history: History) -> Iterator[tuple[HistoryTransaction, ...]]:
    transactions = list(history.transactions.values())
    committed = [t for t in transactions if t.outcome is TransactionOutcome.COMMITTED]
    unknown = [t for t in transactions if t.outcome is TransactionOutcome.UNKNOWN]
    for count in range(len(unknown) + 1):
        for chosen in combinations(unknown, count):
            yield from permutations([*committed, *chosen])


def explains(order: Sequence[HistoryTransaction]) -> bool:
    """Run the transactions one after the other: does each read see what it saw?"""
    state: dict[Any, Any] = {}
    installed: dict[Any, Any] = {}
    lists: dict[Any, list[Any]] = {}
    appended = {access.key for t in order for access in t.accesses if access.op == "append"}
    for transaction in order:
        versions = {}
        for access in transaction.accesses:
            if access.op == "write":
                state[access.key] = identity(access.value)
                versions[access.key] = access.version
            elif access.op == "append":
                lists[access.key] = [*lists.get(access.key, []), access.value]
            elif access.key in appended or access.value == []:
                if lists.get(access.key, []) != (access.value or []):
                    return False
            elif state.get(access.key) != identity(access.value):
                return False
        for key, version in versions.items():
            if version is not None:
                if key in installed and installed[key] > version:
                    return False
                installed[key] = version
    return True
