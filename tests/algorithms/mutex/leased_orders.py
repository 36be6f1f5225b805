"""What operators order without a decision: to end a hold, and to go on without voters that are lost.

Both go to each voter by itself, so they come at different times, and some are lost. `coterie break`
names the holders that were seen and the last token of theirs; `coterie cluster force` gives up voters,
which are dead for good, except in some runs: there one of them goes on, which no operator should allow,
and what is promised then is less (19.11).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tests.algorithms.mutex.leased_faults import FAULTS_END
from tests.algorithms.mutex.leased_promises import Breach

if TYPE_CHECKING:
    from random import Random

    from tests.algorithms.mutex.leased_changes import ChangingWorld
    from tests.algorithms.mutex.leased_faults import Node

DELAY_MAX = 2.0  # of an order
LOST = 0.2  # of the orders, where anything goes wrong
LOOK_AGAIN = 20.0  # after an order that was refused
REPEATS = 3  # after which a hold has to be over in a calm world
SILENT = 0.2  # holders whose token is not known
FORCED = 0.25  # of the runs, where the profile says nothing else
RUNS_ON = 0.25  # of those with a force: a voter that was given up still runs
AHEAD = 1 << 21  # of all tokens: a floor by the time of day, a day ahead


@dataclass
class Order:
    """To end the holds of a lock up to a token, of these participants."""

    lock: str
    names: list[str]
    token: int
    is_seen: bool  # the token is that of a hold; else any of theirs ends
    times: int = 0  # it was given


class Orders:
    """Draws the orders of one run, carries them out and knows what they promise."""

    def __init__(self, world: ChangingWorld, random: Random) -> None:
        self.world = world
        self.random = random
        self.ended: dict[tuple[str, str], int] = {}  # up to which token, by participant and lock
        self.revoked: dict[tuple[str, str], int] = {}  # the token of the hold that has ended
        self.is_short = False  # voters are lost for good
        self.forced: Any = None
        self.runs_on = 0  # a voter that was given up; 0: none
        self.broken = 0  # holds

    def write(self) -> None:
        """Draw when they are given."""
        random, world = self.random, self.world
        for _ in range(random.choice((0, 1, 3, 6))):
            world.at(random.uniform(0, FAULTS_END), self._break_hold)
        often = {"calm": 0.0, "force": 1.0}.get(world.plan.profile, FORCED)
        if random.random() < often:
            world.at(random.uniform(5, FAULTS_END), self._lose_voters)
            world.at(FAULTS_END + DELAY_MAX, self._force_again)

    # Ending a hold

    def _break_hold(self) -> None:
        """Look which participants have the votes for a lock, and order their holds to end."""
        world, random = self.world, self.random
        lock = random.choice(sorted({lock for _, lock in world.users}))
        names = {
            owner.claim.participant
            for node in world.voters.values()
            if node.alive and lock in node.part.ballots
            for owner in node.part.ballots[lock].owners
        }
        held = {
            node.name: world.users[me, lock].token
            for me, node in world.participants.items()
            if node.name in names and world.users[me, lock].phase == "inside"
        }
        if not held:
            return
        is_seen = random.random() >= SILENT
        token = max(held.values()) if is_seen else world.kit.frames.NUMBER_MAX
        self._send(Order(lock, sorted(names), token, is_seen))

    def _send(self, order: Order) -> None:
        world, random = self.world, self.random
        order.times += 1
        for name in order.names:
            known = self.ended.get((name, order.lock), 0)
            self.ended[name, order.lock] = max(known, order.token)
        for node in world.voters.values():
            if world.plan.profile == "calm" or random.random() >= LOST:
                delay = random.uniform(0, DELAY_MAX)
                world.after(delay, partial(self._deliver_break, node, order))
        if world.plan.profile == "calm" and order.is_seen:
            world.after(2 * DELAY_MAX, partial(self._look_again, order))

    def _deliver_break(self, node: Node, order: Order) -> None:
        if not node.alive:
            return
        if node.paused:
            node.inbox.append(partial(self._deliver_break, node, order))
            return
        tenures = node.part.revocable(order.lock, order.names, order.token)
        if tenures:
            self.world.step(node, partial(node.part.revoke, order.lock, tenures, order.token))

    def _look_again(self, order: Order) -> None:
        """Give the order again while a hold goes on that was seen."""
        for node in self.world.participants.values():
            bid = node.part.bids.get(order.lock)
            if node.name not in order.names or bid is None or bid.token > order.token:
                continue
            if self.world.is_valid(node, order.lock):
                if order.times == REPEATS:
                    raise Breach(f"{node.name} holds {order.lock}, which was ended {REPEATS} times")
                self._send(order)
                return

    def hear_loss(self, node: Node, event: Any) -> None:
        """Look whether the hold is one that an operator has ended."""
        who = node.name, event.lock
        if event.token > self.ended.get(who, 0):
            raise Breach(f"{who} lost token {event.token}, which no operator has ended")
        self.revoked[who] = event.token
        self.broken += 1

    def check_ended(self, node: Node) -> None:
        """A hold that an operator has ended is over for good."""
        for (name, lock), token in self.revoked.items():
            if name != node.name:
                continue
            bid = node.part.bids.get(lock)
            if bid is not None and bid.token == token and self.world.is_valid(node, lock):
                raise Breach(f"{name} holds {lock} by token {token}, which was ended")

    # Going on without a quorum

    def _lose_voters(self) -> None:
        """Lose voters for good, and let an operator go on with those that are left."""
        world, random = self.world, self.random
        newest = world.watch.newest
        lasting = set(world.voters) - world.wiped - world.gone
        kept = [seat for seat in newest.seats if seat in lasting]
        if newest.number == 0 or not kept:
            return
        kept = random.sample(kept, random.randint(1, len(kept)))
        while newest.deciders.contains_quorum(kept):
            kept.pop()
        if not kept:
            return
        kept.sort()
        self.is_short = True
        lost = sorted(self._in_play() - set(kept))
        if lost and random.random() < RUNS_ON:
            self.runs_on = random.choice(lost)
        self._give_up_all_but(kept)
        world.after(random.choice((0.0, 1.0, 20.0)), partial(self._force, kept))

    @property
    def is_pending(self) -> bool:
        """Whether voters are lost, and no voter has the order to go on without them."""
        return self.is_short and self.world.watch.forced < 0

    def _in_play(self) -> set[int]:
        return {seat for part in self.world.parts_in_play() for seat in part.seats}

    def _give_up_all_but(self, kept: list[int]) -> None:
        for seat in sorted(self._in_play() - {*kept, self.runs_on}):
            self.world.crash(self.world.voters[seat])
            self.world.gone.add(seat)

    def _force(self, kept: list[int]) -> None:
        """Order the voters that are left to go on by themselves."""
        world, random = self.world, self.random
        for seat in kept:  # every one of them has to answer
            world.resume(world.voters[seat])
            world.restart(world.voters[seat])
        known = [world.voters[seat].part.configuration for seat in kept]
        newest: Any = max(filter(None, known), key=lambda each: each.number, default=None)
        # Some may have been removed since, or none has heard of the number that made it a voter.
        kept = [seat for seat in kept if newest is not None and seat in newest.seats]
        if not kept:
            newest = world.watch.newest
            kept = [random.choice([seat for seat in newest.seats if seat not in world.wiped])]
            world.gone.discard(kept[0])
            world.restart(world.voters[kept[0]])
        if newest.deciders.contains_quorum(kept):
            # The command refuses: they decide by themselves. But a step may be decided that they have
            # not heard of, and that one lack a quorum.
            world.after(LOOK_AGAIN, partial(self._force_if_stuck, kept))
            return
        self._give_up_all_but(kept)
        self.forced = self._forced(newest, kept)
        for seat in kept:
            delay = random.choice((0.0, random.uniform(0, DELAY_MAX), random.uniform(0, 20)))
            world.after(delay, partial(self._deliver_force, world.voters[seat]))

    def _force_if_stuck(self, kept: list[int]) -> None:
        world = self.world
        lasting = set(world.voters) - world.wiped - world.gone
        if world.watch.newest.deciders.contains_quorum(lasting):
            self.is_short = False
        else:
            self._force(kept)

    def _force_again(self) -> None:
        """Repeat an order that no voter has got, as an operator would that sees no quorum."""
        if self.forced is not None and self.is_pending:
            for seat in self.forced.seats:
                self._deliver_force(self.world.voters[seat])

    def _forced(self, newest: Any, kept: list[int]) -> Any:
        world = self.world
        value = world.kit.configuration
        settings = newest.rule.parts[0].settings
        settings = replace(settings, voters=len(kept), coterie="majority")
        rule = value.Rule(newest.number + value.FORCED_LEAP, (value.Part(tuple(kept), settings),))
        members = world.goals.members(newest, kept)
        floor = AHEAD + max(node.part.bound for node in world.voters.values())
        return value.Configuration(
            rule,
            members,
            max(floor, newest.floor),
            by="force",
            cluster_identity=newest.cluster_identity,
        )

    def _deliver_force(self, node: Node) -> None:
        """An order to a voter that has crashed since is lost: it hears of the number from others."""
        if not node.alive:
            return
        if node.paused:
            node.inbox.append(partial(self._deliver_force, node))
            return
        self.world.watch.overrule(self.forced)
        self.world.step(node, partial(node.part.impose, self.forced))

    def check_token(self, node: Node, token: int) -> None:
        """19.11: also what voters hand out that were given up lies below the floor."""
        if self.is_overruled(node) and token >= self.forced.floor:
            raise Breach(f"{node.name} enters with {token} by voters that were given up")

    def is_overruled(self, node: Node) -> bool:
        """Return whether a participant may count by voters that were given up and still run."""
        forced = self.forced
        if not self.runs_on or forced is None:
            return False
        return bool(node.part.configuration.number < forced.number)
