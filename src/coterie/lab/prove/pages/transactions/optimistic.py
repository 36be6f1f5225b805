"""Optimistic concurrency control: a transaction that commits has read what is in the order of commits.

Backward validation (Kung and Robinson, 1981), with validation and writing in one step. A transaction
works on what is committed and keeps its writes to itself; it commits if no transaction that has
committed since its beginning wrote what it has read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Ordered, Page, Thing, become, choose, each, every, when

if TYPE_CHECKING:
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("optimistic", "for any number of transactions and items")


class Transaction(Thing):
    """It reads and writes items."""


class Item(Thing):
    """What is read and written."""


class Moment(Ordered):
    """Of a commit."""


first = page.variable("first", Transaction, fixed=True)  # it has written all items
now = page.variable("now", Moment)  # of the latest commit
began = page.relation("began", Transaction)
start = page.function("start", Transaction, to=Moment)
committed = page.relation("committed", Transaction)
at = page.function("at", Transaction, to=Moment)  # it committed
latest = page.function("latest", Item, to=Transaction)  # whose value it has
has_written = page.relation("has_written", Transaction, Item)
has_read = page.relation("has_read", Transaction, Item, Transaction)  # of which writer


@page.start
def the_first_has_committed(t: Transaction, x: Item, w: Transaction) -> Formula:
    values = has_written(first, x) & (latest(x) == first) & (has_written(t, x) >> (t == first))
    alone = (committed(t) | began(t)) >> (t == first)
    done = committed(first) & began(first) & (at(first) == now) & (start(first) == now)
    return values & alone & done & ~has_read(t, x, w)


@page.action
def begin(t: Transaction) -> None:
    when(~began(t))
    began[t] = True
    start[t] = now


@page.action
def read(t: Transaction, x: Item) -> None:
    when(began(t), ~committed(t))
    has_read[t, x, latest(x)] = True


@page.action
def write(t: Transaction, x: Item) -> None:
    """For itself, until it commits."""
    when(began(t), ~committed(t))
    has_written[t, x] = True


@page.action
def commit(t: Transaction, m: Moment) -> None:
    def read_what_it_wrote(u: Transaction, x: Item, w: Transaction) -> Formula:
        return has_read(t, x, w) & committed(u) & has_written(u, x)

    when(began(t), ~committed(t), now < m)
    when(
        every(
            Transaction,
            Item,
            Transaction,
            lambda u, x, w: read_what_it_wrote(u, x, w) >> (at(u) <= start(t)),
        )
    )
    committed[t] = True
    at[t] = m
    become(now, m)
    latest[each] = lambda x: choose(has_written(t, x), t, latest(x))


@page.safety
def reads_are_those_of_the_order_of_commits(
    t: Transaction, x: Item, w: Transaction, u: Transaction
) -> Formula:
    """No transaction that committed between the writer and the reader has written it."""
    both = committed(t) & has_read(t, x, w) & committed(u) & has_written(u, x)
    return both >> ((at(u) <= at(w)) | (at(t) <= at(u)))


@page.invariant
def values_are_of_committed_ones(t: Transaction, x: Item) -> Formula:
    newest = (committed(t) & has_written(t, x)) >> (at(t) <= at(latest(x)))
    return newest & committed(latest(x)) & has_written(latest(x), x)


@page.invariant
def none_commits_later_than_now(t: Transaction) -> Formula:
    return (committed(t) >> (began(t) & (at(t) <= now))) & (began(t) >> (start(t) <= now))


@page.invariant
def a_read_misses_none_from_before_its_start(
    t: Transaction, x: Item, w: Transaction, u: Transaction
) -> Formula:
    earlier = committed(u) & has_written(u, x) & (at(u) <= start(t))
    return has_read(t, x, w) >> (committed(w) & began(t) & (earlier >> (at(u) <= at(w))))


unchecked = page.flaw("commits-without-validation")


@unchecked.instead_of(commit)
def commit_at_once(t: Transaction, m: Moment) -> None:
    when(began(t), ~committed(t), now < m)
    committed[t] = True
    at[t] = m
    become(now, m)
    latest[each] = lambda x: choose(has_written(t, x), t, latest(x))
