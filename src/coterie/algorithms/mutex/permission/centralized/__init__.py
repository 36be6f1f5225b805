"""One coordinator: with a silent queue, with answers to those that wait, and with a successor.

With many resources the work is shared: each resource has its own instance, and its name chooses the
coordinator.
"""

from coterie.algorithms.mutex.permission.centralized.catalogue_entry import ALGORITHM
from coterie.algorithms.mutex.permission.centralized.coordinator import (
    Centralized,
    Denying,
    Grant,
    Queued,
    Release,
    Request,
)
from coterie.algorithms.mutex.permission.centralized.failover import Failover
from coterie.algorithms.mutex.permission.centralized.rendezvous_hashing import (
    coordinator_of,
    succession,
)

__all__ = [
    "ALGORITHM",
    "Centralized",
    "Denying",
    "Failover",
    "Grant",
    "Queued",
    "Release",
    "Request",
    "coordinator_of",
    "succession",
]
