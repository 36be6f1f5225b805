"""The catalogue as a page shows it: each algorithm with what can be chosen about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.catalogue import Costs
from coterie.lab.explore import needs_clock

if TYPE_CHECKING:
    from coterie.catalogue import Algorithm, Setup, Variant

SIZE = 3  # for which processes are built to be looked at


class FlawEntry(msgspec.Struct, frozen=True):
    """The smallest setting in which a variant fails, and in how many moves."""

    size: int
    moves: int
    entries: int
    crashes: int
    parameters: dict[str, str]


class VariantEntry(msgspec.Struct, frozen=True):
    """One way of writing an algorithm."""

    name: str
    summary: str
    sound: bool
    flaw: FlawEntry | None = None


class ParameterEntry(msgspec.Struct, frozen=True):
    """Something to choose, as text."""

    name: str
    default: str
    summary: str


class Entry(msgspec.Struct, frozen=True):
    """An algorithm; the first of its variants is the usual one."""

    name: str
    family: str
    summary: str
    citation: str
    channel: str  # the weakest links it is correct on
    assumes: list[str]
    tolerates: list[str]
    calls: list[str]  # that a user makes
    reads_clock: bool  # only safety is judged
    timed: bool  # it can be played; only whether bounds of time are kept is shown
    variants: list[VariantEntry]
    parameters: list[ParameterEntry]
    costs: dict[str, str]  # the formulas, by what they are of


def entry_of(algorithm: Algorithm) -> Entry:
    """Describe an algorithm."""
    setup = algorithm.setup(SIZE)
    return Entry(
        name=algorithm.name,
        family=algorithm.family,
        summary=algorithm.summary,
        citation=algorithm.citation,
        channel=algorithm.channel.value,
        assumes=list(algorithm.assumes),
        tolerates=list(algorithm.tolerates),
        calls=_calls(algorithm),
        reads_clock=algorithm.reads_clock,
        timed=needs_clock(algorithm.build(setup)),
        variants=[_variant(variant) for variant in algorithm.variants],
        parameters=[ParameterEntry(x.name, x.default, x.summary) for x in algorithm.parameters],
        costs=_formulas(algorithm, setup),
    )


def _calls(algorithm: Algorithm) -> list[str]:
    """Name the calls that a user makes."""
    if algorithm.process.inputs:
        return list(algorithm.process.inputs)
    return ["acquire", "release"] if isinstance(algorithm.costs, Costs) else ["elect"]


def _variant(variant: Variant) -> VariantEntry:
    flaw, found = variant.flaw, None
    if flaw is not None:
        parameters = dict(flaw.parameters)
        found = FlawEntry(flaw.size, flaw.steps, flaw.entries, flaw.crashes, parameters)
    return VariantEntry(variant.name, variant.summary, variant.sound, found)


def _formulas(algorithm: Algorithm, setup: Setup) -> dict[str, str]:
    costs = algorithm.costs
    return {name: getattr(costs, name)(setup).formula for name in costs.__struct_fields__}
