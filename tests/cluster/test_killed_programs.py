"""A program that is killed is followed at once, where a process of its machine has seen its end.

The lease is longer than any test may take: what comes sooner has not waited for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.local_cluster import Processes, processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEASE = 600.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    with processes(tmp_path, lease=LEASE) as running:
        yield running


def test_a_killed_holder_is_followed_at_once(cluster: Processes) -> None:
    holder = cluster.program("hold", "x")
    _, token = holder.read()
    waiter = cluster.program("hold", "x")
    cluster.wait(lambda state: any(lock.waiters for lock in state.locks), "the second to wait")
    holder.process.kill()
    assert int(waiter.read()[1]) > int(token)
    assert "is dead, as node a has seen" in cluster.log("a")
