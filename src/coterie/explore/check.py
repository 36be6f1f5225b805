"""`check`: the front door of the explorer.

Each step is one call, one delivery, one timer, one report of a crash or one fault, and happens
wholly or not at all. An armed timer may ring at any moment. A crashed process stays so, and takes
the messages under way to it with it; a process that watches it is told some time later. A lost
message is lost, and a duplicated one arrives and stays under way, when its turn has come.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from coterie.errors import ConfigError, UsageError
from coterie.explore.budget import Budget, Watch
from coterie.explore.canonical import Canonical
from coterie.explore.counterexample import counterexample
from coterie.explore.device import Gpu, open_device
from coterie.explore.findings import DEADLOCK, NO_ERROR
from coterie.explore.properties import ELECTION, HIGHEST, MUTEX, ONE_LEADER, WITHOUT_PROGRESS
from coterie.explore.search import Search
from coterie.explore.tables.moves import Faults, Moves
from coterie.explore.tables.steps import SIZE_MAX
from coterie.explore.verdict import Verdict
from coterie.process import (
    Channel,
    Election,
    ElectionUser,
    Mutex,
    MutexUser,
    Seat,
    SeatCodec,
    describe_error,
    seat,
)
from coterie.trace import Header, Trace, Violated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from coterie.explore.device import DeviceName
    from coterie.explore.properties import Property
    from coterie.explore.tables.arrays import Rows
    from coterie.explore.verdict import Progress
    from coterie.process import Process, ProcessId


def check(
    processes: Sequence[Process[Any]],
    *,
    entries: int | None = 1,
    requesters: Iterable[ProcessId] | None = None,
    channel: Channel | None = None,
    crashes: int = 0,
    losses: int = 0,
    duplicates: int = 0,
    suspicions: int = 0,
    restarts: int = 0,
    properties: Sequence[Property] | None = None,
    max_states: int | None = None,
    max_seconds: float | None = None,
    exact: bool = False,
    canonical: bool = False,
    device: DeviceName = "cpu",
    header: Header | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Verdict:
    """Try every interleaving of calls, deliveries, timers and faults, and judge every state.

    Args:
        processes: the processes 1 to N, as they are before their start; they are left untouched.
        entries: how often each user asks for entry; None for no end.
        requesters: ids of the processes whose users ask at all; all by default.
        channel: what links do; by default what the processes declare.
        crashes: at most so many processes crash.
        losses: at most so many messages are lost.
        duplicates: at most so many times a message is delivered again.
        suspicions: at most so many times a live process is reported as down.
        restarts: 1 if a crashed process may begin again, without memory, once; else 0.
        properties: what to judge by; by default `MUTEX` for mutexes, `ELECTION` for elections.
        max_states: give up after about so many states.
        max_seconds: give up after about so many seconds.
        exact: compare whole states instead of their 64-bit hashes.
        canonical: take states for one that differ by a shift of all their times (`LogicalTime`).
        device: where large levels of the search are worked on; "gpu" needs the extra of that name.
        header: goes on top of the counterexample's trace.
        progress: called about twice a second.
    """
    budget = Budget(max_states, max_seconds, progress)
    faults = Faults(crashes, losses, duplicates, suspicions, restarts)
    _validate(processes, entries, faults, budget)
    seats = _seats(processes, entries, _requesters(requesters, len(processes)))
    properties = _usual_properties(processes, faults) if properties is None else properties
    links, gpu = channel or declared_channel(processes), _device(device, exact=exact)
    timeless = msgspec.structs.replace(header or _header(processes), clock="none")
    question = _Question(seats, links, faults, properties, exact, canonical, timeless, gpu)
    return question.answer(Watch(budget))


def needs_clock(processes: Sequence[Process[Any]]) -> bool:
    """Return whether some process relies on a bound on the delay of messages."""
    return any(process.delay_max() is not None for process in processes)


def refuse_with_clock(options: Mapping[str, object]) -> None:
    """Raise a `UsageError` if something is chosen that a search with a clock never looks at.

    Such a search that went on without it would call verified what it has not searched.
    """
    for name, chosen in options.items():
        if chosen:
            raise UsageError(
                f"{name} has no meaning for an algorithm that needs a clock: leave it out"
            )


def declared_channel(processes: Sequence[Process[Any]]) -> Channel:
    """Return the weakest links that all these processes are correct on."""
    fifo = any(process.channel is Channel.FIFO for process in processes)
    return Channel.FIFO if fifo else Channel.UNORDERED


@dataclass(frozen=True)
class _Question:
    """What a check consists of once its arguments are in order."""

    seats: Sequence[Seat]
    channel: Channel
    faults: Faults
    properties: Sequence[Property]
    exact: bool
    canonical: bool
    header: Header
    device: Gpu | None

    def answer(self, watch: Watch) -> Verdict:
        moves = Moves(self._fresh_seats(), self.channel, self.faults)
        try:
            initial = moves.start()
        except Exception as error:  # noqa: BLE001 - whatever an algorithm raises is its violation
            return self._failed_start(
                watch, f"a process raised {describe_error(error, self.seats[0].process)}"
            )
        search = self._search(moves, initial, watch)
        verdict = self._verdict(search, watch)
        if search.inspector.finding:
            verdict.counterexample, verdict.depth = counterexample(
                search, moves, initial, self._fresh_seats(), self.header
            )
        return verdict

    def _search(self, moves: Moves, initial: Rows, watch: Watch) -> Search:
        prepare = functools.partial(
            Search,
            moves,
            self.properties,
            watch,
            exact=self.exact,
            canonical=Canonical(moves) if self.canonical else None,
            device=self.device,
            endless=any(_calls_without_end(seat) for seat in self.seats),
        )
        search = prepare()
        search.run(initial)
        if search.needs_edges:
            from coterie.explore.liveness.transitions import (  # noqa: PLC0415 - few need it
                Transitions,
            )

            search = prepare(transitions=Transitions(moves, self.channel))
            search.run(initial)
        return search

    def _fresh_seats(self) -> list[Seat]:
        codecs = [SeatCodec(seat) for seat in self.seats]
        return [
            codec.restore(codec.save(seat)) for codec, seat in zip(codecs, self.seats, strict=True)
        ]

    def _verdict(self, search: Search, watch: Watch) -> Verdict:
        inspector, states = search.inspector, search.index.size
        finding, vacuous = inspector.finding, _vacuous(search)
        if finding:
            reason = f"deadlock: {finding.reason}" if finding.name == DEADLOCK else finding.reason
        elif search.stopped:
            what = "budget" if not search.full else "memory"
            if search.full and self.device is not None:
                what = f"memory of the GPU ({self.device})"
            reason = f"the {what} ran out after {states:,} states; no violation was found so far"
        elif vacuous:
            reason = f"nothing was shown: {vacuous}"
        else:
            reason = f"every property holds in all {states:,} reachable states"
        word = _word(search)
        return Verdict(
            verdict=word,
            property=finding.name if finding else None,
            reason=reason,
            states=states,
            transitions=search.transitions,
            depth=search.depth,
            seconds=watch.seconds,
            collision_probability=0.0 if self.exact else min(1.0, states**2 / 2**65),
            sometimes=inspector.sometimes,
            liveness=inspector.liveness if word == "verified" else "",
            overtaking=inspector.overtaking,
        )

    def _failed_start(self, watch: Watch, reason: str) -> Verdict:
        return Verdict(
            verdict="violated",
            property=NO_ERROR,
            reason=reason,
            states=0,
            transitions=0,
            depth=0,
            seconds=watch.seconds,
            collision_probability=0.0,
            counterexample=Trace(self.header, [Violated(0.0, NO_ERROR, reason)]),
        )


def _calls_without_end(seat: Seat) -> bool:
    return isinstance(seat.user, MutexUser | ElectionUser) and seat.user.entries is None


def _word(search: Search) -> Literal["verified", "violated", "unfinished", "vacuous"]:
    if search.inspector.finding:
        return "violated"
    if search.stopped:
        return "unfinished"
    return "vacuous" if _vacuous(search) else "verified"


def _vacuous(search: Search) -> str | None:
    """Say why a search through all states shows nothing, if it does not."""
    if not search.transitions:
        return "nothing ever happens"
    states = "state" if search.index.size == 1 else f"of {search.index.size:,} reachable states"
    vacuous = search.inspector.vacuous
    return vacuous and f"{vacuous}, in any {states}"


def _validate(
    processes: Sequence[Process[Any]], entries: int | None, faults: Faults, budget: Budget
) -> None:
    if not 1 <= len(processes) <= SIZE_MAX:
        raise UsageError(f"the explorer takes 1 to {SIZE_MAX} processes, got {len(processes)}")
    ids = [process.me for process in processes]
    if ids != list(range(1, len(ids) + 1)):
        raise UsageError(f"the processes must be numbered 1 to {len(ids)} in order, got {ids}")
    if any(process.delay_max() is not None for process in processes):
        raise ConfigError(
            "these processes rely on a bound on the delay of messages, and here a message may take"
            " any time: explore them with a clock, by check_timed"
        )
    amounts = {"entries": entries, "crashes": faults.crash, "losses": faults.lose}
    amounts |= {"duplicates": faults.duplicate, "suspicions": faults.suspect}
    amounts |= {"restarts": faults.restart, "max_states": budget.max_states}
    for name, amount in (*amounts.items(), ("max_seconds", budget.max_seconds)):
        if amount is not None and amount < 0:
            raise UsageError(f"{name} must be 0 or more, got {amount}")
    if faults.restart > 1:
        raise UsageError(f"restarts must be 0 or 1, got {faults.restart}")


def _device(name: DeviceName, *, exact: bool) -> Gpu | None:
    if exact and name != "cpu":
        raise ConfigError("exact compares whole states, on the cpu only: leave out exact or device")
    return open_device(name)


def _usual_properties(processes: Sequence[Process[Any]], faults: Faults) -> Sequence[Property]:
    mutexes = [process for process in processes if isinstance(process, Mutex)]
    if len(mutexes) == len(processes):
        promised = all(mutex.every_wait_ends for mutex in mutexes)
        return MUTEX if promised else WITHOUT_PROGRESS
    elections = [process for process in processes if isinstance(process, Election)]
    if len(elections) != len(processes):
        return ()
    properties = list(ELECTION)
    if all(election.one_leads for election in elections) and not faults.restart:
        properties.append(ONE_LEADER)
    if all(election.highest_leads for election in elections):
        properties.append(HIGHEST)
    return properties


def _seats(
    processes: Sequence[Process[Any]], entries: int | None, asking: set[ProcessId]
) -> list[Seat]:
    return [seat(process, entries if process.me in asking else 0) for process in processes]


def _requesters(requesters: Iterable[ProcessId] | None, size: int) -> set[ProcessId]:
    everyone = set(range(1, size + 1))
    asking = everyone if requesters is None else set(requesters)
    if asking - everyone:
        raise UsageError(f"requesters must be among 1 to {size}, got {sorted(asking - everyone)}")
    return asking


def _header(processes: Sequence[Process[Any]]) -> Header:
    return Header(algorithm=_name(processes[0]), size=len(processes))


def _name(process: Process[Any]) -> str:
    """Spell the class as the catalogue does: `RicartAgrawala` is ricart-agrawala."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", type(process).__name__).lower()
