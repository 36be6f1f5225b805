"""Wait-die and wound-wait: the table of ages and roles, and everything that is easily got wrong."""

from __future__ import annotations

import pytest

from coterie.clocks import Stamp
from coterie.errors import MisuseError
from coterie.transactions.schemes.scheduler import (
    Accepted,
    Answer,
    Attempt,
    Committed,
    Found,
    Prepared,
    Refused,
    Scheduler,
)
from coterie.transactions.schemes.span import Span
from coterie.transactions.schemes.two_phase_locking import SCHEME, WaitDie, WoundWait
from tests.transactions.desk import Desk
from tests.transactions.locking_faults import attempts_against_a_stream


def desk(scheduler: Scheduler, *ages: int) -> Desk:
    """Let transactions begin that are named after their ages: T10 is older than T20."""
    at = Desk(scheduler)
    for age in ages:
        scheduler.begin(Attempt(f"T{age}", Stamp(age, 1), Stamp(age, 1)), [])
    return at


def refused(answers: list[Answer]) -> dict[str, tuple[str, ...]]:
    """Name who was refused, and because of whom."""
    return {a.transaction: a.others for a in answers if isinstance(a, Refused)}


@pytest.mark.parametrize(
    ("scheduler", "holder", "asking", "loser"),
    [
        (WaitDie(), 20, 10, None),  # the older waits
        (WaitDie(), 10, 20, "T20"),  # the younger dies
        (WoundWait(), 20, 10, "T20"),  # the older wounds
        (WoundWait(), 10, 20, None),  # the younger waits
    ],
)
def test_who_waits_and_who_gives_way(
    scheduler: Scheduler, holder: int, asking: int, loser: str | None
) -> None:
    """2.1 h (1): all pairs of age and role."""
    at = desk(scheduler, 10, 20)
    at.write(f"T{holder}", "x", b"")
    answers = at.write(f"T{asking}", "x", b"")
    if loser is None:
        assert answers == []
        assert at.scheduler.waits() == {f"T{asking}": (f"T{holder}",)}
        return
    winner = "T10" if loser == "T20" else "T20"
    assert refused(answers) == {loser: (winner,)}
    granted = [Accepted(winner)] if winner == f"T{asking}" else []
    assert answers[1:] == granted


def test_every_one_of_several_holders_is_compared_with_wait_die() -> None:
    """2.1 h (2): T20 may wait for T30, but not for T10, who has the lock as well."""
    for holders in ((10, 30), (30, 10)):
        at = desk(WaitDie(), 10, 20, 30)
        for holder in holders:
            at.read(f"T{holder}", "x")
        assert refused(at.write("T20", "x", b"")) == {"T20": ("T10",)}


def test_every_one_of_several_holders_is_compared_with_wound_wait() -> None:
    """2.1 h (2): all that are younger are wounded; the older one is waited for."""
    for holders in ((10, 30, 40), (40, 30, 10)):
        at = desk(WoundWait(), 10, 20, 30, 40)
        for holder in holders:
            at.read(f"T{holder}", "x")
        assert refused(at.write("T20", "x", b"")) == {"T30": ("T20",), "T40": ("T20",)}
        assert at.scheduler.waits() == {"T20": ("T10",)}
        assert at.prepare("T10")[1:] == [Accepted("T20")]


def test_a_holder_of_a_range_is_compared_as_well() -> None:
    at = desk(WaitDie(), 10, 20, 30)
    at.scan("T10", Span("a", "z"))
    at.read("T30", "x")
    assert refused(at.write("T20", "x", b"")) == {"T20": ("T10",)}
    at = desk(WoundWait(), 10, 20)
    at.scan("T20", Span("a", "z"))
    assert refused(at.write("T10", "x", b"")) == {"T20": ("T10",)}


def test_those_in_line_before_count_with_wait_die() -> None:
    """2.1 h (3): T20 would wait for T10, who stands in line with a conflicting claim."""
    at = desk(WaitDie(), 10, 20, 30)
    at.read("T30", "x")
    assert at.write("T10", "x", b"") == []
    assert refused(at.read("T20", "x")) == {"T20": ("T10",)}


def test_those_in_line_before_count_with_wound_wait() -> None:
    """2.1 h (3): T30 stands in line before the older T20, and is wounded there."""
    at = desk(WoundWait(), 10, 20, 30)
    at.read("T10", "x")
    assert at.write("T30", "x", b"") == []
    answers = at.read("T20", "x")
    assert refused(answers) == {"T30": ("T20",)}
    assert answers[1:] == [Found("T20", "x", None, None)]


