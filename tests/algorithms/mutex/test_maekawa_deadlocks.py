"""The recorded deadlocks of Maekawa's flawed rules are the shortest there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.lab.explore import check
from coterie.lab.explore.findings import DEADLOCK
from coterie.lab.scenario import perform
from coterie.trace import Called, Delivered
from tests.harness import build

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.mark.parametrize(
    ("variant", "size", "coterie", "requesters", "steps"),
    [
        ("basic", 3, "plane", [1, 2, 3], 6),
        ("survey", 3, "plane", [1, 2, 3], 7),
        ("deferred", 4, "grid", [2, 3, 4], 14),
    ],
)
def test_the_recorded_deadlock_is_a_shortest_one(
    variant: str, size: int, coterie: str, requesters: list[int], steps: int
) -> None:
    verdict = check(build("maekawa", size, variant, coterie=coterie), requesters=requesters)
    assert (verdict.property, verdict.depth) == (DEADLOCK, steps)
    recorded = perform((SCENARIOS / f"maekawa-{variant}.txt").read_text(encoding="utf-8"))
    taken = [step for step in recorded.trace.records if isinstance(step, Called | Delivered)]
    assert len(taken) == steps
    waiting = recorded.transcript.splitlines()[-2]
    assert waiting == f"  waiting: {', '.join(map(str, requesters))}"


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["eager", "displaced"])
def test_the_sound_rules_do_not_deadlock_on_the_grid(variant: str) -> None:
    processes = build("maekawa", 4, variant, coterie="grid")
    verdict = check(processes, requesters=[2, 3, 4])
    assert verdict.verdict == "verified", verdict.reason
