"""Locks in schedules: the three rules, and what goes wrong where one is broken."""

from __future__ import annotations

import random

import pytest

from coterie.errors import UsageError
from coterie.lab.play.exercises.schedule import judge_schedule

TWO_PHASE = "l1(x) r1(x) w1(x) l1(y) u1(x) l2(x) r2(x) w2(x) u2(x) w1(y) u1(y) c1 c2"


def broken(text: str) -> dict[str, list[str]]:
    return {rule.name: rule.broken for rule in judge_schedule(text).locking}


def test_a_schedule_without_locks_is_held_against_no_rule() -> None:
    assert judge_schedule("r1(x) w1(x) c1").locking == []


def test_locks_change_neither_the_history_nor_what_schemes_are_asked() -> None:
    with_locks = judge_schedule(TWO_PHASE)
    without = judge_schedule(" ".join(each for each in TWO_PHASE.split() if each[0] not in "slu"))
    assert with_locks.conflicts == without.conflicts
    assert with_locks.schemes == without.schemes
    assert with_locks.order == without.order == ["T1", "T2"]


def test_a_schedule_that_keeps_the_rules_is_serializable() -> None:
    assert broken(TWO_PHASE) == {"well-formed": [], "two-phase": [], "granted": []}
    assert judge_schedule(TWO_PHASE).serializable is True


def test_who_locks_after_an_unlock_spoils_it() -> None:
    text = "l1(x) w1(x) u1(x) l2(x) w2(x) l2(y) w2(y) u2(x) u2(y) c2 l1(y) w1(y) u1(y) c1"
    assert broken(text) == {
        "well-formed": [],
        "two-phase": ["l1(y) stands after u1(x)"],
        "granted": [],
    }
    assert judge_schedule(text).serializable is False


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("l1(x) r1(x) r2(x) w2(x) c2 w1(x) c1", "r2(x): T2 has not locked x"),
        ("s1(x) r1(x) w1(x) c1", "w1(x): T1 has locked x for reading alone"),
        ("l1(x) s1(x) r1(x) c1", "s1(x): T1 has locked x before"),
        ("r1(y) u1(x) c1", "u1(x): T1 has not locked x"),
    ],
)
def test_who_uses_an_item_without_its_lock_is_named(text: str, line: str) -> None:
    assert line in broken(text)["well-formed"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("s1(x) s2(x) r1(x) r2(x) c1 c2", []),
        ("s1(x) l2(x) r1(x) w2(x) c1 c2", ["l2(x): T1 still has x locked"]),
        ("l1(x) s2(x) w1(x) r2(x) c1 c2", ["s2(x): T1 still has x locked"]),
        ("l1(x) w1(x) c1 l2(x) w2(x) c2", []),  # given back at the commit
        ("l1(x) w1(x) a1 l2(x) w2(x) c2", []),
        ("s1(x) r1(x) l1(x) w1(x) c1", []),  # who has it for reading may ask for more
    ],
)
def test_a_lock_that_could_not_have_been_granted_is_named(text: str, lines: list[str]) -> None:
    assert broken(text)["granted"] == lines


def test_locks_alone_are_no_schedule() -> None:
    with pytest.raises(UsageError, match="besides locks"):
        judge_schedule("l1(x) u1(x)")


def test_no_random_schedule_that_keeps_all_three_rules_is_wrong() -> None:
    """The theorem of 1976; some schedule that breaks one rule alone is wrong, for each of the three."""
    chance = random.Random(1976)
    kept = 0
    spoilt: set[str] = set()
    for _ in range(1_500):
        text = random_schedule(chance)
        answer = judge_schedule(text)
        rules = [rule.name for rule in answer.locking if rule.broken]
        if not rules:
            kept += 1
            assert answer.serializable is True, text
        elif len(rules) == 1 and answer.serializable is False:
            spoilt.update(rules)
    assert kept > 100
    assert spoilt == {"well-formed", "two-phase", "granted"}


def random_schedule(chance: random.Random) -> str:
    """Two transactions that lock x and y mostly as they should; the turn stays for a few steps."""
    left = [transaction(number, chance) for number in (1, 2)]
    schedule: list[str] = []
    turn = 0
    while any(left):
        if not left[turn] or chance.random() < 0.2:
            turn = 1 - turn
        else:
            schedule.append(left[turn].pop(0))
    return " ".join(schedule)


def transaction(number: int, chance: random.Random) -> list[str]:
    one, two = (
        [f"l{number}({item})", f"r{number}({item})", f"w{number}({item})", f"u{number}({item})"]
        for item in chance.sample("xy", 2)
    )
    match chance.choice(["two-phase", "two-phase", "early", "without"]):
        case "two-phase":
            steps = [*one[:3], two[0], one[3], *two[1:]]
        case "early":
            steps = [*one, *two]
        case _:
            steps = [*one[1:3], *two]
    return [*steps, f"c{number}"]
