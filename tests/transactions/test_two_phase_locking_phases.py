"""What becomes of transactions that lock what they access, but not in two phases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from coterie.errors import MisuseError
from coterie.lab.serializability import check
from coterie.transactions.history import History, HistoryEvent
from coterie.transactions.schemes.two_phase_locking import EXCLUSIVE, LockTable
from tests.transactions.mutants import Mutant, break_rule

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = {  # each lets go of its first key before it locks the second
    "T1": "lock x, access x, unlock x, lock y, access y, unlock y",
    "T2": "lock y, access y, unlock y, lock x, access x, unlock x",
}

Done = tuple[tuple[str, str, str], ...]  # transaction, step and key


def interleavings(locks: LockTable, done: Done = ()) -> Iterator[Done]:
    """Make all steps in all orders, but none that would have to wait."""
    left = {
        name: text.split(", ")[sum(n == name for n, *_ in done) :] for name, text in STEPS.items()
    }
    if not any(left.values()):
        yield done
    for name in [name for name, steps in left.items() if steps]:
        step, key = left[name][0].split()
        if step == "lock" and key in locks.held:
            continue
        twin = msgspec.convert(msgspec.to_builtins(locks), type=type(locks))
        if step == "lock":
            twin.acquire(name, key, EXCLUSIVE)
        elif step == "access":
            twin.require(name, key, EXCLUSIVE)
        else:
            twin.release(name, key)
        yield from interleavings(twin, (*done, (name, step, key)))


def history(done: Done) -> History:
    """Tell the accesses as writes, and let everybody commit."""
    told = History()
    for version, (name, step, key) in enumerate(done, start=1):
        if step == "access":
            told.add(HistoryEvent(name, "write", key, f"{name} {key}", version))
    for name in STEPS:
        told.add(HistoryEvent(name, "commit"))
    return told


def test_without_two_phases_400_of_402_interleavings_are_not_serializable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The figure of algorithms.md 8.1: two opposite transactions, each with one lock at a time."""
    lenient = Mutant(
        LockTable,
        'if owner in self.shrinking:\n            raise MisuseError(f"{owner} asks for a lock on {key}',
        'if False:\n            raise MisuseError(f"',
    )
    break_rule(lenient, monkeypatch)
    ends = list(interleavings(LockTable()))
    assert len(ends) == 402
    assert sum(not check(history(end)).serializable for end in ends) == 400


def test_the_lock_table_does_not_let_it_come_to_that() -> None:
    """2.1 a: the first to lock after it has unlocked is caught."""
    with pytest.raises(MisuseError, match="after it has released one"):
        list(interleavings(LockTable()))
