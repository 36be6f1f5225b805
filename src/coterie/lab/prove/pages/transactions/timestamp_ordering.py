"""Timestamp ordering with Thomas's write rule: every read is that of the serial order of stamps.

A transaction is its stamp. A write that comes too late for a later read is refused; one that comes too
late for a later write alone is accepted and has no effect. The first transaction has written all
items. What is written is read at once: that a reader waits for the commit is for recovery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Ordered, Page, Thing, later, when

if TYPE_CHECKING:
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("timestamp-ordering", "for any number of transactions and items")


class Transaction(Ordered):
    """In the order of stamps."""


class Item(Thing):
    """What is read and written."""


first = page.variable("first", Transaction, fixed=True)
latest_read = page.function("latest_read", Item, to=Transaction)
latest_write = page.function("latest_write", Item, to=Transaction)  # whose value it has
has_written = page.relation("has_written", Transaction, Item)  # also without effect
has_read = page.relation("has_read", Transaction, Item, Transaction)  # of which writer


@page.start
def the_first_has_written_all(t: Transaction, x: Item, w: Transaction) -> Formula:
    latest = (latest_read(x) == first) & (latest_write(x) == first)
    return latest & ~has_read(t, x, w) & (has_written(t, x) >> (t == first)) & has_written(first, x)


@page.action
def read(t: Transaction, x: Item) -> None:
    when(latest_write(x) <= t)
    has_read[t, x, latest_write(x)] = True
    latest_read[x] = later(latest_read(x), t)


@page.action
def write(t: Transaction, x: Item) -> None:
    when(latest_read(x) <= t, latest_write(x) <= t)
    has_written[t, x] = True
    latest_write[x] = t


@page.action
def write_without_effect(t: Transaction, x: Item) -> None:
    """Thomas's rule: in the serial order, this value is overwritten before it is read."""
    when(latest_read(x) <= t, t < latest_write(x))
    has_written[t, x] = True


@page.safety
def reads_are_those_of_the_serial_order(
    t: Transaction, x: Item, w: Transaction, u: Transaction
) -> Formula:
    """No transaction between the writer and the reader has written."""
    return (has_read(t, x, w) & has_written(u, x)) >> ((u <= w) | (t <= u))


@page.safety
def the_last_value_is_that_of_the_serial_order(u: Transaction, x: Item) -> Formula:
    return has_written(latest_write(x), x) & (has_written(u, x) >> (u <= latest_write(x)))


@page.invariant
def reads_are_known(t: Transaction, x: Item, w: Transaction) -> Formula:
    return has_read(t, x, w) >> (t <= latest_read(x))


careless = page.flaw("forgets-reads")


@careless.instead_of(read)
def read_and_forget(t: Transaction, x: Item) -> None:
    when(latest_write(x) <= t)
    has_read[t, x, latest_write(x)] = True


generous = page.flaw("drops-writes-that-were-read-past")


@generous.instead_of(write_without_effect)
def drop_any_late_write(t: Transaction, x: Item) -> None:
    """It does not look for reads that should have seen this value."""
    when(t < latest_write(x))
    has_written[t, x] = True
