"""Programs that die on machines where others see it: who waits for their locks waits for no lease."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from coterie.lab.stack.scene.plan import generator
from coterie.lab.stack.workloads.locks import TAIL_SPREADS, ExclusiveLocks
from coterie.lab.stack.world import ViolationError
from coterie.locks import connect

if TYPE_CHECKING:
    from coterie.lab.stack.scene.scene import Scene
    from coterie.lab.stack.world.machine import Process

ROUNDS = 3  # of holders that are killed when all is well
# Messages one after the other, from a death to the next grant. A node of the machine is asked by the others: the end of
# the connection, two to open another one, hello, welcome, whether it is a witness (behind the proof), its word, the
# question, the answer, the grant. A program that is started again first asks which nodes vote, over a connection of its
# own (two to open it, hello, welcome, question, answer), and then opens its session (two, hello, welcome, the session
# behind the proof); then it is asked about its former life, answers, and the grant follows.
MESSAGES_BY_NODES = 10
MESSAGES_BY_SUPERVISOR = 14
MESSAGES_OF_TLS = 2  # more for each connection
SOON_LEASES = (
    0.4  # that a waiter waits at most: far less than a lease, and longer than late turns take
)
BACK_LEASES = 0.1  # after which a supervisor starts the killed holder again


class Witnesses(ExclusiveLocks):
    """Some programs run beside nodes; all are started again, and see that their former life is over.

    While processes are killed, stopped and cut off, no program is taken for dead that lives: exclusion shows it.
    When all is well, holders are killed, and each is followed much sooner than after a lease.
    """

    sizes: ClassVar[tuple[int, ...]] = (1, 3, 3, 5)
    kinds: ClassVar[tuple[str, ...]] = (
        "kill",
        "kill",
        "pause",
        "hang",
        "reset",
        "isolate",
        "terminate",
    )
    long_share = 0.5

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        scene.world.has_witnesses = True
        self._random = generator(scene.plan.seed, "witnesses")
        self._holder: Process | None = None
        self._waits = self._follows = False

    def beside(self, program: str) -> str:
        """Let some programs run beside a node, and others on machines of their own."""
        number = self.programs.index(program)
        return self.nodes[number % len(self.nodes)] if number % 2 else ""

    def finish(self) -> None:
        """Kill holders one after the other, beside a node or with a supervisor, and see who follows."""
        super().finish()
        beside = [*self.nodes] if self._is_soon(MESSAGES_BY_NODES, connections=1) else []
        if self._is_soon(MESSAGES_BY_SUPERVISOR, connections=2, started=BACK_LEASES):
            beside.append("")
        for number in range(ROUNDS if beside else 0):
            where = self._random.choice(beside)
            self._kill_a_holder(f"victim{number}", f"heir{number}", where)

    def _is_soon(self, messages: int, connections: int, started: float = 0.0) -> bool:
        """Return whether so many messages fit into the time that a waiter waits at most."""
        if self.plan.tls:
            messages += MESSAGES_OF_TLS * connections
        answered = messages * self.plan.delay + TAIL_SPREADS * self.plan.spread
        return answered <= (SOON_LEASES - started) * self.plan.lease

    def _kill_a_holder(self, victim: str, heir: str, beside: str) -> None:
        """Kill a holder on a machine of its own, or beside a node; its heir has to follow soon."""
        world, scene = self.world, self.scene
        soon = SOON_LEASES * self.plan.lease
        self._holder, self._waits, self._follows = None, False, False
        scene.cast(victim, self._hold, is_node=False, beside=beside)
        scene.cast(heir, self._follow, is_node=False)
        scene.start(victim)
        world.run(world.now + self.plan.lease, lambda: self._holder is not None)
        scene.start(heir)
        world.run(world.now + self.plan.lease, lambda: self._waits)
        world.run(world.now + 0.3 * self.plan.lease)
        if self._holder is None or not self._waits:
            raise ViolationError("followed", f"{victim} or {heir} has not begun")
        self._holder.die()
        if beside:
            scene.roles[victim].is_done = True
        else:
            scene.start_later(victim, BACK_LEASES * self.plan.lease)
        killed = world.now
        world.run(killed + soon, lambda: self._follows)
        if not self._follows:
            where = f"beside {beside}" if beside else "by its supervisor"
            text = f"{victim} is dead since {killed:.3f} s, as is seen {where}, and {heir} waits"
            raise ViolationError("followed", text)
        scene.counts["dead holders followed"] += 1
        both = scene.roles[victim], scene.roles[heir]
        world.run(world.now + 2 * self.plan.lease, lambda: all(role.is_done for role in both))

    async def _hold(self, process: Process) -> None:
        """Hold until killed; the next life asks for a lock, too, as a program says with that where it runs."""
        async with connect(self.url()) as coordinator:
            if process.life > 1:
                async with coordinator.lock("x") as held, self.held(process, held):
                    await asyncio.sleep(SOON_LEASES * self.plan.lease)
                return
            async with coordinator.lock("w") as held, self.held(process, held):
                self._holder = process
                await asyncio.sleep(10 * self.plan.lease)

    async def _follow(self, process: Process) -> None:
        async with connect(self.url()) as coordinator:
            self._waits = True
            async with coordinator.lock("w") as held, self.held(process, held):
                self._follows = True
