"""The same jobs under each way to deal with deadlocks: what it lets through, and what it costs."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.algorithms.deadlock.allocator import Allocator, Client, Job, JobDone
from coterie.algorithms.deadlock.strategies import STRATEGIES
from coterie.errors import UsageError
from coterie.lab.simulate import Exponential, Network, Simulation
from coterie.trace import Header, Told

if TYPE_CHECKING:
    from coterie.process import Process

JOBS = 10  # of each client
THINK = 10.0  # mean pause between two jobs of a client
WORK = 5.0  # mean work after each lock; a message takes 1
UNTIL = 1e6


class Workload(msgspec.Struct, frozen=True):
    """How many clients take how many of how many locks, and how many they say they may take."""

    clients: int = 8
    locks: int = 12
    takes: int = 3
    claims: int = 3

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        if self.clients < 1:
            raise UsageError(f"there must be at least 1 client, got {self.clients}")
        if not 1 <= self.takes <= self.locks:
            raise UsageError(f"a job takes 1 to {self.locks} locks, got {self.takes}")
        if not self.takes <= self.claims <= self.locks:
            raise UsageError(f"a job claims {self.takes} to {self.locks} locks, got {self.claims}")


class StrategyCosts(msgspec.Struct, frozen=True):
    """What came of the jobs, over all seeds."""

    strategy: str
    period: float | None  # between two searches; None: one at each wait, if the strategy searches
    jobs: int
    done: int
    attempts_per_job: float  # of those that are done
    messages_per_job: float
    time_per_job: float  # from its first attempt to its end
    held_back: int  # requests for a free lock that had to wait


def strategy_costs(
    strategy: str, workload: Workload, seeds: int, period: float | None = None
) -> StrategyCosts:
    """Run the jobs of each seed to their end, or until nothing moves any more."""
    ended: list[tuple[int, float]] = []
    messages = held_back = 0
    for seed in range(seeds):
        processes = build_clients(strategy, workload, seed, period)
        result = Simulation(
            processes,
            network=Network(latency=Exponential(1.0)),
            seed=seed,
            until=UNTIL,
            header=Header(algorithm="deadlocks", size=len(processes)),
        ).run()
        assert result.trace is not None
        for record in result.trace.records:
            if isinstance(record, Told):
                job = msgspec.convert(record.event, JobDone)
                ended.append((job.attempts, record.time - job.began))
        messages += result.messages
        held_back += sum(each.held_back for each in processes if isinstance(each, Allocator))
    done = len(ended)
    each = max(done, 1)
    return StrategyCosts(
        strategy,
        period,
        jobs=seeds * workload.clients * JOBS,
        done=done,
        attempts_per_job=sum(attempts for attempts, _ in ended) / each,
        messages_per_job=messages / each,
        time_per_job=sum(time for _, time in ended) / each,
        held_back=held_back,
    )


def build_clients(
    strategy: str, workload: Workload, seed: int, period: float | None = None
) -> list[Process[Any]]:
    """Build clients with the jobs of that seed, which are the same for all strategies, and the allocator."""
    random = Random(seed)
    allocator = workload.clients + 1
    clients = [
        Client(me, allocator, tuple(_job(strategy, workload, random) for _ in range(JOBS)))
        for me in range(1, allocator)
    ]
    return [*clients, Allocator(allocator, strategy, period)]


def _job(strategy: str, workload: Workload, random: Random) -> Job:
    claim = random.sample(range(1, workload.locks + 1), workload.claims)
    locks = claim[: workload.takes]
    after, work = random.expovariate(1 / THINK), random.expovariate(1 / WORK)
    in_order = STRATEGIES[strategy].in_order
    return Job(after, tuple(sorted(locks) if in_order else locks), work, tuple(claim))
