"""Which process works on which part: each takes a free one, or a leader says who does what."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import coterie

PARTITIONS = [f"partition-{number}" for number in range(4)]
GROUP, LEADER = "workers", "workers/leader"

Assignment = dict[str, list[str]]  # partitions, by the notes of the members


async def work_on_free_one(
    c: coterie.Coordinator, work: Callable[[str, int], Awaitable[None]]
) -> None:
    """Work on a partition that no other process has; if this one dies, another takes it."""
    async with c.lock_any(*PARTITIONS) as held:
        await work(held.name, held.token)


async def assign(c: coterie.Coordinator) -> None:
    """Lead, and tell the members who works on what whenever one comes or goes."""
    async with c.elect(LEADER) as term:
        seen: list[str] | None = None
        while True:
            notes = sorted(party.note for party in await c.holders(GROUP))
            if notes and notes != seen:
                parts = {note: PARTITIONS[at :: len(notes)] for at, note in enumerate(notes)}
                await term.write(msgspec.json.encode(parts))
                seen = notes
            await asyncio.sleep(0.2)


async def obey(
    c: coterie.Coordinator, note: str, use: Callable[[list[str]], Awaitable[None]]
) -> None:
    """Be a member, and use the partitions that the leader says.

    Two members may follow different orders for a moment. What must never be worked on twice takes a lock of its own.
    """
    async with c.members(GROUP, note=note):
        async for value in c.watch(LEADER):
            if value is not None:
                parts = msgspec.json.decode(value.data, type=Assignment)
                await use(parts.get(note, []))
