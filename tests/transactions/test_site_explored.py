"""Two sites and three transactions, each refused at most once: every order of messages is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.lab.explore import Settles, Sometimes, Together, check
from coterie.lab.trials.sites import build_sites
from coterie.lab.trials.trial import program
from coterie.transactions.catalogue import scheme
from tests.transactions.site_world import key_at

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from coterie.process import Seat

A, B = key_at(1, 2), key_at(2, 2)
BLIND = f"w({A}) w({B})", f"w({B}) w({A})"
READING = f"r({A}) w({A}) w({B})", f"r({B}) w({B}) w({A})"


def writer(site: Any, key: str) -> str | None:
    """Name the transaction that wrote a key last."""
    item = dict(site.scheduler.latest()).get(key)
    return None if item is None or item.value is None else item.value.decode().partition("/")[0]


def all_or_nothing(seats: Sequence[Seat | None]) -> bool:
    """Each transaction writes at both sites, so both keys are the last one's; nothing is left over."""
    sites: list[Any] = [seat.process for seat in seats if seat is not None]
    return all(site.is_settled() for site in sites) and writer(sites[0], A) == writer(sites[1], B)


def in_doubt(seats: Sequence[Seat | None]) -> bool:
    """A site has voted, and nobody has decided."""
    sites: list[Any] = [seat.process for seat in seats if seat is not None]
    facts = [site.facts() for site in sites]
    return any(fact["in doubt"] for fact in facts) and not any(
        fact["not acknowledged"] for fact in facts
    )


ATOMIC = Settles("atomic", (Together(all_or_nothing),), "the sites differ, or something is left")
DOUBT = Sometimes("doubt", (Together(in_doubt),))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variant", "scripts", "states", "transitions"),
    [
        ("two-phase-locking", "wait-die", BLIND, 3400, 4631),
        ("two-phase-locking", "wait-die", READING, 5230, 6944),
        ("two-phase-locking", "wound-wait", BLIND, 3430, 4706),
        ("timestamp-ordering", None, READING, 2164, 3103),
        ("multiversion", None, BLIND, 1412, 2143),
        ("optimistic", "parallel", BLIND, 16753, 28033),
        ("conservative", None, BLIND, 3890, 6235),
    ],
)
def test_all_sites_agree_in_the_end_in_every_order(
    name: str,
    variant: str | None,
    scripts: tuple[str, str],
    states: int,
    transitions: int,
) -> None:
    first, second = (program(script) for script in scripts)
    build = scheme(name).variant(variant).build
    clients = [[[first], [second]], [[second]]]
    sites = build_sites(build, clients, left=1, patience=None, tries=2)
    verdict = check(sites, properties=[ATOMIC, DOUBT])
    assert verdict.verdict == "verified", verdict.reason
    assert verdict.sometimes == {"doubt": True}
    assert (verdict.states, verdict.transitions) == (states, transitions)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["timestamp-ordering", "optimistic", "conservative"])
def test_any_message_may_come_twice(name: str) -> None:
    """2.8 d: every message, at every moment."""
    first, second = (program(script) for script in BLIND)
    clients = [[[first], [second]], [[second]]]
    sites = build_sites(scheme(name).variant().build, clients, left=1, patience=None, tries=1)
    verdict = check(sites, properties=[ATOMIC], duplicates=1)
    assert verdict.verdict == "verified", verdict.reason
