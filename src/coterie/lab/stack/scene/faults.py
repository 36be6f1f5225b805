"""What goes wrong with machines, processes, disks and the network, one function for each kind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coterie.lab.stack.scene.plan import Fault, generator
from coterie.lab.stack.world.disk import SYNC_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.stack.scene.scene import Scene


BEGINNING_SECONDS = 0.2  # of a process, in which it finds its peers
ENDING_SECONDS = 0.3  # of a process, in which it says goodbye
NOWHERE = ""  # the name of no machine


def inject(scene: Scene, fault: Fault) -> None:
    """Let a fault happen, and see to its end."""
    world = scene.world
    world.recorder.log(world.now, "FAULT", str(fault))
    scene.counts[fault.kind] += 1
    KINDS[fault.kind](scene, fault)


def _later(scene: Scene, fault: Fault, callback: Callable[..., object], *arguments: object) -> None:
    scene.world.at(scene.world.now + fault.seconds, callback, *arguments)


# The network


def block(scene: Scene, fault: Fault) -> None:
    """Swallow what one machine sends to another."""
    network = scene.world.network
    network.block(fault.first, fault.second)
    _later(scene, fault, network.unblock, fault.first, fault.second)


def cut(scene: Scene, fault: Fault) -> None:
    """Separate two machines."""
    network = scene.world.network
    for ends in ((fault.first, fault.second), (fault.second, fault.first)):
        network.block(*ends)
        _later(scene, fault, network.unblock, *ends)


def isolate(scene: Scene, fault: Fault) -> None:
    """Separate a machine from all others."""
    network = scene.world.network
    for other in scene.world.machines:
        if other != fault.first:
            for ends in ((fault.first, other), (other, fault.first)):
                network.block(*ends)
                _later(scene, fault, network.unblock, *ends)


def stall(scene: Scene, fault: Fault) -> None:
    """Let one connection stand still, in both directions."""
    connections = scene.world.network.between(fault.first, fault.second)
    if not connections:
        return
    connection = connections[int(fault.share * len(connections)) % len(connections)]
    connection.is_stalled = True

    def go_on() -> None:
        connection.is_stalled = False
        connection.release()

    _later(scene, fault, go_on)


def stall_dials(scene: Scene, fault: Fault) -> None:
    """Stall all connections that one machine dials to another; the other way all is well."""
    network = scene.world.network
    network.stall_dials(fault.first, fault.second)
    _later(scene, fault, network.unstall_dials, fault.first, fault.second)


def reset(scene: Scene, fault: Fault) -> None:
    """Break the connections between two machines."""
    for connection in scene.world.network.between(fault.first, fault.second):
        connection.reset()


def refuse(scene: Scene, fault: Fault) -> None:
    """Refuse new connections to a machine."""
    refusing = scene.world.network.refusing
    refusing.add(fault.first)
    _later(scene, fault, refusing.discard, fault.first)


def slow_network(scene: Scene, fault: Fault) -> None:
    """Let everything take longer for a while."""
    network = scene.world.network
    more = 0.001 + 0.08 * fault.share
    network.delay += more

    def go_on() -> None:
        network.delay -= more

    _later(scene, fault, go_on)


# Processes


def pause(scene: Scene, fault: Fault) -> None:
    """Stop a process, as SIGSTOP does, or something that blocks its event loop."""
    process = scene.process(fault.first)
    if process is not None:
        process.pause(scene.world.now + fault.seconds)
        recorder = scene.world.recorder
        recorder.paused(scene.world.now, process.number)
        scene.world.at(process.busy_until, recorder.resumed, process.busy_until, process.number)


def kill(scene: Scene, fault: Fault) -> None:
    """Kill a process; it is started again."""
    process = scene.process(fault.first)
    if process is not None:
        process.die()
        scene.start_later(fault.first, fault.seconds)


def kill_for_good(scene: Scene, fault: Fault) -> None:
    """Kill a process that nothing starts again."""
    process = scene.process(fault.first)
    if process is not None and not scene.counts["killed for good"]:  # a minority, whatever the size
        process.die()
        scene.roles[fault.first].is_done = True
        scene.counts["killed for good"] += 1


def power_for_good(scene: Scene, fault: Fault) -> None:
    """Switch a machine off that nothing switches on again: the others hear no end of its connections."""
    machine = scene.world.machines[fault.first]
    if machine.is_up and not scene.counts["killed for good"]:
        machine.power_off()
        scene.roles[fault.first].is_done = True
        scene.counts["killed for good"] += 1


def absence(scene: Scene, fault: Fault) -> None:
    """Kill all programs; none of them is back before the end, so what they knew is forgotten."""
    for number in range(1, scene.plan.programs + 1):
        kill(scene, replace(fault, first=f"p{number}"))


def kill_in_sync(scene: Scene, fault: Fault) -> None:
    """Kill a process while it syncs a file, just before that or just after."""
    process = scene.process(fault.first)
    if process is not None:
        process.die_after_syncs(int(4 * fault.share))
        _later(scene, fault, _kill_and_restart, scene, fault.first)


def power_in_sync(scene: Scene, fault: Fault) -> None:
    """Cut the power of a machine while a process of it syncs a file."""
    process = scene.process(fault.first)
    if process is not None:
        process.die_after_syncs(int(4 * fault.share), with_power=True)
        _later(scene, fault, _power_on, scene, fault.first)


def kill_in_send(scene: Scene, fault: Fault) -> None:
    """Kill a process just after something has left it, before it does anything else."""
    process = scene.process(fault.first)
    if process is not None:
        process.die_after_sends(int(8 * fault.share))
        _later(scene, fault, _kill_and_restart, scene, fault.first)


def power_in_send(scene: Scene, fault: Fault) -> None:
    """Cut the power of a machine just after something has left it."""
    process = scene.process(fault.first)
    if process is not None:
        process.die_after_sends(int(8 * fault.share), with_power=True)
        _later(scene, fault, _power_on, scene, fault.first)


def terminate(scene: Scene, fault: Fault) -> None:
    """End a node in good order; it is started again."""
    scene.terminate(fault.first)
    _later(scene, fault, _kill_and_restart, scene, fault.first)


def reboot(scene: Scene, fault: Fault) -> None:
    """End a node in good order, then boot its machine: its clock begins again."""
    scene.terminate(fault.first)
    world, machine = scene.world, scene.world.machines[fault.first]
    world.at(world.now + min(ENDING_SECONDS, 0.5 * fault.seconds), machine.power_off)
    _later(scene, fault, _power_on, scene, fault.first)


def relapse(scene: Scene, fault: Fault) -> None:
    """End a node in good order and start it again; a lease or two later it dies, and is back at once.

    What it has written at the orderly end is out of date then.
    """
    terminate(scene, replace(fault, seconds=0.2 * fault.seconds))
    world = scene.world
    dies = world.now + scene.plan.lease * (1.2 + fault.share)
    world.at(dies, kill, scene, replace(fault, seconds=0.1 * fault.seconds))


def _kill_and_restart(scene: Scene, name: str) -> None:
    process = scene.process(name)
    if process is not None:
        process.die()
    scene.start(name)


def former_life(scene: Scene, fault: Fault) -> None:
    """Kill a process whose last words stick on the way; it is back long before they arrive."""
    stall_dials(scene, fault)
    world = scene.world
    dies = world.now + fault.seconds * (0.1 + 0.4 * fault.share)
    world.at(dies, kill, scene, replace(fault, seconds=0.1 * fault.seconds))


def short_life(scene: Scene, fault: Fault) -> None:
    """Let all that a process sends in one life stick on the way until the next one has begun."""
    moment = 0.1 * fault.seconds
    kill(scene, replace(fault, seconds=moment))
    world = scene.world
    rest = replace(fault, seconds=fault.seconds - 2 * moment)
    world.at(world.now + moment + BEGINNING_SECONDS * fault.share, former_life, scene, rest)


# Machines


def power(scene: Scene, fault: Fault) -> None:
    """Switch a machine off and on."""
    machine = scene.world.machines[fault.first]
    if machine.is_up:
        machine.power_off()
    _later(scene, fault, _power_on, scene, fault.first)


def _power_on(scene: Scene, name: str) -> None:
    machine = scene.world.machines[name]
    if machine.is_up:
        machine.power_off()
    machine.power_on()
    scene.start(name)


def blackout(scene: Scene, fault: Fault) -> None:
    """Cut the power of all machines; they are back one after the other, each with a time of day."""
    world, plan = scene.world, scene.plan
    random = generator(plan.seed, f"blackout at {fault.at}")
    for name, machine in world.machines.items():
        if machine.is_up:
            machine.power_off()
        machine.set_wall(random.uniform(-1, 1) * plan.wall_error)
        world.at(world.now + fault.seconds * random.uniform(0.1, 1), _power_on, scene, name)


def shutdown(scene: Scene, fault: Fault) -> None:
    """End all nodes in good order before the power of all machines is cut."""
    for name, role in scene.roles.items():
        if role.is_node:
            scene.terminate(name)
    scene.world.at(scene.world.now + ENDING_SECONDS, blackout, scene, fault)


def new_disk(scene: Scene, fault: Fault) -> None:
    """Put another disk into the machine of a node, at the worst time.

    For a while only the last program reaches a second node, so others hold what they hold by the
    votes of all but that one. When the disk is lost, they lose the way to its node as well, and do not
    hear that it knows nothing any more. In every other case the two nodes do not hear of each other.

    No other disk is lost in the same run: nodes ask each other what a lost disk knew.
    """
    nodes = [name for name, role in scene.roles.items() if role.is_node]
    if len(nodes) < 3 or scene.counts["disks lost"]:
        return
    scene.counts["disks lost"] += 1
    left_out = [name for name in scene.roles if name not in nodes][:-1]
    if fault.share < 0.5:
        cut(scene, fault)
    for program in left_out:
        cut(scene, replace(fault, first=program))
    world = scene.world
    world.at(world.now + 0.5 * fault.seconds, _lose_disk, scene, fault, left_out)


def _lose_disk(scene: Scene, fault: Fault, left_out: list[str]) -> None:
    for program in left_out:
        cut(scene, replace(fault, second=program, seconds=0.5 * fault.seconds))
    machine = scene.world.machines[fault.first]
    if machine.is_up:
        machine.power_off()
    machine.disk.wipe()
    _power_on(scene, fault.first)


def sleep(scene: Scene, fault: Fault) -> None:
    """Suspend a machine: its processes stop, its monotonic clock too, the one of leases does not."""
    machine = scene.world.machines[fault.first]
    if machine.is_up:
        machine.sleep(fault.seconds)


def step_wall(scene: Scene, fault: Fault) -> None:
    """Set the time of day of a machine, forward or back."""
    scene.world.machines[fault.first].step_wall(4 * fault.share - 2)


def slow_disk(scene: Scene, fault: Fault) -> None:
    """Let each sync take longer."""
    disk = scene.world.machines[fault.first].disk
    disk.sync_seconds = 0.002 + 0.3 * fault.share**2

    def go_on() -> None:
        disk.sync_seconds = SYNC_SECONDS

    _later(scene, fault, go_on)


def full_disk(scene: Scene, fault: Fault) -> None:
    """Let each sync fail."""
    disk = scene.world.machines[fault.first].disk
    disk.is_full = True

    def go_on() -> None:
        disk.is_full = False

    _later(scene, fault, go_on)


# What belongs to other machines


def swap_disks(scene: Scene, fault: Fault) -> None:
    """Boot two machines with the disk of each other, for a while."""
    _boot_otherwise(scene, fault, [fault.first, fault.second])
    first, second = (scene.world.machines[name] for name in (fault.first, fault.second))
    first.swap_disks(second)


def clone_disk(scene: Scene, fault: Fault) -> None:
    """Boot a machine with a copy of the disk of another one, which goes on, for a while."""
    world = scene.world
    copy = world.lay_aside(fault.second)
    world.machines[fault.second].disk.copy_to(copy.disk)
    _boot_otherwise(scene, fault, [fault.first])
    world.machines[fault.first].swap_disks(copy)


def old_disk(scene: Scene, fault: Fault) -> None:
    """Boot a machine with the disk that it had in an earlier installation, for a while."""
    earlier = scene.earlier_disks.get(fault.first)
    if earlier is None:
        return
    copy = scene.world.lay_aside(fault.first)
    earlier.disk.copy_to(copy.disk)
    _boot_otherwise(scene, fault, [fault.first], of_ours=False)
    scene.world.machines[fault.first].swap_disks(copy)


def old_disks(scene: Scene, fault: Fault) -> None:
    """Boot all nodes with the disks that they had in an earlier installation, for a while."""
    for name in scene.earlier_disks:
        old_disk(scene, replace(fault, first=name))


def set_back_disk(scene: Scene, fault: Fault) -> None:
    """Set a disk back to what it was when the fault began: a snapshot is restored, for good."""
    world = scene.world
    machine, snapshot = world.machines[fault.first], world.lay_aside(fault.first)
    machine.disk.copy_to(snapshot.disk)

    def restore() -> None:
        scene.counts["disks set back"] += 1
        _switch_off(scene, fault.first)
        machine.swap_disks(snapshot)
        machine.own_disk = machine.disk
        _power_on(scene, fault.first)

    _later(scene, fault, restore)


def lose_quorum(scene: Scene, fault: Fault) -> None:
    """Lose the disks of more than half of the voters for good; their nodes come back as spares that join.

    By a file all nodes of which are new they would form another cluster. One voter at least is left: a cluster
    all disks of which are lost is over, and no operator brings it back.
    """
    voting = sorted(scene.voting)
    lost, left = voting[: len(voting) // 2 + 1], voting[len(voting) // 2 + 1 :]
    if scene.counts["quorums lost"] or scene.counts["disks lost"] or not left:
        return
    scene.counts["quorums lost"] += 1
    for name in lost:
        _switch_off(scene, name)
        scene.world.machines[name].disk.wipe()
        scene.joined.add(name)
        scene.world.at(scene.world.now + 0.05 * fault.seconds, _power_on, scene, name)


def split_after_loss(scene: Scene, fault: Fault) -> None:
    """Lose a quorum of disks; two of the voters that are left do not reach each other for a while.

    Of two administrators each reaches one of them.
    """
    left = sorted(scene.voting)[len(scene.voting) // 2 + 1 :]
    administrators = [name for name in scene.roles if name.startswith("admin")]
    if len(left) < 2 or len(administrators) < 2:
        return
    lose_quorum(scene, fault)
    for first, second in zip((left[0], *administrators), (left[1], left[1], left[0]), strict=True):
        cut(scene, replace(fault, first=first, second=second))


def give_address(scene: Scene, fault: Fault) -> None:
    """Switch a machine off, and give its address to a node of another installation, for a while."""
    strangers, network = scene.strangers, scene.world.network
    if not strangers or fault.first in network.owners:
        return
    stranger = strangers[int(fault.share * len(strangers))]
    _switch_off(scene, fault.first)
    network.owners[fault.first] = stranger

    def take_back() -> None:
        del network.owners[fault.first]
        for other in scene.world.machines:
            for connection in network.between(stranger, other):
                connection.reset()
        _power_on(scene, fault.first)

    _later(scene, fault, take_back)


def renumber(scene: Scene, fault: Fault) -> None:
    """Switch a machine off, and on again with its disk and another address; the one before leads nowhere."""
    hosts, owners = scene.hosts[fault.first], scene.world.network.owners
    _switch_off(scene, fault.first)
    owners[hosts[0]] = NOWHERE
    hosts.reverse()
    owners[hosts[0]] = fault.first
    _later(scene, fault, _power_on, scene, fault.first)


def _boot_otherwise(scene: Scene, fault: Fault, names: list[str], *, of_ours: bool = True) -> None:
    """Switch machines off, to be booted when their disks are changed, and again with their own.

    A spare may have become a voter with a disk `of_ours`, our installation, that it had for that time. Then the machines
    keep their present disks: given back, each voter would answer with the disk of another.
    """
    world = scene.world
    for name in names:
        _switch_off(scene, name)
        world.at(world.now + 0.05 * fault.seconds, _power_on, scene, name)

    def put_right() -> None:
        if of_ours and any(_has_disk_of_voter(scene, name) for name in names):
            for machine in (world.machines[name] for name in names):
                machine.own_disk = machine.disk
            return
        for name in names:
            _switch_off(scene, name)
        for name in names:
            world.give_back_disk(name)
        for name, machine in world.machines.items():
            if not machine.is_up and name in scene.roles and scene.roles[name].is_node:
                _power_on(scene, name)

    _later(scene, fault, put_right)


def _has_disk_of_voter(scene: Scene, name: str) -> bool:
    """Return whether the voter of this name is known by the disk that its machine has now."""
    identity = scene.world.machines[name].disk.folder / "data" / "identity"
    words = identity.read_text().split() if identity.exists() else []
    return bool(words) and scene.voting.get(name) == words[0]


def _switch_off(scene: Scene, name: str) -> None:
    machine = scene.world.machines[name]
    if machine.is_up:
        machine.power_off()


KINDS: dict[str, Callable[[Scene, Fault], None]] = {
    "block": block,
    "cut": cut,
    "isolate": isolate,
    "stall": stall,
    "stall-dials": stall_dials,
    "reset": reset,
    "refuse": refuse,
    "slow-network": slow_network,
    "pause": pause,
    "hang": pause,
    "kill": kill,
    "kill-for-good": kill_for_good,
    "power-for-good": power_for_good,
    "absence": absence,
    "former-life": former_life,
    "kill-in-sync": kill_in_sync,
    "kill-in-send": kill_in_send,
    "power-in-sync": power_in_sync,
    "power-in-send": power_in_send,
    "short-life": short_life,
    "terminate": terminate,
    "reboot": reboot,
    "relapse": relapse,
    "power": power,
    "blackout": blackout,
    "shutdown": shutdown,
    "new-disk": new_disk,
    "sleep": sleep,
    "step-wall": step_wall,
    "slow-disk": slow_disk,
    "full-disk": full_disk,
    "swap-disks": swap_disks,
    "clone-disk": clone_disk,
    "old-disk": old_disk,
    "old-disks": old_disks,
    "set-back-disk": set_back_disk,
    "give-address": give_address,
    "renumber": renumber,
    "lose-quorum": lose_quorum,
    "split-after-loss": split_after_loss,
}
MIX_UPS = ("swap-disks", "clone-disk", "old-disk", "old-disks", "set-back-disk", "give-address")
OF_TWO = (
    "block",
    "cut",
    "stall",
    "stall-dials",
    "former-life",
    "short-life",
    "reset",
    "new-disk",
    "swap-disks",
    "clone-disk",
)
OF_NODES = (
    *MIX_UPS,
    "renumber",
    "lose-quorum",
    "split-after-loss",
    "kill-in-sync",
    "power-in-sync",
    "new-disk",
    "relapse",
    "terminate",
    "reboot",
    "slow-disk",
    "full-disk",
    "refuse",
)
OF_HOLDERS = ("pause", "sleep", "isolate", "hang")  # worst for a program that holds a lock
SHORT = ("hang", "reset")
RARE = (
    "kill-for-good",
    "power-for-good",
    "absence",
    "new-disk",
    "lose-quorum",
    "split-after-loss",
    "renumber",
    *MIX_UPS,
)
# A site of a store must not lose its disk, nor a classic node return.
ALL = tuple(kind for kind in KINDS if kind not in RARE)
LEASED = (*ALL, "new-disk")
RESTARTS = (
    "kill",
    "kill-in-sync",
    "terminate",
    "reboot",
    "reboot",
    "relapse",
    "relapse",
    "power",
    "power-in-sync",
    "blackout",
    "shutdown",
)
DISKS = ("kill", "power", "kill-in-sync", "power-in-sync", "power-in-send", "full-disk", "blackout")
DELAYS = ("block", "cut", "stall", "stall-dials", "reset", "slow-network", "pause", "hang")


def draw_faults(
    seed: int,
    kinds: Sequence[str],
    nodes: Sequence[str],
    programs: Sequence[str],
    *,
    duration: float,
    longest: float,
    least: int = 0,
    most: int = 8,
    begin: float = 0.2,
) -> tuple[Fault, ...]:
    """Draw faults of these kinds, each no longer than `longest`."""
    random = generator(seed, "faults")
    faults = []
    for _ in range(random.randint(least, most) if kinds else 0):
        kind = random.choice(kinds)
        if random.random() < 0.25:
            kind = random.choice([each for each in OF_HOLDERS if each in kinds] or [kind])
        both = [*nodes, *programs]
        first = random.choice(nodes if kind in OF_NODES else both)
        if kind in OF_HOLDERS and programs and random.random() < 0.7:
            first = random.choice(programs)
        second = ""
        if kind in OF_TWO:
            # Nothing travels between programs.
            second = random.choice([name for name in nodes if name != first] or both)
            if random.random() < 0.5 and kind not in OF_NODES:
                first, second = second, first
        seconds = (
            random.uniform(0.051, 0.3) if kind in SHORT else _length(random.random()) * longest
        )
        at = random.uniform(begin, duration)
        faults.append(Fault(kind, at, seconds, first, second, random.random()))
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _length(share: float) -> float:
    """Make half of the faults long, and the others of any length from 1 % on."""
    return 0.4 + 0.6 * (2 * share - 1) if share > 0.5 else float(0.01 ** (1 - 2 * share))
