"""The textbook's test of serializability, which knows no versions: two transactions conflict if they
touch the same key and one of them writes, and whoever came first must stand first.

What it accepts is serializable. It rejects some histories that are: those in which a write had no
effect when it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.serializability.dependencies import serial_order
from coterie.transactions.history import TransactionOutcome

if TYPE_CHECKING:
    from coterie.transactions.history import History


def conflict_serializable(history: History) -> bool:
    """Tell whether the conflicts of committed transactions, in order of arrival, form no cycle."""
    names = [
        n for n, t in history.transactions.items() if t.outcome is TransactionOutcome.COMMITTED
    ]
    accesses = sorted(
        (access.line, place, access.key, access.op)
        for place, name in enumerate(names)
        for access in history.transactions[name].accesses
    )
    pairs = [
        (first, second)
        for number, (_, first, key, op) in enumerate(accesses)
        for _, second, other, after in accesses[number + 1 :]
        if first != second and key == other and "write" in (op, after)
    ]
    _, tangled = serial_order(range(len(names)), pairs)
    return not tangled
