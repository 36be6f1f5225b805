"""Our store, by each of its schemes in its first variant, with the retry loop that users get."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.transactions.peers.base import TaskPeer
from benchmarks.transactions.workload import ACCOUNTS, DEPOSIT
from coterie.transactions import Store
from coterie.transactions.catalogue import schemes

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.transactions.workload import Transfer
    from coterie.transactions import Transaction

SCHEMES = tuple(schemes())
KEYS = [f"account/{number:04}" for number in range(ACCOUNTS)]


class Ours(TaskPeer):
    store: Store

    async def open(self, folder: Path) -> None:
        self.store = Store(self.name)
        await self.fill()

    async def fill(self) -> None:
        async with self.store.transaction() as t:
            for key in KEYS:
                await t.put(key, DEPOSIT)

    async def connect(self) -> Ours:
        return self

    async def transfer(self, transfer: Transfer, pause: float) -> int:
        giver, taker = KEYS[transfer.giver], KEYS[transfer.taker]

        async def work(t: Transaction) -> int:
            given = await t.get(giver, for_update=True)
            taken = await t.get(taker, for_update=True)
            if pause:
                await asyncio.sleep(pause)
            await t.put(giver, given - transfer.amount)
            await t.put(taker, taken + transfer.amount)
            return t.failures + 1

        declared = (giver, taker) if self.name == "conservative" else None
        return await self.store.run(work, writes=declared)

    async def balances(self) -> list[int]:
        async with self.store.transaction() as t:
            return [balance for _, balance in await t.scan()]

    async def close(self) -> None:
        await self.store.close()


class OursOnDisk(Ours):
    async def open(self, folder: Path) -> None:
        self.store = Store(self.name, path=folder / "bank")
        await self.fill()
