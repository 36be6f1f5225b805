"""A fork while another thread is at work in the lock directory: the child must not keep what it got.

A lock by `flock` belongs to an open file, which a child shares: it is free when it is unlocked, or
when the last copy of the descriptor is closed.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import coterie
from coterie.engines.file.directory import Directory
from coterie.engines.file.gate import gate
from coterie.engines.file.place import Place
from coterie.engines.file.ticket import Ticket
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@in_loop
async def test_a_child_forked_at_the_gate_does_not_keep_it_shut(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        async with gate(Directory(tmp_path)) as entered:
            inherited = os.dup(entered.counter)  # as a child does
        try:
            async with asyncio.timeout(5), c.lock("a"):
                pass
        finally:
            os.close(inherited)


def test_a_child_forked_while_a_ticket_is_dropped_finds_nothing_of_it_to_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would close files of others that have got the same numbers, or fail and keep the rest."""
    with Directory(tmp_path).open() as bucket:
        dropped = Ticket(Place(tmp_path / "1", 1, shared=False), b"somebody", bucket)
    seen: list[tuple[int, int]] = []
    close = os.close

    def look_and_close(descriptor: int) -> None:
        seen.append(dropped.descriptors)
        close(descriptor)

    monkeypatch.setattr(os, "close", look_and_close)
    dropped.drop()
    assert seen[-2:] == [(-1, -1)] * 2
