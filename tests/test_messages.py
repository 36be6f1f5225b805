"""What processes say to each other: each class states the messages it receives, and decodes them."""

from __future__ import annotations

import sys
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import pytest

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of
from coterie.algorithms.deadlock.detectors import central, diffusing, hierarchical, party, survey
from coterie.catalogue import algorithms, find
from coterie.clocks.synchronisation import PhysicalClock
from coterie.cluster.runtime.host import decoder
from coterie.lab.simulate import Closed, Crash, Network, Restart, Simulation, Uniform, Workload
from coterie.process import Payload, Process, encode
from coterie.transactions.site import messages as site_messages
from coterie.transactions.site.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIANTS = [(name, v.name) for name, entry in algorithms().items() for v in entry.variants]


class Choice(NamedTuple):
    """One process class of the catalogue."""

    algorithm: str
    variant: str
    kind: type[Process[Any]]


def choices() -> Iterator[Choice]:
    for name, variant in VARIANTS:
        entry = find(name)
        built = entry.build(entry.setup(3, variant))
        for kind in dict.fromkeys(map(type, built)):
            yield Choice(name, variant, kind)


CATALOGUE = list(choices())
OTHERS: list[type[Process[Any]]] = [
    PhysicalClock,
    Site,
    central.Coordinator,
    central.Reporting,
    diffusing.Diffusing,
    hierarchical.Controller,
    party.DiffusingParty,
    party.ReportingParty,
    party.SurveyParty,
    survey.SurveyDetector,
]


def kinds_of(union: Any) -> set[type[Payload]]:
    return set(get_args(union) or (union,))


def kinds_in(module: Any) -> set[type[Payload]]:
    """Return the kinds of messages that a module defines or imports."""
    return {
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Payload) and value is not Payload
    }


def kinds_named_by(process: type[Process[Any]]) -> set[type[Payload]]:
    modules = {base.__module__ for base in process.__mro__} - {"coterie.process"}
    ours = [sys.modules[name] for name in modules if name.startswith("coterie.")]
    return set().union(*map(kinds_in, ours))


@pytest.mark.parametrize(
    "choice", CATALOGUE, ids=lambda choice: f"{choice.algorithm}-{choice.variant}"
)
def test_a_process_receives_exactly_the_messages_that_its_modules_name(choice: Choice) -> None:
    assert kinds_of(choice.kind.messages) == kinds_named_by(choice.kind)


def test_sites_and_detectors_receive_what_their_modules_name() -> None:
    trial = kinds_of(central.Reporting.messages)
    user = {party.Request, party.Grant}
    assert kinds_of(Site.messages) == kinds_in(site_messages)
    assert kinds_of(central.Coordinator.messages) == kinds_in(central)
    assert hierarchical.Controller.messages is central.Coordinator.messages
    assert kinds_of(diffusing.Diffusing.messages) == kinds_in(diffusing)
    assert kinds_of(survey.SurveyDetector.messages) == kinds_in(survey)
    assert trial == kinds_in(central) - {central.Change}
    assert kinds_of(party.DiffusingParty.messages) == user | kinds_in(diffusing)
    assert kinds_of(party.SurveyParty.messages) == user | kinds_in(survey)
    assert kinds_of(party.ReportingParty.messages) == user | trial


@pytest.mark.slow
@pytest.mark.parametrize(
    "choice", CATALOGUE, ids=lambda choice: f"{choice.algorithm}-{choice.variant}"
)
def test_what_a_run_with_faults_sends_is_in_the_union(choice: Choice) -> None:
    """Run under load, with crashes and returns where the algorithm has rules for them."""
    entry = find(choice.algorithm)
    tolerated = {fault for v in entry.variants for fault in entry.faults_tolerated(v.name)}
    faults: list[Crash | Restart] = []
    if "crash" in tolerated:
        faults = [Crash(1, 30.0), Crash(7, 40.0)]
    if {"restart", "recovery without memory"} & tolerated:
        faults += [Restart(1, 400.0), Restart(7, 800.0)]
    sent: set[str] = set()
    for seed in range(4):
        processes = entry.build(entry.setup(7, choice.variant))
        network = Network(Uniform(0.5, 1.5))
        workload = Workload() if entry.family == "election" else Closed(8)
        run = Simulation(
            processes, workload=workload, network=network, faults=faults, seed=seed, until=2000.0
        )
        sent |= set(run.run().messages_by_kind)
    assert sent
    assert sent <= {kind.__name__ for kind in kinds_of(choice.kind.messages)}


def example(wanted: Any) -> Any:
    """Return a value of that type with something in every field."""
    arguments = [kind for kind in get_args(wanted) if kind is not type(None)]
    kind = get_origin(wanted) or wanted
    if kind is Condition:  # one may stand within another
        return all_of(1, any_of(2, 3))
    if kind in (Union, UnionType):
        return example(arguments[0])
    if kind is Literal:
        return arguments[0]
    if kind in (tuple, set, frozenset, list):
        return kind(example(each) for each in arguments if each is not Ellipsis)
    if not issubclass(kind, msgspec.Struct | tuple):
        return kind(1)
    hints = get_type_hints(kind)
    return kind(**{name: example(hints[name]) for name in kind.__match_args__})


@pytest.mark.parametrize(
    "process",
    [*dict.fromkeys(choice.kind for choice in CATALOGUE), *OTHERS],
    ids=lambda kind: f"{kind.__module__}.{kind.__name__}".removeprefix("coterie."),
)
def test_the_decoder_of_a_process_reads_every_kind_of_its_messages(
    process: type[Process[Any]],
) -> None:
    decode = decoder(process.messages)
    for kind in kinds_of(process.messages):
        message = example(kind)
        assert decode(encode(message)) == message
