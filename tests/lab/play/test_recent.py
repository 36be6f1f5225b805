"""The memory of the laboratory is bounded."""

from __future__ import annotations

from coterie.lab.play.recent import Recent


def test_what_was_not_asked_for_lately_is_forgotten() -> None:
    recent: Recent[str] = Recent(3)
    for key in ("a", "b", "c"):
        recent.put(key, key.upper())
    assert recent.get("a") == "A"
    recent.put("d", "D")
    assert [recent.get(key) for key in ("a", "b", "c", "d")] == ["A", None, "C", "D"]


def test_a_heavy_value_takes_the_room_of_several_and_the_last_one_stays() -> None:
    recent: Recent[str] = Recent(3)
    recent.put("a", "A")
    recent.put("b", "B", weight=3)
    assert recent.get("a") is None
    recent.put("c", "C", weight=9)
    assert recent.get("b") is None
    assert recent.get("c") == "C"
    recent.put("c", "C again", weight=1)
    recent.put("d", "D", weight=2)
    assert recent.get("c") == "C again"
