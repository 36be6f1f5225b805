"""The engine of a program that is a node of an election: which node is followed, and no locks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from coterie import system
from coterie.cluster.classic.node import Classic, Program
from coterie.errors import UsageError
from coterie.locks.deadlocks.waits import Waits
from coterie.process import Elected

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from coterie.cluster.membership.config import Config
    from coterie.errors import Unavailable
    from coterie.locks.engine import Claim, Party
    from coterie.locks.lock import Owner
    from coterie.process import Event


class ElectionEngine:
    """Tells the tasks of this process which node leads."""

    def __init__(self, config: Config, node: str) -> None:
        """Prepare; the node starts when the engine is opened."""
        self.node = Classic(
            config,
            node,
            Program(event=self._hear, failure=self._fail, lost=lambda name: self._wake()),
        )
        self._failure: Unavailable | None = None
        self._elected: list[str] = []  # every leader so far, each other than the one before
        self._changed = asyncio.Event()
        self.waits = Waits(system.secret(16).hex(), lambda wanted: [])

    async def open(self) -> None:
        """Start the node."""
        await self.node.start()

    async def close(self) -> None:
        """End the node, and all that wait for a leader."""
        await self.node.stop()
        self._wake()

    async def leader(self, check: Callable[[], None]) -> str:
        """Wait until this node follows one that is not lost, and return its name."""
        while True:
            check()
            if self._failure is not None:
                raise self._failure
            leader = self.node.leader
            if leader is not None:
                return leader
            await self._changed.wait()

    async def leaders(self, check: Callable[[], None]) -> AsyncGenerator[str, None]:
        """Yield the present leader, and every one that is elected after it."""
        seen = await self.leader(check)
        place = len(self._elected)
        yield seen
        while True:
            check()
            if self._failure is not None:
                raise self._failure
            if place == len(self._elected):
                await self._changed.wait()
                continue
            place += 1
            if self._elected[place - 1] != seen:
                seen = self._elected[place - 1]
                yield seen

    def _hear(self, _: str, event: Event) -> None:
        if isinstance(event, Elected):
            self._elected.append(self.node.membership.members[event.leader - 1].name)
            self._wake()

    def _fail(self, failure: Unavailable) -> None:
        self._failure = failure
        self._wake()

    def _wake(self) -> None:
        """Let all tasks that wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    # What there is none of

    def place(
        self, name: str, *, owner: Owner, shared: bool, lease: float | None, wait: bool
    ) -> Claim:
        """Refuse: there are no locks."""
        self._refuse(f"lock {name!r}: ")

    def obstacle(self, name: str) -> NoReturn:
        """Refuse: there are no locks."""
        self._refuse(f"lock {name!r}: ")

    async def holders(self, name: str) -> list[Party]:
        """Refuse: there are no locks."""
        self._refuse(f"lock {name!r}: ")

    async def waiters(self, name: str) -> list[Party]:
        """Refuse: there are no locks."""
        self._refuse(f"lock {name!r}: ")

    def watch(self, name: str, check: Callable[[], None]) -> AsyncGenerator[Party | None, None]:
        """Refuse: there are no locks."""
        self._refuse(f"lock {name!r}: ")

    def _refuse(self, what: str) -> NoReturn:
        raise UsageError(
            f"{what}this cluster runs {self.node.algorithm.name}, which elects a leader and has no"
            " locks; use leader() or leaders()"
        )
