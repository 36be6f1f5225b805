"""A dict with an `asyncio.Lock` for each key, taken in the order of keys: the least it can cost.

There is no abort, no isolation from a crash between the two writes, and no transaction whose keys
are not known before it begins.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.transactions.peers.base import TaskPeer
from benchmarks.transactions.workload import ACCOUNTS, DEPOSIT

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.transactions.workload import Transfer


class LockedDict(TaskPeer):
    async def open(self, folder: Path) -> None:
        self.accounts = dict.fromkeys(range(ACCOUNTS), DEPOSIT)
        self.locks = [asyncio.Lock() for _ in range(ACCOUNTS)]

    async def connect(self) -> LockedDict:
        return self

    async def transfer(self, transfer: Transfer, pause: float) -> int:
        giver, taker, amount = transfer
        accounts = self.accounts
        first, second = (giver, taker) if giver < taker else (taker, giver)
        async with self.locks[first], self.locks[second]:
            given, taken = accounts[giver], accounts[taker]
            if pause:
                await asyncio.sleep(pause)
            accounts[giver] = given - amount
            accounts[taker] = taken + amount
        return 1

    async def balances(self) -> list[int]:
        return list(self.accounts.values())
