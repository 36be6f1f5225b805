"""What a scheduler keeps of transactions; once all have ended there must be nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.transactions.schemes.conservative import Conservative
from coterie.transactions.schemes.multiversion import Multiversion
from coterie.transactions.schemes.optimistic import Optimistic
from coterie.transactions.schemes.timestamp_ordering import TimestampOrdering
from coterie.transactions.schemes.two_phase_locking import TwoPhaseLocking

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Scheduler


def leftovers(scheduler: Scheduler) -> list[object]:
    """Return what is left of transactions at a scheduler; not what they wrote."""
    return [part for part in (scheduler.active, scheduler.waits(), *kept_by(scheduler)) if part]


def kept_by(scheduler: Scheduler) -> list[object]:
    match scheduler:
        case TwoPhaseLocking(locks=locks, asked=asked):
            queued = [locks.queues, locks.scans, locks.waiting]
            return [locks.held, locks.keys, locks.spans, *queued, locks.shrinking, asked]
        case TimestampOrdering(waiting=waiting, reserved=reserved, table=table):
            cells = table.items.values()
            return [waiting, reserved, *(cell.pending + cell.readers for cell in cells)]
        case Multiversion(waiting=waiting, reserved=reserved, table=table):
            chains = table.items.values()
            pending = [v for chain in chains for v in chain.versions if v.pending]
            return [waiting, reserved, pending, *(chain.readers for chain in chains)]
        case Optimistic(validated=validated, read_sets=read_sets, waiting=waiting):
            return [validated, read_sets, waiting, scheduler.starving, scheduler.alone]
        case Conservative(waiting=waiting):
            return [waiting]
        case _:
            raise AssertionError(f"say what {type(scheduler).__name__} keeps of transactions")
