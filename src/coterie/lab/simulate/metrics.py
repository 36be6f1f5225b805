"""What a run cost, in the measures of the literature.

Messages per entry are all messages of the run divided by its entries. A message to oneself is free;
one to a dead process, or one that the network loses, counts as sent. Delays are in virtual time,
so with a constant latency of 1 they are in message delays.
"""

from __future__ import annotations

from bisect import bisect, insort
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from coterie.lab.simulate.monitors import Violation
from coterie.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.lab.simulate.monitors import Section
    from coterie.process import ProcessId

Stopped: TypeAlias = Literal["done", "violation", "time limit", "event limit"]


class Summary(msgspec.Struct, frozen=True):
    """A number measured many times."""

    count: int
    min: float
    mean: float
    p50: float
    p99: float
    max: float


def summarise(values: Sequence[float]) -> Summary | None:
    """Sum up, with percentiles by nearest rank; None if nothing was measured."""
    if not values:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    return Summary(
        count=len(ordered),
        min=ordered[0],
        mean=sum(ordered) / len(ordered),
        p50=ordered[last // 2],
        p99=ordered[round(last * 0.99)],
        max=ordered[last],
    )


class Load(msgspec.Struct, frozen=True):
    """Messages sent and received by one process: on average, and by the busiest one."""

    mean: float
    max: int
    busiest: int


class Fairness(msgspec.Struct, frozen=True):
    """How evenly the section was shared among those that asked for it."""

    jain: float | None  # 1: all entered equally often; 1/n: one of n took everything
    overtaken_max: int  # entries of later requests that one request had to watch


class Result(msgspec.Struct, kw_only=True):
    """What a run came to. The same seed gives the same result, byte for byte."""

    seed: int
    processes: int
    stopped: Stopped
    time: float  # virtual, of the last event
    events: int
    entries: int
    unserved: int  # live users still waiting at the end
    violations: list[Violation]  # at most one, since the first ends the run
    messages: int
    messages_by_kind: dict[str, int]
    messages_per_entry: float | None
    messages_per_entry_afresh: float | None  # another process entered last; one at a time only
    messages_per_entry_again: float | None  # the same process entered last; one at a time only
    messages_per_time: float | None
    client_delay: Summary | None  # request to entry, the section free and no other asking
    synchronisation_delay: Summary | None  # exit to next entry, another waiting at the exit
    waiting: Summary | None  # request to entry, every entry
    load: Load
    fairness: Fairness
    overtakings: int | None  # of causally earlier requests; None unless watched
    bytes: int | None  # as encoded; None unless measured
    late: int  # messages that took longer than the processes rely on
    outages: list[float]  # after each crash, the longest time that users waited for a free section
    facts: dict[str, Any] = {}  # what the live processes tell of themselves, by name
    trace: Trace | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the trace as one flat row of numbers and text, for a data frame.

        A summary becomes a column for each of its numbers, such as `waiting_mean`, and each kind of
        message one such as `messages_kind_Request`. None stands for what was not measured.
        """
        row: dict[str, Any] = {}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name in _FLAT:
                kind = _FLAT[name]
                row |= {
                    f"{name}_{part}": getattr(value, part, None) for part in kind.__struct_fields__
                }
            elif name == "messages_by_kind":
                row |= {f"{KIND}{kind}": count for kind, count in value.items()}
            elif name == "violations":
                row["violation"] = "; ".join(f"{one.name}: {one.text}" for one in value) or None
            elif name == "outages":
                row["crashes"] = len(value)
                row["outage_mean"] = sum(value) / len(value) if value else None
                row["outage_max"] = max(value, default=None)
            elif name == "facts":
                row |= {f"{FACT}{fact}": _plain(told) for fact, told in value.items()}
            elif name != "trace":
                row[name] = value
        return row


KIND, FACT = "messages_kind_", "fact_"  # how such columns of a row begin
_FLAT: dict[str, type[msgspec.Struct]] = {
    "client_delay": Summary,
    "synchronisation_delay": Summary,
    "waiting": Summary,
    "load": Load,
    "fairness": Fairness,
}


def _plain(value: Any) -> Any:
    """Return a number or text as it is, and anything else as JSON."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return msgspec.json.encode(value).decode()


class Costs:
    """Splits the messages of a run by entry, which is possible while requests come one at a time."""

    def __init__(self) -> None:
        """Start before the first request."""
        self.apart = True  # no request so far was made while another was waiting or inside
        self._last: ProcessId | None = None
        self._again = False
        self._counted = 0
        self._entries = {False: 0, True: 0}  # afresh, again
        self._messages = {False: 0, True: 0}

    def asked(self, process: ProcessId, section: Section, messages: int) -> None:
        """Charge what was sent since the last request to it."""
        self.apart = self.apart and section.idle
        self.close(messages)
        self._again = process == self._last
        self._entries[self._again] += 1
        self._last = process

    def close(self, messages: int) -> None:
        """Charge the rest to the last request."""
        self._messages[self._again] += messages - self._counted
        self._counted = messages

    def per_entry(self, *, again: bool) -> float | None:
        """Return the mean cost of an entry by another process than the last, or by the same."""
        entries = self._entries[again]
        return self._messages[again] / entries if self.apart and entries else None


class Delays:
    """Measures how long users wait, and how long the section stays empty."""

    def __init__(self) -> None:
        """Start with an empty section."""
        self.entries: dict[ProcessId, int] = {}  # by each that asked
        self.client: list[float] = []
        self.synchronisation: list[float] = []
        self.waiting: list[float] = []
        self.overtaken_max = 0
        self._requests = 0
        self._numbers: dict[ProcessId, int] = {}  # of the waiting requests, in the order of asking
        self._served: list[int] = []  # sorted
        self._alone: ProcessId | None = None  # asked while the section was free, no other since
        self._left_at: float | None = None  # if another was waiting then, and none has entered yet

    def asked(self, process: ProcessId, section: Section) -> None:
        """Take note of a request, before the section does."""
        self._alone = None if section.waiting or section.inside else process
        self.entries.setdefault(process, 0)
        self._requests += 1
        self._numbers[process] = self._requests

    def entered(self, process: ProcessId, now: float, section: Section) -> None:
        """Take note of an entry, before the section does."""
        waited = now - section.waiting[process]
        self.waiting.append(waited)
        self.entries[process] += 1
        if self._alone == process:
            self.client.append(waited)
            self._alone = None
        if self._left_at is not None:
            self.synchronisation.append(now - self._left_at)
            self._left_at = None
        request = self._numbers.pop(process)
        if self._served and self._served[-1] > request:
            self.overtaken_max = max(self.overtaken_max, self._overtakers(request))
            insort(self._served, request)
        else:
            self._served.append(request)

    def left(self, now: float, section: Section) -> None:
        """Take note of an exit, after the section has."""
        if section.waiting:
            self._left_at = now

    def crashed(self) -> None:
        """Measure nothing across a crash."""
        self._alone = self._left_at = None

    def _overtakers(self, request: int) -> int:
        return len(self._served) - bisect(self._served, request)

    def fairness(self, waiting: Iterable[ProcessId]) -> Fairness:
        """Sum up, counting also what those still waiting had to watch."""
        watched = [self._overtakers(self._numbers[process]) for process in waiting]
        return Fairness(jain_index(self.entries.values()), max([self.overtaken_max, *watched]))


def jain_index(shares: Iterable[int]) -> float | None:
    """Compute Jain's index of fairness; None if there is nothing to share."""
    shares = list(shares)
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


class Outages:
    """Measures, from each crash to the next, the longest time that users wait for a free section."""

    def __init__(self) -> None:
        """Start before the first crash."""
        self.longest: list[float] = []  # one number per crash
        self._since: float | None = None  # a user waits, and none is inside

    def crashed(self, now: float, section: Section) -> None:
        """Begin to measure; a wait that goes on counts from now."""
        self.longest.append(0.0)
        self._since = None
        self.look(now, section)

    def look(self, now: float, section: Section) -> None:
        """Look where the users are, after a change."""
        if section.waiting and not section.inside:
            self._since = now if self._since is None else self._since
        elif self._since is not None:
            self.longest[-1] = max(self.longest[-1], now - self._since)
            self._since = None


def load_of(sent: Sequence[int], received: Sequence[int]) -> Load:
    """Sum up the messages of processes 1 to N; index 0 stands for none."""
    loads = [out + into for out, into in zip(sent, received, strict=True)]
    heaviest = max(loads[1:])
    return Load(sum(loads) / (len(loads) - 1), heaviest, loads.index(heaviest, 1))
