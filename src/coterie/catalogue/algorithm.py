"""One algorithm of the catalogue: its source, its assumptions, what may be chosen, its costs as code."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.errors import UsageError

if TYPE_CHECKING:  # what is here is never decoded, so that msgspec reads no annotations
    from collections.abc import Callable, Iterable, Mapping, Sequence  # noqa: TC004

    from coterie.process import Channel, Process  # noqa: TC004

DIGITS_MAX = 100  # of a number in a parameter; Python refuses to read one of some thousands


class Cost(msgspec.Struct, frozen=True):
    """What theory says of a cost: a number, or a range, with the formula that people know."""

    low: float
    high: float
    formula: str
    mean: Cost | None = None  # over requesters drawn at random, never the same one twice in a row

    def allows(self, measured: float, tolerance: float = 1e-9) -> bool:
        """Return whether a measurement is what theory says."""
        return self.low - tolerance <= measured <= self.high + tolerance

    def value(self) -> float | list[float | None]:
        """Return the number, or the range with None for no end, as JSON can say it."""
        if self.low == self.high:
            return self.low
        return [self.low, None if math.isinf(self.high) else self.high]


def exactly(value: float, formula: str, mean: Cost | None = None) -> Cost:
    """State an exact cost, where requesters come in turn; at random it may have another mean."""
    return Cost(value, value, formula, mean)


def between(low: float, high: float, formula: str, mean: Cost | None = None) -> Cost:
    """State a range; `math.inf` where there is no end."""
    return Cost(low, high, formula, mean)


class Parameter(msgspec.Struct, frozen=True):
    """Something a user may choose about an algorithm, such as the coterie, given as text."""

    name: str
    default: str
    summary: str
    parse: Callable[[str, int], Any]  # (text, number of processes); raises UsageError
    names_lock: bool = False  # where there are many locks, each has its own name for it by default


def time_or_none(text: str) -> float | None:
    """Parse a parameter that is a time greater than 0, or `none`."""
    if text == "none":
        return None
    try:
        time = float(text)
    except ValueError:
        time = math.nan
    if not 0 < time < math.inf:
        raise UsageError(f"expected a time greater than 0, or 'none', got {text!r}")
    return time


class Flaw(msgspec.Struct, frozen=True):
    """The smallest setting known in which an unsound variant fails, and the steps it takes."""

    size: int
    steps: int
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    entries: int = 1
    crashes: int = 0


class Variant(msgspec.Struct, frozen=True):
    """One way of writing an algorithm. An unsound one is kept to show how it fails."""

    name: str
    summary: str
    sound: bool = True
    flaw: Flaw | None = None
    tolerates: tuple[str, ...] = ()  # faults, beyond those that all variants tolerate
    causal: bool = True  # False: not after faults that it tolerates, though the others are


class Setup(msgspec.Struct, frozen=True):
    """One choice of everything a user may choose: enough to build the processes."""

    size: int
    variant: str
    parameters: Mapping[str, Any]  # parsed


class Costs(msgspec.Struct, frozen=True):
    """The costs of a mutex: of one entry, in messages and message delays, at unit latency.

    A message to oneself is free; messages per entry are those of a run divided by its entries.
    """

    idle: Callable[[Setup], Cost]  # messages, one requester at a time; they take turns
    again: Callable[[Setup], Cost]  # messages, the same requester again, no other having asked
    saturated: Callable[[Setup], Cost]  # messages, all always want in
    client_delay: Callable[[Setup], Cost]  # request to entry, the section being free
    synchronisation_delay: Callable[[Setup], Cost]  # exit to next entry, one waiting


class MulticastCosts(msgspec.Struct, frozen=True):
    """The messages of an entry where one that goes to several at once is counted once."""

    idle: Callable[[Setup], Cost]
    again: Callable[[Setup], Cost]
    saturated: Callable[[Setup], Cost]


class ElectionCosts(msgspec.Struct, frozen=True):
    """The messages of an election after a crash of the highest process, those sent to it included.

    Messages are faster than the failure detector, as in a synchronous system.
    """

    best: Callable[[Setup], Cost]  # one process notices, the cheapest one
    worst: Callable[[Setup], Cost]  # ... the dearest one
    together: Callable[[Setup], Cost]  # all processes notice at once


class Algorithm(msgspec.Struct, frozen=True):
    """One algorithm of the catalogue."""

    name: str  # as a user types it
    family: str  # permission, quorum or token, which are mutexes; or election
    summary: str
    citation: str
    process: type[Process[Any]]
    build: Callable[[Setup], Sequence[Process[Any]]]
    costs: Costs | ElectionCosts  # by the kind of its processes
    assumes: tuple[str, ...]  # beyond the channel, which the process declares
    tolerates: tuple[str, ...]  # faults under which it stays safe and live
    causal: bool  # a request is served before those that its own messages led to
    variants: tuple[Variant, ...]  # the default first
    parameters: tuple[Parameter, ...] = ()
    multicast: MulticastCosts | None = None  # None: no message of an entry goes to several at once
    reads_clock: bool = False  # what a process does depends on what its clock shows
    own: bool = False  # a user's: it is not in this package, and nothing is known of it
    requesters: Callable[[Setup], Sequence[int]] = lambda setup: range(1, setup.size + 1)
    """The processes that ask where costs are measured; others may ask, and enter for nothing."""

    @property
    def channel(self) -> Channel:
        """The weakest links it is correct on."""
        return self.process.channel

    def variant(self, name: str) -> Variant:
        """Look up a variant."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise UsageError(
            unknown(f"variant of {self.name}", name, [variant.name for variant in self.variants])
        )

    def faults_tolerated(self, variant: str) -> tuple[str, ...]:
        """Name the faults under which this variant stays safe and live."""
        chosen = self.variant(variant)
        return (*self.tolerates, *chosen.tolerates) if chosen.sound else ()

    def assumptions(self, variant: str) -> tuple[str, ...]:
        """Name what this variant assumes: not that there is none of a fault which it tolerates."""
        needless = {f"no {fault}" for fault in self.faults_tolerated(variant)}
        return tuple(each for each in self.assumes if each not in needless)

    def keeps_order(self, variant: str) -> bool:
        """Return whether this variant is causal, also after the faults that it tolerates."""
        return self.causal and self.variant(variant).causal

    def setup(
        self, size: int, variant: str | None = None, parameters: Mapping[str, str] | None = None
    ) -> Setup:
        """Check and parse a user's choices."""
        if size < 1:
            raise UsageError(f"the number of processes must be at least 1, got {size}")
        chosen = self.variant(variant).name if variant else self.variants[0].name
        known = {parameter.name: parameter for parameter in self.parameters}
        given = dict(parameters or {})
        for name, text in given.items():
            if name not in known:
                raise UsageError(unknown(f"parameter of {self.name}", name, known))
            if re.search(rf"\d{{{DIGITS_MAX + 1}}}", text):
                raise UsageError(f"a number in {name} has more than {DIGITS_MAX} digits")
        values = {
            name: parameter.parse(given.get(name, parameter.default), size)
            for name, parameter in known.items()
        }
        return Setup(size, chosen, values)


def unknown(what: str, name: str, choices: Iterable[str]) -> str:
    """Word the error for a name that does not exist, with the nearest that does."""
    import difflib  # noqa: PLC0415 - for mistakes alone

    names = sorted(choices)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown {what}: {name!r}{hint}; choose from: {', '.join(names) or 'none'}"
