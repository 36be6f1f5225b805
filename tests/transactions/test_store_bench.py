"""The benchmark of transactions measures what it says, and notices a store that loses updates."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.transactions import measure, skew
from benchmarks.transactions.measure import Case, Pace
from benchmarks.transactions.peers import PEERS, make
from benchmarks.transactions.peers.base import TaskPeer, ThreadPeer
from benchmarks.transactions.peers.memory import LockedDict
from benchmarks.transactions.report import Report, reading, skews, tables
from benchmarks.transactions.workload import ACCOUNTS, DEPOSIT, transfers

if TYPE_CHECKING:
    import pytest

    from benchmarks.transactions.workload import Transfer

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "benchmarks" / "transactions" / "measured.json"
PAGE = ROOT / "docs" / "transactions" / "comparison.md"
SHORT = Pace(0.02, 0.1)


class UnlockedDict(LockedDict):
    """A dict that anybody changes at any time."""

    async def transfer(self, transfer: Transfer, pause: float) -> int:
        given, taken = self.accounts[transfer.giver], self.accounts[transfer.taker]
        await asyncio.sleep(pause)
        self.accounts[transfer.giver] = given - transfer.amount
        self.accounts[transfer.taker] = taken + transfer.amount
        return 1


class ThreadedDict(ThreadPeer):
    """A dict behind one lock, for clients that are threads."""

    async def open(self, folder: Path) -> None:
        self.accounts = [DEPOSIT] * ACCOUNTS
        self.lock = threading.Lock()

    def connect(self) -> ThreadedClient:
        return ThreadedClient(self)

    async def balances(self) -> list[int]:
        return self.accounts


class ThreadedClient:
    def __init__(self, bank: ThreadedDict) -> None:
        self.bank = bank

    def transfer(self, transfer: Transfer, pause: float) -> int:
        time.sleep(pause)
        with self.bank.lock:
            self.bank.accounts[transfer.giver] -= transfer.amount
            self.bank.accounts[transfer.taker] += transfer.amount
        return 1

    def close(self) -> None: ...


def test_a_run_is_measured_and_told_in_all_forms() -> None:
    report = Report("today", "a machine", {}, {}, list(skew.probe_ours()), [])
    for peer in ("dict", "two-phase-locking"):
        report.results.append(measure.measure(Case(peer, 0.99, "none", 0), SHORT))
    assert all(result.right and result.commits > 0 for result in report.results)
    assert report.results[0].aborted == 0
    assert "two-phase-locking" in tables(report)
    assert "| dict | " in tables(report, markdown=True)
    assert "coterie conservative        1 did" in skews(report)
    assert "balances were right after all 2 runs" in reading(report)
    again = msgspec.json.decode(msgspec.json.encode(report), type=Report)
    assert reading(again) == reading(report)


def test_the_page_shows_what_was_measured() -> None:
    report = msgspec.json.decode(MEASURED.read_bytes(), type=Report)
    assert tables(report, markdown=True) in PAGE.read_text(encoding="utf-8")


def test_lost_updates_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "make", lambda _: UnlockedDict("dict"))
    result = measure.measure(Case("dict", 0.99, "1ms", 0), SHORT)
    assert not result.right
    report = Report("today", "a machine", {}, {}, [], [result])
    assert "WRONG BALANCES: dict, theta 0.99" in reading(report)


def test_threads_are_measured_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "make", ThreadedDict)
    result = measure.measure(Case("threads", 0, "1ms", 0), SHORT)
    assert result.right
    assert result.commits > 0


def test_every_peer_can_be_made_and_says_what_it_needs() -> None:
    for key in PEERS:
        peer = make(key)
        assert isinstance(peer, TaskPeer | ThreadPeer)
        assert peer.name == key.removesuffix("-disk")
        assert all(need.package for need in peer.needs)


def test_clients_share_the_hot_accounts() -> None:
    """Else each would have hot accounts of its own, and the skew would vanish."""
    drawn = [transfers(0.99, 2000, seed) for seed in range(2)]
    hottest = []
    for order in drawn:
        accounts = [account for transfer in order for account in transfer[:2]]
        hottest.append(max(set(accounts), key=accounts.count))
        assert accounts.count(hottest[-1]) > 0.1 * len(order)
    assert hottest[0] == hottest[1]
