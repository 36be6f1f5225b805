"""What a seed decides before anything runs: the cluster, the workload, the network, the faults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LEASES = (0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at some time, for a while."""

    kind: str
    at: float
    seconds: float
    first: str  # the machine concerned
    second: str = ""  # the other one, if two are
    share: float = 0.5  # a number from 0 to 1 for whatever else has to be chosen

    def __str__(self) -> str:
        """Write it in one line."""
        where = f"{self.first} and {self.second}" if self.second else self.first
        return f"{self.kind} {where} at {self.at:.3f} s for {self.seconds:.3f} s"


@dataclass(frozen=True)
class RunPlan:
    """One run."""

    seed: int
    workload: str
    nodes: int
    programs: int
    lease: float
    drift: float  # of the rates of clocks
    wall_error: float  # seconds by which times of day differ
    delay: float  # one way, at least
    spread: float  # more, on average
    duration: float  # in which faults begin
    details: str = ""  # of the workload: an algorithm or a scheme
    tls: bool = False
    faults: tuple[Fault, ...] = field(default=())

    def keeping(self, numbers: Sequence[int]) -> RunPlan:
        """Leave out all faults but these."""
        return replace(self, faults=tuple(self.faults[number] for number in numbers))

    @property
    def quiet_from(self) -> float:
        """When all faults are over."""
        return max([self.duration, *(fault.at + fault.seconds for fault in self.faults)])


def generator(seed: int, what: str) -> Random:
    """Make the generator for one part of a plan, so that parts do not depend on each other."""
    return Random(f"{seed}/plan/{what}")
