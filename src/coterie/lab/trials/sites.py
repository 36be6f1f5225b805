"""Sites with clients in the simulator: what they did as a history, and what it cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from coterie.errors import UsageError
from coterie.lab.simulate import Network, Simulation
from coterie.lab.simulate.workload import Workload, World
from coterie.lab.trials.chronicle import Chronicle
from coterie.lab.trials.clients import BusySite, Client, Finished
from coterie.transactions.catalogue import scheme as find_scheme
from coterie.transactions.schemes.scheduler import Refused
from coterie.transactions.site.events import Answered
from coterie.transactions.site.site import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.simulate import Fault
    from coterie.lab.simulate import Result as Run
    from coterie.lab.simulate.network import Latency
    from coterie.lab.trials.trial import Program
    from coterie.process import Event, ProcessId
    from coterie.transactions.history import History
    from coterie.transactions.schemes.scheduler import Scheduler

PROGRAMS = 50  # drawn for each client, which begins again with the first after the last
PATIENCE = {"patience": 20.0, "search_after": 4.0}  # where a message takes about 1


@dataclass
class Outcome:
    """What the clients of all sites achieved."""

    time: float = 0.0
    commits: int = 0
    refusals: Counter[str] = field(default_factory=Counter)  # by rule
    failures: Counter[int] = field(default_factory=Counter)  # transactions by failed attempts
    seconds: list[float] = field(default_factory=list)  # each took until it committed
    waited: float = 0.0  # of that, for answers, in all
    messages: int = 0
    kinds: dict[str, int] = field(default_factory=dict)  # messages by kind
    history: History | None = None
    sites: list[Any] = field(default_factory=list)  # as they are at the end
    run: Run | None = None

    @property
    def aborts(self) -> int:
        """Attempts that were refused."""
        return self.refusals.total()


@dataclass(frozen=True)
class Recorder(Workload):
    """Listens to what sites tell, and keeps account of it."""

    outcome: Outcome = field(default_factory=Outcome)
    chronicle: Chronicle | None = None

    def told(self, world: World, process: ProcessId, event: Event) -> None:
        """Take note."""
        outcome = self.outcome
        if isinstance(event, Finished):
            outcome.commits += 1
            outcome.failures[event.failures] += 1
            outcome.seconds.append(event.seconds)
            outcome.waited += event.waited
        elif isinstance(event, Answered) and isinstance(event.answer, Refused):
            outcome.refusals[event.answer.rule] += 1
        if self.chronicle is not None:
            self.chronicle.add(event)


def build_sites(
    build: Callable[[int, int], Scheduler],
    programs: Sequence[Sequence[Sequence[Program]]],
    *,
    left: int = -1,
    kind: type[BusySite] = BusySite,
    **settings: Any,
) -> list[BusySite]:
    """Make sites with clients; `programs` has those of each client of each site."""
    sites = []
    for me, clients in enumerate(programs, start=1):
        scheduler = build(me, len(programs))
        seated = [Client(tuple(own), left) for own in clients]
        made = typed(kind, type(scheduler))
        sites.append(made(me, len(programs), scheduler, clients=seated, **settings))
    return sites


def simulate_store(
    scheme: str,
    variant: str | None = None,
    *,
    draw: Callable[[Random], Program],
    sites: int = 1,
    clients: int = 8,
    transactions: int = -1,
    seed: int = 0,
    until: float = 1000.0,
    latency: Latency | None = None,
    faults: Sequence[Fault] = (),
    history: bool = False,
    **settings: Any,
) -> Outcome:
    """Run clients against sites of a scheme in virtual time.

    Args:
        scheme: the name of a scheme.
        variant: of the scheme; without one, its first.
        draw: draws the program of a transaction.
        sites: how many there are.
        clients: of all sites together, spread evenly.
        transactions: each client runs; negative: until the end.
        seed: decides all that is random.
        until: when the run ends.
        latency: of messages between sites; 1 by default.
        faults: what goes wrong.
        history: keep what happened for the checkers.
        settings: of the sites: `think`, `rest`, `backoff`, `patience`, `search_after`.
    """
    if sites < 1 or clients < 1:
        raise UsageError(f"a store needs at least 1 site and 1 client, got {sites} and {clients}")
    dice = Random(f"{seed}/programs")
    count = transactions if 0 <= transactions < PROGRAMS else PROGRAMS
    programs = [
        [[draw(dice) for _ in range(max(1, count))] for _ in range(site, clients, sites)]
        for site in range(sites)
    ]
    build = find_scheme(scheme).variant(variant, flawed=True).build
    built = build_sites(build, programs, left=transactions, **{**PATIENCE, **settings})
    network = Network(latency) if latency is not None else Network()
    return run_sites(built, network, faults=faults, seed=seed, until=until, history=history)


def run_sites(
    sites: Sequence[BusySite],
    network: Network,
    *,
    faults: Sequence[Fault] = (),
    seed: int = 0,
    until: float = 1000.0,
    history: bool = False,
) -> Outcome:
    """Run sites with their clients to that time."""
    keys = {
        request.key
        for site in sites
        for client in site.clients
        for program in client.programs
        for request in program
        if request.op != "s"
    }
    recorder = Recorder(chronicle=Chronicle(sorted(keys)) if history else None)
    simulation = Simulation(
        sites, workload=recorder, network=network, faults=faults, seed=seed, until=until
    )
    run = simulation.run()
    outcome = recorder.outcome
    outcome.run, outcome.time = run, run.time
    outcome.messages, outcome.kinds = run.messages, dict(run.messages_by_kind)
    outcome.sites = [simulation.process(site.me) for site in sites]
    if recorder.chronicle is not None:
        outcome.history = recorder.chronicle.history()
    return outcome
