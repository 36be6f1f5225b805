"""Clusters whose voters, weights and leases are changed while programs take their locks.

Besides the nodes of the file there are spares, and administrators that want something else again and
again: some give up, some die, two of them compete. Nodes that were removed run on, with the disks they
have, or are installed again; one that has lost its disk is replaced under its name. When all faults are
over one administrator goes on, and no program may lose a hold by what it does.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from coterie.cluster.change.spare import Location, spare_config
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.cluster.wire.address import Address
from coterie.errors import ChangeConflict, ConfigError, CoterieError, UsageError
from coterie.lab.stack.scene import faults
from coterie.lab.stack.scene.monitors import ConfigurationMonitor
from coterie.lab.stack.scene.plan import Fault
from coterie.lab.stack.workloads.administrator import (
    LEASE_SHARES,
    Administrator,
    Habits,
    Hearers,
)
from coterie.lab.stack.workloads.locks import LeasedLocks
from coterie.lab.stack.workloads.workload import PORT
from coterie.lab.stack.world import ViolationError
from coterie.locks import connect
from coterie.system.aio import unless

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from coterie.algorithms.mutex.quorum.leased.changer import Goal
    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.algorithms.mutex.quorum.leased.voter import Voter
    from coterie.cluster.client.access import Visit
    from coterie.cluster.membership.config import Config
    from coterie.lab.stack.scene.scene import Scene
    from coterie.lab.stack.world.machine import Process
    from coterie.locks import Acquirable, Coordinator

CALM_LEASES, CALM_SECONDS = 3, 2  # after the last fault, until the last administrator begins
CALM_CHANGES = 2  # that have to succeed then
MEETING_LEASES = 0.4  # between the times at which administrators begin together
ROUND_TRIPS_LEAST = 3  # in the lease of a lock that is to be had
LOOKS_PER_HOP, LOOKS_MOST = 2, 200  # for a voter to have a part in a decision, when it fails


class Running(NamedTuple):
    """A node in one of its lives."""

    process: Process
    node: Node


class Changes(LeasedLocks):
    """Everything that can be changed, and everything that can go wrong."""

    sizes: ClassVar[tuple[int, ...]] = (3, 3, 4, 5)
    kinds: ClassVar[tuple[str, ...]] = faults.LEASED
    names = ("a", "b")
    uses: ClassVar[tuple[str, ...]] = (
        "exclusive",
        "exclusive",
        "exclusive",
        "shared",
        "try",
        "timeout",
        "short",
        "all",
    )
    spares: ClassVar[tuple[str, ...]] = ("s1", "s2", "s3", "s4")
    administrators: ClassVar[tuple[str, ...]] = ("admin1", "admin2")
    aimed_share: ClassVar[float] = 0.2  # of changes in whose decision a voter fails
    habits: ClassVar[Habits] = Habits()

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        self._machines = [*self.nodes, *self.spares]
        self._installed = self.scene.joined
        self._installed.update(self.spares)
        self._running: dict[str, Running] = {}
        self._named: dict[str, int] = {}  # disks, and the last number that a goal with them is for
        self._preparing: set[Process] = set()  # administrators that ask for disks, to name them
        self._changing: dict[
            Process, float
        ] = {}  # administrators whose changes run, and since when
        self._decisions = ConfigurationMonitor(self.world)
        self._settled_at = float("inf")
        self.scene.locks.lease = self.plan.lease * max(LEASE_SHARES)

    def start(self) -> None:
        """Put everything on stage; the last changes are made while programs go on."""
        super().start()
        self.stop_at += 2 * CALM_CHANGES * self.plan.lease
        for name in self.spares:
            self.scene.cast(name, self.node, is_node=True)
        for name in self.administrators:
            self.scene.cast(name, self._administer, is_node=False)
        for name in (*self.spares, *self.administrators):
            self.scene.start(name)
        self._look_on()

    def _look_on(self) -> None:
        """Judge what the nodes have adopted, again and again."""
        self._look_at_nodes()
        self.world.at(self.world.now + 0.02 * self.plan.lease, self._look_on)

    # Nodes

    async def node(self, process: Process) -> None:
        """Vote, as a node of the file or as one that has joined later."""
        over = self.scene.end_of(process)
        failures: list[CoterieError] = []

        def fail(failure: CoterieError) -> None:
            failures.append(failure)
            over.set()

        config: Config | None = self._config_of(process)
        if process.name in self._installed:
            config = await unless(over, self._cluster_of_spare(process))
        if config is None:
            return  # asked to end while it waited for the cluster that it joins
        new = self._is_new(process)
        node = Node(config, process.name, new_cluster=new, on_failure=fail)
        await node.start()
        self._judge_start(process, node)
        self._running[process.name] = Running(process, node)
        try:
            await over.wait()
            if failures:
                raise failures[0]
        finally:
            await node.stop()

    async def _cluster_of_spare(self, process: Process) -> Config:
        """Wait for the cluster that a node joins, and return what it says."""
        data = process.machine.disk.folder / "data"
        place = Location(process.name, Address(process.name, PORT), data)
        return await spare_config(place, self._visit_of(process))

    def _config_of(self, process: Process) -> Config:
        """Return what the file says by which a node begins."""
        del process
        return self.parsed

    def _is_new(self, process: Process) -> bool:
        """Return whether its operator vouches that no program holds anything."""
        return process.life == 1

    def _visit_of(self, process: Process) -> Visit:
        """Return where a spare, or an administrator, asks for the cluster."""
        del process
        return self._visit()

    def _judge_start(self, process: Process, node: Node) -> None:
        name, voter = process.name, node.voting.voter
        if process.machine.disk.is_copy:
            return  # it is out of date, or has a disk beside it that goes on
        self._decisions.started(name, voter.identity, voter.number)
        before = self._running.get(name)
        if before is None or before.process.died_in_turn:
            return
        if before.node.voting.host.failed or before.node.voting.host.is_behind:
            return
        earlier = before.node.voting.voter
        if earlier.identity == voter.identity:
            self._decisions.kept(name, earlier, voter, resumed=node.voting.resumed)

    def _visit(self) -> Visit:
        return make_visit(self.url_of(self._machines))

    def _look_at_nodes(self) -> None:
        """Judge what the nodes have adopted, and which programs they serve."""
        alive = {
            name: running.node.voting.voter
            for name, running in self._running.items()
            # What it could not save is not on its disk; it answers nothing any more, and ends.
            if running.process.is_alive and not running.node.voting.host.failed
        }
        self.scene.voting = _disks(list(alive.values()))
        for voter in alive.values():
            self._decisions.belongs(voter)
        alive = {name: each for name, each in alive.items() if not self._has_copy(name)}
        self._decisions.served(list(alive.values()))
        for name, voter in alive.items():
            if voter.configuration is not None:
                self._decisions.saw(name, voter.configuration)
                self._decisions.adopted(voter.identity, voter.number)
                if not self._running[name].node.voting.host.is_behind:
                    self._decisions.accepted(voter)

    def _has_copy(self, name: str) -> bool:
        return self._running[name].process.machine.disk.is_copy

    # Programs

    async def program(self, process: Process) -> None:
        """Take locks."""
        random = self.scene.random(process)
        async with (
            connect(self.url_of(self._known(random))) as coordinator,
            asyncio.TaskGroup() as group,
        ):
            for number in range(random.choice((1, 1, 2))):
                group.create_task(self._use(process, coordinator, number))

    def _known(self, random: Random) -> list[str]:
        """Return what a program knows: all nodes of the file, or only one, which may be removed."""
        nodes = self.known_nodes()
        return random.sample(nodes, random.choice((1, len(nodes))))

    def calm_from(self) -> float:
        """Return when the first change after all faults is long complete."""
        return max(super().calm_from(), self._settled_at + 2 * self.plan.lease)

    def _lease_of(self, use: str) -> float:
        return min(LEASE_SHARES) * super()._lease_of(use)

    def _wanted(self, coordinator: Coordinator, use: str, random: Random) -> Acquirable[Any]:
        # Where a round trip takes about as long as a short lease, such a lock is never obtained.
        round_trip = 2 * (self.plan.delay + self.plan.spread)
        if use == "short" and self._lease_of(use) < ROUND_TRIPS_LEAST * round_trip:
            use = "exclusive"
        return super()._wanted(coordinator, use, random)

    # Administrators

    async def _administer(self, process: Process) -> None:
        random, lease = self.scene.random(process), self.plan.lease
        administrator = self._administrator(process, random)
        calm_from = self.plan.quiet_from + CALM_LEASES * lease + CALM_SECONDS
        while self.world.now < self.plan.quiet_from:
            await asyncio.sleep(random.expovariate(1) * lease * 0.7)
            try:
                limit = lease * random.uniform(0.2, 8) + self.habits.patience
                async with asyncio.timeout(limit):
                    await self._change(process, administrator, random)
            except (CoterieError, OSError, TimeoutError) as error:
                self._note(process, f"gives up a change: {error!r}")
                self.scene.counts[f"{type(error).__name__} of a change"] += 1
        if process.name == self.administrators[0]:
            await asyncio.sleep(max(0.0, calm_from - self.world.now))
            await self._administer_in_peace(process, administrator, random)

    def _administrator(self, process: Process, random: Random) -> Administrator:
        return Administrator(random, self.plan.lease, self._visit_of(process), self.habits)

    async def _administer_in_peace(
        self, process: Process, administrator: Administrator, random: Random
    ) -> None:
        """Go on when all is well: each change comes to its end, or finds that another one has."""
        made = 0
        while made < CALM_CHANGES:
            try:
                made += await self._change(process, administrator, random, dies=False)
            except (ChangeConflict, ConfigError, UsageError) as error:
                self._note(process, f"has to look again: {error}")
            self._settled_at = min(self._settled_at, self.world.now)
            await asyncio.sleep(random.expovariate(1) * self.plan.lease)

    async def _change(
        self, process: Process, administrator: Administrator, random: Random, *, dies: bool = True
    ) -> bool:
        """Make one change from beginning to end; return False if there was nothing to do."""
        standing = await administrator.look()
        wish = await administrator.wish(standing)
        if wish is None:
            return False
        self._note(process, f"wants to {wish.name} by {standing.configuration}")

        def begins(goal: Goal) -> None:
            self._preparing.discard(process)
            self._changing[process] = self.world.now
            self._note(process, f"begins: {goal}")
            self._named |= {member.identity: goal.base for member in goal.members}
            self._look_closely(LOOKS_MOST)
            if dies:
                self._aim(process, standing.configuration, random)
            if dies and wish.name == "replace all" and random.random() < self.aimed_share:
                fault = Fault("absence", self.world.now, 2 * self.plan.lease, "all programs")
                faults.inject(self.scene, fault)

        if dies:
            await self._wait_for_others(random)
        self._preparing.add(process)
        try:
            hearers = Hearers(begins, self._stepped)
            reached = await administrator.carry_out(wish, standing, hearers)
        finally:
            self._preparing.discard(process)
            self._changing.pop(process, None)
        if reached is None:
            return False
        if process.is_alive:
            self._note(process, f"has reached configuration {reached.number}")
            self.scene.counts[f"changes: {wish.name}"] += 1
            self._decisions.saw(process.name, reached)
            self._treat_removed(reached, random)
        return True

    async def _wait_for_others(self, random: Random) -> None:
        """Begin together with others, at times that all know, in half of the cases."""
        between = MEETING_LEASES * self.plan.lease
        if random.random() < 0.5:
            await asyncio.sleep(between - self.world.now % between)

    def _aim(self, process: Process, present: Configuration, random: Random) -> None:
        """Let an administrator fail while its change is decided, or voters, or both."""
        lease = self.plan.lease
        if random.random() < 0.2:
            process.die_after_sends(random.randrange(60))
            self.world.at(self.world.now + lease, self._start_again, process.name)
        if random.random() >= self.aimed_share:
            return
        names = [member.name for member in present.members]
        if random.random() < 0.3:
            fault = Fault("kill", self.world.now, lease * random.random(), process.name)
            self._strike(fault, names[0], LOOKS_MOST, accepts=True)
        for name in random.sample(names, min(len(names), random.choice((1, 1, 2)))):
            kind = random.choice(("kill", "kill", "kill", "power", "pause"))
            fault = Fault(kind, self.world.now, lease * random.choice((0.02, 0.2)), name)
            self._strike(fault, name, LOOKS_MOST, accepts=random.random() < 0.5)

    def _strike(self, fault: Fault, voter: str, looks: int, *, accepts: bool) -> None:
        """Inject a fault when a voter has promised something, or accepted it, as soon as it is seen."""
        running = self._running.get(voter)
        if running is None or not running.process.is_alive or not looks:
            return
        succession = running.node.voting.voter.succession
        if succession.accepted if accepts else succession.promised:
            faults.inject(self.scene, replace(fault, at=self.world.now))
            return
        again = functools.partial(self._strike, fault, voter, looks - 1, accepts=accepts)
        self.world.at(self._next_look(), again)

    def _look_closely(self, looks: int) -> None:
        """See what each voter accepts while a change is decided."""
        for process, node in self._running.values():
            host = node.voting.host
            if process.is_alive and not host.failed and not host.is_behind:
                self._decisions.accepted(node.voting.voter)
        if looks:
            self.world.at(self._next_look(), self._look_closely, looks - 1)

    def _next_look(self) -> float:
        hop = self.plan.delay + self.plan.spread + 0.0002
        return self.world.now + hop / LOOKS_PER_HOP

    def _stepped(self, configuration: Configuration) -> None:
        self._decisions.saw("", configuration)
        self._look_at_nodes()
        self.scene.counts["configurations"] = self._decisions.newest

    def _treat_removed(self, reached: Configuration, random: Random) -> None:
        """Install nodes again that vote no more, or have them start again with their disks.

        Not while another administrator prepares a change: it may have asked which disk one of them has.
        """
        if reached.open or any(other.is_alive for other in self._preparing):
            return
        for name, (process, node) in self._running.items():
            if not process.is_alive or not self._is_removed(node, reached):
                continue
            share = random.random()
            if share < 0.4:
                self._kill(name)
                self.world.machines[name].disk.wipe()
                self._installed.add(name)
                self.scene.start_later(name, self.plan.lease * random.random())
                self.scene.counts["installed again"] += 1
            elif share < 0.6:
                self._kill(name)
                self.scene.start_later(name, self.plan.lease * random.random())

    def _is_removed(self, node: Node, reached: Configuration) -> bool:
        """Return whether a node has voted, and no change that may still be decided names its disk."""
        voter = node.voting.voter
        is_member = any(member.identity == voter.identity for member in reached.members)
        named = self._named.get(voter.identity, -1)
        if voter.configuration is not None and voter.configuration.is_foreign(reached):
            return False
        return voter.number > 0 and not is_member and named < reached.number

    def _start_again(self, name: str) -> None:
        self._kill(name)
        self.scene.start(name)

    def _kill(self, name: str) -> None:
        process = self.scene.process(name)
        if process is not None:
            process.die()

    def _note(self, process: Process, text: str) -> None:
        self.world.recorder.log(process.true_now(), process.name, text)

    def finish(self) -> None:
        """Take all locks, and see that the nodes agree on what was decided."""
        super().finish()
        self._look_at_nodes()
        if not self._decisions.newest:
            raise ViolationError("formed", "the cluster has no numbered configuration")
        for name, running in self._running.items():
            if running.node.voting.voter.number == 0:
                raise ViolationError(
                    "formed", f"{name} goes by its file, and not by what was decided"
                )


def _disks(voters: Sequence[Voter]) -> dict[str, str]:
    """Return the disks of the newest configuration that is known, by the names of their nodes."""
    known = [voter.configuration for voter in voters if voter.configuration is not None]
    newest = max(known, key=lambda each: each.number, default=None)
    return {each.name: each.identity for each in newest.members} if newest else {}


class ChangesAndCrashes(Changes):
    """Processes and machines that end and begin in every way while the cluster is changed."""

    kinds: ClassVar[tuple[str, ...]] = (
        *faults.RESTARTS,
        "kill-in-send",
        "power-in-send",
        "kill",
    )
    faults_most = 16
    longest_leases = 0.8
    long_share = 0.5
    aimed_share = 0.7
    wall_errors: ClassVar[tuple[float, ...]] = (30.0,)


class ChangesAndPauses(Changes):
    """Processes that stop, sleep or are cut off under long holds while the cluster is changed."""

    kinds: ClassVar[tuple[str, ...]] = faults.OF_HOLDERS
    faults_most = 16
    longest_leases = 4.0  # so that they miss several numbers
    long_share = 0.5


class ChangesAndResets(Changes):
    """Connections that break and stall again and again while the cluster is changed."""

    kinds: ClassVar[tuple[str, ...]] = ("reset", "reset", "reset", "block", "stall", "stall-dials")
    faults_most = 40
    longest_leases = 1.5


class ChangesAndDisks(Changes):
    """A disk that is lost, and others that fail, while the cluster is changed."""

    kinds: ClassVar[tuple[str, ...]] = ("new-disk", "new-disk", *faults.DISKS)
    faults_most = 6
    longest_leases = 2.0
