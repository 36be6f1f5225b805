"""Trials of the engines under faults: python -m benchmarks.engine_faults [ENGINE ...] [--rounds N] [--seed N].

Three programs take one lock again and again, each over a line of its own: one on the event loop of asyncio, one
on uvloop, one in a thread of `coterie.sync`. Meanwhile one fault after the other
happens: a program is killed, or suspended for longer than its lease; its line is slow, is reset, is closed to new connections, or
stalls, in both directions or in one; the server's end of it is gone while the program's is silent; the server hangs, or is killed and
started again, with its memory or without, of several the one that leads; its time of day jumps. Then it is
checked that no two holds were valid at the same time, and that tokens have grown in the order of entry.
After each fault every program has to enter again within a minute, or it was forgotten: that counts as a
violation, and the program is started anew.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import uvloop

import coterie
import coterie.sync
from tests.cluster.proxy import DOWN, UP, Proxy
from tests.engines.conformance.moved_valkey import MovedValkey, valkey_aof
from tests.engines.conformance.suppliers import (
    CUTS,
    FAILS_OVER,
    LEASED,
    RESTARTS,
    SUPPLIERS,
    MariadbSupplier,
    PostgresqlSupplier,
    nats3,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.engines.conformance.suppliers import Supplier

FACES = ("asyncio", "uvloop", "threads")  # of the programs, in their order
PROGRAMS = len(FACES)
LOCK = "x"
HOLD_SECONDS = (
    0.02,
    0.02,
    0.02,
    0.5,
)  # short ones for many turns, long ones for a fault to come between
PATIENCE_SECONDS = 60.0  # for the next entry after a fault
STEPS = (-3600, -60, 60, 3600)  # of the time of day, in seconds
MADE = SUPPLIERS | {"valkey-aof": valkey_aof, "nats3": nats3}
ENGINES = tuple(MADE)


# What the programs do


def use(face: str, url: str, path: str) -> None:
    """Take the lock again and again; write down each entry, and how long it was valid."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if face == "threads":
        use_in_thread(url, log)
    run = uvloop.run if face == "uvloop" else asyncio.run
    run(use_in_task(url, log))


async def use_in_task(url: str, log: int) -> None:
    while True:
        with contextlib.suppress(coterie.CoterieError):
            async with coterie.connect(url) as coordinator:
                while True:
                    with contextlib.suppress(coterie.LockLost, coterie.Unavailable):
                        held = await coordinator.lock(LOCK).acquire()
                        assert held is not None
                        try:
                            for seconds in work(held, log):
                                await asyncio.sleep(seconds)
                        finally:
                            await held.release()
        await asyncio.sleep(0.1)


def use_in_thread(url: str, log: int) -> NoReturn:
    while True:
        with contextlib.suppress(coterie.CoterieError), coterie.sync.connect(url) as coordinator:
            while True:
                with contextlib.suppress(coterie.LockLost, coterie.Unavailable):
                    held = coordinator.lock(LOCK).acquire()
                    assert held is not None
                    try:
                        for seconds in work(held, log):
                            time.sleep(seconds)
                    finally:
                        held.release()
        time.sleep(0.1)


def work(held: coterie.Held | coterie.sync.Held, log: int) -> Iterator[float]:
    """Write down a hold as long as it is valid; yield the pauses in between."""
    entered = time.monotonic()
    os.write(log, f"{os.getpid()} {held.token} {entered} {entered}\n".encode())
    until = entered + random.choice(HOLD_SECONDS)
    # A hold that is valid now has been so since it was entered.
    while (asked := time.monotonic()) < until and held.valid:
        last = f"{os.getpid()} {held.token} {entered} {asked}\n".encode()
        yield HOLD_SECONDS[0] / 4
        if held.valid:  # a long pause lies behind us, perhaps
            os.write(log, last)


# What happens to them


class Hold(NamedTuple):
    """How long a program is known to have had the lock."""

    entered: float
    valid_until: float
    token: int


