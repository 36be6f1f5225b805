"""A run in virtual time for a page: an algorithm, its users, its network and its faults, by one seed."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.catalogue import Costs, find
from coterie.coteries.coterie import shorter_lists
from coterie.errors import UsageError
from coterie.lab.play.exercises.quorums import LISTED_IDS_MAX
from coterie.lab.play.recent import Recent
from coterie.lab.play.runs.address import TEXT_MAX, write_address
from coterie.lab.play.runs.fork import address_of
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.play.runs.run import SIZE_MAX
from coterie.lab.play.trials.columns import Columns, columns_of
from coterie.lab.play.trials.outcome import explain_outcome
from coterie.lab.scenario.play import read_first_line
from coterie.lab.simulate import (
    Network,
    Simulation,
    Summary,
    Workload,
    make_workload,
    parse_fault,
    parse_latency,
)
from coterie.process import Channel

if TYPE_CHECKING:
    from coterie.catalogue import Algorithm, Setup
    from coterie.lab.simulate import Result
    from coterie.trace import Header, Trace

PROCESSES_MAX = 64
EVENTS_MAX = 20_000
TIME_MAX = 1e6
ENTRIES_MAX = 1_000
FAULTS_MAX = 50
KEPT_EVENTS = 200_000  # of runs that may be forked soon
COSTS = {
    "idle": "messages per entry, one at a time",
    "again": "messages per entry, the same process again",
    "saturated": "messages per entry, all always want in",
    "client_delay": "request to entry, the section free",
    "synchronisation_delay": "exit to the next entry",
    "best": "messages, one process notices, at least",
    "worst": "messages, one process notices, at most",
    "together": "messages, all notice at once",
}


class TrialQuestion(msgspec.Struct, frozen=True):
    """Everything that decides a run: with the same question it is the same, event by event."""

    first: str  # as in a scenario: `maekawa 5 variant=basic`
    workload: str = "closed"
    entries: int = 3  # of each process
    rate: float = 0.2  # of requests, where they arrive at random moments
    hold: str = "1"  # how long a user stays inside, written like a latency
    latency: str = "uniform:0.5,1.5"
    loss: float = 0.0
    duplication: float = 0.0
    faults: list[str] = []
    seed: int = 0


class ForkQuestion(msgspec.Struct, frozen=True):
    """A run, and how many of its records to play."""

    trial: TrialQuestion
    until: int


class Forked(msgspec.Struct, frozen=True):
    """The address at which a run is played by hand."""

    address: str
    moves: int


class Figures(msgspec.Struct, frozen=True):
    """What a run cost, and how evenly it served; delays in units of virtual time."""

    entries: int
    unserved: int
    messages: int
    messages_by_kind: dict[str, int]
    messages_per_entry: float | None
    client_delay: Summary | None
    synchronisation_delay: Summary | None
    waiting: Summary | None
    jain: float | None
    overtaken_max: int
    busiest: int
    busiest_messages: int


class Theory(msgspec.Struct, frozen=True):
    """A cost as the literature gives it, at this size."""

    name: str
    text: str
    formula: str
    low: float
    high: float | None  # None: no end


class TrialAnswer(msgspec.Struct, frozen=True):
    """A run, drawn and measured."""

    first: str
    algorithm: str
    variant: str
    size: int
    stopped: str
    succeeded: bool  # no property was violated, all users were served, and it came to its end
    outcome: list[str]  # in sentences; of a run that failed, why
    time: float
    figures: Figures
    theory: list[Theory]
    columns: Columns
    command: str  # that runs the same on a command line


class Trials:
    """Runs simulations, and remembers those that may be forked soon; several threads may ask."""

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self._traces: Recent[Trace] = Recent(KEPT_EVENTS)

    @shorter_lists(LISTED_IDS_MAX)
    def run(self, question: TrialQuestion) -> TrialAnswer:
        """Run once: to the end, to the first violation or to a limit."""
        entry, setup, header, channel = _read(question)
        result = _simulate(question, entry, setup, header, channel)
        trace = result.trace
        assert trace is not None, "a run with a header has a trace"
        self._keep(question, trace)
        return TrialAnswer(
            first=question.first,
            algorithm=entry.name,
            variant=setup.variant,
            size=setup.size,
            stopped=result.stopped,
            succeeded=result.stopped == "done" and not result.unserved,
            outcome=explain_outcome(entry, setup, result),
            time=result.time,
            figures=_figures(result),
            theory=theory_of(entry, setup),
            columns=columns_of(trace, result.time),
            command=_command(question, header, channel),
        )

    @shorter_lists(LISTED_IDS_MAX)
    def fork(self, question: ForkQuestion) -> Forked:
        """Return the address of the run up to one of its records, to be played on by hand."""
        trial = question.trial
        trace = self._traces.get(msgspec.json.encode(trial))
        if trace is None:
            trace = _simulate(trial, *_read(trial)).trace
            assert trace is not None, "a run with a header has a trace"
            self._keep(trial, trace)
        return fork_trace(trace, question.until)

    def _keep(self, question: TrialQuestion, trace: Trace) -> None:
        self._traces.put(msgspec.json.encode(question), trace, len(trace.records))


def fork_trace(trace: Trace, until: int) -> Forked:
    """Return the address that plays the first `until` records of a trace."""
    if trace.header.size > SIZE_MAX:
        raise Refusal(f"at most {SIZE_MAX} processes can be played by hand")
    found = address_of(trace, max(0, until))
    return Forked(write_address(found), len(found.moves))


def theory_of(entry: Algorithm, setup: Setup) -> list[Theory]:
    """Return what the literature says of the costs."""
    costs = entry.costs
    found = []
    for name in costs.__struct_fields__:
        cost = getattr(costs, name)(setup)
        high = None if math.isinf(cost.high) else cost.high
        found.append(Theory(name, COSTS[name], cost.formula, cost.low, high))
    return found


def _read(question: TrialQuestion) -> tuple[Algorithm, Setup, Header, Channel | None]:
    if len(msgspec.json.encode(question)) > TEXT_MAX:
        raise UsageError(f"a run is chosen in at most {TEXT_MAX:,} characters")
    header, channel = read_first_line(question.first)
    if not 1 <= header.size <= PROCESSES_MAX:
        raise UsageError(f"1 to {PROCESSES_MAX} processes are simulated here, not {header.size}")
    if not 1 <= question.entries <= ENTRIES_MAX:
        raise UsageError(f"entries must be between 1 and {ENTRIES_MAX:,}, not {question.entries}")
    if len(question.faults) > FAULTS_MAX:
        raise UsageError(f"at most {FAULTS_MAX} faults, not {len(question.faults)}")
    entry = find(header.algorithm)
    setup = entry.setup(header.size, header.variant or None, header.parameters)
    header = msgspec.structs.replace(header, variant=setup.variant, seed=question.seed)
    return entry, setup, header, channel


def _simulate(
    question: TrialQuestion,
    entry: Algorithm,
    setup: Setup,
    header: Header,
    channel: Channel | None,
) -> Result:
    fifo = None if channel is None else channel is Channel.FIFO
    latency = parse_latency(question.latency)
    return Simulation(
        entry.build(setup),
        workload=_workload(question, entry, setup),
        network=Network(latency, fifo, question.loss, question.duplication),
        faults=[parse_fault(text) for text in question.faults if text.strip()],
        seed=question.seed,
        header=header,
        max_time=TIME_MAX,
        max_events=EVENTS_MAX,
    ).run()


def _workload(question: TrialQuestion, entry: Algorithm, setup: Setup) -> Workload:
    if not isinstance(entry.costs, Costs):
        return Workload()  # an election begins when a process notices a crash
    requesters = list(entry.requesters(setup))
    hold = parse_latency(question.hold)
    return make_workload(
        question.workload, requesters, entries=question.entries, rate=question.rate, hold=hold
    )


def _figures(result: Result) -> Figures:
    return Figures(
        entries=result.entries,
        unserved=result.unserved,
        messages=result.messages,
        messages_by_kind=result.messages_by_kind,
        messages_per_entry=result.messages_per_entry,
        client_delay=result.client_delay,
        synchronisation_delay=result.synchronisation_delay,
        waiting=result.waiting,
        jain=result.fairness.jain,
        overtaken_max=result.fairness.overtaken_max,
        busiest=result.load.busiest,
        busiest_messages=result.load.max,
    )


def _command(question: TrialQuestion, header: Header, channel: Channel | None) -> str:
    """Return the command line that runs the same."""
    words = ["coterie", "simulate", header.algorithm, "-N", str(header.size)]
    words += ["--variant", header.variant]
    for name, value in header.parameters.items():
        words += [f"--{name}", value]
    if channel is not None:
        words.append("--fifo" if channel is Channel.FIFO else "--unordered")
    unused = {"rate"} if question.workload not in ("poisson", "hot-spot") else set()
    if not isinstance(find(header.algorithm).costs, Costs):  # an election has no users that ask
        unused = {"workload", "entries", "rate", "hold"}
    usual = {"workload": "closed", "entries": 10, "rate": 0.1, "latency": "1"}
    usual |= {"loss": 0.0, "duplication": 0.0, "seed": 0}
    usual["hold"] = ""  # always written: what is usual depends on the variant
    for name, default in usual.items():
        chosen: Any = getattr(question, name)
        if chosen != default and name not in unused:
            words += [f"--{name}", str(chosen)]
    for fault in question.faults:
        words += ["--fault", fault]
    return shlex.join(words)