def test_a_lock_that_changes_hands_never_makes_a_wait_of_the_wrong_direction() -> None:
    """2.1 h (4): those in line were compared with each other when they came."""
    at = desk(WaitDie(), 10, 20, 30)
    at.write("T30", "x", b"")
    assert at.write("T20", "x", b"") == []
    assert at.write("T10", "x", b"") == []
    assert Accepted("T20") in at.finish("T30")
    assert at.scheduler.waits() == {"T10": ("T20",)}


def test_one_who_is_overtaken_by_an_older_upgrade_dies() -> None:
    """2.1 h (4): T20 waited for the younger T30 only; now it would wait for T10."""
    at = desk(WaitDie(), 10, 20, 30)
    at.read("T30", "x", update=True)
    at.read("T10", "x")
    assert at.read("T20", "x", update=True) == []
    answers = at.read("T10", "x", update=True)
    assert refused(answers) == {"T20": ("T10",)}
    assert at.scheduler.waits() == {"T10": ("T30",)}


def test_an_upgrade_that_overtakes_someone_older_is_wounded_by_it() -> None:
    """2.1 h (4): T20 waited for T10; T30 upgrades before it, and would be waited for."""
    at = desk(WoundWait(), 10, 20, 30)
    at.read("T10", "x", update=True)
    at.read("T30", "x")
    assert at.read("T20", "x", update=True) == []
    answers = at.read("T30", "x", update=True)
    assert refused(answers) == {"T30": ("T20",)}
    assert at.scheduler.waits() == {"T20": ("T10",)}


@pytest.mark.parametrize("variant", ["wait-die", "wound-wait"])
def test_a_long_transaction_against_a_stream_of_others_commits_at_the_second_attempt(
    variant: str,
) -> None:
    """2.1 h (5): it keeps its age, so all that began after its first attempt are younger."""
    assert SCHEME.keeps_age
    assert attempts_against_a_stream(SCHEME.build(variant), keeps_age=True) == 2


@pytest.mark.parametrize("variant", ["wait-die", "wound-wait"])
def test_with_a_new_age_at_every_attempt_it_never_commits(variant: str) -> None:
    """2.1 h (5): the control."""
    assert attempts_against_a_stream(SCHEME.build(variant), keeps_age=False) is None


def test_a_wounded_transaction_notices_at_its_next_request_and_nothing_of_it_escapes() -> None:
    """2.1 h (6): it may be inside user code when it is wounded."""
    at = desk(WoundWait(), 10, 20)
    at.write("T20", "x", b"wounded")
    at.write("T20", "y", b"wounded")
    assert refused(at.read("T10", "x")) == {"T20": ("T10",)}
    over = pytest.raises(MisuseError, match="T20 is not under way here")
    with over:
        at.read("T20", "x")
    with over:
        at.write("T20", "z", b"")
    with over:
        at.scan("T20", Span())
    with over:
        at.prepare("T20")
    with over:
        at.commit("T20", Stamp(1, 1))
    at.finish("T10")
    assert list(at.scheduler.latest()) == []


def test_a_prepared_transaction_is_not_wounded_but_waited_for() -> None:
    """2.1 h (7), 2.8 g: it has promised to be able to commit."""
    at = desk(WoundWait(), 10, 20, 30)
    at.write("T20", "x", b"20")
    [prepared] = at.prepare("T20")
    assert isinstance(prepared, Prepared)
    assert at.read("T10", "x") == []
    assert at.scheduler.waits() == {"T10": ("T20",)}
    assert at.write("T30", "x", b"30") == []  # in line behind
    answers = at.commit("T20", prepared.number)
    assert answers == [
        Committed("T20", prepared.number),
        Found("T10", "x", b"20", prepared.number),
    ]


def test_the_age_is_that_of_the_first_attempt() -> None:
    """2.1 h (5): a later attempt has a larger stamp, and is not the younger for it."""
    for scheduler, holder, asking in ((WaitDie(), "T1", "T2"), (WoundWait(), "T2", "T1")):
        at = Desk(scheduler)
        scheduler.begin(Attempt("T1", Stamp(30, 1), Stamp(10, 1), 3), [])
        scheduler.begin(Attempt("T2", Stamp(20, 1), Stamp(20, 1)), [])
        at.write(holder, "x", b"")
        assert list(refused(at.write(asking, "x", b""))) == ["T2"]


@pytest.mark.parametrize("variant", ["wait-die", "wound-wait"])
@pytest.mark.parametrize(("first", "second"), [("T10", "T20"), ("T20", "T10")])
def test_of_two_upgraders_the_younger_gives_way(variant: str, first: str, second: str) -> None:
    """2.1 c."""
    at = desk(SCHEME.build(variant), 10, 20)
    at.read("T10", "x")
    at.read("T20", "x")
    answers = at.write(first, "x", b"")
    if second in at.scheduler.active:
        answers += at.write(second, "x", b"")
    assert list(refused(answers)) == ["T20"]
    assert Accepted("T10") in answers
