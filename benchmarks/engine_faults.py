"""Trials of the engines under faults: python -m benchmarks.engine_faults [ENGINE ...] [--rounds N] [--seed N].

Three programs take two locks again and again, alone or shared, each over a line of its own: one on the event loop of
asyncio, one on uvloop, one in a thread of `coterie.sync`. Meanwhile faults happen, one or two at a time: a program is
killed, suspended for longer than its lease, or an operator ends its hold; its line is slow, is reset, is closed to new
connections, or stalls, in both directions or in one; the server's end of it is gone while the program's is silent; the
server ends all sessions, hangs, is stopped in good order, or is killed and started again, with its memory or without, of
several the one that leads; its time of day jumps; sentinels promote its replica, which may lack all that was written
lately, or hang themselves. Then it is checked that no two holds that exclude each other were valid
at the same time, and that tokens have grown in the order of entry. After each round every program has to enter again
within a minute, or it was forgotten: that counts as a violation, and the program is started anew.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import uvloop

import coterie
import coterie.sync
from coterie.lab.servers.catalogue import Running, forgetful_valkey, with_clock
from coterie.lab.servers.faults import TrialFaults
from coterie.lab.servers.postgresql import PostgresqlSupplier, postgresql
from coterie.lab.servers.proxy import Proxy
from coterie.lab.servers.supplier import CUTS
from coterie.lab.servers.zookeeper import zookeeper
from tests.engines.conformance.suppliers import SUPPLIERS, mariadb, nats3
from tests.engines.watched_redis import SENTINELS, WatchedRedis, watched, watched_debian

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from coterie.lab.servers.supplier import Supplier

    Fault: TypeAlias = Callable[[int], Awaitable[None]]

FACES = ("asyncio", "uvloop", "threads")  # of the programs, in their order
PROGRAMS = len(FACES)
# What a turn is about: the lock, and whether it is shared.
TURNS = (("x", False), ("x", False), ("x", True), ("y", False))
HOLD_SECONDS = (
    0.02,
    0.02,
    0.02,
    0.5,
)  # short ones for many turns, long ones for a fault to come between
PATIENCE_SECONDS = 60.0  # for the next entry after a fault
TWO_AT_ONCE = 1 / 3  # of the rounds
ORDER_SECONDS_MAX = 30.0  # in which an order is given, or not


@contextlib.contextmanager
def made(name: str, folder: Path) -> Iterator[Running]:
    """Start the server of an engine; its time of day can be moved where it runs on the C library or Java."""
    kind = {"postgresql-durable": "postgresql"}.get(name, name)
    with contextlib.ExitStack() as stack:
        if name == "valkey-aof":
            running = stack.enter_context(forgetful_valkey(folder))
        elif kind in CLOCKED:
            running = stack.enter_context(with_clock(CLOCKED[kind], folder))
        else:
            running = Running(stack.enter_context(SERVERS[kind](folder)), None)
        if isinstance(running.supplier, PostgresqlSupplier) and kind != name:
            running.supplier.parameters = "&durable=yes"
        yield running


CLOCKED: dict[str, Callable[..., AbstractContextManager[Supplier]]] = {
    "postgresql": postgresql,
    "mariadb": mariadb,
    "zookeeper": zookeeper,
}
SERVERS: dict[str, Callable[[Path], AbstractContextManager[Supplier]]] = {
    **SUPPLIERS,
    "nats3": nats3,
    "valkey-sentinel": watched,
    "redis-sentinel": watched_debian,
}
ENGINES = (*SERVERS, "valkey-aof", "postgresql-durable")


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
                        lock, shared = random.choice(TURNS)
                        held = await coordinator.lock(lock, shared=shared).acquire()
                        assert held is not None
                        try:
                            for seconds in work(held, log, shared=shared):
                                await asyncio.sleep(seconds)
                        finally:
                            await held.release()
        await asyncio.sleep(0.1)


def use_in_thread(url: str, log: int) -> NoReturn:
    while True:
        with contextlib.suppress(coterie.CoterieError), coterie.sync.connect(url) as coordinator:
            while True:
                with contextlib.suppress(coterie.LockLost, coterie.Unavailable):
                    lock, shared = random.choice(TURNS)
                    held = coordinator.lock(lock, shared=shared).acquire()
                    assert held is not None
                    try:
                        for seconds in work(held, log, shared=shared):
                            time.sleep(seconds)
                    finally:
                        held.release()
        time.sleep(0.1)


def work(held: coterie.Held | coterie.sync.Held, log: int, *, shared: bool) -> Iterator[float]:
    """Write down a hold as long as it is valid; yield the pauses in between."""
    entered = time.monotonic()
    said = f"{os.getpid()} {held.name} {int(shared)} {held.token} {entered}"
    # A program may be stopped between its grant and here; it has no hold then. One that is valid now has been so since
    # it was entered.
    if not held.valid:
        return
    os.write(log, f"{said} {entered}\n".encode())
    until = entered + random.choice(HOLD_SECONDS)
    while (asked := time.monotonic()) < until and held.valid:
        yield HOLD_SECONDS[0] / 4
        if held.valid:  # a long pause lies behind us, perhaps
            os.write(log, f"{said} {asked}\n".encode())


# What happens to them


class Hold(NamedTuple):
    """How long a program is known to have had the lock."""

    entered: float
    valid_until: float
    token: int
    lock: str
    shared: bool


class Trial:
    """Programs on one engine, and what they have written down."""

    def __init__(self, made: Running, folder: Path, seed: int) -> None:
        """Prepare."""
        self.supplier, self.move = made
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
        faults = TrialFaults(self, self.supplier, self.move, self.draw)
        near, far = faults.of_one() | {"break": self._break}, faults.of_all()
        if isinstance(self.supplier, WatchedRedis):
            far |= self._faults_of_sentinels(far)
        for _ in range(rounds):
            chosen = [self.draw.choice([*near, *far])]
            if far and chosen[0] in near and self.draw.random() < TWO_AT_ONCE:
                chosen.append(self.draw.choice(list(far)))
            self.faults.update(chosen)
            await asyncio.sleep(self.draw.random() * 0.2)
            happening = (near | far)[chosen[0]], *(far[name] for name in chosen[1:])
            await asyncio.gather(*(fault(self.draw.randrange(PROGRAMS)) for fault in happening))
            await self._entries(time.monotonic(), " and ".join(chosen))
            if isinstance(self.supplier, WatchedRedis):
                await asyncio.to_thread(self.supplier.settle)

    def send(self, place: int, number: int) -> None:
        """Send a signal to a program."""
        self._programs[place].send_signal(number)

    def proxies(self, place: int) -> list[Proxy]:
        """Return the way of a program to the server, if a proxy can stand on it."""
        return self._proxies[place : place + 1]

    def holds(self) -> list[Hold]:
        """List the holds in the order of entry."""
        return sorted(hold for _, hold in self._known())

    def _known(self) -> list[tuple[str, Hold]]:
        """List the holds, each with its program."""
        known: dict[tuple[str, ...], float] = {}
        for line in self._log.read_text().splitlines():
            *hold, valid = line.split()
            known[tuple(hold)] = float(valid)
        return [
            (program, Hold(float(entered), valid, int(token), lock, shared == "1"))
            for (program, lock, shared, token, entered), valid in known.items()
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

    async def replace(self, place: int) -> None:
        """Kill a program; another enters, and then one that takes its place."""
        self._programs[place].kill()
        await self._programs[place].wait()
        await self._entries(time.monotonic(), "kill", all_programs=False)
        self._programs[place] = await self._program(place)

    async def _break(self, _: int) -> None:
        """Let an operator end the hold of any program, or fail to."""
        command = ("-m", "coterie", "break", "--yes", "--url", self.supplier.url(), TURNS[0][0])
        silent = asyncio.subprocess.DEVNULL
        order = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=silent, stderr=silent
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ORDER_SECONDS_MAX):
                await order.wait()
                return
        order.kill()
        await order.wait()

    def _faults_of_sentinels(self, far: dict[str, Fault]) -> dict[str, Fault]:
        """Name what can happen to a primary, its replica and the sentinels; the former has its own faults."""
        watched = self.supplier
        assert isinstance(watched, WatchedRedis)

        async def fail_over(_: int) -> None:
            await asyncio.to_thread(watched.fail_over)

        async def fail_over_stale(place: int) -> None:
            """Promote a replica that lacks what was written lately, while the primary is well, hangs, or is dead."""
            await asyncio.to_thread(watched.cut_replica)
            await asyncio.sleep(self.draw.random() * watched.lease)
            await self.draw.choice((fail_over, far["hang"], far["restart"]))(place)
            await asyncio.to_thread(watched.join_replica)

        async def silence_sentinels(_: int) -> None:
            watched.suspend_sentinels(self.draw.randint(1, SENTINELS))
            await asyncio.sleep(self.draw.random() * 2 * watched.lease)
            watched.resume_sentinels()

        return {
            "fail-over": fail_over,
            "fail-over-stale": fail_over_stale,
            "silence-sentinels": silence_sentinels,
        }


def check(holds: list[Hold]) -> list[str]:
    """List what must not be: holds that overlap and exclude each other, and tokens that do not grow.

    Args:
        holds: In the order of entry.
    """
    wrong = []
    latest: dict[tuple[str, bool], Hold] = {}  # of all before, the one that was valid last
    highest: dict[tuple[str, bool], Hold] = {}  # and the one with the highest token
    for hold in holds:
        # Those that share exclude the others alone, and enter in any order.
        for mode in (False,) if hold.shared else (False, True):
            before = latest.get((hold.lock, mode))
            if before is not None and hold.entered < before.valid_until:
                wrong.append(f"overlap: {before} and {hold}")
            before = highest.get((hold.lock, mode))
            if before is not None and hold.token <= before.token:
                wrong.append(f"token: {before} before {hold}")
        key = hold.lock, hold.shared
        latest[key] = max(latest.get(key, hold), hold, key=lambda each: each.valid_until)
        highest[key] = max(highest.get(key, hold), hold, key=lambda each: each.token)
    return wrong


async def trial(name: str, rounds: int, seed: int) -> bool:
    """Run one engine; return whether all was well."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await asyncio.to_thread(stack.enter_context, made(name, folder / "server"))
        run = Trial(server, folder, seed)
        try:
            await run.start()
            await run.run(rounds)
        finally:
            await run.end()
        holds = run.holds()
    wrong = [*check(holds), *run.forgotten]
    faults = ", ".join(f"{count} {fault}" for fault, count in sorted(run.faults.items()))
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
