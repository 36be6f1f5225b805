"""A bank in a process of its own that is killed, and the books that must be right afterwards.

    python -m tests.transactions.crashing PATH SCHEME SEED

Each transfer leaves a receipt in the same transaction, and is told on standard output only after it
has been acknowledged. So the balances must be what all receipts add up to (no half transfer), and
every transfer that was told must have its receipt (no lost commit).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from coterie.transactions import Store, Transaction

ROOT = Path(__file__).parent.parent.parent
ACCOUNTS = [f"account/{number}" for number in range(8)]
DEPOSIT = 1000
CLIENTS = 6


class Books(NamedTuple):
    """What was found after a crash."""

    receipts: int
    complaint: str  # empty if all is well


async def transfer(t: Transaction, receipt: str, giver: str, taker: str, amount: int) -> None:
    balances = [await t.get(account, for_update=True) for account in (giver, taker)]
    await t.put(giver, balances[0] - amount)
    await asyncio.sleep(0)
    await t.put(taker, balances[1] + amount)
    await t.put(receipt, [giver, taker, amount])


async def client(store: Store, number: int, dice: random.Random) -> None:
    """Transfer for ever, and tell of each transfer after its commit."""
    for count in itertools.count():
        receipt = f"receipt/{os.getpid()}/{number}/{count}"
        giver, taker = dice.sample(ACCOUNTS, 2)
        amount = dice.randint(1, 10)

        async def work(
            t: Transaction,
            receipt: str = receipt,
            giver: str = giver,
            taker: str = taker,
            amount: int = amount,
        ) -> None:
            await transfer(t, receipt, giver, taker, amount)

        await store.run(work, writes=[giver, taker, receipt])
        sys.stdout.write(f"{receipt}\n")
        sys.stdout.flush()


async def bank(path: str, scheme: str, seed: str) -> None:
    async with Store(scheme, path=path) as store:
        async with store.transaction() as t:
            if await t.get(ACCOUNTS[0]) is None:
                for account in ACCOUNTS:
                    await t.put(account, DEPOSIT)
        dice = random.Random(seed)
        clients = [client(store, number, random.Random(dice.random())) for number in range(CLIENTS)]
        await asyncio.gather(*clients)


def crash(path: Path, scheme: str, seed: int, commits: int) -> list[str]:
    """Let a bank work until it has told of so many transfers, kill it; give all that it told."""
    program = [sys.executable, "-m", "tests.transactions.crashing", str(path), scheme, str(seed)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        told = [line.strip() for line in itertools.islice(process.stdout, commits)]
        for _ in range(random.Random(seed).randrange(20_000)):  # anywhere between two transfers
            pass
        process.send_signal(signal.SIGKILL)
        told += [line.strip() for line in process.stdout if line.endswith("\n")]
    assert process.returncode == -signal.SIGKILL, "it ended by itself"
    return told


async def audit(path: Path, scheme: str, told: list[str]) -> Books:
    """Open the store again, and compare balances, receipts and what was told."""
    async with Store(scheme, path=path) as store, store.transaction() as t:
        balances = dict(await t.scan_prefix("account/"))
        receipts = dict(await t.scan_prefix("receipt/"))
    due = dict.fromkeys(ACCOUNTS, DEPOSIT)
    for giver, taker, amount in receipts.values():
        due[giver] -= amount
        due[taker] += amount
    lost = [receipt for receipt in told if receipt not in receipts]
    complaint = f"lost after they were acknowledged: {lost}" if lost else ""
    if balances != due:
        complaint += f" half transfers: {balances} instead of {due}"
    return Books(len(receipts), complaint)


if __name__ == "__main__":
    asyncio.run(bank(*sys.argv[1:]))
