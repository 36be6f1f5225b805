"""What operators do beside adding and replacing voters: small clusters, huge times, force, break, an edited file."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, ClassVar

import msgspec

from coterie.cluster.admin.holds import break_hold, find_hold
from coterie.cluster.change.formation import forming_goal
from coterie.cluster.change.host import Change
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.cluster.wire.frames import OLDEST_PROTOCOL
from coterie.errors import CoterieError, LockLost
from coterie.lab.stack.scene import faults
from coterie.lab.stack.scene.monitors import QuestionMonitor
from coterie.lab.stack.scene.plan import generator
from coterie.lab.stack.workloads.administrator import Habits
from coterie.lab.stack.workloads.changes import Changes
from coterie.lab.stack.workloads.locks import TAIL_SPREADS, ExclusiveLocks, LeasedLocks
from coterie.lab.stack.world import ViolationError

if TYPE_CHECKING:
    from random import Random

    from coterie.lab.stack.scene.scene import Scene
    from coterie.lab.stack.workloads.administrator import Administrator
    from coterie.lab.stack.world.machine import Process

TIMES = 1000.0  # that a lease becomes longer
SHORTER = 0.1  # of the lease that was in the file first
LEASE_DELAYS = 20  # one way, that it lasts at least, if the first one did
LATE_SECONDS = 0.5  # that a look at the nodes is late, and turns of event loops are
REST_SECONDS = 5.0  # of nodes, while a file is edited
TWO_CLUSTERS = (
    "exclusion",
    "tokens",
    "told",
    "finished",
    "calm",
    "values go back",
    "values decided",
)


class SmallChanges(Changes):
    """Clusters that begin with one voter or two, and may end so."""

    sizes: ClassVar[tuple[int, ...]] = (1, 1, 2)
    kinds: ClassVar[tuple[str, ...]] = faults.ALL
    habits: ClassVar[Habits] = Habits(voters_min=1, failures_borne_min=0)

    def known_nodes(self) -> list[str]:
        """Let programs name all machines: of few voters none may be left where they began."""
        return [*self.nodes, *self.spares]


class HugeTimes(Changes):
    """Leases that become a thousand times longer, and short again; and a protocol that becomes the newest one."""

    kinds: ClassVar[tuple[str, ...]] = ("kill", "terminate", "reset", "isolate", "pause", "reboot")
    faults_most = 6
    habits: ClassVar[Habits] = Habits(lease_shares=(1.0, TIMES), newest_protocol=True)

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        self.longest_lease = TIMES * self.plan.lease
        self.scene.locks.lease = self.longest_lease
        self._questions = QuestionMonitor(
            self.world, 2 * self.plan.delay + TAIL_SPREADS * self.plan.spread + LATE_SECONDS
        )
        self._is_peaceful = False

    def _look_at_nodes(self) -> None:
        """See also that voters are asked often while a change runs that nothing disturbs."""
        super()._look_at_nodes()
        running = [since for process, since in self._changing.items() if process.is_alive]
        if not self._is_peaceful or not running:
            return
        for name, (process, node) in self._running.items():
            if process.is_alive and self.scene.voting.get(name) == node.voting.voter.identity:
                answers = node.voting.programs.sent["Condition"]
                self._questions.look(process, answers, max(running))

    async def _administer(self, process: Process) -> None:
        if process.name == self.administrators[0] and process.life == 1:
            await self._form_by_the_oldest_protocol(process)
        await super()._administer(process)

    async def _form_by_the_oldest_protocol(self, process: Process) -> None:
        """Do what a cluster did that was formed by the version before, as far as nodes do not precede."""
        config = self.parsed
        await asyncio.sleep(20 * (self.plan.delay + self.plan.spread))
        try:
            goal = await forming_goal(config.membership, config.security)
            goal = msgspec.structs.replace(goal, protocol=OLDEST_PROTOCOL)
            await Change(config.membership, config.security, goal).run()
            self.scene.counts["formed by the oldest protocol"] += 1
        except (CoterieError, OSError) as error:
            self._note(process, f"does not form the cluster: {error!r}")

    async def _administer_in_peace(
        self, process: Process, administrator: Administrator, random: Random
    ) -> None:
        """Choose no long lease any more, or what comes next takes a thousand times as long."""
        self._is_peaceful = True
        administrator.habits = self.habits._replace(lease_shares=(1.0,))
        await super()._administer_in_peace(process, administrator, random)


class AfterLoss(Changes):
    """Quorums of disks that are lost for good: administrators go on with the voters that are left.

    Nothing that is promised may break as long as one of them forces. Two that force with other voters make two
    clusters until one of these hears of the other: programs of both may hold one lock then, and no more
    than that is excused. Their numbers have to differ, and one of them has to be followed in the end.
    """

    habits: ClassVar[Habits] = Habits(
        voters_min=1, failures_borne_min=0, forces=True, patience=30.0
    )

    def known_nodes(self) -> list[str]:
        """Let programs name all machines, as above."""
        return [*self.nodes, *self.spares]

    def run(self) -> None:
        """Judge all, but what two clusters may do to each other."""
        try:
            super().run()
        except ViolationError as error:
            if self.scene.counts["changes: force"] < 2 or error.name not in TWO_CLUSTERS:
                raise
            self.scene.counts[f"two clusters by two forces: {error.name}"] += 1

    def calm_from(self) -> float:
        """Expect no calm where disks were lost: what is held is lost by a force, as it says, and waits end later."""
        return math.inf if self.scene.counts["quorums lost"] else super().calm_from()


class Forces(AfterLoss):
    """Administrators that force, and change what is left, while nodes end and begin."""

    sizes: ClassVar[tuple[int, ...]] = (3, 4, 5)
    kinds: ClassVar[tuple[str, ...]] = ("lose-quorum", "lose-quorum", "kill", "terminate", "reset")
    faults_most = 6


class TwoForces(AfterLoss):
    """Two voters are left of five, cut off from each other, each with an administrator who forces."""

    sizes: ClassVar[tuple[int, ...]] = (5,)
    kinds: ClassVar[tuple[str, ...]] = ("split-after-loss",)
    faults_least = faults_most = 1
    longest_leases = 40.0  # so that both find out that the others do not answer
    habits: ClassVar[Habits] = AfterLoss.habits._replace(only_forces=True)

    async def _administer_in_peace(
        self, process: Process, administrator: Administrator, random: Random
    ) -> None:
        """Change the cluster that is left as in all worlds."""
        administrator.habits = AfterLoss.habits
        await super()._administer_in_peace(process, administrator, random)


class Breaks(LeasedLocks):
    """Operators end holds of programs that are alive, several of them at the same time."""

    administrators: ClassVar[tuple[str, ...]] = ("op1", "op2")

    def start(self) -> None:
        """Put everything on stage."""
        super().start()
        self.scene.locks.turns_excuse = True
        for name in self.administrators:
            self.scene.cast(name, self._operate, is_node=False)
            self.scene.start(name)

    async def _operate(self, process: Process) -> None:
        random, lease = self.scene.random(process), self.plan.lease
        visit = make_visit(self.url())
        while self.world.now < self.stop_at:
            await asyncio.sleep(random.expovariate(1) * 0.3 * lease)
            try:
                async with asyncio.timeout(2 * lease):
                    holding = await find_hold(visit, random.choice((*self.names, "leader")))
                    if not holding.participants:
                        continue
                    answers = await break_hold(visit, holding)
            except (CoterieError, OSError, TimeoutError) as error:
                self.scene.counts[f"{type(error).__name__} of a break"] += 1
            else:
                self.scene.counts["holds broken"] += any(each.told for each in answers)

    def _judge_error(self, process: Process, use: str, error: Exception) -> None:
        """Accept that a hold was ended by an operator, at any time."""
        if not (isinstance(error, LockLost) and "operator" in str(error)):
            super()._judge_error(process, use, error)


class EditedFiles(ExclusiveLocks):
    """A file in which the lease becomes shorter before the cluster has formed, for one node is away.

    Programs hold by the longer lease while all nodes end and start again.
    """

    sizes: ClassVar[tuple[int, ...]] = (3,)
    kinds: ClassVar[tuple[str, ...]] = ()
    wall_errors: ClassVar[tuple[float, ...]] = (30.0,)
    long_share = 0.9
    excuses: ClassVar[tuple[str, ...]] = ("the configurations differ",)  # of programs from before

    def start(self) -> None:
        """Put all on stage but one node, and edit the file when programs hold for the first time."""
        super().start()
        away = self.nodes[-1]
        process = self.scene.process(away)
        if process is not None:
            process.die()
        self.scene.roles[away].is_away = True
        random = self.scene_random()
        edited_at = self.world.now + 1 + 4 * self.plan.lease * random.random()
        in_order = random.random() < 0.5
        self.world.at(edited_at, self._edit, in_order)
        self.world.at(edited_at + REST_SECONDS + 4 * self.plan.lease, self.scene.start, away)

    def scene_random(self) -> Random:
        """Return the generator for what is done to the file."""
        return generator(self.plan.seed, "edit")

    def _edit(self, in_order: bool) -> None:
        for name in self.nodes[:-1]:
            process = self.scene.process(name)
            if in_order:
                self.scene.terminate(name)
            elif process is not None:
                process.die()
            self.scene.roles[name].is_away = True
            self.world.at(self.world.now + faults.ENDING_SECONDS, self._start_again, name)
        for name in self.programs[1:]:  # the first one goes on with what it holds
            self._start_again(name)
        delays = LEASE_DELAYS * (self.plan.delay + self.plan.spread)
        shortest = max(SHORTER * self.plan.lease, min(delays, 0.5 * self.plan.lease))
        self.config["lease"] = max(0.1, shortest)
        self.scene.counts["files edited"] += 1

    def _start_again(self, name: str) -> None:
        process = self.scene.process(name)
        if process is not None:
            process.die()
        self.scene.start(name)

    async def node(self, process: Process) -> None:
        """Vote; the operator vouches at the first start alone, and not for the node that was away."""
        over = self.scene.end_of(process)
        is_first = process.life == 1 and process.name != self.nodes[-1]
        node = Node(self.parsed, process.name, new_cluster=is_first)
        await node.start()
        try:
            await over.wait()
        finally:
            await node.stop()

    def _judge_error(self, process: Process, use: str, error: Exception) -> None:
        """Expect nothing of programs that go by the file as it was."""
