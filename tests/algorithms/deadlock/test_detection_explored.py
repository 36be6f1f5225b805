"""Every interleaving of a few workers and locks: never undetected, never false, one victim a cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of
from coterie.algorithms.deadlock.detectors.waits import graph_of
from coterie.lab.explore import (
    Always,
    CanAlwaysStill,
    Sometimes,
    Together,
    at_least,
    at_most,
    check,
)
from coterie.process import Channel, Seat
from tests.algorithms.deadlock.lock_model import Site, sites

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.algorithms.deadlock.detectors.diffusing import Diffusing

Steps = tuple[Condition[int], ...]


def one_by_one(*locks: int) -> Steps:
    return tuple(all_of(lock) for lock in locks)


def ended(seat: Seat) -> bool:
    return site(seat).worker.finished or site(seat).worker.aborted


def aborted(seat: Seat) -> bool:
    return site(seat).worker.aborted


def site(seat: Seat | None) -> Site:
    assert seat is not None
    assert isinstance(seat.process, Site)
    return seat.process


def no_false_victim_at_hand(seats: Sequence[Seat | None]) -> bool:
    """Whenever all others have confirmed to one on trial, they are deadlocked as accused."""
    detectors: dict[int, Diffusing] = {}
    for seat in seats:
        for node in (site(seat).worker, site(seat).lock):
            detectors[node.me] = node.detector
    return all(_stands(me, detectors) for me in detectors)


def _stands(me: int, detectors: dict[int, Diffusing]) -> bool:
    trial, wait = detectors[me].trial, detectors[me].wait
    if trial is None or wait is None or wait.number != trial.number:
        return True
    members = dict(trial.accusation.members)
    if not all(member == me or me in detectors[member].pledges for member in members):
        return True
    waits = {node: detector.wait for node, detector in detectors.items() if detector.wait}
    same = all(waits.get(member) == accused for member, accused in members.items())
    return same and len(graph_of(waits).stuck(members)) == len(members)


PROPERTIES = (
    CanAlwaysStill("nobody hangs", ended, "end"),
    Always("no false victim", (Together(no_false_victim_at_hand),), "a false victim is at hand"),
    Always("one victim a cycle", (at_most(1, aborted),), "more than one is aborted"),
    Sometimes("a victim", (at_least(1, aborted),)),
    Sometimes("all finish", (at_most(0, aborted), at_least(3, ended))),
)
CROSSED = (one_by_one(3, 4), one_by_one(4, 3))
RING = (one_by_one(4, 5), one_by_one(5, 6), one_by_one(6, 4))
AT_ONCE: tuple[Steps, ...] = ((all_of(4, 5),), (all_of(5, 6),), (all_of(6, 4),))
ANY: tuple[Steps, ...] = (
    (all_of(4), any_of(5, 6)),
    (all_of(5), any_of(4, 6)),
    (all_of(6), any_of(4, 5)),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "channel", "states", "transitions"),
    [
        pytest.param(CROSSED, Channel.UNORDERED, 309, 536, id="two in opposite order"),
        pytest.param(RING, Channel.UNORDERED, 573_721, 2_735_301, id="three in a ring"),
        pytest.param(AT_ONCE, Channel.UNORDERED, 461_759, 2_180_140, id="lock_all in a ring"),
        pytest.param(ANY, Channel.FIFO, 483_242, 1_418_767, id="lock_any in a knot"),
    ],
)
def test_every_deadlock_is_found_and_no_false_one(
    workers: tuple[Steps, ...], channel: Channel, states: int, transitions: int
) -> None:
    verdict = check(sites(*workers), channel=channel, properties=PROPERTIES)
    assert verdict.verdict == "verified", verdict.reason
    assert verdict.sometimes["a victim"]
    assert verdict.sometimes["all finish"] or len(workers) == 2
    assert (verdict.states, verdict.transitions) == (states, transitions)


def test_an_escape_is_used_and_nobody_is_hurt() -> None:
    """The same crossing, but the second worker can do with a free lock instead."""
    workers = (one_by_one(4, 5), (all_of(5), any_of(4, 6)), ())
    verdict = check(
        sites(*workers),
        properties=(PROPERTIES[0], Always("peace", (at_most(0, aborted),), "someone is hurt")),
    )
    assert verdict.verdict == "verified", verdict.reason
