"""Timestamp ordering: transactions take effect in the order of their stamps, or not at all."""

from __future__ import annotations

from coterie.transactions.catalogue import Scheme, SchemeVariant
from coterie.transactions.schemes.timestamp_ordering.in_place import InPlace
from coterie.transactions.schemes.timestamp_ordering.rules import TimestampOrdering

__all__ = ["SCHEME", "InPlace", "TimestampOrdering"]

SCHEME = Scheme(
    name="timestamp-ordering",
    title="a transaction that comes too late for its stamp is refused",
    source="P. A. Bernstein and N. Goodman, 1981",
    variants=(SchemeVariant("basic", "with pre-writes", lambda site, sites: TimestampOrdering()),),
    refuses="a later transaction has read or written the key",
    waits="an earlier transaction that writes what is to be read, or has failed often",
    order="by stamp",
    flawed=(
        SchemeVariant(
            "in-place",
            "writes at once, and undoes what did not commit",
            lambda site, sites: InPlace(),
        ),
    ),
)
