"""The suites that the algorithms share: each algorithm's own file has the tables they run over."""

from __future__ import annotations

from dataclasses import dataclass, field
from sys import modules
from typing import TYPE_CHECKING, Any

import pytest

from coterie.lab.explore import check
from tests.harness import Mutant, broken_class, build
from tests.watching import CrashMutant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from coterie.lab.explore import Property
    from coterie.process import Channel, Process

QUICK_TRANSITIONS_MAX = 10_000
STATES_MAX = 5_000_000  # of a mutant that may have infinitely many
FAULTS = [{"crashes": 1}, {"losses": 1}, {"duplicates": 1}]


@dataclass(frozen=True)
class Explored:
    """An exploration, and how many states and transitions it has."""

    size: int
    entries: int
    channel: Channel | None
    states: int
    transitions: int
    variant: str | None = None
    crashes: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """Leave large explorations out of `make quick`."""
        return [pytest.mark.slow] if self.transitions > QUICK_TRANSITIONS_MAX else []

    def __str__(self) -> str:
        """Name the case as pytest prints it."""
        words = [self.variant, self.channel.value if self.channel else None]
        words += [str(self.size), str(self.entries)]
        words += [f"{self.crashes} down"] if self.crashes else []
        return "-".join(word for word in (*words, *self.parameters.values()) if word)


def every_interleaving(
    name: str, cases: Sequence[Explored], properties: Sequence[Property] | None = None
) -> Callable[[Explored], None]:
    """Test that an algorithm is safe and live in every one of these explorations."""

    @pytest.mark.parametrize(
        "case",
        [pytest.param(case, id=str(case), marks=case.marks) for case in cases],
    )
    def test(case: Explored) -> None:
        verdict = check(
            build(name, case.size, case.variant, **case.parameters),
            entries=case.entries,
            channel=case.channel,
            crashes=case.crashes,
            properties=properties,
        )
        word = "verified" if case.size > 1 else "vacuous"  # alone, a process never waits
        assert verdict.verdict == word, verdict.reason
        assert (verdict.states, verdict.transitions) == (case.states, case.transitions)

    return test


def broken_lines(
    kind: type[Any],
    mutants: Mapping[str, Mutant],
    seats: Callable[[type[Any], int], Sequence[Process[Any]]],
    *,
    process: type[Any] | None = None,
    entries: int | None = None,
    askers: Sequence[Sequence[int] | None] = (None,),
    properties: Sequence[Property] | None = None,
) -> Callable[[str], None]:
    """Test that an exploration notices each broken line of a class.

    Args:
        kind: the class that the lines stand in.
        mutants: the lines, by what is wrong without them.
        seats: builds so many processes of a class.
        process: the class that is explored; by default the one with the broken line.
        entries: how often each process asks; by default what the mutant says.
        askers: which processes ask, for one exploration after the other; one must notice.
        properties: those to be broken; by default those of the kind of process.
    """

    @pytest.mark.slow
    @pytest.mark.parametrize("name", mutants)
    def test(name: str) -> None:
        mutant = mutants[name]
        made = broken_class(kind, mutant.old, mutant.new)
        if process is not None:
            made = getattr(modules[made.__module__], process.__name__)
        crashes, requesters = 0, None
        if isinstance(mutant, CrashMutant):
            crashes, requesters = mutant.crashes, mutant.requesters
        for asking in askers:
            verdict = check(
                seats(made, mutant.size),
                entries=mutant.entries if entries is None else entries,
                channel=mutant.channel,
                crashes=crashes,
                requesters=asking or requesters,
                properties=properties,
                max_states=STATES_MAX,
            )
            if verdict.verdict == "violated":
                assert verdict.counterexample is not None
                return
        pytest.fail(f"{verdict.verdict}: {verdict.reason}")

    return test


def any_fault_breaks(name: str) -> Callable[[dict[str, int]], None]:
    """Test that two processes of an algorithm bear no crash, no loss and no duplicate."""

    @pytest.mark.parametrize("faults", FAULTS, ids=lambda faults: next(iter(faults)))
    def test(faults: dict[str, int]) -> None:
        assert check(build(name, 2), **faults).verdict == "violated"  # type: ignore[arg-type]

    return test
