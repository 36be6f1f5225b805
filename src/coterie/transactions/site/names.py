"""What the name of a transaction says: it is the stamp with which the transaction began."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.clocks import LogicalTime
    from coterie.process import ProcessId
    from coterie.transactions.schemes.scheduler import Name


def coordinator_of(name: Name) -> ProcessId:
    """Return the site where a transaction began, which coordinates it."""
    return int(name.rpartition(".")[2])


def time_of(name: Name) -> LogicalTime:
    """Return the time at which a transaction began."""
    return int(name.partition(".")[0])
