"""The hostile world of the leased lock while its voters, their coterie and their times are changed.

Changers with drawn goals begin at any time, compete and crash, some after a message that was drawn.
Spares become voters; voters that were removed are switched off, and some return with their old disk;
a disk that is lost returns blank, with another identity. Operators end holds, and go on without voters
that are lost (`leased_orders`).
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tests.algorithms.mutex.leased_faults import FAULTS_END, Link, Node
from tests.algorithms.mutex.leased_goals import KINDS, LEASES, Goals
from tests.algorithms.mutex.leased_numbers import Numbers
from tests.algorithms.mutex.leased_orders import Orders
from tests.algorithms.mutex.leased_promises import Breach
from tests.algorithms.mutex.leased_world import PROFILES, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.process import Outbox
    from tests.algorithms.mutex.leased_kit import Kit

CHANGING_PROFILES = (*PROFILES, "storm", "lease", "force")
SPARES = 101  # the first seat of a spare
HOSTS = 1001  # the first process in which changers run
FAULTLESS = ("calm",)
LOCK_DELAY = 15.0


class ChangingWorld(World):
    """One run."""

    def __init__(
        self,
        seed: int,
        profile: str,
        kit: Kit | None = None,
        *,
        mixed_leases: bool = False,
        lock_delay: float = 0.0,
    ) -> None:
        super().__init__(seed, profile, kit, mixed_leases=mixed_leases, lock_delay=lock_delay)
        self.chance = Random(f"changes/{profile}/{seed}")
        for seat in range(SPARES, SPARES + self.chance.randint(2, 5)):
            self.voters[seat] = self._node(seat)
        self.identities = {seat: f"disk of {seat}" for seat in self.voters}
        self.goals = Goals(self.kit, self.chance, self.identities)
        if self.chance.random() < 0.8:
            self.founding = self._formed()
        self.changers = {me: self._node(me) for me in range(HOSTS, HOSTS + 4)}
        self.last_host = self.changers[HOSTS + 3]
        self.askers.update(self.changers)
        self.links = {(asker, seat): Link() for asker in self.askers for seat in self.voters}
        self.gone: set[int] = set()  # seats that were switched off
        self.wiped: set[int] = set()  # seats whose disks were lost
        self.budgets: dict[int, int] = {}  # messages up to which a changer lives
        self.dying: set[int] = set()
        self.is_changed = False  # after all faults, once more
        self.watch = Numbers(self)
        self.orders = Orders(self, Random(f"orders/{profile}/{seed}"))
        self.begun = self.steps = self.joint_steps = self.moves = self.carried = 0
        self.settled = self.conflicted = self.killed = self.crashes = self.switched_off = 0

    def _formed(self) -> Any:
        """Return the founding configuration as number 1, with the identities of the disks."""
        value = self.kit.configuration
        part = self.founding.rule.parts[0]
        members = self.goals.members(self.founding, part.seats)
        return value.Configuration(value.Rule(1, (part,)), members)

    # Running

    def run(self) -> ChangingWorld:
        super().run()
        if not self.is_changed:
            raise Breach(f"no progress: the last change, from {self.watch.newest}")
        return self

    def limit(self) -> float:
        longest = self.plan.settings.expiry_of(max(LEASES))
        return FAULTS_END + 40 * float(longest) + 60

    def is_served(self) -> bool:
        return self.is_changed and super().is_served()

    def reaches_a_quorum(self, participant: int) -> bool:
        reached = [
            seat
            for seat, voter in self.voters.items()
            if voter.alive and seat not in self.wiped and not any(self.links[participant, seat].cut)
        ]
        return bool(self.watch.newest.quorums.contains_quorum(reached))

    def boot(self, node: Node) -> None:
        node.alive = True
        node.incarnation += 1
        node.name = f"{node.me}.{node.incarnation}"
        node.timers, node.inbox, node.rings = {}, [], []
        if node.me in self.voters:
            is_founder = node.me in self.founding.seats
            # A blank disk begins by the file, which is number 0, or as a spare where there is none.
            is_founder = is_founder and (node.me not in self.wiped or self.founding.number == 0)
            node.part = self.kit.voter.Voter(self.founding if is_founder else None)
            node.part.identity = self.identities[node.me]
        else:
            known = self.founding if node.incarnation == 1 else self._some_configuration()
            home = self.random.choice(known.seats)
            node.part = self.kit.participant.participant(known, home, self.own_lease(node))
        self.step(node, partial(node.part.start, node.name))

    def step(self, node: Node, handler: Callable[[Outbox[Any]], None]) -> Outbox[Any]:
        out = super().step(node, handler)
        if node.part is not None:
            self.watch.check(node)
            if node.me in self.participants:
                self.orders.check_ended(node)
        if node.me in self.dying:
            self.dying.discard(node.me)
            self.killed += 1
            node.alive = False
        return out

    def crash(self, node: Node) -> None:
        self.crashes += node.alive
        super().crash(node)

    def restart(self, node: Node) -> None:
        if node.me not in self.gone:
            super().restart(node)

    def is_overruled(self, node: Node) -> bool:
        return self.orders.is_overruled(node)

    def is_quiet_when_free(self, node: Node) -> bool:
        return False  # the call may also have moved the participant, or asked for the next number

    def hear(self, node: Node, event: Any) -> None:
        match type(event).__name__:
            case "Learnt" | "Forgotten":
                pass
            case "Lost" if event.revoked:
                self.orders.hear_loss(node, event)
                self.plan_leave((node.me, event.lock))
            case "Moved":
                self.moves += 1
                self.carried += sum(self.is_valid(node, lock) for lock in node.part.bids)
            case "Stepped":
                self.steps += 1
                self.joint_steps += event.configuration.is_joint
            case "Settled" | "Conflicted" as end:
                self._end_change(node, event.configuration, end == "Settled")
            case "Acquired":
                self.orders.check_token(node, event.token)
                super().hear(node, event)
            case _:
                super().hear(node, event)

    @property
    def broken(self) -> int:
        """How many holds operators have ended."""
        return self.orders.broken

    @property
    def forced(self) -> int:
        """How many configurations were forced."""
        return int(self.watch.forced >= 0)

    # Faults

    def write_faults(self) -> None:
        super().write_faults()
        profile, chance = self.plan.profile, self.chance
        most = {"storm": 30, "lease": 10, "calm": 8}.get(profile, 6)
        for _ in range(chance.randint(2, most)):
            self.at(chance.uniform(0, FAULTS_END), self.begin_change)
        if profile in ("mixed", "crash", "wild", "storm") and chance.random() < 0.4:
            for _ in range(chance.randint(1, 2)):
                self.at(chance.uniform(10, FAULTS_END), self._lose_a_disk)
        for node in self.participants.values():
            self.at(chance.uniform(0, 10), partial(self._pass_on_addresses, node))
        self.orders.write()
        self.at(FAULTS_END, self._end_faults)

    def _end_faults(self) -> None:
        for node in self.voters.values():
            self.resume(node)
            self.restart(node)
        for (asker, _), link in self.links.items():
            if asker in self.changers:
                link.up, link.cut, link.stalled = True, [False, False], [False, False]
        self.budgets.clear()
        self.after(1.0, self._change_once_more)

    def _lose_a_disk(self) -> None:
        """Let a voter return with a blank disk, if there are quorums without it."""
        lasting = [seat for seat in self.voters if seat not in self.wiped | self.gone]
        seats = [seat for seat in self.watch.newest.seats if seat in lasting]
        # Of those that an operator is about to keep none is lost: there would be no way on.
        if not seats or self.watch.newest.number == 0 or self.orders.is_pending:
            return
        seat = self.chance.choice(seats)
        lasting.remove(seat)
        if not all(part.quorums.contains_quorum(lasting) for part in self.parts_in_play()):
            return
        node = self.voters[seat]
        self.crash(node)
        self.wiped.add(seat)
        self.identities[seat] = f"another disk of {seat}"
        node.disk = b""
        self.after(self.chance.uniform(0, 20), partial(self.restart, node))

    def parts_in_play(self) -> list[Any]:
        """List the parts by which votes may be counted, now or after changes that have begun."""
        watch = self.watch
        configurations = [
            each
            for each in watch.decided.values()
            if each.number not in watch.finished and each.number >= watch.forced
        ]
        parts = [part for each in configurations for part in each.rule.parts]
        hosts = [node for node in self.changers.values() if node.part is not None]
        parts += [node.part.goal.part for node in hosts if node.part.goal.part is not None]
        for node in self.voters.values():
            accepted = node.part.succession.accepted
            if accepted is not None:
                parts += accepted.configuration.rule.parts
        return parts

    def _pass_on_addresses(self, node: Node) -> None:
        """Let a program hear of the configuration of a voter that it finds, as when it connects."""
        if node.alive and not node.paused:
            self._hear_of_any(node)
        self.after(10.0, partial(self._pass_on_addresses, node))

    def _hear_of_any(self, node: Node) -> None:
        found = [each for each in self.voters.values() if each.alive and not each.paused]
        found = [each for each in found if each.part.configuration is not None]
        if found:
            voter = self.chance.choice(found)
            frame = self.kit.frames.NewConfiguration(voter.part.configuration)
            self._transmit(voter.me, node.me, frame)

    # Changes

    def _some_configuration(self) -> Any:
        """Return what some voter knows, or the newest of all."""
        known = [
            node.part.configuration
            for node in self.voters.values()
            if node.part.configuration is not None
        ]
        return self.chance.choice([*known, self.watch.newest])

    def begin_change(self, seen: Any = None, goal: Any = None, host: Node | None = None) -> None:
        """Let an operator begin a change, where none runs in the process."""
        idle = [node for node in self.changers.values() if not node.alive]
        host = host or next((node for node in idle if node is not self.last_host), None)
        if host is None or host.alive:
            return
        seen = seen or self._some_configuration()
        goal = goal or self._draw_goal(seen)
        host.alive, host.paused = True, False
        host.incarnation += 1
        host.name = f"c{host.me}.{host.incarnation}"
        host.timers, host.inbox, host.rings = {}, [], []
        host.part = self.kit.changer.Changer(host.name, seen, goal)
        self.begun += 1
        if host is not self.last_host:
            self._draw_fate(host)
        self.step(host, host.part.start)

    def _draw_goal(self, seen: Any) -> Any:
        lasting = [seat for seat in self.voters if seat not in self.wiped | self.gone]
        newcomers = list(lasting)
        if self.plan.profile not in FAULTLESS and self.chance.random() < 0.1:
            newcomers += [seat for seat in self.gone if seat not in self.wiped]
        kinds = ("lease", "times") if self.plan.profile == "lease" else KINDS
        return self.goals.draw(seen, newcomers, lasting, kinds)

    def _draw_fate(self, host: Node) -> None:
        self.budgets.pop(host.me, None)
        fate = self.chance.random()
        if fate < 0.35:
            self.budgets[host.me] = self.chance.choice((3, 10, 30, 100)) + self.chance.randint(0, 9)
        elif fate < 0.5:
            self.after(self.chance.uniform(0, 10), partial(self._stop, host, host.incarnation))
        elif fate < 0.6 and self.now + 20 < FAULTS_END:
            self.after(self.chance.uniform(0, 5), partial(self.pause, host))
            self.after(self.chance.uniform(5, 20), partial(self.resume, host))

    def _stop(self, host: Node, incarnation: int) -> None:
        if host.alive and host.incarnation == incarnation:
            self.killed += 1
            host.alive = False

    def _transmit(self, sender: int, receiver: int, frame: Any) -> None:
        if sender in self.budgets:
            if not self.budgets[sender]:
                self.dying.add(sender)
                return
            self.budgets[sender] -= 1
        super()._transmit(sender, receiver, frame)

    def _end_change(self, host: Node, configuration: Any, is_settled: bool) -> None:
        host.alive = False
        self.settled += is_settled
        self.conflicted += not is_settled
        if is_settled:
            self._switch_off(configuration)
        if host is self.last_host:
            self.is_changed = is_settled and host.part.goal.part is not None
            if not self.is_changed:
                self.after(1.0, self._change_once_more)
        elif self.plan.profile == "storm" and self.now < FAULTS_END:
            self.after(self.chance.choice((0.0, 0.0, 3.0)), self.begin_change)

    def _switch_off(self, configuration: Any) -> None:
        """R5: voters that were removed are not needed any more, and harm nothing with old disks."""
        newest = self.watch.newest
        if newest.number != configuration.number:
            return
        wanted = {seat for part in self.parts_in_play() for seat in part.seats}
        for seat, node in self.voters.items():
            was_voter = node.part.configuration is not None
            if not was_voter or seat in wanted | set(newest.seats) or not node.alive:
                continue
            if self.chance.random() < 0.5:
                self.switched_off += 1
                self.crash(node)
                self.gone.add(seat)
                if self.chance.random() < 0.5:
                    self.after(self.chance.uniform(1, 40), partial(self._return, node))

    def _return(self, node: Node) -> None:
        self.gone.discard(node.me)
        self.restart(node)

    def _change_once_more(self) -> None:
        """After all faults, bring to its end what was begun, and then a last change."""
        newest = self.watch.newest
        lasting = [seat for seat in self.voters if seat not in self.wiped | self.gone]
        goal = None
        if newest.is_joint and not newest.quorums.contains_quorum(lasting):
            part = newest.rule.parts[0]
            members = self.goals.members(newest, part.seats)
            goal = self.kit.changer.Goal(newest.number, part, members, takes_back=True)
        elif newest.is_joint:
            goal = self.kit.changer.Goal(newest.number)
        self.begin_change(newest, goal, self.last_host)


def world_of(seed: int, profile: str, kit: Kit | None = None) -> ChangingWorld:
    """Make the world of a seed; some programs have leases of their own, some locks a delay."""
    delay = LOCK_DELAY if seed % 5 == 4 else 0.0
    return ChangingWorld(seed, profile, kit, mixed_leases=seed % 3 == 1, lock_delay=delay)
