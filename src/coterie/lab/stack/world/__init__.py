"""The simulated world of whole programs: machines, processes, event loops, disks and a network."""

from coterie.lab.stack.world.world import ViolationError, World, memory

__all__ = ["ViolationError", "World", "memory"]
