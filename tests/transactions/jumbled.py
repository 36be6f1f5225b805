"""Runs of a store in all sorts of orders: an event loop whose turns and times are drawn by a seed."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, TypeVar

from coterie import system
from coterie.system import RealSystem
from coterie.transactions.catalogue import schemes
from coterie.transactions.store.local import LocalExecutor
from coterie.transactions.store.store import executor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from coterie.transactions import Store
    from coterie.transactions.schemes.scheduler import Scheduler

ResultT = TypeVar("ResultT")

FORMS = [(scheme.name, form.name) for scheme in schemes().values() for form in scheme.variants]


class StuckError(Exception):
    """A run in which nobody can go on."""


class JumbledLoop(asyncio.SelectorEventLoop):
    """Whoever is ready goes on in any order; time jumps to the next timer when nobody is."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.dice = random.Random(seed)
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]  # the types of the arguments are not our business
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        handle = super().call_soon(callback, *args, context=context)
        ready: Any = self._ready  # type: ignore[attr-defined]  # asyncio's own, all in Python
        place = self.dice.randrange(len(ready))
        ready[place], ready[-1] = ready[-1], ready[place]
        return handle

    def _run_once(self) -> None:
        timers: Any = self._scheduled  # type: ignore[attr-defined]  # as above
        if not self._ready:  # type: ignore[attr-defined]  # as above
            if not timers:
                raise StuckError("everybody waits, and nothing will come")
            self._now = max(self._now, timers[0].when())
        super()._run_once()  # type: ignore[misc]  # as above


def jumbled(main: Callable[[], Coroutine[Any, Any, ResultT]], seed: int) -> ResultT:
    """Run a program so that the same seed makes the same run."""
    drawn = RealSystem()
    drawn.random = random.Random(seed)  # the pauses between attempts
    before = system.move_to(drawn)
    try:
        with asyncio.Runner(loop_factory=lambda: JumbledLoop(seed)) as runner:
            return runner.run(main())
    finally:
        system.move_to(before)


def scheduler_of(store: Store) -> Scheduler:
    executor = executor_of(store)
    assert isinstance(executor, LocalExecutor)
    return executor.scheduler


def assert_idle(store: Store) -> None:
    """Nobody is under way, nobody waits, nothing is left behind."""
    executor = executor_of(store)
    assert isinstance(executor, LocalExecutor)
    assert executor.idle
