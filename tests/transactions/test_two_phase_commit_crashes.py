"""A site crashes after every single write to disk and every single message, and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.transactions.schemes.scheduler import Committed, Refused
from coterie.transactions.site.site import Site
from tests.transactions.site_world import World, key_at, world
from tests.transactions.test_two_phase_commit import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

A, B, C = key_at(1, 3), key_at(2, 3), key_at(3, 3)

# What the user of site 1 does: reads and writes, each at one of the three sites.
SHAPES: dict[str, tuple[tuple[str, str], ...]] = {
    "all three write": (("write", A), ("write", B), ("write", C)),
    "the coordinator takes no part": (("write", B), ("write", C)),
    "one reads and two write": (("read", A), ("write", B), ("write", C)),
    "one other site alone": (("read", B), ("write", B)),
    "this site alone": (("read", A), ("write", A)),
    "everybody reads": (("read", A), ("read", B), ("read", C)),
}


def transact(sites: World, shape: tuple[tuple[str, str], ...]) -> str:
    """Run a transaction as far as its coordinator lives; give its name."""
    attempt = sites.call(1, "begin")
    for verb, key in shape:
        if not is_running(sites, attempt.name):
            break
        value = () if verb == "read" else (b"new",)
        sites.call(1, verb, attempt.name, key, *value)
        let_pass(sites, lambda: not is_waiting(sites, attempt.name))
        if is_waiting(sites, attempt.name):  # for the word of a site that is down
            sites.call(1, "abort", attempt.name)
    if is_running(sites, attempt.name):
        sites.call(1, "commit", attempt.name)
    name: str = attempt.name
    return name


def is_running(sites: World, name: str) -> bool:
    return sites.seats[1] is not None and sites.site(1).is_open(name)


def is_waiting(sites: World, name: str) -> bool:
    return sites.seats[1] is not None and sites.site(1).is_waiting(name)


def let_pass(sites: World, until: Callable[[], bool]) -> None:
    """Deliver, and let timers ring if somebody waits for them."""
    for _ in range(12):
        sites.run()
        if until():
            return
        for site in (1, 2, 3):
            for timer in list(sites.timers[site]):
                if timer in sites.timers[site]:
                    sites.ring(site, timer)


def crashing_runs(
    scheme: str,
    variant: str | None,
    shape: tuple[tuple[str, str], ...],
    soon: bool,
    kind: type[Site] = Site,
) -> Iterator[tuple[int, World, str]]:
    """Crash after the first action, the second, and so on; the crashed site returns each time."""
    point = 0
    while True:
        point += 1
        sites = world(scheme, variant, sites=3, kind=kind)
        sites.put(2, {A: b"old", B: b"old", C: b"old"})
        sites.crash_at = sites.actions + point
        name = transact(sites, shape)
        sites.run()
        sites.catch_up()
        sites.crash_at = None
        if not sites.crashed:
            assert point > 1, "a transaction writes and sends something"
            return
        if not soon:  # the others have time to notice
            for _ in range(6):
                let_pass(sites, sites.idle)
        for site in sites.crashed:
            sites.start(site)
        sites.settle()
        yield point, sites, name


@pytest.mark.slow
@pytest.mark.parametrize("soon", [True, False], ids=["back at once", "back late"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("scheme", "variant"), SCHEMES)
def test_after_any_crash_all_sites_agree_and_nothing_is_locked(
    scheme: str, variant: str | None, shape: str, soon: bool
) -> None:
    """2.8 a: and what the user was told is what happened."""
    for point, sites, name in crashing_runs(scheme, variant, SHAPES[shape], soon):
        judge(point, sites, name, SHAPES[shape])


def judge(point: int, sites: World, name: str, shape: tuple[tuple[str, str], ...]) -> None:
    """Hold what must hold when everybody has come back and time has passed."""
    written = [key for verb, key in shape if verb == "write"]
    assert sites.idle(), f"crash point {point}: {[s and s.process for s in sites.seats.values()]}"
    values = {sites.value(2, key) for key in written}
    assert values in ({b"new"}, {b"old"}, set()), f"crash point {point}: {values}"
    answer = sites.answer(name)
    if isinstance(answer, Committed):
        assert values != {b"old"}, f"crash point {point}"
    if isinstance(answer, Refused):
        assert values != {b"new"}, f"crash point {point}"
    sites.put(3, {A: b"2", B: b"2", C: b"2"})


def test_there_are_dozens_of_points_to_crash_at() -> None:
    runs = crashing_runs("two-phase-locking", None, SHAPES["all three write"], soon=True)
    points = [point for point, _, _ in runs]
    assert points == list(range(1, 18))
