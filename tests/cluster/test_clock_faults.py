"""Clocks that run at another rate, stand still or jump: what exclusion and the fence promise then.

Programs count by clocks of their own, in virtual time; links stall meanwhile, so that holds are lost
and change hands by expiry. Exclusion is promised as long as rates stay within `rate-error`; the fence
under no assumption.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import coterie
from tests.cluster.proxy import Network, Program, network
from tests.cluster.virtual_time import Clock, owning, passing, run

if TYPE_CHECKING:
    from contextvars import Context

    from coterie import locks

LEASE = 1.0
RATE_ERROR = 0.2
LOOK_SECONDS = 0.01
RUN_SECONDS = 60.0


class Register:
    """A number in a place that others reach too; a fenced one refuses those who were overtaken."""

    def __init__(self, *, fenced: bool) -> None:
        self.value = 0
        self.increments = 0  # that were acknowledged
        self.refused = 0
        self._fenced = fenced
        self._fence = 0

    @property
    def lost_updates(self) -> int:
        return self.increments - self.value

    def read(self, token: int) -> int | None:
        return self.value if self._admits(token) else None

    def write(self, value: int, token: int) -> None:
        if self._admits(token):
            self.value = value
            self.increments += 1

    def _admits(self, token: int) -> bool:
        if self._fenced and token < self._fence:
            self.refused += 1
            return False
        self._fence = max(self._fence, token)
        return True


class Registers(NamedTuple):
    plain: Register
    fenced: Register


class Worker:
    """A program that enters again and again, and adds one to each register."""

    def __init__(self, program: Program, registers: Registers, dice: Random) -> None:
        self.program = program
        self.held: locks.Held | None = None
        self.tokens: list[int] = []
        self._registers = registers
        self._dice = dice
        self._context: Context = copy_context()
        self.task = asyncio.ensure_future(self._work())

    def is_valid(self) -> bool:
        """Ask as the program itself would, by its own clock."""
        held = self.held
        return held is not None and self._context.run(lambda: held.valid)

    async def _work(self) -> None:
        while True:
            try:
                async with self.program.coordinator.lock("x") as self.held:
                    self.tokens.append(self.held.token)
                    for register in self._registers:
                        await self._add_one(register, self.held.token)
            except (coterie.LockLost, coterie.NoQuorum):
                await passing(0.05)
            finally:
                self.held = None

    async def _add_one(self, register: Register, token: int) -> None:
        value = register.read(token)
        await passing(self._dice.choice((0.01, 0.01, 0.3, 2 * LEASE)))
        if value is not None:
            register.write(value + 1, token)


class Outcome(NamedTuple):
    tokens: list[int]  # in the order of entry
    registers: Registers
    overlaps: int  # how often two were found to hold the lock at the same instant


async def contest(made: Network, rates: tuple[float, ...], seed: int) -> Outcome:
    """Let programs with clocks of these rates fight for a lock over links that stall."""
    dice = Random(seed)
    registers = Registers(Register(fenced=False), Register(fenced=True))
    workers = []
    for rate in rates:
        with owning(Clock(rate)):
            workers.append(Worker(await made.program(), registers, dice))
    entered: list[int] = []
    for worker in workers:
        worker.tokens = entered
    stalling = [asyncio.ensure_future(stall_now_and_then(worker, dice)) for worker in workers]
    overlaps = 0
    loop = asyncio.get_running_loop()
    end = loop.time() + RUN_SECONDS
    while loop.time() < end:
        await passing(LOOK_SECONDS)
        overlaps += sum(worker.is_valid() for worker in workers) > 1
    for task in (*stalling, *(worker.task for worker in workers)):
        task.cancel()
    await asyncio.gather(*(worker.task for worker in workers), return_exceptions=True)
    return Outcome(entered, registers, overlaps)


async def stall_now_and_then(worker: Worker, dice: Random) -> None:
    while True:
        await passing(dice.uniform(0, 5 * LEASE))
        for proxy in worker.program.proxies:
            proxy.stall()
        await passing(dice.uniform(LEASE, 3 * LEASE))
        for proxy in worker.program.proxies:
            proxy.resume()


def compete(monkeypatch: pytest.MonkeyPatch, rates: tuple[float, ...], seed: int) -> Outcome:
    async def main() -> Outcome:
        times: dict[str, Any] = {"lease": LEASE, "rate-error": RATE_ERROR, "margin": 0.05}
        async with network(**times) as made:
            return await contest(made, rates, seed)

    return run(monkeypatch, main)


@pytest.mark.parametrize("seed", range(3))
def test_clocks_within_their_bound_never_let_two_in_and_lose_no_update(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = compete(monkeypatch, (1 - RATE_ERROR, 1.0, 1 + RATE_ERROR), seed)
    assert outcome.overlaps == 0
    assert outcome.tokens == sorted(set(outcome.tokens))
    assert len(outcome.tokens) > 20
    assert outcome.registers.plain.lost_updates == 0
    assert outcome.registers.fenced.lost_updates == 0


@pytest.mark.parametrize("seed", range(3))
def test_clocks_outside_their_bound_lose_updates_where_there_is_no_fence_and_none_where_there_is(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = compete(monkeypatch, (0.1, 1.0, 3.0), seed)
    assert outcome.overlaps > 0, "exclusion is not promised"
    assert len(outcome.tokens) == len(set(outcome.tokens)), "and no token was given twice"
    assert outcome.registers.plain.lost_updates > 0
    assert outcome.registers.fenced.lost_updates == 0
    assert outcome.registers.fenced.refused > 0


def test_after_a_sleep_of_the_machine_the_loss_of_a_lock_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The leases of the machine have run on, and the timers of its event loop have not."""

    async def main() -> float:
        async with network(lease=LEASE) as made:
            with owning(Clock()) as sleeping:
                program = await made.program()
                held = await asyncio.ensure_future(program.coordinator.lock("x").acquire())
            assert held
            for proxy in program.proxies:
                proxy.stall()
            sleeping.jump(2 * LEASE)
            loop = asyncio.get_running_loop()
            awake = loop.time()
            await held.lost.wait()
            return loop.time() - awake

    assert run(monkeypatch, main) < LOOK_SECONDS


def test_a_clock_that_stood_still_fools_its_program_but_not_the_fence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A suspended machine whose clock does not count the sleep, and one whose clock does."""

    async def main() -> None:
        async with network(lease=LEASE) as made:
            other = await made.program()
            with owning(Clock()) as suspended:
                program = await made.program()
                holding = asyncio.ensure_future(program.coordinator.lock("x").acquire())
                first = await holding
                assert first
                suspended.run(0)
                for proxy in program.proxies:
                    proxy.stall()
                awake = copy_context()
            async with other.coordinator.lock("x") as second:
                assert awake.run(lambda: first.valid), "for it no time has passed"
                assert first.token < second.token, "so a resource that compares refuses it"
                suspended.jump(second.expires_at)
                assert not awake.run(lambda: first.valid), "a clock that counts the sleep tells"
                assert second.valid

    run(monkeypatch, main)
