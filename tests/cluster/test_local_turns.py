"""Tasks of one process that follow each other while another process waits: few, and not for long."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.locks.leases.group import TURNS_MAX, TURNS_SECONDS_MAX, LocalQueue


def anybody(count: int) -> list[Any]:
    return [None] * count


def granted(waiting: int, now: float = 5.0) -> LocalQueue:
    """A queue that has just been granted the lock, with so many who wait."""
    queue = LocalQueue()
    queue.waiting.extend(anybody(waiting))
    queue.allow_turns(now)
    return queue


@pytest.mark.parametrize("waiting", [0, 1, 3, TURNS_MAX, TURNS_MAX + 1, 1000])
def test_everybody_who_waited_when_the_lock_came_has_a_turn_up_to_a_bound(waiting: int) -> None:
    queue = granted(waiting)
    queue.waiting.extend(anybody(50))  # who came later does not
    turns = sum(queue.take_turn(5.0) for _ in range(100))
    assert turns == min(waiting, TURNS_MAX)


def test_no_turn_begins_when_the_time_is_over() -> None:
    queue = granted(3)
    assert queue.take_turn(5.0 + TURNS_SECONDS_MAX / 2)
    assert not queue.take_turn(5.0 + TURNS_SECONDS_MAX)


def test_a_lock_that_was_not_granted_by_voters_has_no_turns_to_give() -> None:
    assert not LocalQueue().take_turn(0.0)
