"""Classes of transactions: whether what two of them declare can conflict, and what fits a class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.transactions.schemes.scheduler import EVERYTHING, Declaration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.transactions.schemes.span import Span

ANY = (EVERYTHING,)  # the class of what fits no other: it conflicts with all


def meet(some: Iterable[Span], others: Sequence[Span]) -> bool:
    """Return whether a key could be in both."""
    return any(one.meets(other) for one in some for other in others)


def disturbs(declared: Declaration, spans: Sequence[Span], writing: bool) -> bool:
    """Return whether a transaction that declares this must not come between.

    Reads are disturbed by writes, writes by both.
    """
    return meet(declared.writes, spans) or (writing and meet(declared.reads, spans))


def fits(declared: Declaration, of: Declaration) -> bool:
    """Return whether a transaction belongs to a class: it declares nothing beyond it."""
    return all(
        any(within(span, other) for other in allowed)
        for spans, allowed in ((declared.reads, of.reads), (declared.writes, of.writes))
        for span in spans
    )


def within(span: Span, other: Span) -> bool:
    """Return whether all of a span is covered by another."""
    if span.low < other.low:
        return False
    return other.high is None or (span.high is not None and span.high <= other.high)
