"""What locks may be called."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from coterie import UsageError, current_token
from coterie.locks.names import check_name
from tests.locks.memory import MemoryEngine, coordinator, in_loop


@pytest.mark.parametrize(
    "name",
    ["a", "order:17", "two words", "Müller & Söhne", "100%", "日本/錠", "a" * 255, "é" * 127],
)
def test_what_can_be_printed_is_a_name(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "1 to 255 bytes in UTF-8, got 0"),
        ("a" * 256, "got 256"),
        ("é" * 128, "got 256"),
        ("a\nb", r"'\\n' at position 2 cannot be printed"),
        ("\u202eabc", "at position 1 cannot be printed"),
        ("\ud800", "at position 1 cannot be printed"),
        (5, "a string, got 5"),
        (" a", "remove the leading or trailing space"),
        ("a ", "remove the leading or trailing space"),
    ],
)
def test_other_names_are_refused_with_the_reason(name: Any, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_name(name)


@in_loop
async def test_two_ways_to_write_a_name_are_one_lock() -> None:
    composed = "Müller"
    apart = unicodedata.normalize("NFD", composed)
    assert apart != composed
    async with coordinator(MemoryEngine()) as c, c.lock(apart) as held:
        assert held.name == composed
        assert await c.locked(composed)
        assert current_token(apart) == held.token
        assert c.lock_all(apart, "b").name == f"{composed},b"
        async with c.semaphore(apart, 1) as permit:
            assert permit.name == f"{composed}/permit-1"
