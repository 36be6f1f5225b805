"""A request of a transaction, kept while it waits, and what is said when it comes too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.transactions.schemes.scheduler import Refused, Value
from coterie.transactions.schemes.span import Span

if TYPE_CHECKING:
    from coterie.clocks import Stamp
    from coterie.transactions.schemes.scheduler import Active, Name

READ = "a later transaction has read it"
WRITTEN = "a later transaction has written it"
FORGOTTEN = "what was deleted before is forgotten"


class Request(msgspec.Struct, array_like=True, gc=False):
    """What a transaction asks for, kept while it waits."""

    op: str  # read, scan or write
    key: str = ""  # what is read or written, unless it is a scan
    value: Value = None  # what is to be written
    scanned: Span | None = None
    limit: int | None = None  # of a scan
    at: str | None = None  # the key whose pending write is in the way; None: a reservation is

    @property
    def span(self) -> Span:
        """What is read or written, as a span of keys."""
        return Span.of(self.key) if self.scanned is None else self.scanned


def too_late(active: Active, rule: str, key: str, above: Stamp, other: Name = "") -> Refused:
    """Refuse a transaction because of one with a larger stamp, which the next attempt must exceed."""
    others = (other,) if other else ()
    return Refused(active.attempt.name, rule, (key,), others, above)
