"""The coordinator for tasks of an event loop: what `coterie.connect` and `coterie.join` return.

The objects stand for those of `coterie.locks`, which do the work for threads as well, and show what
a program may use of them.
"""

from coterie.tasks.coordinator import Coordinator, connect
from coterie.tasks.held import Held, HeldAll, Holding
from coterie.tasks.lock import Acquirable, Lock, LockAll, LockAny, Semaphore

__all__ = [
    "Acquirable",
    "Coordinator",
    "Held",
    "HeldAll",
    "Holding",
    "Lock",
    "LockAll",
    "LockAny",
    "Semaphore",
    "connect",
]
