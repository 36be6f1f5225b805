"""Clocks that order events: Lamport's logical clock and its stamps, and the hybrid logical clock.

If an event can have influenced another, both clocks give it the smaller time; the converse does not
hold. That takes every message that can carry influence: each is stamped when sent and merged when
received. Physical clocks are kept together by `coterie.clocks.synchronisation`.
"""

from coterie.clocks.hybrid import HybridClock, HybridTime
from coterie.clocks.logical import LamportClock, LogicalTime, Stamp

__all__ = ["HybridClock", "HybridTime", "LamportClock", "LogicalTime", "Stamp"]
