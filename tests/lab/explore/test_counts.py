"""State counts are pinned: a change of behaviour shows as a change of a number."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.algorithms.mutex.permission.ricart_agrawala import RicartAgrawala
from coterie.lab.explore import check, search
from coterie.lab.explore.tables import links, moves, seats
from coterie.lab.explore.tables.hashing import scatter
from coterie.lab.explore.tables.memo import PairMemo
from coterie.process import Channel, Process

FIFO, UNORDERED = Channel.FIFO, Channel.UNORDERED


def processes(size: int) -> list[Process[Any]]:
    return [RicartAgrawala(me, size) for me in range(1, size + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("size", "entries", "channel", "counts"),
    [
        (1, 3, FIFO, (7, 6)),
        (2, 1, FIFO, (30, 38)),
        (2, 2, FIFO, (126, 176)),
        (3, 1, FIFO, (2_049, 5_488)),
        (3, 2, FIFO, (25_674, 71_372)),
        (2, 1, UNORDERED, (34, 46)),
        (3, 1, UNORDERED, (2_822, 9_005)),
        (3, 2, UNORDERED, (37_229, 125_212)),
    ],
)
def test_ricart_agrawala_is_verified_with_the_known_counts(
    size: int, entries: int, channel: Channel, counts: tuple[int, int], exact: bool
) -> None:
    verdict = check(processes(size), entries=entries, channel=channel, exact=exact)
    word = "verified" if size > 1 else "vacuous"
    assert (verdict.verdict, verdict.property, verdict.counterexample) == (word, None, None)
    assert (verdict.states, verdict.transitions) == counts
    assert verdict.sometimes == {"contention": size > 1}
    assert verdict.depth == entries * size * 2 * size  # two calls and 2(N - 1) messages an entry


@pytest.mark.slow
def test_four_processes_have_as_many_states_as_spin_finds() -> None:
    verdict = check(processes(4), channel=FIFO)
    assert (verdict.states, verdict.transitions) == (1_402_298, 7_398_198)
    assert 0 < verdict.collision_probability < 1e-7


def test_an_exact_search_survives_hashes_that_collide_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (links, seats):
        monkeypatch.setattr(module, "scatter", lambda number: scatter(number) >> 58 << 58)
    exact = check(processes(3), channel=FIFO, exact=True)
    assert (exact.states, exact.transitions) == (2_049, 5_488)
    assert exact.collision_probability == 0
    assert check(processes(3), channel=FIFO, properties=()).states < 100


@pytest.mark.parametrize("exact", [False, True])
def test_a_model_too_large_for_small_tables_small_numbers_and_one_chunk_is_counted_alike(
    monkeypatch: pytest.MonkeyPatch, exact: bool
) -> None:
    monkeypatch.setattr(PairMemo, "DENSE_CELLS", 3_000)
    monkeypatch.setattr(moves, "NARROW", 100)
    monkeypatch.setattr(search, "CHUNK", 77)
    verdict = check(processes(3), channel=FIFO, exact=exact)
    assert (verdict.verdict, verdict.states, verdict.transitions) == ("verified", 2_049, 5_488)
