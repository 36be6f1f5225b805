"""ZODB, the object database for Python: snapshots, and of two who change an object the first wins."""

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

NEEDS = (Need("ZODB", module="ZODB"),)


class Zodb(ThreadPeer):
    needs = NEEDS
    database: Any

    def storage(self, folder: Path) -> Any:
        return importlib.import_module("ZODB.MappingStorage").MappingStorage()

    async def open(self, folder: Path) -> None:
        library = importlib.import_module("ZODB")
        mapping = importlib.import_module("persistent.mapping").PersistentMapping
        tree = importlib.import_module("BTrees.IOBTree").IOBTree
        self.database = library.DB(self.storage(folder), pool_size=32, cache_size=5000)
        with self.database.transaction() as connection:
            accounts = connection.root()["accounts"] = tree()
            for number in range(ACCOUNTS):
                accounts[number] = mapping(balance=DEPOSIT)

    def connect(self) -> ZodbClient:
        return ZodbClient(self.database)

    async def balances(self) -> list[int]:
        with self.database.transaction() as connection:
            return [account["balance"] for account in connection.root()["accounts"].values()]

    async def close(self) -> None:
        self.database.close()


class ZodbOnDisk(Zodb):
    def storage(self, folder: Path) -> Any:
        storage = importlib.import_module("ZODB.FileStorage").FileStorage
        return storage(str(folder / "bank"))


class ZodbClient:
    def __init__(self, database: Any) -> None:
        library = importlib.import_module("transaction")
        self._manager = library.TransactionManager()
        self._connection = database.open(self._manager)
        self._conflict = importlib.import_module("ZODB.POSException").ConflictError

    def transfer(self, transfer: Transfer, pause: float) -> int:
        attempts = 1
        while not self._attempt(transfer, pause):
            attempts += 1
        return attempts

    def _attempt(self, transfer: Transfer, pause: float) -> bool:
        self._manager.begin()
        try:
            self._change(transfer, pause)
            self._manager.commit()
        except self._conflict:
            self._manager.abort()
            return False
        return True

    def _change(self, transfer: Transfer, pause: float) -> None:
        accounts = self._connection.root()["accounts"]
        giver, taker = accounts[transfer.giver], accounts[transfer.taker]
        given, taken = giver["balance"], taker["balance"]
        if pause:
            time.sleep(pause)
        giver["balance"] = given - transfer.amount
        taker["balance"] = taken + transfer.amount

    def close(self) -> None:
        self._manager.abort()
        self._connection.close()
