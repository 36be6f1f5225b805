"""What can happen to programs that use a server, to their connections, and to the server.

Faults are drawn by a seed and end by themselves, so that afterwards everything may be asked to work again.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Protocol, TypeAlias

from coterie.lab.servers.proxy import DOWN, UP
from coterie.lab.servers.supplier import (
    CUTS,
    FAILS_OVER,
    RESTARTS,
    Cleaned,
    EndsSessions,
    Forgets,
    Stops,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from coterie.lab.servers.proxy import Proxy
    from coterie.lab.servers.supplier import Supplier

Fault: TypeAlias = "Callable[[int], Awaitable[None]]"

STEPS = (-3600, -60, 60, 3600)  # of the time of day, in seconds


class Programs(Protocol):
    """The programs to which faults happen, each at its place."""

    def send(self, place: int, number: int) -> None:
        """Send a signal to a program."""

    async def replace(self, place: int) -> None:
        """Kill a program, let that take effect, and start another."""

    def proxies(self, place: int) -> Sequence[Proxy]:
        """Return the ways of a program to the servers."""


class TrialFaults:
    """Lets things happen to one program, or to the server."""

    def __init__(
        self,
        programs: Programs,
        supplier: Supplier,
        move: Callable[[int], None] | None,
        draw: Random,
    ) -> None:
        """Draw lengths; `move` sets the time of day of the server, where that can be done."""
        self._programs = programs
        self._supplier = supplier
        self._move = move
        self._draw = draw

    def of_one(self) -> dict[str, Fault]:
        """Name what can happen to one program, or to its connections."""
        faults: dict[str, Fault] = {"kill": self._programs.replace, "suspend": self._suspend}
        if CUTS in self._supplier.can:
            faults |= {
                "stall": self._stall,
                "sever": self._sever,
                "reset": self._reset,
                "delay": self._delay,
                "mute": self._mute,
                "deafen": self._deafen,
                "forget": self._forget,
            }
        return faults

    def of_all(self) -> dict[str, Fault]:
        """Name what can happen to the server; one of these happens at a time."""
        faults: dict[str, Fault] = {}
        if isinstance(self._supplier, EndsSessions):
            faults["end-sessions"] = self._end_sessions
        if isinstance(self._supplier, Stops):
            faults["stop"] = self._stop
        if {RESTARTS, FAILS_OVER} & self._supplier.can:
            faults |= {"restart": self._restart, "hang": self._hang}
        if isinstance(self._supplier, Forgets):
            faults["restart-empty"] = self._restart_empty
        if isinstance(self._supplier, Cleaned):
            faults["remove"] = self._remove
        if self._move is not None:
            faults["step"] = self._step
        return faults

    async def _suspend(self, place: int) -> None:
        self._programs.send(place, signal.SIGSTOP)
        await asyncio.sleep(self._supplier.lease * (0.9 + self._draw.random() * 0.8))
        self._programs.send(place, signal.SIGCONT)

    async def _stall(self, place: int) -> None:
        await self._silence(place, UP, DOWN)

    async def _mute(self, place: int) -> None:
        await self._silence(place, UP)

    async def _deafen(self, place: int) -> None:
        await self._silence(place, DOWN)

    async def _forget(self, place: int) -> None:
        for proxy in self._programs.proxies(place):
            proxy.forget()
        await self._silence(place, DOWN)

    async def _silence(self, place: int, *directions: str) -> None:
        for proxy in self._programs.proxies(place):
            proxy.stall(*directions)
        await asyncio.sleep(self._supplier.lease * (0.8 + self._draw.random() * 0.8))
        self._resume(place)

    def _resume(self, place: int) -> None:
        for proxy in self._programs.proxies(place):
            proxy.resume()

    async def _sever(self, place: int) -> None:
        for proxy in self._programs.proxies(place):
            proxy.cut()
        await asyncio.sleep(self._draw.random() * self._supplier.lease)
        self._resume(place)

    async def _reset(self, place: int) -> None:
        for proxy in self._programs.proxies(place):
            proxy.reset()

    async def _delay(self, place: int) -> None:
        delays = [proxy.delay for proxy in self._programs.proxies(place)]
        for delay in delays:
            for direction in delay:
                delay[direction] = self._draw.random() * self._supplier.lease / 4
        await asyncio.sleep(self._draw.random() * 2 * self._supplier.lease)
        for delay in delays:
            delay.update({UP: 0.0, DOWN: 0.0})

    async def _end_sessions(self, place: int) -> None:
        assert isinstance(self._supplier, EndsSessions)
        for proxy in self._programs.proxies(place):
            proxy.stall()
        await asyncio.to_thread(self._supplier.end_sessions)
        await self._silence(place, UP, DOWN)

    async def _hang(self, _: int) -> None:
        await asyncio.to_thread(self._supplier.suspend)
        await asyncio.sleep(self._draw.random() * 2 * self._supplier.lease)
        await asyncio.to_thread(self._supplier.resume)

    async def _restart(self, _: int) -> None:
        await self._let_be_away(self._supplier.kill)

    async def _stop(self, _: int) -> None:
        assert isinstance(self._supplier, Stops)
        await self._let_be_away(self._supplier.stop)

    async def _restart_empty(self, _: int) -> None:
        supplier = self._supplier
        assert isinstance(supplier, Forgets)
        lose_memory = supplier.lose_memory

        def kill() -> None:
            self._supplier.kill()
            lose_memory()

        await self._let_be_away(kill)

    async def _let_be_away(self, end: Callable[[], None]) -> None:
        """End the server, and start it again, perhaps with another time of day.

        Mostly it is back soon: then a program that had the lock may still be at work.
        """
        await asyncio.to_thread(end)
        if self._move is not None:
            self._move(self._draw.choice((0, *STEPS)))
        await asyncio.sleep(self._draw.random() ** 2 * self._supplier.lease)
        await asyncio.to_thread(self._supplier.start)

    async def _remove(self, _: int) -> None:
        assert isinstance(self._supplier, Cleaned)
        await asyncio.to_thread(self._supplier.clean)

    async def _step(self, _: int) -> None:
        assert self._move is not None
        self._move(self._draw.choice(STEPS))
        await asyncio.sleep(self._draw.random() * self._supplier.lease)
