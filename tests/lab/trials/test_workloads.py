"""Workloads draw what they say, skewed as they say."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from coterie.errors import UsageError
from coterie.lab.trials.workloads import MIXES, Workload, Zipf


def test_without_skew_all_keys_are_alike_and_with_skew_one_stands_out() -> None:
    dice = random.Random(1)
    even, skewed = Zipf(100, 0.0), Zipf(100, 0.99)
    counts = Counter(even.draw(dice) for _ in range(20_000))
    assert len(counts) == 100
    assert max(counts.values()) < 2 * min(counts.values())
    hot = Counter(skewed.draw(dice) for _ in range(20_000)).most_common(1)[0][1]
    # The first of 100 has 1 of the sum of 1 / k^0.99, which is 5.3.
    assert hot / 20_000 == pytest.approx(1 / 5.29, rel=0.1)


def test_all_clients_share_the_hot_keys() -> None:
    hottest = []
    for seed in range(3):
        dice, zipf = random.Random(seed), Zipf(100, 0.99)
        hottest.append(Counter(zipf.draw(dice) for _ in range(5_000)).most_common(1)[0][0])
    assert len(set(hottest)) == 1


def test_a_transfer_reads_exactly_what_it_writes() -> None:
    workload, dice = Workload("bank", 10, 0.8), random.Random(2)
    for _ in range(200):
        script = workload.draw(dice)
        reads = {request.key for request in script if request.op == "u"}
        writes = {request.key for request in script if request.op == "w"}
        assert reads == writes
        assert len(reads) == 2


def test_smallbank_has_a_cheque_that_reads_more_than_it_writes() -> None:
    """Without it there is no write skew to find."""
    workload, dice = Workload("smallbank", 10), random.Random(3)
    shapes = {tuple(request.op for request in workload.draw(dice)) for _ in range(500)}
    assert ("r", "r", "w") in shapes
    assert len(shapes) == 5  # a deposit and a saving have the same shape


@pytest.mark.parametrize(("name", "share"), [("ycsb-a", 0.5), ("ycsb-b", 0.95), ("ycsb-c", 1.0)])
def test_the_mixes_of_ycsb_read_as_much_as_they_say(name: str, share: float) -> None:
    workload, dice = Workload(name, 1000), random.Random(4)
    ops = Counter(r.op for _ in range(3_000) for r in workload.draw(dice))
    assert ops["r"] / ops.total() == pytest.approx(share, abs=0.02)


def test_an_unknown_workload_and_an_impossible_skew_are_refused() -> None:
    with pytest.raises(UsageError, match=f"choose one of {', '.join(MIXES)}"):
        Workload("tpc-c")
    with pytest.raises(UsageError, match="theta must be from 0"):
        Workload("bank", 10, -1)
    with pytest.raises(UsageError, match="at least 2 keys"):
        Workload("bank", 1)
