"""Locks, leaders and semaphores for real programs, over whatever engine grants them."""

from coterie.locks.connect import connect
from coterie.locks.coordinator import Coordinator
from coterie.locks.engine import Claim, Engine, Party
from coterie.locks.held import Held, HeldAll, Holding
from coterie.locks.lock import Acquirable, Lock
from coterie.locks.semaphore import Semaphore
from coterie.locks.several import LockAll, LockAny

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
