"""Disks and addresses that belong elsewhere: to another installation, to another node, to an earlier time.

What the product promises is judged by the installation that a program follows, which is the identity of its
cluster: exclusion and tokens within each, no disk goes over from one to the other, and no program that
has followed one holds by another. Administrators add spares of others, and force what status takes for lost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.cluster.change.force import check_force, force
from coterie.cluster.change.survey import look
from coterie.cluster.membership.config import convert
from coterie.cluster.url import make_visit
from coterie.cluster.wire.calls import STAGGER_SECONDS
from coterie.cluster.wire.link import DIAL_SECONDS_MAX, PAUSE_SECONDS_MAX
from coterie.errors import CoterieError
from coterie.lab.stack.scene.faults import NOWHERE, inject
from coterie.lab.stack.scene.monitors import LockMonitor
from coterie.lab.stack.scene.plan import Fault, generator
from coterie.lab.stack.workloads.administrator import LEASE_SHARES, Habits
from coterie.lab.stack.workloads.changes import CALM_LEASES, Changes
from coterie.lab.stack.workloads.locks import LeasedLocks
from coterie.lab.stack.workloads.workload import PORT
from coterie.lab.stack.world import ViolationError
from coterie.locks import connect
from coterie.locks.internals import engine_of

if TYPE_CHECKING:
    from random import Random

    from coterie.cluster.change.survey import VoterState
    from coterie.cluster.client.access import Visit
    from coterie.cluster.membership.config import Config
    from coterie.lab.stack.scene.scene import Scene
    from coterie.lab.stack.workloads.administrator import Administrator
    from coterie.lab.stack.world.machine import Process
    from coterie.locks import Coordinator

UNRECORDED_LEASES = 4  # in which programs go on, when they have had the time to call every address
MIXED_UP_SECONDS = 3.0  # at least, for nodes to start and to be called
APART_LEASES = 6.0  # that programs see one part of the nodes each
FORMER_HOSTS = 6  # addresses that nodes had long ago, and that lead nowhere
FORMING_SECONDS = 5.0  # within which an installation forms when nothing goes wrong
# A disk that was set back has forgotten promises, votes and tokens. The pages on change and backup promise
# nothing then, and status shows nothing: so nothing of this is judged from then on, for any lock.
OUTSIDE = (
    "exclusion",
    "tokens",
    "told",
    "one decision",
    "adopted",
    "kept",
    "finished",
    "formed",
    "calm",
    "waiting",
    "left held",
    "accused",  # how it is noticed, where it is
)


class MixedDisks(Changes):
    """Volumes of nodes that are swapped, and machines that are cloned, while the cluster is changed."""

    sizes: ClassVar[tuple[int, ...]] = (3, 3, 4, 5)
    kinds: ClassVar[tuple[str, ...]] = (
        "swap-disks",
        "swap-disks",
        "clone-disk",
        "clone-disk",
        "kill",
        "power",
        "isolate",
    )
    faults_most = 6
    longest_leases = 3.0
    habits: ClassVar[Habits] = Habits(tries_strangers=True, forces=True)


class SetBackDisks(Changes):
    """A disk that is set back to a snapshot: what is promised holds until then."""

    kinds: ClassVar[tuple[str, ...]] = ("set-back-disk", "kill", "power", "reboot", "isolate")
    faults_most = 4
    longest_leases = 3.0

    def run(self) -> None:
        """Judge everything until a disk is set back, and then what does not rest on disks."""
        try:
            super().run()
        except ViolationError as error:
            if not self.scene.counts["disks set back"] or error.name not in OUTSIDE:
                raise
            self.scene.counts[f"outside of what is promised: {error.name}"] += 1


class Installations(Changes):
    """Three installations of one name: an earlier one of the same nodes, and one on other machines."""

    sizes: ClassVar[tuple[int, ...]] = (3,)
    kinds: ClassVar[tuple[str, ...]] = (
        "old-disk",
        "old-disk",
        "old-disks",
        "give-address",
        "give-address",
        "kill",
        "power",
        "isolate",
    )
    faults_most = 6
    longest_leases = 3.0
    spares: ClassVar[tuple[str, ...]] = ("s1", "s2", "s3")
    administrators: ClassVar[tuple[str, ...]] = ("admin1",)
    others: ClassVar[tuple[str, ...]] = ("o1", "o2", "o3")  # nodes of another installation
    other_spare: ClassVar[str] = "s3"  # has joined that one
    other_programs: ClassVar[tuple[str, ...]] = ("q1", "q2")
    excuses: ClassVar[tuple[str, ...]] = ("belongs to another installation",)
    prologue_seconds: ClassVar[float] = 2 * FORMING_SECONDS
    habits: ClassVar[Habits] = Habits(tries_strangers=True, forces=True)

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        self._other_config = super()._config()
        self._locks: dict[str, LockMonitor] = {}  # by installation
        self._coordinators: dict[Process, Coordinator] = {}
        self._followed: dict[Process, str] = {}

    def prepare(self) -> None:
        """Let the nodes form an earlier installation, and lay its disks aside; let another one form."""
        for name in (*self.others, *self.other_programs):
            self.scene.cast(name, self._role_of(name), is_node=name in self.others)
        for name in self.others:
            folder = self.world.machines[name].disk.folder / "data"
            node = {"address": f"{name}:{PORT}", "data": str(folder)}
            self._other_config["nodes"][name] = node
        if self._certificates:
            self._other_config["tls"] = self._certificates
        for name in (*self.nodes, *self.others):
            self.scene.start(name)
        self.world.run(FORMING_SECONDS)
        for name in self.nodes:
            self._lay_disk_aside(name)
        self.scene.strangers = list(self.others)
        for name in self.other_programs:
            self.scene.start(name)

    def _role_of(self, name: str) -> Any:
        return self.node if name in self.others else self.program

    def _lay_disk_aside(self, name: str) -> None:
        """Keep what the earlier installation has left, and give the machine an empty disk."""
        machine = self.world.machines[name]
        machine.power_off()
        place = self.world.lay_aside(name)
        machine.swap_disks(place)
        machine.own_disk = machine.disk
        machine.power_on()
        self.scene.earlier_disks[name] = place
        self._running.pop(name, None)

    # Who belongs where

    def _config_of(self, process: Process) -> Config:
        return convert(self._other_config) if process.name in self.others else self.parsed

    def _is_new(self, process: Process) -> bool:
        return process.life <= (2 if process.name in self.nodes else 1)

    def _visit_of(self, process: Process) -> Visit:
        if process.name == self.other_spare:
            return make_visit(self.url_of(self.others))
        if process.name in self.spares:
            return make_visit(self.url_of(self.nodes))
        return super()._visit_of(process)

    async def program(self, process: Process) -> None:
        """Take locks of one installation; programs know all of its nodes."""
        nodes = self.others if process.name in self.other_programs else self.nodes
        async with connect(self.url_of(nodes)) as coordinator, asyncio.TaskGroup() as group:
            self._coordinators[process] = coordinator
            group.create_task(self._use(process, coordinator, 0))

    # What is promised

    def locks_of(self, process: Process) -> LockMonitor:
        """Return what judges the holds of the installation that a program follows, always the same one."""
        coordinator = self._coordinators.get(process)
        identity = self._followed.get(process, "") if coordinator is None else follows(coordinator)
        before = self._followed.get(process, "")
        if identity:
            self._followed[process] = identity
        if before and before != identity:
            text = f"{process.name} holds by installation {identity}, and has followed {before}"
            self.world.violate("installation", text)
        if identity not in self._locks:
            monitor = LockMonitor(self.world, self.plan.lease * max(LEASE_SHARES))
            self._locks[identity] = monitor
        return self._locks[identity]

    def _judge_error(self, process: Process, use: str, error: Exception) -> None:
        """Accept no loss in the installation that lives on; who follows the earlier one has been warned."""
        if self._followed.get(process, "") in self._living():
            super()._judge_error(process, use, error)
        else:
            self.scene.counts["errors of those that follow the earlier installation"] += 1

    def _living(self) -> set[str]:
        """Name the installations whose nodes run now."""
        alive = [node for process, node in self._running.values() if process.is_alive]
        voters = [node.voting.voter for node in alive]
        return {each.configuration.cluster_identity for each in voters if each.configuration}

    def finish(self) -> None:
        """Take locks of both, and see that all nodes follow what they had decided."""
        for monitor in self._locks.values():
            monitor.forget_dead()
            self.scene.locks.grants += monitor.grants
        self.scene.counts["installations"] = len(self._living())
        super().finish()


class MisplacedDisks(Installations):
    """Two nodes of three answer with disks that are not theirs, and an operator forces against all advice.

    They have the disks of each other, or those of an earlier installation. No disk is lost, so the force has to be
    refused: when the disks are back the two are a quorum that knows nothing of it. Just then one half of the programs is
    started again and reaches these two alone, and the other half the third node.
    """

    kinds: ClassVar[tuple[str, ...]] = ()
    spares: ClassVar[tuple[str, ...]] = ()
    administrators: ClassVar[tuple[str, ...]] = ("operator",)
    others: ClassVar[tuple[str, ...]] = ()
    other_spare: ClassVar[str] = ""
    other_programs: ClassVar[tuple[str, ...]] = ()
    long_share: ClassVar[float] = 0.8  # programs hold while the operator acts

    def start(self) -> None:
        """Put all on stage, and decide when the disks are mixed up, and for how long."""
        super().start()
        random = generator(self.plan.seed, "misplaced disks")
        lease = self.plan.lease
        begins = self.world.now + MIXED_UP_SECONDS + lease * random.uniform(1, 3)
        lasts = MIXED_UP_SECONDS + lease * random.uniform(1, 4)
        first, second, third = self.nodes
        self.scene.earlier_disks.pop(third)
        kind = random.choice(("swap-disks", "old-disks"))
        self.world.at(begins, inject, self.scene, Fault(kind, begins, lasts, first, second))
        apart = [(node, third) for node in (first, second)]
        for number, program in enumerate(self.programs):
            apart += [(program, node) for node in ((first, second), (third,))[number % 2]]
        for pair in apart:
            cut = Fault("cut", begins + lasts, APART_LEASES * lease, *pair)
            self.world.at(cut.at, inject, self.scene, cut)
        for program in self.programs[1::2]:
            kill = Fault("kill", begins + lasts, 0.1 * lease, program)
            self.world.at(kill.at, inject, self.scene, kill)
        self._settled_at = begins + lasts + (APART_LEASES + CALM_LEASES) * lease
        self.stop_at = self._settled_at + (CALM_LEASES + 1) * lease

    async def _administer(self, process: Process) -> None:
        """Force whenever nodes answer in the place of voters, until the disks are back."""
        visit = self._visit_of(process)
        while self.world.now < self._settled_at:
            await asyncio.sleep(0.2 * self.plan.lease)
            try:
                standing = await look(visit)
                gone = [each for each in standing.voters if each.seat in standing.gone]
                if gone and not any(_is_silent(each) for each in gone):
                    left = [each.name for each in standing.voters if each.seat in standing.up]
                    await force(standing, check_force(standing, left))
                    self.scene.counts["forced against all advice"] += 1
            except (CoterieError, OSError) as error:
                self.scene.counts[f"{type(error).__name__} of a force"] += 1


def _is_silent(voter: VoterState) -> bool:
    """Return whether no node answers there, so that it may be dead as far as an operator sees."""
    return not (voter.condition or voter.other or voter.is_foreign or voter.is_barred)


class Renumbering(Changes):
    """Nodes that get other addresses, one or all, and keep their disks; all addresses are known to all.

    They are found by their disks: programs get their locks before an administrator records where nodes are.
    """

    sizes: ClassVar[tuple[int, ...]] = (1, 3, 3, 5)
    kinds: ClassVar[tuple[str, ...]] = ("renumber", "renumber", "kill", "reset", "terminate")
    faults_least = 1
    faults_most = 6
    spares: ClassVar[tuple[str, ...]] = ()
    aimed_share: ClassVar[float] = 0.0  # or voters would end when all is well
    prologue_seconds: ClassVar[float] = (
        FORMING_SECONDS  # a file has no disks by which to find nodes
    )
    habits: ClassVar[Habits] = Habits(voters_min=5, failures_borne_min=0, records_addresses=True)

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        scene.hosts.update({name: [name, name.replace("n", "s")] for name in self.nodes})
        self._former = [f"former{number}" for number in range(FORMER_HOSTS)]
        scene.world.network.owners.update(dict.fromkeys(self._former, NOWHERE))
        # A round of calls in vain, which a node may just have missed, and another one that finds it.
        calls = 2 * STAGGER_SECONDS * len(self.known_nodes())
        self._search_seconds = calls + DIAL_SECONDS_MAX + PAUSE_SECONDS_MAX

    def known_nodes(self) -> list[str]:
        """Name all addresses that nodes may have, those that lead nowhere first."""
        return [*self._former, *(host for hosts in self.scene.hosts.values() for host in hosts)]

    def _known(self, random: Random) -> list[str]:
        del random
        return self.known_nodes()

    def _visit(self) -> Visit:
        return make_visit(self.url())

    def _config_of(self, process: Process) -> Config:
        """Read the file with the present addresses."""
        del process
        for name, hosts in self.scene.hosts.items():
            self.config["nodes"][name]["address"] = f"{hosts[0]}:{PORT}"
        return self.parsed

    def start(self) -> None:
        """Put everything on stage; for a while all is well, and nothing new on record."""
        super().start()
        self.stop_at += self._search_seconds + UNRECORDED_LEASES * self.plan.lease

    async def _administer_in_peace(
        self, process: Process, administrator: Administrator, random: Random
    ) -> None:
        await asyncio.sleep(self._search_seconds + UNRECORDED_LEASES * self.plan.lease)
        await super()._administer_in_peace(process, administrator, random)

    def calm_from(self) -> float:
        """Return when each node can have been found, whatever is on record."""
        return max(LeasedLocks.calm_from(self), self.plan.quiet_from + self._search_seconds)

    def finish(self) -> None:
        """See that the last change has left each address on record where its node is."""
        super().finish()
        voters = [node.voting.voter for _, node in self._running.values()]
        known = [each.configuration for each in voters if each.configuration is not None]
        newest = max(known, key=lambda each: each.number)
        for member in newest.members:
            if member.address != f"{self.scene.hosts[member.name][0]}:{PORT}":
                raise ViolationError("found", f"{member.name} is on record at {member.address}")


def follows(coordinator: Coordinator) -> str:
    """Name the installation that a program follows."""
    engine: Any = engine_of(coordinator)
    identity: str = engine.group.supply.membership.configuration.cluster_identity
    return identity
