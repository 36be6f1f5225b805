"""Locks, leaders and semaphores for real programs, over whatever engine grants them."""

from coterie.coordinator.acquirable import Acquirable
from coterie.coordinator.connecting import connect
from coterie.coordinator.coordinator import Coordinator
from coterie.coordinator.engine import Claim, Engine, Party
from coterie.coordinator.held import Held, HeldAll, Holding
from coterie.coordinator.lock import Lock
from coterie.coordinator.semaphore import Semaphore
from coterie.coordinator.several import LockAll, LockAny

__all__ = [
    "Acquirable",
    "Claim",
    "Coordinator",
    "Engine",
    "Held",
    "HeldAll",
    "Holding",
    "Lock",
    "LockAll",
    "LockAny",
    "Party",
    "Semaphore",
    "connect",
]
