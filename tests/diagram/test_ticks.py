from __future__ import annotations

from coterie.diagram.ticks import linear_ticks, log_ticks, tick_text


def test_linear_ticks_are_round_and_within_the_range() -> None:
    assert linear_ticks(0, 10, 5) == [0, 2, 4, 6, 8, 10]
    assert linear_ticks(0.3, 2.2, 4) == [0.5, 1.0, 1.5, 2.0]
    assert linear_ticks(0, 0.07, 4) == [0, 0.02, 0.04, 0.06]
    assert linear_ticks(3, 3, 4) == [3]


def test_logarithmic_ticks_are_powers_of_ten_with_more_between_if_they_are_few() -> None:
    assert log_ticks(1, 10_000) == [1, 10, 100, 1000, 10_000]
    assert log_ticks(3, 60) == [5, 10, 20, 50]


def test_ticks_are_written_shortly() -> None:
    assert [tick_text(tick) for tick in (0.5, 2.0, 100.0, 20_000.0)] == [
        "0.5",
        "2",
        "100",
        "20,000",
    ]
