"""How long the checker takes over many transactions, each of two reads and two writes.

    python -m benchmarks.transactions.checking [--transactions 100000] [--keys 1000]

The history is that of a store, read from JSON lines as `coterie history` does: once with the
versions that the store has stated, once as its clients see it, and once in the order of real time.
CPU seconds of this process, without the making of the history; in the end, those of the command
`coterie history` as a whole, from its start to its last line.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from random import Random
from typing import TYPE_CHECKING

from coterie.lab.serializability import check
from coterie.transactions import Store
from coterie.transactions.history import History, HistoryEvent, parse_history

if TYPE_CHECKING:
    from coterie.transactions import Transaction

CLIENTS = 8


async def recorded(transactions: int, keys: int) -> bytes:
    """Let clients move units between accounts, and return what they did."""
    store = Store(record=True)
    dice = Random(1)  # any other will do

    async def client(number: int) -> None:
        for place in range(number, transactions, CLIENTS):
            first, second = sorted(dice.sample(range(keys), 2))

            async def move(t: Transaction, place: int = place, *pair: int) -> None:
                for key in pair:
                    await t.get(f"k{key}", for_update=True)
                await asyncio.sleep(0)
                for key in pair:
                    await t.put(f"k{key}", [place, t.failures])

            await store.run(lambda t: move(t, place, first, second))  # noqa: B023 - awaited here

    await asyncio.gather(*map(client, range(CLIENTS)))
    return store.history_lines()


def without_versions(history: History) -> History:
    """Return the same history without its versions."""
    plain = History()
    for transaction in history.transactions.values():
        for access in transaction.accesses:
            plain.add(HistoryEvent(transaction.name, access.op, access.key, access.value))
        plain.add(HistoryEvent(transaction.name, "commit"))
    return plain


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.transactions.checking",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=1000)
    options = parser.parse_args()
    print("making a history ...", file=sys.stderr, flush=True)
    lines = asyncio.run(recorded(options.transactions, options.keys))
    sound = True
    started = time.process_time()
    history = parse_history(lines)
    print(f"read: {time.process_time() - started:.2f} s for {lines.count(b'commit'):,} commits")
    clients = without_versions(parse_history(lines))
    for name, told, real_time in (
        ("with versions", history, False),
        ("with versions, in real time", history, True),
        ("without versions", clients, False),
    ):
        started = time.process_time()
        report = check(told, real_time=real_time)
        seconds = time.process_time() - started
        verdict = "serializable" if report.serializable else "NOT SERIALIZABLE"
        print(f"{name}: {seconds:.2f} s, {verdict}", flush=True)
        sound &= report.serializable is True
    seconds = command_seconds(lines)
    print(f"coterie history, the whole command: {seconds:.2f} s", flush=True)
    return 0 if sound else 1


def command_seconds(lines: bytes) -> float:
    """Measure the command in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = "from coterie.cli import main; main()"
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(lines)
        file.flush()
        command = [sys.executable, "-c", program, "history", file.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
