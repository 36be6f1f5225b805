"""What the dashboard shows under churn was true at its stamp; `benchmarks.dashboard_churn` looks a thousand times."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from coterie.dashboard.snapshot import Deadlock, Lock, Node, Snapshot, Standing
from tests.cluster.local_cluster import processes
from tests.dashboard.churn import Chronicle, Churn, Stretch, Turn, lies, looks_under_churn

if TYPE_CHECKING:
    from pathlib import Path

CHRONICLE = Chronicle(
    lease=1.0,
    turns=[
        Turn(1, "x", asked=10.0, got=11.0, token="5", ended=20.0),  # noqa: S106 - of a lock
        Turn(2, "x", asked=12.0, got=20.1, token="6", ended=22.0),  # noqa: S106 - as above
    ],
    nodes=[Stretch("a", 0.0, 14.0, 14.1), Stretch("b", 0.0)],
    removed={"c": 14.0},
)


def standing(owner: str, since: float, token: str | None = None) -> Standing:
    return Standing(owner, since, shared=False, token=token, why="")


HELD = Lock("x", [standing("h:1", 11.0, "5")], [], [standing("h:2", 12.0)])
TRUE = Snapshot(
    kind="cluster",
    name="test",
    at=15.0,
    look="good",
    health="",
    nodes={"a": Node("a", "", "bad", "down: no answer"), "b": Node("b", "", "good", "votes")},
    programs={},
    locks={"x": HELD},
    deadlocks={},
    notes=[],
    took=0.5,
)


def shown(**parts: object) -> Snapshot:
    return msgspec.structs.replace(TRUE, locks={"x": msgspec.structs.replace(HELD, **parts)})


@pytest.mark.parametrize(
    ("snapshot", "said"),
    [
        (TRUE, ""),
        (
            msgspec.structs.replace(TRUE, at=20.2),
            "",
        ),  # both moments of the hand-over are in the look
        (msgspec.structs.replace(TRUE, at=21.0), "holds it with 5, and does not"),
        (msgspec.structs.replace(TRUE, at=9.0), "holds it with 5, and does not"),
        (shown(holders=[standing("h:1", 10.5, "4")]), "holds it with 4, and does not"),
        (shown(holders=[standing("h:1", 9.0, "5")]), "since 9.0"),
        (shown(holders=[standing("h:1", 11.0, "5")] * 2), "two hold it"),
        (shown(silent=["h:1"]), "is silent, and is not"),
        (shown(waiters=[standing("h:1", 12.0)]), "waits for it, and does not"),
        (shown(waiters=[standing("h:2", 13.5)]), "waits for it since 13.5"),
        (
            msgspec.structs.replace(TRUE, nodes={"a": Node("a", "", "good", "votes")}),
            "node a: votes, and it is dead",
        ),
        (
            msgspec.structs.replace(TRUE, nodes={"b": Node("b", "", "bad", "down: no answer")}),
            "node b: down: no answer, and it is up",
        ),
        (
            msgspec.structs.replace(TRUE, nodes={"c": Node("c", "", "bad", "down: no answer")}),
            "was replaced",
        ),
        (
            msgspec.structs.replace(TRUE, deadlocks={"x": Deadlock("x", "cycle", (), ())}),
            "a deadlock of x",
        ),
    ],
)
def test_the_judge_finds_what_was_not_true(snapshot: Snapshot, said: str) -> None:
    found = lies(snapshot, CHRONICLE)
    assert said in "; ".join(found)
    assert bool(found) is bool(said)


@pytest.mark.real
def test_what_is_shown_under_churn_was_true_at_its_stamp(tmp_path: Path) -> None:
    with processes(tmp_path) as cluster:
        churn = Churn(cluster, tmp_path, seed=1)
        try:
            shown, _ = asyncio.run(looks_under_churn(churn, cluster.url, 30))
        finally:
            chronicle = churn.end()
    assert [lie for look in shown for lie in lies(look, chronicle)] == []
    assert any(lock.holders for look in shown for lock in look.locks.values())
