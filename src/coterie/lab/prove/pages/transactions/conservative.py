"""Conservative timestamp ordering: no request is refused, and every read is that of the serial order.

A transaction says beforehand what it may read and write. Each source of transactions promises from time to
time to begin none below a stamp any more. A request waits until every older transaction that may disturb
it has done its part, has ended, or can never begin. What was read once is not read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Ordered, Page, Thing, every, none, when

if TYPE_CHECKING:
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("conservative", "for any number of transactions, items and sources")


class Transaction(Ordered):
    """In the order of stamps."""


class Item(Thing):
    """What is read and written."""


class Source(Thing):
    """A site where transactions begin."""


of = page.function("of", Transaction, to=Source, fixed=True)
may_read = page.relation("may_read", Transaction, Item, fixed=True)  # by its declaration
may_write = page.relation("may_write", Transaction, Item, fixed=True)

first = page.variable("first", Transaction, fixed=True)
promised = page.function("promised", Source, to=Transaction)  # it begins none up to this one
begun = page.relation("begun", Transaction)
ended = page.relation("ended", Transaction)
latest_write = page.function("latest_write", Item, to=Transaction)  # whose value it has
has_written = page.relation("has_written", Transaction, Item)
has_read = page.relation("has_read", Transaction, Item, Transaction)  # of which writer


@page.start
def the_first_has_written_all(t: Transaction, x: Item, w: Transaction, s: Source) -> Formula:
    before = (latest_write(x) == first) & (has_written(t, x) == (t == first)) & ~has_read(t, x, w)
    return before & (promised(s) == first) & ~begun(t) & ~ended(t) & (first <= t)


@page.action
def promise(s: Source, t: Transaction) -> None:
    when(promised(s) <= t)
    promised[s] = t


@page.action
def begin(t: Transaction) -> None:
    when(~begun(t), promised(of(t)) < t)
    begun[t] = True


def is_out(u: Transaction) -> Formula:
    """It does nothing any more: it has ended, or its source has promised not to begin it."""
    return ended(u) | (~begun(u) & (u <= promised(of(u))))


def has_its_read(u: Transaction, x: Item) -> Formula:
    return ~none(Transaction, lambda w: has_read(u, x, w))


def writers_are_through(t: Transaction, x: Item) -> Formula:
    """No older one can write here any more."""

    def is_through(u: Transaction) -> Formula:
        return has_written(u, x) | is_out(u) | ~may_write(u, x)

    return every(Transaction, lambda u: (u < t) >> is_through(u))


def readers_are_through(t: Transaction, x: Item) -> Formula:
    def is_through(u: Transaction) -> Formula:
        return has_its_read(u, x) | is_out(u) | ~may_read(u, x)

    return every(Transaction, lambda u: (u < t) >> is_through(u))


@page.action
def read(t: Transaction, x: Item) -> None:
    when(begun(t), ~ended(t), may_read(t, x), ~has_its_read(t, x), writers_are_through(t, x))
    has_read[t, x, latest_write(x)] = True


@page.action
def write(t: Transaction, x: Item) -> None:
    when(begun(t), ~ended(t), may_write(t, x), ~has_written(t, x))
    when(writers_are_through(t, x), readers_are_through(t, x))
    has_written[t, x] = True
    latest_write[x] = t


@page.action
def end(t: Transaction) -> None:
    when(begun(t))
    ended[t] = True


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
def a_read_has_waited_for_writers(t: Transaction, x: Item, w: Transaction) -> Formula:
    return has_read(t, x, w) >> writers_are_through(t, x)


@page.invariant
def a_write_has_waited_for_readers(t: Transaction, x: Item) -> Formula:
    return has_written(t, x) >> (writers_are_through(t, x) & readers_are_through(t, x))


hasty = page.flaw("waits-for-what-has-begun-alone")


@hasty.instead_of(read)
def read_past_promises(t: Transaction, x: Item) -> None:
    """It does not wait for promises, so an older one may begin later."""
    when(begun(t), ~ended(t), may_read(t, x), ~has_its_read(t, x))
    when(every(Transaction, lambda u: ((u < t) & begun(u) & may_write(u, x)) >> has_written(u, x)))
    has_read[t, x, latest_write(x)] = True


undeclared = page.flaw("does-what-it-has-not-declared")


@undeclared.instead_of(write)
def write_undeclared(t: Transaction, x: Item) -> None:
    when(begun(t), ~ended(t), ~has_written(t, x))
    when(writers_are_through(t, x), readers_are_through(t, x))
    has_written[t, x] = True
    latest_write[x] = t
