"""LMDB, flushed at each commit; one writer at a time, the others wait."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any

from benchmarks.locks.peers.base import Need
from benchmarks.transactions.peers.base import ThreadPeer
from benchmarks.transactions.workload import ACCOUNTS, DEPOSIT

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.transactions.workload import Transfer

KEYS = [number.to_bytes(4, "big") for number in range(ACCOUNTS)]


class Lmdb(ThreadPeer):
    needs = (Need("lmdb", module="lmdb"),)
    environment: Any

    async def open(self, folder: Path) -> None:
        library = importlib.import_module("lmdb")
        self.environment = library.open(str(folder / "bank"), map_size=1 << 28, max_readers=64)
        with self.environment.begin(write=True) as transaction:
            for key in KEYS:
                transaction.put(key, b"%d" % DEPOSIT)

    def connect(self) -> LmdbClient:
        return LmdbClient(self.environment)

    async def balances(self) -> list[int]:
        with self.environment.begin() as transaction:
            return [int(transaction.get(key)) for key in KEYS]

    async def close(self) -> None:
        self.environment.close()


class LmdbClient:
    def __init__(self, environment: Any) -> None:
        self._environment = environment

    def transfer(self, transfer: Transfer, pause: float) -> int:
        giver, taker = KEYS[transfer.giver], KEYS[transfer.taker]
        with self._environment.begin(write=True) as transaction:
            given, taken = int(transaction.get(giver)), int(transaction.get(taker))
            if pause:
                time.sleep(pause)
            transaction.put(giver, b"%d" % (given - transfer.amount))
            transaction.put(taker, b"%d" % (taken + transfer.amount))
        return 1

    def close(self) -> None: ...
