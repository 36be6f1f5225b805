"""Random transactions under every scheme: serializable, nobody is stuck, and nothing is left."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from coterie.lab.serializability import check
from coterie.transactions.catalogue import scheme, schemes
from coterie.transactions.schemes.optimistic import Optimistic
from tests.transactions.leftovers import leftovers
from tests.transactions.locking_faults import Watched
from tests.transactions.stamped import WATCHED, stormy_restarts
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEEDS = range(300)


class Storm(NamedTuple):
    """How random transactions are run, and what is known of their ends."""

    build: Callable[[int], Any]  # a scheduler, or one that is watched, for a seed
    aborts: float = 0.03
    in_order: bool = False  # transactions begin in the order of their stamps
    committed_min: int = 1000  # of all seeds
    refused: tuple[float, float] = (0, float("inf"))  # at least and at most
    failures_max: int | None = None  # of one transaction, and it comes to that


def locking(variant: str) -> Storm:
    """Lock, and look at all waits; there is something to resolve in nearly every storm."""
    build = scheme("two-phase-locking").build
    return Storm(
        lambda seed: Watched(build(variant), variant),
        committed_min=15 * len(SEEDS),
        refused=(len(SEEDS), float("inf")),
    )


def stamped(name: str, aborts: float) -> Storm:
    """Order by stamps, with every wait watched, and reservations after few failures or many."""
    return Storm(lambda seed: WATCHED[name](patience=seed % 6), aborts)


def conservative(variant: str) -> Storm:
    """2.5 g: zero refusals is an invariant."""
    build = scheme("conservative").build
    return Storm(lambda seed: build(variant), in_order=True, refused=(0, 0))


def optimistic(**options: Any) -> Storm:
    """2.6 h: a transaction that runs alone succeeds, so the failures are bounded."""
    return Storm(lambda seed: Optimistic(**options), failures_max=options.get("patience", 5))


def all_storms() -> Iterator[tuple[str, Storm]]:
    for variant in scheme("two-phase-locking").variants:
        yield f"two-phase-locking, {variant.name}", locking(variant.name)
    for name in WATCHED:
        for aborts in (0.0, 0.03, 0.3):
            yield f"{name}, aborts {aborts}", stamped(name, aborts)
    for variant in scheme("conservative").variants:
        yield f"conservative, {variant.name}", conservative(variant.name)
    yield "optimistic, parallel", optimistic()
    yield "optimistic, serial", optimistic(serial=True)
    yield "optimistic, patience 1", optimistic(patience=1)
    yield "optimistic, short memory", optimistic(history_max=2)


STORMS = dict(all_storms())


def test_every_scheme_is_in_a_storm() -> None:
    assert {name.split(",")[0] for name in STORMS} == set(schemes())


@pytest.mark.slow
@pytest.mark.parametrize("name", STORMS)
def test_storms_are_serializable_and_leave_nothing_behind(name: str) -> None:
    """2.0 d, 2.2 b: aborts and refusals included; nobody that commits has read from one of them."""
    build, aborts, in_order, committed_min, (refused_min, refused_max), failures_max = STORMS[name]
    states: Counter[str] = Counter()
    failures = 0
    for seed in SEEDS:
        trial = storm(build(seed), seed, aborts=aborts, in_order=in_order)
        report = check(trial.history())
        assert report.serializable, f"seed {seed}: {report}"
        assert not trial.waiting(), f"seed {seed}"
        scheduler = trial.scheduler
        if isinstance(scheduler, Watched):
            scheduler = scheduler.scheduler
        assert not leftovers(scheduler), f"seed {seed}"
        if isinstance(scheduler, Optimistic):
            assert len(scheduler.finished) <= 2 * scheduler.history_max, f"seed {seed}"
        states.update(runner.state for runner in trial.runners.values())
        failures = max(failures, *(runner.attempt.failures for runner in trial.runners.values()))
    assert states["committed"] > committed_min
    assert refused_min <= states["refused"] <= refused_max
    assert failures_max in (None, failures)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WATCHED if name != "multiversion"])
def test_storms_with_restarts_are_serializable(name: str) -> None:
    """2.2 e: read stamps are lost, and nothing comes of it."""
    for seed in SEEDS:
        trial = stormy_restarts(WATCHED[name](), seed)
        assert not trial.waiting(), f"seed {seed}"
        report = check(trial.history())
        assert report.serializable, f"seed {seed}: {report}"
