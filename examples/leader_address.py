"""Where is the leader? Each process offers its address; the one that leads has it in its note, and the others call it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import coterie

NAME = "scheduler"


async def lead(
    c: coterie.Coordinator, address: str, serve: Callable[[int], Awaitable[None]]
) -> None:
    """Wait to be the leader, and serve at that address as long as this one leads."""
    async with c.elect(NAME, note=address) as term:
        await serve(
            term.token
        )  # what the leader writes carries the token, so a late one is refused


async def find_leader(c: coterie.Coordinator) -> str:
    """Return the address of the leader; wait for one if there is none."""
    async for leader in c.observe(NAME):
        if leader is not None and leader.note:
            return leader.note
    raise AssertionError("observe goes on until it is closed")
