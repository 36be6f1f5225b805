"""A process with clients in it: takes commands on its input, one a line, and answers on its output.

What the clients did goes into a file of samples, six numbers each: the client, the lock, and when it
asked, entered, began to leave and had left. The monotonic clock is one for the whole machine, so
samples of different workers can be compared.
"""

from __future__ import annotations

import array
import asyncio
import itertools
import mmap
import os
import random
import struct
import sys
import time
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from benchmarks.locks.peers import make
from coterie.system.aio import new_event_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.locks.peers.base import BlockingClient, Client

PAUSE_SECONDS = 0.005  # after a failed attempt
NUMBER = struct.Struct("q")


class Begin(msgspec.Struct, tag=True):
    """Be the worker of that number, for this peer."""

    peer: str
    settings: dict[str, Any]
    index: int


class Connect(msgspec.Struct, tag=True):
    """Make clients with numbers from `first` on."""

    first: int
    count: int
    shared: bool


class Run(msgspec.Struct, tag=True):
    """Let all clients work until a time of the monotonic clock."""

    name: str  # of the run, and the beginning of all names of locks
    names: int | None  # how many there are; None: a fresh one each time
    until: float
    timeout: float | None  # for one acquire
    is_contended: bool
    samples: str  # the file for them
    tally: str | None  # a file that everybody inside counts up


Command: TypeAlias = Begin | Connect | Run


class Answer(msgspec.Struct):
    error: str | None = None  # the command failed
    failures: dict[str, int] = {}  # of single operations, by their text


class Tally:
    """A number in a shared file, read and written inside the lock: two who are inside lose a count."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:  # noqa: PTH123 - a path by name is all we have
            self._map = mmap.mmap(file.fileno(), NUMBER.size)

    def read(self) -> int:
        return int(NUMBER.unpack_from(self._map)[0])

    def write(self, value: int) -> None:
        NUMBER.pack_into(self._map, 0, value)


def names(run: Run, client: int) -> Iterator[tuple[int, str]]:
    """Give the locks that a client takes, with their numbers."""
    if run.names is None:
        return ((count, f"{run.name}-{client}-{count}") for count in itertools.count())
    if run.names == 1:
        return itertools.repeat((0, f"{run.name}-0"))
    dice = random.Random(f"{run.name}/{client}")
    all_of_them = [(number, f"{run.name}-{number}") for number in range(run.names)]
    return (dice.choice(all_of_them) for _ in itertools.count())


class Shift:
    """One run of the clients of this worker."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.samples = array.array("d")
        self.failures: Counter[str] = Counter()
        self.tally = Tally(run.tally) if run.tally else None

    async def work(self, client: Client, number: int) -> None:
        clock, run, tally = time.monotonic, self.run, self.tally
        locks = names(run, number)
        while (asked := clock()) < run.until:
            lock, name = next(locks)
            try:
                held = await client.acquire(name, run.timeout)
                entered = clock()
                if run.is_contended:
                    count = tally.read() if tally else 0
                    await asyncio.sleep(0)  # a second one inside would show itself
                    if tally:
                        tally.write(count + 1)
                leaving = clock()
                await client.release(held)
            except Exception as error:  # noqa: BLE001 - counted and reported
                self.failures[f"{type(error).__name__}: {error}"[:100]] += 1
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                self.samples.extend((number, lock, asked, entered, leaving, clock()))

    def work_blocking(self, client: BlockingClient, number: int) -> None:
        clock, run, tally = time.monotonic, self.run, self.tally
        locks = names(run, number)
        while (asked := clock()) < run.until:
            lock, name = next(locks)
            try:
                held = client.acquire(name, run.timeout)
                entered = clock()
                if tally:
                    tally.write(tally.read() + 1)
                leaving = clock()
                client.release(held)
            except Exception as error:  # noqa: BLE001 - counted and reported
                self.failures[f"{type(error).__name__}: {error}"[:100]] += 1
                time.sleep(PAUSE_SECONDS)
            else:
                self.samples.extend((number, lock, asked, entered, leaving, clock()))


class Worker:
    """Its event loop never stops between commands: members of a cluster have to answer."""

    async def handle(self, command: Command) -> Answer:
        match command:
            case Begin(peer, settings, index):
                self._peer = make(peer)
                self._settings = settings
                await self._peer.begin(settings, index)
            case Connect(first, count, shared):
                self._clients = [
                    (number, await self._peer.connect(self._settings, shared=shared))
                    for number in range(first, first + count)
                ]
            case Run():
                return await self._run(command)
        return Answer()

    async def _run(self, run: Run) -> Answer:
        shift = Shift(run)
        if self._peer.is_blocking:
            blocking = [
                asyncio.to_thread(shift.work_blocking, cast("BlockingClient", client), number)
                for number, client in self._clients
            ]
            await asyncio.gather(*blocking)
        else:
            tasks = [shift.work(cast("Client", client), number) for number, client in self._clients]
            await asyncio.gather(*tasks)
        with open(run.samples, "wb") as file:  # noqa: ASYNC230, PTH123 - nothing runs any more
            shift.samples.tofile(file)
        return Answer(failures=dict(shift.failures))


async def main() -> None:
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints is no answer
    worker = Worker()
    loop = asyncio.get_running_loop()
    decoder = msgspec.json.Decoder(Command)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            answer = await worker.handle(decoder.decode(line))
        except Exception as error:  # noqa: BLE001 - told to whoever gave the command
            traceback.print_exc()
            answer = Answer(f"{type(error).__name__}: {error}")
        answers.write(msgspec.json.encode(answer) + b"\n")
    os._exit(0)  # threads and sockets of client libraries end with the process


if __name__ == "__main__":
    on_uvloop = sys.argv[1:] == ["uvloop"]
    with asyncio.Runner(loop_factory=new_event_loop if on_uvloop else None) as runner:
        runner.run(main())