class Trial:
    """Programs on one engine, and what they have written down."""

    def __init__(self, supplier: Supplier, folder: Path, seed: int) -> None:
        """Prepare."""
        self.supplier = supplier
        self.draw = random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.forgotten: list[str] = []
        self._log = folder / "holds"
        self._log.touch()
        self._proxies: list[Proxy] = []
        self._programs: list[asyncio.subprocess.Process] = []

    async def start(self) -> None:
        """Start the programs."""
        for _ in range(PROGRAMS):
            if CUTS in self.supplier.can:
                self._proxies.append(Proxy(self.supplier.port))
                await self._proxies[-1].start()
            self._programs.append(await self._program(len(self._programs)))
        await self._entries(0.0, "start")

    async def end(self) -> None:
        """End them."""
        for program in self._programs:
            program.kill()
            await program.wait()
        for proxy in self._proxies:
            await proxy.stop()

    async def run(self, rounds: int) -> None:
        """Let faults happen, each after the engine has recovered from the one before."""
        faults: list[Callable[[int], Awaitable[None]]] = [self._kill]
        if LEASED in self.supplier.can:
            faults.append(self._suspend)
        if CUTS in self.supplier.can:
            faults += [self._stall, self._sever, self._reset, self._delay]
            faults += [self._mute, self._deafen, self._forget]
        if isinstance(self.supplier, MariadbSupplier | PostgresqlSupplier):
            faults.append(self._end_sessions)
        if {RESTARTS, FAILS_OVER} & self.supplier.can:
            faults += [self._restart, self._hang]
        if isinstance(self.supplier, MovedValkey):
            faults += [self._restart_empty, self._step]
        for _ in range(rounds):
            fault = self.draw.choice(faults)
            self.faults[fault.__name__[1:]] += 1
            await asyncio.sleep(self.draw.random() * 0.2)
            await fault(self.draw.randrange(PROGRAMS))
            await self._entries(time.monotonic(), fault.__name__[1:])

    def holds(self) -> list[Hold]:
        """List the holds in the order of entry."""
        return sorted(hold for _, hold in self._known())

    def _known(self) -> list[tuple[str, Hold]]:
        """List the holds, each with its program."""
        known: dict[tuple[str, str, str], float] = {}
        for line in self._log.read_text().splitlines():
            program, token, entered, valid = line.split()
            known[program, token, entered] = float(valid)
        return [
            (program, Hold(float(entered), valid, int(token)))
            for (program, token, entered), valid in known.items()
        ]

    async def _program(self, place: int) -> asyncio.subprocess.Process:
        port = self._proxies[place].port if self._proxies else None
        command = ("-m", "benchmarks.engine_faults", "--use", FACES[place])
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            self.supplier.url(port),
            str(self._log),
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def _entries(self, since: float, fault: str, *, all_programs: bool = True) -> None:
        """Wait until every program has entered since then, or any; start those anew that never do."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            entered = {program for program, hold in self._known() if hold.entered > since}
            missing = [p for p in self._programs if str(p.pid) not in entered]
            if not missing or (entered and not all_programs):
                return
            if time.monotonic() > end:
                break
            await asyncio.sleep(0.05)
        for program in missing:
            place = self._programs.index(program)
            self.forgotten.append(f"forgotten: {FACES[place]} program after {fault}")
            program.kill()
            await program.wait()
            self._programs[place] = await self._program(place)

    async def _kill(self, place: int) -> None:
        self._programs[place].kill()
        await self._programs[place].wait()
        await self._entries(time.monotonic(), "kill", all_programs=False)
        self._programs[place] = await self._program(place)

    async def _suspend(self, place: int) -> None:
        self._programs[place].send_signal(signal.SIGSTOP)
        await asyncio.sleep(self.supplier.lease * (0.8 + self.draw.random() * 0.6))
        self._programs[place].send_signal(signal.SIGCONT)

    async def _stall(self, place: int) -> None:
        await self._silence(place, UP, DOWN)

    async def _mute(self, place: int) -> None:
        await self._silence(place, UP)

    async def _deafen(self, place: int) -> None:
        await self._silence(place, DOWN)

    async def _forget(self, place: int) -> None:
        self._proxies[place].forget()
        await self._silence(place, DOWN)

    async def _silence(self, place: int, *directions: str) -> None:
        self._proxies[place].stall(*directions)
        await asyncio.sleep(self.supplier.lease * (0.8 + self.draw.random() * 0.8))
        self._proxies[place].resume()

    async def _end_sessions(self, place: int) -> None:
        assert isinstance(self.supplier, MariadbSupplier | PostgresqlSupplier)
        self._proxies[place].stall()
        await asyncio.to_thread(self.supplier.end_sessions)
        await self._silence(place, UP, DOWN)

    async def _sever(self, place: int) -> None:
        self._proxies[place].cut()
        await asyncio.sleep(self.draw.random() * self.supplier.lease)
        self._proxies[place].resume()

    async def _reset(self, place: int) -> None:
        self._proxies[place].reset()

    async def _delay(self, place: int) -> None:
        delay = self._proxies[place].delay
        for direction in delay:
            delay[direction] = self.draw.random() * self.supplier.lease / 4
        await asyncio.sleep(self.draw.random() * 2 * self.supplier.lease)
        delay.update({UP: 0.0, DOWN: 0.0})

    async def _hang(self, _: int) -> None:
        await asyncio.to_thread(self.supplier.suspend)
        await asyncio.sleep(self.draw.random() * 2 * self.supplier.lease)
        await asyncio.to_thread(self.supplier.resume)

    async def _restart(self, _: int) -> None:
        await asyncio.to_thread(self.supplier.kill)
        await asyncio.sleep(self.draw.random() * self.supplier.lease)
        await asyncio.to_thread(self.supplier.start)

    async def _restart_empty(self, _: int) -> None:
        assert isinstance(self.supplier, MovedValkey)
        await asyncio.to_thread(self.supplier.kill)
        self.supplier.lose_memory()
        self.supplier.move(self.draw.choice((0, *STEPS)))
        await asyncio.to_thread(self.supplier.start)

    async def _step(self, _: int) -> None:
        assert isinstance(self.supplier, MovedValkey)
        self.supplier.move(self.draw.choice(STEPS))
        await asyncio.sleep(self.draw.random() * self.supplier.lease)


def check(holds: list[Hold]) -> list[str]:
    """List what must not be: holds that overlap, and tokens that do not grow."""
    wrong = []
    longest = holds[0]  # of all before, the one that was valid last
    for one, other in itertools.pairwise(holds):
        longest = max(longest, one, key=lambda hold: hold.valid_until)
        if other.entered < longest.valid_until:
            wrong.append(f"overlap: {longest} and {other}")
        if other.token <= one.token:
            wrong.append(f"token: {one} before {other}")
    return wrong


async def trial(name: str, rounds: int, seed: int) -> bool:
    """Run one engine; return whether all was well."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = MADE[name](folder / "server")
        supplier = await asyncio.to_thread(stack.enter_context, server)
        made = Trial(supplier, folder, seed)
        try:
            await made.start()
            await made.run(rounds)
        finally:
            await made.end()
        holds = made.holds()
    wrong = [*check(holds), *made.forgotten]
    faults = ", ".join(f"{count} {fault}" for fault, count in sorted(made.faults.items()))
    print(
        f"{name}: {rounds} rounds ({faults}), {len(holds)} holds, {len(wrong)} violations",
        flush=True,
    )
    for line in wrong[:10]:
        print(f"  {line}")
    return not wrong


async def main(names: list[str], rounds: int, seed: int) -> int:
    """Run the engines one beside the other."""
    outcomes = await asyncio.gather(*(trial(name, rounds, seed) for name in names))
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--use"]:
        use(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("engines", nargs="*", choices=[[], *ENGINES])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.engines or list(ENGINES), given.rounds, given.seed)))
