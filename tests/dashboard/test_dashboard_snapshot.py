"""What the dashboard makes of the state of locks: sentences, deadlocks, changes, events."""

from __future__ import annotations

import msgspec
import pytest

from coterie.algorithms.deadlock.condition import all_of
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.dashboard.events import events_between
from coterie.dashboard.snapshot import Node, Snapshot, changes, deadlocks_of, locks_of, why
from coterie.locks.engine import LockState, Party


def party(owner: str, token: int | None = None, *, shared: bool = False) -> Party:
    return Party("x", owner, 100.0, token, shared)


def snapshot(*locks: LockState, nodes: dict[str, Node] | None = None) -> Snapshot:
    return Snapshot(
        "cluster", "c", 200.0, "good", "healthy", nodes or {}, {}, locks_of(locks), {}, []
    )


@pytest.mark.parametrize(
    ("lock", "place", "sentence"),
    [
        (LockState("x", [party("a", 1)], [], [party("b")]), 0, "held by a"),
        (
            LockState("x", [party("a", 1)], [], [party("b"), party("c"), party("d")]),
            2,
            "held by a; behind b and 1 more",
        ),
        (
            LockState(
                "x", [party("a", 1, shared=True), party("b", 1, shared=True)], [], [party("c")]
            ),
            0,
            "shared by a, b",
        ),
        (
            LockState("x", [], ["a"], [party("b")]),
            0,
            "a may hold it and does not answer",
        ),
        (LockState("x", [], [], [party("b")]), 0, "next: the lock is free and is being granted"),
    ],
)
def test_why_a_waiter_waits(lock: LockState, place: int, sentence: str) -> None:
    assert why(lock, place) == sentence


def test_a_token_that_a_page_cannot_count_is_a_text() -> None:
    lock = LockState("x", [party("a", 2**63)], [], [])
    assert snapshot(lock).locks["x"].holders[0].token == str(2**63)


def test_a_deadlock_is_named_and_proven_in_sentences() -> None:
    graph = Graph(
        {"P": all_of("x"), "x": all_of("Q"), "Q": all_of("y"), "y": all_of("P"), "R": all_of("x")},
        resources=frozenset({"x", "y"}),
    )
    (deadlock,) = deadlocks_of(graph).values()
    assert deadlock.name == "P, Q, x, y"
    assert deadlock.kind == "cycle"
    assert "x is held by Q" in deadlock.sentences


def test_changes_are_what_is_new_different_or_gone() -> None:
    assert changes({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5, "d": 4}) == {
        "b": 5,
        "d": 4,
        "c": None,
    }


def test_events_tell_of_holds_nodes_and_silence() -> None:
    up, down = Node("n1", "h:1", "good", "votes"), Node("n1", "h:1", "bad", "down: refused")
    before = snapshot(LockState("x", [party("a", 1)], [], []), nodes={"n1": up})
    after = snapshot(
        LockState("x", [party("b", 2)], [], []), LockState("y", [], ["c"], []), nodes={"n1": down}
    )
    assert [event.text for event in events_between(before, after)] == [
        "n1: down: refused",
        "x: held by b, token 2",
        "y: c does not answer",
    ]
    assert [event.text for event in events_between(after, snapshot(nodes={"n1": down}))] == [
        "x: free",
        "y: free",
    ]
    assert not events_between(after, after)


def test_a_hundred_locks_fit_the_budget_of_a_first_look_and_a_change() -> None:
    states = [
        LockState(f"job/{i}", [party(f"host-{i % 7}:4711", 10**14 + i)], [], []) for i in range(100)
    ]
    whole = msgspec.json.encode(snapshot(*states))
    assert len(whole) <= 20_000
    states[3] = LockState("job/3", [], [], [])
    delta = changes(locks_of(states[:3] + states[4:]), snapshot(*states).locks)
    assert len(msgspec.json.encode(delta)) <= 2_000
