"""A program for tests: it joins an election as a node, and says which node it follows."""

from __future__ import annotations

import asyncio
import sys

import coterie


async def main(config: str, node: str) -> None:
    async with coterie.join(config, node=node) as coordinator:
        assert isinstance(coordinator, coterie.ElectionCoordinator)
        async for leader in coordinator.leaders():
            sys.stdout.write(f"{leader}\n")
            sys.stdout.flush()


asyncio.run(main(*sys.argv[1:]))
