"""Each level is judged on random small histories as its plain meaning would."""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING

import pytest

from coterie.lab.isolation import GUARANTEES, LEVELS, judge_levels, levels
from coterie.transactions.history import History, HistoryEvent
from tests.transactions.level_oracle import kept
from tests.transactions.serial_oracle import serializable

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

WEAKER = LEVELS[:-1]


def small(seed: int) -> History:
    """Draw up to four transactions of up to two sessions, with versions for all, some or no keys."""
    random = Random(seed)
    stating = random.choice(("all", "none", "none", "some"))
    size, keys = random.randint(2, 4), "xyz"[: random.randint(1, 3)]
    names = range(size)
    writes = {name: [key for key in keys if random.random() < 0.6] for name in names}
    versions = {key: random.sample(names, size) for key in keys}
    history = History()
    session = [random.choice(("a", "b", None)) for _ in names]
    for name in names:
        history.add(HistoryEvent(name, "begin", session=session[name]))
    for name in names:
        for key in keys:
            if random.random() < 0.5:
                others = [other for other in names if other != name and key in writes[other]]
                history.add(HistoryEvent(name, "read", key, random.choice([None, *others * 3])))
    for name in names:
        for key in writes[name]:
            states = stating == "all" or (stating == "some" and key == "x")
            history.add(
                HistoryEvent(name, "write", key, name, versions[key][name] if states else None)
            )
    for name in random.sample(names, size):
        if random.random() < 0.9:
            history.add(HistoryEvent(name, "commit" if random.random() < 0.97 else "abort"))
    return history


def differing(seed: int, *, sessions: bool) -> list[str]:
    history = small(seed)
    judged = judge_levels(history, sessions=sessions)
    names = [*WEAKER, *(GUARANTEES if sessions else ())]
    wrong = [name for name in names if judged[name] != kept(history, name, sessions=sessions)]
    if not sessions and judged["serializable"] != serializable(history):
        wrong.append("serializable")
    held = [bool(judged[name]) for name in LEVELS]
    assert held == sorted(held, reverse=True), f"seed {seed}: a level holds above one that does not"
    return wrong


def hundreds(count: int) -> list[ParameterSet]:
    """Leave all but the first hundreds out of `make quick`."""
    return [
        pytest.param(hundred, marks=[pytest.mark.slow] if hundred > 1 else [])
        for hundred in range(count)
    ]


@pytest.mark.parametrize("hundred", hundreds(15))
def test_levels_are_judged_as_every_order_would(hundred: int) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        assert differing(seed, sessions=False) == [], f"seed {seed}"


@pytest.mark.parametrize("hundred", hundreds(6))
def test_levels_and_guarantees_with_sessions_are_judged_as_every_order_would(hundred: int) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        assert differing(seed, sessions=True) == [], f"seed {seed}"


@pytest.mark.slow
def test_the_histories_differ_at_every_level() -> None:
    """A level at which all or none of them pass would show nothing."""
    judged = [judge_levels(small(seed), sessions=True) for seed in range(300)]
    for name in (*LEVELS, *GUARANTEES):
        assert {levels[name] for levels in judged} >= {True, False}, name
    judged = [judge_levels(small(seed)) for seed in range(1500)]
    for lower, upper in itertools.pairwise(LEVELS):
        assert any(levels[lower] and not levels[upper] for levels in judged), (lower, upper)


def test_sessions_that_read_from_each_other_and_write_later() -> None:
    """A reads what B writes later, and B what A writes later: no write has another before it."""
    history = History()
    for event in (
        HistoryEvent("T1", "read", "x", 4, session="A"),
        HistoryEvent("T3", "read", "y", 2, session="B"),
        HistoryEvent("T2", "write", "y", 2, session="A"),
        HistoryEvent("T4", "write", "x", 4, session="B"),
        *(HistoryEvent(name, "commit") for name in ("T1", "T3", "T2", "T4")),
    ):
        history.add(event)
    judged = judge_levels(history, sessions=True)
    assert judged["monotonic-writes"] is True
    assert judged["writes-follow-reads"] is False


def test_of_guarantees_nothing_is_said_where_a_read_was_dirty() -> None:
    history = History()
    for event in (
        HistoryEvent("aborted", "write", "x", 1),
        HistoryEvent("reader", "read", "x", 1, session="a"),
        HistoryEvent("aborted", "abort"),
        HistoryEvent("reader", "commit"),
    ):
        history.add(event)
    judged = judge_levels(history, sessions=True)
    assert {judged[name] for name in LEVELS} == {False}
    assert {judged[name] for name in GUARANTEES} == {None}


def test_a_level_that_was_too_hard_holds_if_a_stronger_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A write skew keeps snapshot isolation, so it keeps also what there was no room to judge."""
    monkeypatch.setattr(levels, "LARGEST", 0)
    history = History()
    for event in (
        *(HistoryEvent(name, "read", key, None) for name in ("a", "b") for key in "xy"),
        HistoryEvent("a", "write", "x", 1),
        HistoryEvent("b", "write", "y", 2),
        *(HistoryEvent(name, "commit") for name in ("a", "b")),
    ):
        history.add(event)
    judged = judge_levels(history)
    assert [judged[name] for name in LEVELS] == [True, True, True, True, False]
