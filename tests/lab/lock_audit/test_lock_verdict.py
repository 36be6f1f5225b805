"""What an audit of locks takes for a violation, and what it leaves open."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from coterie.lab.lock_audit.notes import BY_ITSELF, BY_RELEASE, NoteReader, NoteWriter, Turn, Turns
from coterie.lab.lock_audit.picture import Violation, draw_violation
from coterie.lab.lock_audit.trial import Happened, Kill
from coterie.lab.lock_audit.verdict import (
    Exclusion,
    FenceFinding,
    LeftBehind,
    LockVerdict,
    Service,
    Told,
    as_asked,
    find_fence,
    find_overlaps,
    judge_exclusion,
    measure_left_behind,
    measure_service,
    measure_told,
)

if TYPE_CHECKING:
    from pathlib import Path


def turn(place: int, asked: float, entered: float, until: float, token: int | None = None) -> Turn:
    return Turn(
        place, place, asked, entered, token=token, until=until, confirmed=None, left=until + 0.1
    )


def test_holds_that_follow_each_other_are_right() -> None:
    assert find_overlaps([turn(0, 0, 1, 2), turn(1, 0, 2, 3)], None) == []


def test_two_that_are_inside_are_found_also_behind_a_third() -> None:
    long, short, late = turn(0, 0, 1, 9), turn(1, 0, 2, 3), turn(2, 0, 5, 6)
    found = find_overlaps([late, long, short], None)
    assert [(overlap.first, overlap.second) for overlap in found] == [(long, short), (long, late)]
    assert [overlap.seconds for overlap in found] == [1, 1]


@pytest.mark.parametrize(("entered", "beyond"), [(2.7, False), (2.9, True)])
def test_an_overlap_beyond_the_lease_is_told_from_one_within(entered: float, beyond: bool) -> None:
    """The lease of 2 s begins while the call is under way, so it may be over a little earlier."""
    (overlap,) = find_overlaps([turn(0, 0.5, 1, 9), turn(1, 0, entered, 9)], 2.0)
    assert overlap.is_beyond_lease is beyond


def test_a_program_that_asks_has_the_lock_as_long_as_it_was_confirmed() -> None:
    first = turn(0, 0, 1, 9)
    first.confirmed = 3.0
    second = turn(1, 0, 4, 5)
    second.confirmed = 5.0
    assert len(find_overlaps([first, second], None)) == 1
    assert find_overlaps(as_asked([first, second]), None) == []


def test_a_token_that_does_not_grow_is_found() -> None:
    fence, back = find_fence([turn(0, 0, 1, 2, token=7), turn(1, 3, 4, 5, token=7)])
    assert fence == FenceFinding(is_given=True, back=1)
    assert [second.place for _, second in back] == [1]


def test_tokens_of_calls_that_were_under_way_together_may_come_in_any_order() -> None:
    """The first may have been granted late and have entered early, if the second has slept in between."""
    fence, _ = find_fence([turn(0, 0, 2, 3, token=8), turn(1, 1, 4, 5, token=7)])
    assert fence == FenceFinding(is_given=True, back=0)


def test_an_overlap_is_laid_to_the_fault_that_was_under_way() -> None:
    overlaps = find_overlaps([turn(0, 0, 1, 9), turn(1, 0, 5, 6)], None)
    happened = [Happened("reset", 0, 0.1, 0.2), Happened("suspend", 0, 2, 6)]
    assert judge_exclusion(overlaps, happened).after == {"suspend": 1}


def test_one_that_asked_first_and_entered_last_was_overtaken() -> None:
    early = turn(0, 0, 5, 6)
    others = [turn(1, 1, 2, 3), turn(1, 3, 3.5, 4), turn(2, 0.05, 4, 5)]
    service = measure_service([early, *others], calm_until=10)
    assert service.overtaken_max == 2
    assert service.seconds_max == 5


def test_what_a_killed_holder_leaves_behind_is_measured_until_the_next_is_in() -> None:
    killed, idle = turn(0, 0, 1, 2), turn(1, 0, 3, 4)
    killed.left = None
    kills = [Kill(0, 2.5), Kill(1, 9)]
    assert measure_left_behind([killed, idle], kills) == LeftBehind(1, 0.5, 0.5)


def test_who_left_as_if_nothing_had_happened_was_never_told() -> None:
    never, other, told, late = (turn(place, 0, 1, 5) for place in range(4))
    told.told, told.told_how = 6.0, BY_ITSELF
    late.told, late.told_how = 6.0, BY_RELEASE
    overlaps = find_overlaps([never, turn(1, 0, 2, 3)], None)
    found = measure_told([never, other, told, late], overlaps)
    assert found == Told(before=1, after=0, asked=0, at_release=1, never=1)


def test_notes_of_several_programs_become_turns(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    reader, turns = NoteReader(path), Turns()
    turns.places = {11: 0, 12: 1}
    one, two = NoteWriter(str(path), 11), NoteWriter(str(path), 12)
    one.add(1, "asked", 1.0)
    two.add(1, "asked", 1.5)
    one.add(1, "entered", 2.0, token=3)
    turns.add(reader.new())
    assert [found.place for found in turns.inside()] == [0]
    one.add(1, "still", 2.5)
    one.add(1, "left", 3.0)
    two.add(1, "failed", 3.5, text="Timeout: no")
    turns.add(reader.new())
    first, second = turns.all
    assert (first.entered, first.until, first.left, first.token) == (2.0, 2.5, 3.0, 3)
    assert (second.entered, second.failed) == (None, "Timeout: no")


def test_the_picture_has_a_lane_for_each_program_and_names_the_fault() -> None:
    first, second = turn(0, 0, 1, 9, token=1), turn(1, 0, 5, 6, token=2)
    verdict = LockVerdict(
        target="mine",
        version="",
        server="valkey",
        seed=0,
        rounds=1,
        programs=2,
        lease=None,
        holds=2,
        faults={},
        exclusion=Exclusion(1, 0, 1.0, {}),
        exclusion_asked=None,
        fence=FenceFinding(is_given=True, back=0),
        forgotten=(),
        service=Service(2, 0, 0.0),
        left_behind=LeftBehind(0, None, None),
        told=Told(0, 0, 0, 0, 0),
        errors={},
    )
    assert not verdict.is_kept
    drawn = draw_violation(
        Violation("Two programs have the lock", first, second),
        [first, second],
        [Happened("suspend", 0, 2, 8)],
        verdict,
    )
    root = ET.fromstring(drawn)  # noqa: S314 - our own output
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for text in ("program 1", "program 2", "valkey", "suspend", "token 1", "token 2"):
        assert text in texts
