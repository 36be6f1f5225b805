"""Multiversion timestamp ordering: every read is that of the serial order of stamps, and none is refused.

A transaction is its stamp, and all versions are kept. A read takes the latest version that is not later
than itself; a write is refused if a later transaction has read past it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Ordered, Page, Thing, none, some, when

if TYPE_CHECKING:
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("multiversion", "for any number of transactions, items and versions")


class Transaction(Ordered):
    """In the order of stamps."""


class Item(Thing):
    """What is read and written."""


first = page.variable("first", Transaction, fixed=True)
version = page.relation("version", Transaction, Item)  # it has written one
has_read = page.relation("has_read", Transaction, Item, Transaction)  # the version of w


@page.axiom
def the_first_is_the_oldest(t: Transaction) -> Formula:
    return first <= t


@page.start
def the_first_has_written_all(t: Transaction, x: Item, w: Transaction) -> Formula:
    return ~has_read(t, x, w) & version(first, x) & (version(t, x) >> (t == first))


def read_past(t: Transaction, x: Item) -> Formula:
    """A later one has read what was written before t."""
    return some(Transaction, Transaction, lambda r, w: has_read(r, x, w) & (w < t) & (t < r))


@page.action
def read(t: Transaction, x: Item, w: Transaction) -> None:
    when(version(w, x), w <= t)
    when(none(Transaction, lambda u: version(u, x) & (w < u) & (u <= t)))
    has_read[t, x, w] = True


@page.action
def write(t: Transaction, x: Item) -> None:
    when(~read_past(t, x))
    version[t, x] = True


@page.safety
def reads_are_those_of_the_serial_order(
    t: Transaction, x: Item, w: Transaction, u: Transaction
) -> Formula:
    """No transaction between the writer and the reader has written."""
    return (has_read(t, x, w) & version(u, x)) >> ((u <= w) | (t <= u))


@page.safety
def reads_are_of_versions(t: Transaction, x: Item, w: Transaction) -> Formula:
    return version(first, x) & (has_read(t, x, w) >> (version(w, x) & (w <= t)))


@page.theorem
def no_read_is_refused(t: Transaction, x: Item) -> Formula:
    """There is a version that is not later than the reader: all have the first one."""
    return some(Transaction, lambda w: version(w, x) & (w <= t))


late = page.flaw("writes-though-it-was-read-past")


@late.instead_of(write)
def write_at_any_time(t: Transaction, x: Item) -> None:
    when(~version(t, x))
    version[t, x] = True
