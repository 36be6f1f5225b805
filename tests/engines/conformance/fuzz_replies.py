"""Servers whose answers arrive mutilated: what a program gets is an error of ours, in time, and nothing else.

    python -m tests.engines.conformance.fuzz_replies ENGINE [FIRST [SEEDS]]

Bytes of the answers are changed, left out and put in, at random by seed, while two programs take a lock and a
third looks at the status. A seed after which a task has died, or something hangs, is printed. ZooKeeper is left
out: kazoo reads in a thread of its own, which ends with a traceback at an answer that makes no sense; its session runs out then.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import coterie
from coterie.lab.servers.proxy import Proxy
from coterie.locks.status import find_source
from tests.engines.conformance.suppliers import SUPPLIERS

if TYPE_CHECKING:
    from coterie.lab.servers.supplier import Supplier

ENGINES = ("etcd", "mariadb", "nats", "postgresql", "s3", "valkey")
CHANGED = 0.2  # of the pieces in which answers arrive
SECONDS_MAX = 60.0  # after which it hangs
PATIENCE_SECONDS = 0.5


class Mutilator:
    """Changes some of what passes."""

    def __init__(self, seed: int) -> None:
        self._dice = Random(seed)
        self.count = 0

    def __call__(self, data: bytes) -> bytes:
        if self._dice.random() > CHANGED:
            return data
        self.count += 1
        changed = bytearray(data)
        for _ in range(self._dice.choice((1, 1, 2, 5))):
            at = self._dice.randrange(len(changed) + 1)
            match self._dice.randrange(5):
                case 0:
                    changed[at : at + 1] = self._dice.randbytes(1)
                case 1:
                    changed[at : at + 1] = self._dice.choice(
                        (b"0", b"9", b"-", b":", b"*", b"\r\n")
                    )
                case 2:
                    del changed[at : at + self._dice.randrange(1, 9)]
                case 3:
                    changed[at:at] = self._dice.randbytes(self._dice.randrange(1, 9))
                case _:
                    changed[at : at + 1] = bytes(byte ^ 1 for byte in changed[at : at + 1])
        return bytes(changed)


async def _use_value(program: coterie.Coordinator, held: coterie.Held) -> None:
    with contextlib.suppress(coterie.UsageError):  # it keeps none
        await held.read()
        await held.write(b"written")
        await program.read("x")


async def _take(url: str, found: Counter[str]) -> None:
    try:
        async with coterie.connect(url) as program:
            for _ in range(3):
                try:
                    async with program.lock("x", timeout=PATIENCE_SECONDS) as held:
                        await program.holders("x")
                        await _use_value(program, held)
                except coterie.CoterieError as error:
                    found[type(error).__name__] += 1
    except coterie.CoterieError as error:
        found[type(error).__name__] += 1
    else:
        found["open"] += 1


async def _look(url: str, found: Counter[str]) -> None:
    try:
        await (await find_source(url)).look(locks=True, waits=True)
    except coterie.CoterieError as error:
        found[type(error).__name__] += 1
    else:
        found["status"] += 1


async def fuzz(supplier: Supplier, seed: int) -> Counter[str]:
    """Use a server whose answers are mutilated; return what came of it, and raise if anything but errors of ours."""
    stumbles: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: stumbles.append(context))
    proxy = Proxy(supplier.port)
    proxy.rewrite = mutilator = Mutilator(seed)
    await proxy.start()
    found: Counter[str] = Counter()
    try:
        async with asyncio.timeout(SECONDS_MAX):
            url = supplier.url(proxy.port)
            await asyncio.gather(_take(url, found), _take(url, found))
            await _look(url, found)
    finally:
        await proxy.stop()
    gc.collect()  # tasks that have failed say so then, if they have not before
    await asyncio.sleep(0)
    for stumble in stumbles:
        raise AssertionError(stumble["message"]) from stumble.get("exception")
    found["changed"] = mutilator.count
    return found


def main() -> None:
    """Run seeds until one fails."""
    name, *numbers = sys.argv[1:]
    first, seeds = [*map(int, numbers), *(0, 100)[len(numbers) :]]
    logging.disable()
    total: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "server"
        supplier = stack.enter_context(SUPPLIERS[name](folder))
        for seed in range(first, first + seeds):
            try:
                total += asyncio.run(fuzz(supplier, seed))
            except BaseException:
                print(f"seed {seed}")  # noqa: T201 - a command
                raise
    print(f"{name}, {seeds} seeds: {dict(total)}")  # noqa: T201 - as above


if __name__ == "__main__":
    main()
