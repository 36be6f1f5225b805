"""Comparisons of many algorithms, sizes and seeds, on one machine or on many.

Each seed of each contender is a task of its own. The comparisons come in the order of the contenders,
each when all its seeds are measured, so that an interrupt leaves those that are whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from coterie.catalogue import ElectionCosts, find, load
from coterie.lab.simulate.compare.comparison import Comparison, ElectionComparison, LoadComparison
from coterie.lab.simulate.compare.measure import (
    compare_election,
    seeds_needed,
    sum_up,
    sum_up_load,
)
from coterie.lab.simulate.compare.sample import (
    AS_ASSUMED,
    Conditions,
    Sample,
    draw_sample,
    run_workload,
    take_sample,
)
from coterie.lab.simulate.metrics import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

    from coterie.catalogue import Algorithm, Setup

AnyComparison: TypeAlias = Comparison | LoadComparison | ElectionComparison
Measured: TypeAlias = Sample | Result | ElectionComparison


@dataclass(frozen=True)
class Contender:
    """An algorithm with its size, variant and parameters, by name: any process can look it up."""

    algorithm: str
    size: int
    variant: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    conditions: Conditions = AS_ASSUMED
    source: str | None = None  # of an algorithm of one's own, for workers that do not have its file

    def find(self) -> tuple[Algorithm, Setup]:
        """Look the algorithm up and check the choices."""
        source = self.source
        entry = find(self.algorithm) if source is None else load(self.algorithm, source)
        return entry, entry.setup(self.size, self.variant, self.parameters)

    def seeds(self, asked: int) -> int:
        """Return how many seeds to measure if that many are asked for."""
        entry, setup = self.find()
        if isinstance(entry.costs, ElectionCosts):
            return 1  # it has nothing that a seed could decide
        if self.conditions.workload is not None:
            return asked
        return seeds_needed(entry, setup, asked)

    def measure(self, seed: int, beyond: bool = False) -> Measured:
        """Make the runs of one seed; those `beyond` what was asked for are for a mean of theory."""
        entry, setup = self.find()
        if isinstance(entry.costs, ElectionCosts):
            return compare_election(entry, setup)
        if self.conditions.workload is not None:
            return run_workload(entry, setup, self.conditions, seed)
        take = draw_sample if beyond else take_sample
        return take(entry, setup, self.conditions, seed)

    def sum_up(self, measured: Sequence[Measured]) -> AnyComparison:
        """Put what all seeds have measured beside theory."""
        first = measured[0]
        if isinstance(first, ElectionComparison):
            return first
        entry, setup = self.find()
        results = [each for each in measured if isinstance(each, Result)]
        if results:
            return sum_up_load(entry, setup, self.conditions, results)
        samples = [each for each in measured if isinstance(each, Sample)]
        return sum_up(entry, setup, self.conditions, samples)


def compare_all(
    contenders: Sequence[Contender],
    seed: int = 0,
    *,
    seeds: int = 1,
    executor: Executor | None = None,
    progress: Callable[[Contender, int, int], None] | None = None,
) -> Iterator[AnyComparison]:
    """Measure each contender over this many seeds, from `seed` on.

    Args:
        contenders: what to measure.
        seed: the first seed.
        seeds: how many; a mean of theory takes at least twenty, of what it is about.
        executor: runs the seeds; by default they run here, one after the other.
        progress: called with the contender, the runs that are done and how many there are in all.

    Returns:
        the comparisons in the order of the contenders, the same whatever the executor.
    """
    ranges = [range(seed, seed + contender.seeds(seeds)) for contender in contenders]
    total, done, end = sum(map(len, ranges)), 0, seed + seeds
    pairs = list(zip(contenders, ranges, strict=True))
    futures = (
        [[executor.submit(each.measure, one, one >= end) for one in its] for each, its in pairs]
        if executor
        else None
    )
    for place, (contender, its_seeds) in enumerate(pairs):
        measured: list[Measured] = []
        for rank, one in enumerate(its_seeds):
            found = futures[place][rank].result() if futures else contender.measure(one, one >= end)
            measured.append(found)
            done += 1
            if progress is not None:
                progress(contender, done, total)
        yield contender.sum_up(measured)
