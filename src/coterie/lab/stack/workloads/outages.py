"""One lock of a cluster in which one kind of thing goes wrong again and again."""

from __future__ import annotations

from typing import ClassVar

from coterie.lab.stack.scene import faults
from coterie.lab.stack.workloads.locks import ExclusiveLocks


class Restarts(ExclusiveLocks):
    """Nodes that end and begin in every way, under long holds: one or few, so that each matters."""

    sizes: ClassVar[tuple[int, ...]] = (1, 1, 1, 2, 3)
    kinds: ClassVar[tuple[str, ...]] = faults.RESTARTS
    faults_most = 16
    longest_leases = 0.8
    long_share = 0.5
    wall_errors: ClassVar[tuple[float, ...]] = (30.0,)  # nothing rests on them


class Shutdowns(Restarts):
    """Machines that are booted after an orderly end: few times, so that they have run for long."""

    kinds: ClassVar[tuple[str, ...]] = ("shutdown", "shutdown", "reboot")
    faults_most = 3


class NewDisks(Restarts):
    """A node that comes back with an empty disk."""

    sizes: ClassVar[tuple[int, ...]] = (3,)
    kinds: ClassVar[tuple[str, ...]] = ("new-disk",)
    longest_leases = 2.0


class Pauses(ExclusiveLocks):
    """Programs that stop, sleep or are cut off under long holds, as leases run out."""

    kinds: ClassVar[tuple[str, ...]] = faults.OF_HOLDERS
    faults_most = 16
    long_share = 0.5


class Resets(ExclusiveLocks):
    """Connections that break and stall again and again, between processes that all go on."""

    kinds: ClassVar[tuple[str, ...]] = ("reset", "reset", "reset", "block", "stall", "stall-dials")
    faults_most = 40
    longest_leases = 1.5


class Diskless(ExclusiveLocks):
    """Nodes without data directories: numbers rest on the time of day, which has to be right then."""

    drifts: ClassVar[tuple[float, ...]] = (0.0,)  # or times of day would drift, too
    wall_errors: ClassVar[tuple[float, ...]] = (0.0, 0.05)  # of each; less than what leases bear
    kinds: ClassVar[tuple[str, ...]] = tuple(
        kind for kind in faults.ALL if kind not in ("step-wall", "slow-disk", "full-disk")
    )

    def has_disks(self) -> bool:
        """Keep nothing over a restart."""
        return False
