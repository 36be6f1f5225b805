"""How a group is followed, and which notes there may be, over an engine without a server."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from coterie import Coordinator, LockLost, MisuseError, Party, UsageError
from coterie.locks.members import follow_members
from tests.locks.memory import MemoryEngine, in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


def party(name: str, since: float) -> Party:
    return Party("workers", name, since, 1, True)


A, B, C = party("a", 1.0), party("b", 2.0), party("c", 3.0)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between looks, which take no time."""
    made: list[float] = []
    turn = asyncio.sleep

    async def sleep(seconds: float) -> None:
        made.append(seconds)
        await turn(0)

    monkeypatch.setattr("coterie.locks.members.asyncio.sleep", sleep)
    return made


def following(*looks: list[Party]) -> AsyncGenerator[list[Party], None]:
    """Follow what is found in one look after the other; then the coordinator is closed."""
    left = iter(looks)
    count = len(looks)
    checks = 0

    async def read() -> list[Party]:
        await asyncio.sleep(0)
        return next(left)

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks > count:
            raise MisuseError("closed")

    return follow_members(read, check)


async def collected(*looks: list[Party]) -> list[list[Party]]:
    found = []
    with contextlib.suppress(MisuseError):
        async for parties in following(*looks):
            found.append(parties)  # noqa: PERF401 - it ends with an error
    return found


@pytest.mark.usefixtures("pauses")
@in_loop
async def test_the_present_ones_are_told_at_once_and_then_each_change() -> None:
    assert await collected([], [], [A], [B, A], [A, B]) == [[], [A], [A, B]]


@pytest.mark.usefixtures("pauses")
@in_loop
async def test_one_that_is_slow_to_answer_once_has_not_left() -> None:
    assert await collected([A, B], [A], [A, B], [B], [A, B]) == [[A, B]]


@pytest.mark.usefixtures("pauses")
@in_loop
async def test_one_that_is_missing_twice_has_left() -> None:
    assert await collected([A, B], [A], [A], [A, C], [C], [C]) == [[A, B], [A], [A, C], [C]]


@in_loop
async def test_a_large_group_is_asked_less_often(pauses: list[float]) -> None:
    many = [party(f"m{number:03}", float(number)) for number in range(100)]
    await collected(many, many)
    assert [pause for pause in pauses if pause] == [100 / 20] * 2


@in_loop
async def test_a_membership_that_is_lost_ends_its_body() -> None:
    engine, joined = MemoryEngine(), []

    async def belong(c: Coordinator) -> None:
        async with c.members("workers", note="here") as me:
            joined.append(me)
            assert engine.queues["workers"][0].note == "here"
            engine.lose("workers")
            await asyncio.Event().wait()

    async with Coordinator(engine, "memory:") as c:
        with pytest.raises(LockLost):
            await belong(c)
    assert repr(joined[0]) == "<GroupMember of 'workers' gone>"


@pytest.mark.parametrize(
    ("note", "complaint"),
    [
        (
            "\u00e4" * 128,
            "a note has at most 255 bytes in UTF-8, got 256: write what is longer as the",
        ),
        ("a\nb", r"note 'a\\nb': '\\n' cannot be printed"),
        (b"bytes", "a note is a string, got b'bytes'"),
    ],
)
def test_what_is_no_note_is_refused(note: str, complaint: str) -> None:
    c = Coordinator(MemoryEngine(), "memory:")
    for make in (c.lock, c.elect, c.members):
        with pytest.raises(UsageError, match=complaint):
            make("a", note=note)
