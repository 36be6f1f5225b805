"""A site in a process of its own, which transfers money until it reads something.

Each transfer also counts itself, in the same transaction; the count is printed once it is
committed. So whoever reads the output knows how high the count must be at least.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import TYPE_CHECKING

from coterie.cluster.store import join_store
from coterie.errors import Conflict, OutcomeUnknown, Unavailable

if TYPE_CHECKING:
    from coterie.transactions.store.transaction import Transaction


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def main(config: str, node: str, accounts: list[str]) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, over.set)
    dice = random.Random()  # which transfers meet which kill is open anyway
    async with join_store(config, node=node) as store:
        say("up")
        while not over.is_set():
            source, target = dice.sample(accounts, 2)

            async def work(
                transaction: Transaction, source: str = source, target: str = target
            ) -> int:
                count: int = await transaction.get(f"count-{node}", 0, for_update=True) + 1
                taken = await transaction.get(source, for_update=True)
                given = await transaction.get(target, for_update=True)
                await transaction.put(source, taken - 1)
                await transaction.put(target, given + 1)
                await transaction.put(f"count-{node}", count)
                return count

            try:
                say("count", await store.run(work))
            except OutcomeUnknown:
                say("unknown")
            except (Conflict, Unavailable):
                await asyncio.sleep(0.02)
        while any(store.facts().values()):  # noqa: ASYNC110 - nobody tells when all is settled
            await asyncio.sleep(0.02)
        say("over")
        await asyncio.Event().wait()  # the others may still need this site; it is killed


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3].split(",")))
