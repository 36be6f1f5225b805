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
from tests.engines.conformance.moved_clock import MovedValkey, moved_clock, moved_valkey
from tests.engines.conformance.suppliers import (
    CUTS,
    FAILS_OVER,
    LEASED,
    RESTARTS,
    SUPPLIERS,
    MariadbSupplier,
    PostgresqlSupplier,
    mariadb,
    nats3,
    postgresql,
    zookeeper,
)
from tests.engines.watched_redis import SENTINELS, WatchedRedis, watched, watched_debian

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from tests.engines.conformance.suppliers import Supplier

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
STEPS = (-3600, -60, 60, 3600)  # of the time of day, in seconds
TWO_AT_ONCE = 1 / 3  # of the rounds
ORDER_SECONDS_MAX = 30.0  # in which an order is given, or not
WHOLE_LOG = ("--appendonly", "yes", "--appendfsync", "always")


class Made(NamedTuple):
    """A server, and how its time of day is moved, if it can be."""

    supplier: Supplier
    move: Callable[[int], None] | None


@contextlib.contextmanager
def made(name: str, folder: Path) -> Iterator[Made]:
    """Start the server of an engine; its time of day can be moved where it runs on the C library or Java."""
    with contextlib.ExitStack() as stack:
        if name == "valkey-aof":
            valkey = stack.enter_context(moved_valkey(folder, *WHOLE_LOG))
            yield Made(valkey, valkey.move)
            return
        kind = {"postgresql-durable": "postgresql"}.get(name, name)
        if kind not in CLOCKED:
            yield Made(stack.enter_context(SERVERS[kind](folder)), None)
            return
        clock = stack.enter_context(moved_clock())
        supplier = stack.enter_context(CLOCKED[kind](folder, *clock.prefix))
        if isinstance(supplier, PostgresqlSupplier) and kind != name:
            supplier.parameters = "&durable=yes"
        yield Made(supplier, clock.move)


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
    os.write(log, f"{said} {entered}\n".encode())
    until = entered + random.choice(HOLD_SECONDS)
    # A hold that is valid now has been so since it was entered.
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

    def __init__(self, made: Made, folder: Path, seed: int) -> None:
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
        near, far = self._faults_of_one(), self._faults_of_all()
        for _ in range(rounds):
            chosen = [self.draw.choice(near + far)]
            if far and chosen[0] in near and self.draw.random() < TWO_AT_ONCE:
                chosen.append(self.draw.choice(far))
            what = " and ".join(fault.__name__[1:] for fault in chosen)
            self.faults.update(fault.__name__[1:] for fault in chosen)
            await asyncio.sleep(self.draw.random() * 0.2)
            await asyncio.gather(*(fault(self.draw.randrange(PROGRAMS)) for fault in chosen))
            await self._entries(time.monotonic(), what)
            if isinstance(self.supplier, WatchedRedis):
                await asyncio.to_thread(self.supplier.settle)

    def _faults_of_one(self) -> list[Fault]:
        """List what can happen to one program, or to its line."""
        faults: list[Fault] = [self._kill, self._break]
        if LEASED in self.supplier.can:
            faults.append(self._suspend)
        if CUTS in self.supplier.can:
            faults += [self._stall, self._sever, self._reset, self._delay]
            faults += [self._mute, self._deafen, self._forget]
        return faults

    def _faults_of_all(self) -> list[Fault]:
        """List what can happen to the server; one of these happens at a time."""
        faults: list[Fault] = []
        if isinstance(self.supplier, MariadbSupplier | PostgresqlSupplier):
            faults += [self._end_sessions, self._stop]
        if {RESTARTS, FAILS_OVER} & self.supplier.can:
            faults += [self._restart, self._hang]
        if isinstance(self.supplier, MovedValkey):
            faults.append(self._restart_empty)
        if isinstance(self.supplier, WatchedRedis):
            faults += [self._fail_over, self._fail_over_stale, self._silence_sentinels]
        if self.move is not None:
            faults.append(self._step)
        return faults

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

    async def _kill(self, place: int) -> None:
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
        await self._let_be_away(self.supplier.kill)

    async def _stop(self, _: int) -> None:
        assert isinstance(self.supplier, MariadbSupplier | PostgresqlSupplier)
        await self._let_be_away(self.supplier.stop)

    async def _restart_empty(self, _: int) -> None:
        assert isinstance(self.supplier, MovedValkey)
        valkey = self.supplier

        def kill() -> None:
            valkey.kill()
            valkey.lose_memory()

        await self._let_be_away(kill)

    async def _fail_over(self, _: int) -> None:
        assert isinstance(self.supplier, WatchedRedis)
        await asyncio.to_thread(self.supplier.fail_over)

    async def _fail_over_stale(self, place: int) -> None:
        """Promote a replica that lacks what was written lately, while the primary is well, hangs, or is dead."""
        assert isinstance(self.supplier, WatchedRedis)
        await asyncio.to_thread(self.supplier.cut_replica)
        await asyncio.sleep(self.draw.random() * self.supplier.lease)
        await self.draw.choice((self._fail_over, self._hang, self._restart))(place)
        await asyncio.to_thread(self.supplier.join_replica)

    async def _silence_sentinels(self, _: int) -> None:
        assert isinstance(self.supplier, WatchedRedis)
        self.supplier.suspend_sentinels(self.draw.randint(1, SENTINELS))
        await asyncio.sleep(self.draw.random() * 2 * self.supplier.lease)
        self.supplier.resume_sentinels()

    async def _let_be_away(self, end: Callable[[], None]) -> None:
        """End the server, and start it again, perhaps with another time of day."""
        await asyncio.to_thread(end)
        if self.move is not None:
            self.move(self.draw.choice((0, *STEPS)))
        await asyncio.sleep(self.draw.random() * self.supplier.lease)
        await asyncio.to_thread(self.supplier.start)

    async def _step(self, _: int) -> None:
        assert self.move is not None
        self.move(self.draw.choice(STEPS))
        await asyncio.sleep(self.draw.random() * self.supplier.lease)


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
