"""Chord's ring: who keeps what, whom a node knows, and how many hops a query takes."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import pytest

from coterie.algorithms.mutex.quorum.decentralized.chord import BITS, CIRCLE, Ring, point
from coterie.errors import ConfigError


def at(node: int) -> int:
    return point(f"node|{node}")


def clockwise(start: int, end: int) -> int:
    return (end - start) % CIRCLE


@pytest.mark.parametrize("key", ["a", "b", "lock|0", "lock|1", "x" * 300, ""])
def test_a_key_is_kept_by_the_first_node_at_its_point_or_after_it(key: str) -> None:
    nodes = range(1, 20)
    nearest = min(nodes, key=lambda node: clockwise(point(key), at(node)))
    assert Ring(nodes).successor(point(key)) == nearest


def test_a_point_is_kept_by_the_node_that_stands_there() -> None:
    ring = Ring(range(1, 20))
    assert [ring.successor(at(node)) for node in range(1, 20)] == list(range(1, 20))


def test_points_go_round_the_circle() -> None:
    ring = Ring(range(1, 20))
    first = min(range(1, 20), key=at)
    last = max(range(1, 20), key=at)
    assert ring.successor(at(last) + 1) == first
    assert ring.successor(at(first) + CIRCLE) == first


def test_fingers_are_the_successors_of_the_points_at_powers_of_two() -> None:
    ring = Ring(range(1, 50))
    jumps = {ring.successor(at(7) + 2**bit) for bit in range(BITS)}
    fingers = ring.fingers(7)
    assert set(fingers) == jumps - {7}
    assert list(fingers) == sorted(fingers, key=lambda node: clockwise(at(7), at(node)))


def test_the_first_finger_is_the_next_node() -> None:
    nodes = range(1, 50)
    others = [node for node in nodes if node != 7]
    assert Ring(nodes).fingers(7)[0] == min(others, key=lambda node: clockwise(at(7), at(node)))


def test_alone_a_node_has_no_fingers_and_keeps_everything() -> None:
    ring = Ring([3])
    assert ring.fingers(3) == ()
    assert ring.route(3, point("anything")) == [3]


def test_a_query_goes_by_fingers_and_each_hop_at_least_halves_the_way_to_the_last_node_before() -> (
    None
):
    ring = Ring(range(1, 200))
    for number in range(100):
        key = point(f"key {number}")
        path = ring.route(1 + number, key)
        assert path[0] == 1 + number
        assert path[-1] == ring.successor(key)
        for here, there in itertools.pairwise(path):
            assert there in ring.fingers(here)
        for here, there in itertools.pairwise(path[:-1]):
            assert 2 * clockwise(at(there), at(path[-2])) <= clockwise(at(here), at(path[-2]))


@pytest.mark.parametrize("size", [16, 256, 1024])
def test_a_query_takes_half_as_many_hops_as_the_size_has_bits(size: int) -> None:
    """Stoica and others, 2001: about log2(N) / 2 on average, and O(log N) with high probability."""
    ring = Ring(range(1, size + 1))
    hops = [len(ring.route(1 + i % size, point(f"key {i}"))) - 1 for i in range(400)]
    assert sum(hops) / len(hops) == pytest.approx(math.log2(size) / 2, abs=1)
    assert max(hops) <= 2 * math.log2(size)


def test_replicas_are_on_as_many_nodes() -> None:
    ring = Ring(range(1, 8))
    for count in range(1, 8):
        replicas = ring.replicas("lock", count)
        assert len(set(replicas)) == count
        assert replicas == ring.replicas("lock", 7)[:count]


def test_replicas_are_the_keepers_of_the_numbered_names_where_these_differ() -> None:
    ring = Ring(range(1, 1000))
    keepers = tuple(ring.successor(point(f"lock|{number}")) for number in range(5))
    assert ring.replicas("lock", 5) == keepers


def test_another_name_has_other_replicas() -> None:
    ring = Ring(range(1, 100))
    assert len({ring.replicas(f"lock {number}", 3) for number in range(20)}) == 20


@pytest.mark.parametrize("count", [0, 8])
def test_more_replicas_than_nodes_or_none_at_all_are_refused(count: int) -> None:
    with pytest.raises(ConfigError, match=f"{count} replicas cannot be placed on 7 nodes"):
        Ring(range(1, 8)).replicas("lock", count)


def test_a_ring_without_nodes_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one node"):
        Ring([])


def test_the_places_are_the_same_in_every_interpreter() -> None:
    program = "from coterie.algorithms.mutex.quorum.decentralized.chord import Ring; print(Ring(range(1, 50)).replicas('lock', 5))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{Ring(range(1, 50)).replicas('lock', 5)}\n".encode()}
