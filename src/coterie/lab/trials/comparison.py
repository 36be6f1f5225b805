"""What each scheme of concurrency control makes of the same transactions, in virtual time.

Clients run transactions one after the other and think between requests. Where requests keep a site
busy, all that is done for an attempt that is refused is lost to the others, so restarts cost more
than waiting does; where sites have time to spare, they cost the one client only (Agrawal, Carey and
Livny, 1987).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.errors import UsageError
from coterie.lab.serializability import check as check_history
from coterie.lab.simulate import Constant
from coterie.lab.trials.sites import simulate_store
from coterie.lab.trials.workloads import Workload
from coterie.transactions.catalogue import scheme

if TYPE_CHECKING:
    from coterie.lab.trials.sites import Outcome


class Conditions(msgspec.Struct, frozen=True):
    """Under which schemes are compared; times are in milliseconds."""

    workload: str = "bank"
    theta: float = 0.0
    sites: int = 1
    clients: int = 32
    keys: int = 1000
    think: float = 1.0  # between two requests of a transaction
    work: float = 0.0  # for which a request keeps the site of its client busy
    latency: float = 0.5  # of a message between sites
    duration: float = 500.0
    seed: int = 0


class Measurement(msgspec.Struct, frozen=True):
    """What a scheme achieved."""

    scheme: str
    variant: str
    conditions: Conditions
    commits: int
    commits_per_second: float
    abort_rate: float  # of all attempts that ended, the share that was refused
    refusals: dict[str, int]  # by rule
    waiting: float  # of the time that committed transactions took, the share without an answer
    messages_per_commit: float
    milliseconds_p50: float | None  # until a transaction has committed, all attempts included
    milliseconds_p99: float | None  # None if nothing has committed
    serializable: bool | None = None  # what the checker says of the history, if it was asked

    @property
    def name(self) -> str:
        """The scheme, with the variant if it is not the default."""
        default = scheme(self.scheme).variants[0].name
        return self.scheme if self.variant == default else f"{self.scheme}:{self.variant}"


def measure(
    name: str, variant: str | None, conditions: Conditions, *, check: bool = False
) -> Measurement:
    """Run a scheme under these conditions; the same seed gives the same transactions to all.

    With `check` the history of all transactions is judged, which takes longer than the run.
    """
    if conditions.think == conditions.work == 0:
        raise UsageError("without think and work a transaction takes no time: choose one above 0")
    workload = Workload(conditions.workload, conditions.keys, conditions.theta)
    outcome = simulate_store(
        name,
        variant,
        draw=workload.draw,
        sites=conditions.sites,
        clients=conditions.clients,
        seed=conditions.seed,
        until=conditions.duration,
        latency=Constant(conditions.latency),
        think=conditions.think,
        work=conditions.work,
        history=check,
    )
    chosen = scheme(name).variant(variant, flawed=True).name
    return _measurement(name, chosen, conditions, outcome)


def _measurement(name: str, variant: str, conditions: Conditions, outcome: Outcome) -> Measurement:
    commits, aborts = outcome.commits, outcome.aborts
    durations = sorted(outcome.seconds)
    return Measurement(
        scheme=name,
        variant=variant,
        conditions=conditions,
        commits=commits,
        commits_per_second=1000 * commits / conditions.duration,
        abort_rate=aborts / (commits + aborts) if aborts else 0.0,
        refusals=dict(sorted(outcome.refusals.items())),
        waiting=outcome.waited / sum(durations) if sum(durations) else 0.0,
        messages_per_commit=outcome.messages / commits if commits else 0.0,
        milliseconds_p50=_quantile(durations, 0.5),
        milliseconds_p99=_quantile(durations, 0.99),
        serializable=None
        if outcome.history is None
        else check_history(outcome.history).serializable,
    )


def _quantile(ascending: list[float], share: float) -> float | None:
    return ascending[int(share * (len(ascending) - 1))] if ascending else None
