from __future__ import annotations

import math

from coterie.diagram.labels import RADIUS, Arrow, Labels

LONG = Arrow(0, 0, 200, 100)


def test_a_label_stands_beside_the_middle_of_its_arrow_and_turns_with_it() -> None:
    place = Labels([LONG], [0, 100]).place(LONG, "Reply")
    assert place is not None
    assert math.isclose(place.turn, math.degrees(math.atan2(1, 2)))
    assert math.hypot(place.x - 100, place.y - 50) < 6
    assert place.y < 50, "above the line"


def test_a_label_longer_than_its_arrow_is_left_out() -> None:
    assert Labels([LONG], [0, 100]).place(Arrow(0, 0, 30, 20), "Request(1.1)") is None


def test_labels_do_not_cover_each_other() -> None:
    labels = Labels([LONG], [0, 100])
    places = [labels.place(LONG, "Reply") for _ in range(20)]
    placed = [place for place in places if place is not None]
    assert 1 < len(placed) < 20
    for index, one in enumerate(placed):
        for other in placed[index + 1 :]:
            assert math.hypot(one.x - other.x, one.y - other.y) > 2 * RADIUS


def test_labels_keep_clear_of_lanes() -> None:
    place = Labels([LONG], [0, 50, 100]).place(LONG, "Reply")
    assert place is not None
    assert abs(place.y - 50) > RADIUS


def test_a_label_goes_where_no_other_arrow_passes() -> None:
    crossing = Arrow(80, 100, 120, 0)
    place = Labels([LONG, crossing], [0, 100]).place(LONG, "Reply")
    assert place is not None
    assert abs(place.x - 100) > 12


def test_a_bent_arrow_keeps_its_ends_and_passes_beside_the_straight_way() -> None:
    bent = Arrow(0, 0, 100, 0, bow=10)
    assert (bent.at(0), bent.at(1)) == ((0, 0), (100, 0))
    assert bent.at(0.5) == (50, -10)
    assert list(bent.points(50)) == [(0, 0), (50, -10), (100, 0)]
