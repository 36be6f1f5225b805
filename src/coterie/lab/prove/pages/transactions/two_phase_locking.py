"""Two-phase locking: every history is serializable, in the order in which transactions stop locking.

A transaction takes locks until it closes, and gives none back before. One transaction comes before
another if it did something first that conflicts with what the other did. What an aborted one did is
undone. No lock is waited for here: that waits end is for detection or prevention of deadlocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Ordered, Page, Thing, each, every, none, when

if TYPE_CHECKING:
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("two-phase-locking", "for any number of transactions and items")


class Transaction(Thing):
    """It reads and writes items."""


class Item(Thing):
    """What is locked, read and written."""


class Moment(Ordered):
    """In which a transaction closes."""


shared = page.relation("shared", Transaction, Item)  # locks that it has
exclusive = page.relation("exclusive", Transaction, Item)
has_read = page.relation("has_read", Transaction, Item)
has_written = page.relation("has_written", Transaction, Item)
before = page.relation("before", Transaction, Transaction)  # by a conflict
closed = page.relation("closed", Transaction)  # it takes no more locks
at = page.function("at", Transaction, to=Moment)  # it closed


@page.start
def nothing_was_done(t: Transaction, u: Transaction, x: Item) -> Formula:
    did = has_read(t, x) | has_written(t, x) | before(t, u)
    return ~shared(t, x) & ~exclusive(t, x) & ~did & ~closed(t)


@page.action
def lock_shared(t: Transaction, x: Item) -> None:
    when(~closed(t), none(Transaction, lambda u: exclusive(u, x) & (u != t)))
    shared[t, x] = True


@page.action
def lock_exclusive(t: Transaction, x: Item) -> None:
    when(~closed(t), none(Transaction, lambda u: (shared(u, x) | exclusive(u, x)) & (u != t)))
    exclusive[t, x] = True


@page.action
def read(t: Transaction, x: Item) -> None:
    when(~closed(t), shared(t, x) | exclusive(t, x))
    has_read[t, x] = True
    before[each, t] = lambda u: before(u, t) | (has_written(u, x) & (u != t))


@page.action
def write(t: Transaction, x: Item) -> None:
    when(~closed(t), exclusive(t, x))
    has_written[t, x] = True
    before[each, t] = lambda u: before(u, t) | ((has_read(u, x) | has_written(u, x)) & (u != t))


@page.action
def close(t: Transaction, m: Moment) -> None:
    when(~closed(t), every(Transaction, lambda u: closed(u) >> (at(u) < m)))
    closed[t] = True
    at[t] = m


@page.action
def unlock(t: Transaction, x: Item) -> None:
    when(closed(t))
    shared[t, x] = False
    exclusive[t, x] = False


@page.action
def abort(t: Transaction) -> None:
    """Before it closes: what it did is undone, and its locks are free."""
    when(~closed(t))
    shared[t, each] = lambda x: False
    exclusive[t, each] = lambda x: False
    has_read[t, each] = lambda x: False
    has_written[t, each] = lambda x: False
    before[each, t] = lambda u: False


@page.safety
def conflicts_follow_the_order_of_closing(t: Transaction, u: Transaction) -> Formula:
    """So no transactions come before each other in a circle, and that order is a serial one."""
    return before(t, u) >> (closed(t) & (closed(u) >> (at(t) < at(u))))


@page.invariant
def locks_exclude(t: Transaction, u: Transaction, x: Item) -> Formula:
    return (exclusive(t, x) & (shared(u, x) | exclusive(u, x))) >> (t == u)


@page.invariant
def one_that_reads_has_a_lock(t: Transaction, x: Item) -> Formula:
    return has_read(t, x) >> (closed(t) | shared(t, x) | exclusive(t, x))


@page.invariant
def one_that_writes_has_the_lock(t: Transaction, x: Item) -> Formula:
    return has_written(t, x) >> (closed(t) | exclusive(t, x))


early = page.flaw("unlocks-before-it-closes")


@early.instead_of(unlock)
def unlock_at_any_time(t: Transaction, x: Item) -> None:
    when(shared(t, x) | exclusive(t, x))
    shared[t, x] = False
    exclusive[t, x] = False
