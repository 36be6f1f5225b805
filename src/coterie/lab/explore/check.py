"""`check`: the front door of the explorer.

Each step is one call, one delivery, one timer, one report of a crash or one fault, and happens
wholly or not at all. An armed timer may ring at any moment. A crashed process stays so, and takes
the messages under way to it with it; a process that watches it is told some time later. A lost
message is lost, and a duplicated one arrives and stays under way, when its turn has come.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.errors import ConfigError, UsageError
from coterie.lab.explore.budget import Budget, Watch
from coterie.lab.explore.device import Gpu, open_device
from coterie.lab.explore.properties import (
    ELECTION,
    HIGHEST,
    MUTEX,
    ONE_LEADER,
    UNJUDGED,
    WITHOUT_PROGRESS,
    declared,
    liveness,
)
from coterie.lab.explore.small import look_through
from coterie.lab.explore.tables.faults import Faults
from coterie.lab.explore.tables.step import SIZE_MAX
from coterie.lab.explore.verdict import Verdict, all_hold
from coterie.process import Channel, Election, Mutex, seat
from coterie.trace import Header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from coterie.lab.explore.device import DeviceName
    from coterie.lab.explore.properties import Property
    from coterie.lab.explore.question import Question
    from coterie.lab.explore.verdict import Progress
    from coterie.process import Process, ProcessId, Seat


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
        crashes: how many processes may crash.
        losses: how many messages may be lost.
        duplicates: how many times a message may be delivered again.
        suspicions: how many times a live process may be reported as down.
        restarts: 1 if a crashed process may begin again, without memory, once; else 0.
        properties: what to judge by; by default what their kind promises and their classes declare.
        max_states: the number of states after which to give up, roughly.
        max_seconds: the number of seconds after which to give up, roughly.
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
    question = load_search()(seats, links, faults, properties, exact, canonical, timeless, gpu)
    return question.answer(Watch(budget))


def load_search() -> type[Question]:
    """Import the search by arrays, and numpy with it."""
    from coterie.lab.explore.question import Question  # noqa: PLC0415 - the small search does without

    return Question


def check_small(
    processes: Sequence[Process[Any]], *, entries: int = 1, channel: Channel | None = None
) -> Verdict | None:
    """Judge as `check` does with these arguments, without numpy; None if that search has to.

    It has to where there are more than a few thousand states, or something may be wrong.
    """
    watch = Watch(Budget())
    _validate(processes, entries, Faults(), Budget())
    seats = _seats(processes, entries, _requesters(None, len(processes)))
    properties = _usual_properties(processes, Faults())
    found = look_through(seats, channel or declared_channel(processes), properties)
    if found is None:
        return None
    return Verdict(
        verdict="verified",
        reason=all_hold(found.states),
        states=found.states,
        transitions=found.transitions,
        depth=found.depth,
        seconds=watch.seconds,
        collision_probability=0.0,  # whole states were compared
        sometimes=found.sometimes,
        liveness=liveness(properties),
    )


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
        return (*(MUTEX if promised else WITHOUT_PROGRESS), *declared(processes))
    elections = [process for process in processes if isinstance(process, Election)]
    if len(elections) != len(processes):
        return declared(processes) or (UNJUDGED,)
    properties = [*ELECTION, *declared(processes)]
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
