"""The coordinator for code without an event loop.

    with coterie.sync.connect() as c:
        with c.lock("nightly-report", timeout=10) as held:
            save(row, fence=held.token)

The objects are those of `coterie.connect`, run by an event loop in a thread of its own; what is
held belongs to the thread that acquired it. A thread cannot be cancelled, so a loss shows itself by
`on_lost`, which is called from the thread of the loop, by `held.lost`, from `held.ensure()` and at
the end of the `with`.
"""

from coterie.sync.coordinator import Coordinator, connect
from coterie.sync.held import Held, HeldAll, Holding
from coterie.sync.lock import Acquirable, Lock, LockAll, LockAny, Semaphore
from coterie.sync.members import GroupMember, Members
from coterie.sync.once import Once, Run

__all__ = [
    "Acquirable",
    "Coordinator",
    "GroupMember",
    "Held",
    "HeldAll",
    "Holding",
    "Lock",
    "LockAll",
    "LockAny",
    "Members",
    "Once",
    "Run",
    "Semaphore",
    "connect",
]
