"""One audit: programs take the lock in processes of their own, and faults happen to them and to the server."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie import system
from coterie.errors import Unavailable, UsageError
from coterie.lab.lock_audit.adapter import LockPlace
from coterie.lab.lock_audit.notes import NoteReader, Turns
from coterie.lab.lock_audit.worker import Settings
from coterie.lab.servers.faults import TrialFaults
from coterie.lab.servers.proxy import Proxy
from coterie.lab.servers.supplier import CUTS, ports_of

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from coterie.lab.servers.catalogue import Running
    from coterie.lab.servers.faults import Fault

START_SECONDS_MAX = 60.0  # of all programs
HOLDER_SECONDS_MAX = 1.0  # in which a program is looked for that is inside
AT_HOLDERS = 3 / 4  # of the faults that happen to one program
TWO_AT_ONCE = 1 / 4  # of the rounds
PAUSE_SECONDS_MAX = 0.2  # before a fault
LOOK_SECONDS = 0.01
ON_DEMAND = ("remove",)  # no lock file is made for that: it happens only if it is named


class LockAuditPlan(NamedTuple):
    """What to run, and how much of it."""

    target: str
    rounds: int
    seed: int
    programs: int
    faults: tuple[str, ...] = ()  # those that may happen; empty: all that the target can bear
    calm_seconds: float = 2.0  # before the first fault
    patience_seconds: float = (
        20.0  # for the next entry after a fault, and once more while all others rest
    )


class Happened(msgspec.Struct, frozen=True):
    """A fault that has happened."""

    name: str
    place: int | None  # of the program, None where it was the server
    begun: float
    ended: float


class Kill(msgspec.Struct, frozen=True):
    """A program that was killed."""

    program: int
    at: float


class LockTrial:
    """Programs on one server, and what they have noted."""

    def __init__(
        self, plan: LockAuditPlan, running: Running, folder: Path, progress: Callable[[str], None]
    ) -> None:
        """Prepare; `progress` is called with a line for each round."""
        self.turns = Turns()
        self.happened: list[Happened] = []
        self.kills: list[Kill] = []
        self.forgotten: list[str] = []
        self.calm_until = 0.0  # until then nothing has happened
        self._plan = plan
        self._supplier, move = running
        self._progress = progress
        self._draw = Random(plan.seed)
        self._notes = folder / "notes"
        self._turn_of = folder / "turn-of"
        self._reader = NoteReader(self._notes)
        self._proxies: list[list[Proxy]] = []  # of each program, one before each server
        self._programs: list[Process] = []
        faults = TrialFaults(self, self._supplier, move, self._draw)
        self._near, self._far = faults.of_one(), faults.of_all()
        self._choose()

    def _choose(self) -> None:
        """Leave out the faults that are not asked for."""
        known = self._near | self._far
        for name in self._plan.faults:
            if name not in known:
                raise UsageError(
                    f"--faults of {self._plan.target} must be of {', '.join(known)}, got {name!r}"
                )
        chosen = self._plan.faults or tuple(name for name in known if name not in ON_DEMAND)
        self._near = {name: fault for name, fault in self._near.items() if name in chosen}
        self._far = {name: fault for name, fault in self._far.items() if name in chosen}

    async def run(self) -> None:
        """Run all rounds, and end all programs, whatever happens."""
        try:
            await self._start()
            deck: list[str] = []
            for number in range(self._plan.rounds):
                if not deck:  # each fault happens before any happens again
                    deck = [*self._near, *self._far]
                    self._draw.shuffle(deck)
                self._progress(f"round {number + 1} of {self._plan.rounds}: {deck[-1]}")
                if not await self._round(deck.pop()):
                    break
        finally:
            await asyncio.shield(self._end())
        self.turns.add(self._reader.new())

    async def _start(self) -> None:
        for place in range(self._plan.programs):
            self._proxies.append([])
            if CUTS in self._supplier.can:
                for port in ports_of(self._supplier):
                    self._proxies[-1].append(Proxy(port))
                    await self._proxies[-1][-1].start()
            self._programs.append(await self._program(place))
        if await self._missing(0.0, START_SECONDS_MAX):
            raise Unavailable(f"{self._plan.target}: no program gets the lock{self._last_error()}")
        await asyncio.sleep(self._plan.calm_seconds)
        self.calm_until = system.now()

    def _last_error(self) -> str:
        texts = [turn.failed for turn in self.turns.all if turn.failed]
        return f": {texts[-1]}" if texts else ""

    async def _end(self) -> None:
        for program in self._programs:
            if program.returncode is None:
                program.kill()
            await program.wait()
        for proxy in itertools.chain(*self._proxies):
            await proxy.stop()

    async def _round(self, name: str) -> bool:
        """Let a fault happen, and perhaps one of the server beside it; return whether any program gets in again."""
        names = [name]
        if name in self._near and self._far and self._draw.random() < TWO_AT_ONCE:
            names.append(self._draw.choice(list(self._far)))
        await asyncio.sleep(self._draw.random() * PAUSE_SECONDS_MAX)
        place = await self._place()
        await asyncio.gather(*(self._let_happen(name, place) for name in names))
        missing = await self._entries(system.now())
        for each in missing:
            self.forgotten.append(f"program {each + 1} after {' and '.join(names)}")
            await self._start_anew(each)
        return len(missing) < len(self._programs)

    async def _let_happen(self, name: str, place: int) -> None:
        begun = system.now()
        is_near = name in self._near
        fault: Fault = (self._near if is_near else self._far)[name]
        await fault(place)
        self.happened.append(Happened(name, place if is_near else None, begun, system.now()))

    async def _place(self) -> int:
        """Draw the program to which the fault happens: mostly one that is inside."""
        any_of_them = self._draw.randrange(len(self._programs))
        if self._draw.random() > AT_HOLDERS:
            return any_of_them
        end = system.now() + HOLDER_SECONDS_MAX
        while system.now() < end:
            self.turns.add(self._reader.new())
            if inside := self.turns.inside():
                return inside[-1].place
            await asyncio.sleep(LOOK_SECONDS)
        return any_of_them

    async def _entries(self, since: float) -> list[int]:
        """Wait until every program has entered since then; return the places of those that do not.

        A program may be unlucky for long beside others that are quick. So in the end the others rest: one that does
        not get a lock that no other asks for has been forgotten.
        """
        patience = self._plan.patience_seconds
        missing = await self._missing(since, patience)
        if missing:
            self._turn_of.write_text(" ".join(map(str, missing)), encoding="utf-8")
            missing = await self._missing(since, patience)
            self._turn_of.unlink()
        return missing

    async def _missing(self, since: float, patience: float, enough: int | None = None) -> list[int]:
        """Wait until so many programs have entered, or all; return the places of the others when patience is over."""
        end = system.now() + patience
        while True:
            self.turns.add(self._reader.new())
            entered = {
                turn.program for turn in self.turns.all if turn.entered and turn.entered > since
            }
            missing = [n for n, each in enumerate(self._programs) if each.pid not in entered]
            enough_have = enough is not None and len(self._programs) - len(missing) >= enough
            if not missing or enough_have or system.now() > end:
                return missing
            await asyncio.sleep(LOOK_SECONDS)

    async def _program(self, place: int) -> Process:
        supplier = self._supplier
        ports = [proxy.port for proxy in self._proxies[place]]
        url = supplier.url(ports[0] if ports else None).partition("?")[0]
        folder = url.removeprefix("file:") if url.startswith("file:") else ""
        settings = Settings(
            target=self._plan.target,
            place=LockPlace(folder, tuple(ports), "" if folder else url),
            number=place,
            notes=str(self._notes),
            turn_of=str(self._turn_of),
            seed=self._draw.randrange(2**32),
            lease=supplier.lease,
        )
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "coterie.lab.lock_audit.worker"),
            msgspec.json.encode(settings).decode(),
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=DEVNULL,
            env={
                name: text for name, text in os.environ.items() if not name.startswith("COTERIE_")
            },
        )
        self.turns.places[program.pid] = place
        return program

    # What faults need: see `coterie.lab.servers.faults.Programs`

    def send(self, place: int, number: int) -> None:
        """Send a signal to a program."""
        self._programs[place].send_signal(number)

    def proxies(self, place: int) -> Sequence[Proxy]:
        """Return the ways of a program to the servers, if proxies stand on them."""
        return self._proxies[place]

    async def replace(self, place: int) -> None:
        """Kill a program; let another enter, and then start one in its place."""
        at = system.now()
        self.kills.append(Kill(self._programs[place].pid, at))
        self._programs[place].send_signal(signal.SIGKILL)
        await self._programs[place].wait()
        await self._missing(system.now(), self._plan.patience_seconds, enough=1)
        self._programs[place] = await self._program(place)

    async def _start_anew(self, place: int) -> None:
        self._programs[place].kill()
        await self._programs[place].wait()
        self._programs[place] = await self._program(place)
