"""The verdict of the demonstration says no where no is the answer."""

from __future__ import annotations

import pytest

from coterie.cli.demo import Phase, divide, growing, never_stuck, nothing_lost
from coterie.cli.demo_worker import Entry


def ledger(*pairs: tuple[int, int]) -> list[Entry]:
    return [Entry(number, "w1", token, float(number)) for number, token in pairs]


def test_a_gap_belongs_to_the_phase_in_which_it_ends() -> None:
    entries = [Entry(n, "w1", n, at) for n, at in enumerate((1.0, 2.0, 6.0, 6.5), 1)]
    phases = [Phase("before", 0.0), Phase("after", 3.0)]
    assert divide(phases, entries) == [("before", 2, 1.0), ("after", 2, 4.0)]


def test_a_phase_without_an_entry_is_found() -> None:
    passages = divide([Phase("all is well", 0.0), Phase("n2 is killed", 5.0)], ledger((1, 7)))
    assert never_stuck(passages) == (
        False,
        "never stuck",
        "no worker entered after: n2 is killed",
    )


@pytest.mark.parametrize(
    ("tokens", "holds"), [((7, 9, 12), True), ((7, 7), False), ((9, 7), False), ((), False)]
)
def test_each_token_has_to_be_larger_than_the_one_before(
    tokens: tuple[int, ...], *, holds: bool
) -> None:
    assert growing(ledger(*enumerate(tokens, 1))).holds is holds


@pytest.mark.parametrize(
    ("numbers", "reported", "holds"),
    [
        ((1, 2, 3), (1, 2, 3), True),
        ((1, 2, 2), (1, 2, 2), False),  # two were inside and wrote the same
        ((1, 2), (1, 2, 3), False),  # one reports what is not there
        ((1, 2, 3), (1, 2), False),  # one has written what nobody reports
        ((), (), False),
    ],
)
def test_every_entry_counts_once(
    numbers: tuple[int, ...], reported: tuple[int, ...], *, holds: bool
) -> None:
    entries = ledger(*((number, number) for number in numbers))
    assert nothing_lost(entries, reported).holds is holds
