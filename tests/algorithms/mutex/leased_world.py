"""A hostile world for the leased lock, drawn from a seed: links that break, clocks, pauses, crashes.

It embeds the parts as a real node does: any number of locks, connections that come and go, frames
of an old connection that arrive late. Monitors hold every promise against what happens; the first
breach ends the run.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from coterie.algorithms.mutex.quorum.leased.participant import Acquired
from coterie.process import Outbox
from tests.algorithms.mutex.leased_faults import FAULTS_END, LEASE, Link, Node, write_script
from tests.algorithms.mutex.leased_kit import Kit
from tests.algorithms.mutex.leased_promises import Breach, Promises

if TYPE_CHECKING:
    from collections.abc import Callable

PROFILES = ("mixed", "crash", "net", "pause", "wild", "calm", "oneway", "mesh")
COTERIES = (
    ("majority", 1),
    ("majority", 2),
    ("majority", 3),
    ("majority", 3),
    ("majority", 4),
    ("majority", 5),
    ("majority", 7),
    ("weighted:2,1,1,1", 4),
    ("grid", 4),
    ("plane:2", 7),
    ("singleton", 2),
)
EVENTS_MAX = 100_000
PLACE = "kernel 1 0 "  # where all programs are, and no process


@dataclass
class Plan:
    """What a seed decides before anything happens."""

    profile: str
    random: Random
    coterie: str = ""
    voters: int = 0
    participants: int = 0
    locks: int = 0
    settings: Any = None
    acquisitions: int = 6
    sharing: float = 0.0  # how many of the acquisitions are shared

    def draw(self, kit: Kit) -> None:
        """Draw everything; `kit` is the package under test, whole or broken."""
        random = self.random
        self.coterie, self.voters = random.choice(COTERIES)
        self.participants = random.choice((2, 2, 3, 4))
        self.locks = random.choice((1, 1, 2))
        if self.profile == "wild":
            self.acquisitions = 10
        self.settings = kit.settings.Settings(
            self.voters,
            self.coterie,
            random.choice(("all", "quorum")),
            lease=LEASE,
            rate_error=0.05,
            margin=0.05,
            hedge=random.choice((1.0, 2.0)),
            unwind=random.choice((2.0, LEASE)),
            interval=random.choice((1, 2, 16, 1024)),
            reserve=random.choice((0, 8, 1 << 20)),
            lazy=random.random() < 0.8,
            cached_max=random.choice((1, 16)),
        )


@dataclass
class User:
    """The body of a program that uses one lock of one participant."""

    left: int
    phase: str = "idle"  # idle, waiting, inside
    shared: bool = False
    token: int = 0
    life: int = 0  # changes with every phase, so that late plans are void


class World:
    """One run."""

    def __init__(
        self,
        seed: int,
        profile: str,
        kit: Kit | None = None,
        *,
        mixed_leases: bool = False,
        lock_delay: float = 0.0,
        sharing: float | None = None,
        witnesses: bool = False,
    ) -> None:
        self.witnesses = Random(f"witnesses/{profile}/{seed}") if witnesses else None
        self.kit = kit or Kit()
        self.seed = seed
        self.mixed_leases = mixed_leases
        self.plan = Plan(profile, Random(f"{profile}/{seed}"))
        self.plan.draw(self.kit)
        self.plan.settings = replace(self.plan.settings, lock_delay=lock_delay)
        self.founding = self.kit.configuration.founding(self.plan.settings)
        self.modes = Random(f"modes/{profile}/{seed}")  # of its own: it draws nothing else
        self.plan.sharing = self.modes.choice((0.0, 0.0, 0.5, 0.8)) if sharing is None else sharing
        self.writers = Random(f"writers/{profile}/{seed}")  # the same
        self.random = self.plan.random
        self.now = 0.0
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.delay = self.random.choice((0.05, 0.2, 0.5))
        self.passes_on = seed % 4 == 1  # from task to task, where the votes in hand allow it
        noisy = profile in ("mixed", "net", "wild") and self.random.random() < 0.5
        self.noise = 0.03 if noisy else 0.0  # of losing a frame, and of delivering it twice
        self.events = self.entries = self.free = self.passed = self.losses = self.announced = 0
        self.obituaries = 0
        self.promises = Promises(self)
        self.voters = {me: self._node(me) for me in range(1, self.plan.voters + 1)}
        first = self.plan.voters + 1
        self.participants = {
            me: self._node(me) for me in range(first, first + self.plan.participants)
        }
        self.askers = dict(self.participants)  # all that have links to voters
        self.links = {(p, v): Link() for p in self.participants for v in self.voters}
        names = [f"lock{number}" for number in range(self.plan.locks)]
        self.users = {
            (p, lock): User(self.plan.acquisitions) for p in self.participants for lock in names
        }

    # Running

    def run(self) -> World:
        for node in (*self.voters.values(), *self.participants.values()):
            self.boot(node)
        self.write_faults()
        for who in self.users:
            self.after(self.random.uniform(0, 20), partial(self._think, who))
        limit = self.limit()
        while self.heap and self.now < limit and not self.is_served():
            self.now, _, action = heapq.heappop(self.heap)
            self.events += 1
            if self.events > EVENTS_MAX:
                raise Breach("it is busy with itself")
            action()
        if any(self._owed(who) for who in self.users):
            waiting = {who: user.phase for who, user in self.users.items() if self._owed(who)}
            raise Breach(f"no progress: {waiting}")
        return self

    def write_faults(self) -> None:
        write_script(self)

    def limit(self) -> float:
        return FAULTS_END + 40 * float(self.plan.settings.expiry) + 60

    def at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (time, next(self.numbers), action))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        self.at(self.now + delay, action)

    def is_served(self) -> bool:
        return self.now > FAULTS_END and not any(self._owed(who) for who in self.users)

    def _owed(self, who: tuple[int, str]) -> bool:
        return self.users[who].left > 0 and self.reaches_a_quorum(who[0])

    def reaches_a_quorum(self, participant: int) -> bool:
        reached = [
            voter
            for voter in self.voters
            if self.voters[voter].alive and not any(self.links[participant, voter].cut)
        ]
        return bool(self.plan.settings.quorums.contains_quorum(reached))

    # Processes

    def _node(self, me: int) -> Node:
        wild = self.plan.profile == "wild"
        slack = self.plan.settings.rate_error
        rate = self.random.uniform(0.3, 3.0) if wild else 1 + self.random.uniform(-slack, slack)
        return Node(me, rate, self.random.uniform(0, 1000))

    def boot(self, node: Node) -> None:
        node.alive = True
        node.incarnation += 1
        node.name = f"{node.me}.{node.incarnation}"
        node.timers, node.inbox, node.rings = {}, [], []
        if node.me in self.voters:
            node.part = self.kit.voter.Voter(self.founding)
        else:
            home = self.random.randint(1, self.plan.voters)
            node.part = self.kit.participant.participant(self.founding, home, self.own_lease(node))
        self.step(node, partial(node.part.start, node.name))
        if self.witnesses is not None and node.me in self.participants:
            self._live(node, self.witnesses)

    def _live(self, node: Node, random: Random) -> None:
        """Let a program say of which processes it consists, now or when it has all of them.

        Meanwhile witnesses speak of a process that is gone, and is not all of it.
        """
        whole = partial(self._say_life, node, node.name)
        if random.random() < 0.5:
            self.step(node, partial(node.part.live, PLACE))
            self.after(random.uniform(0, 60), whole)
        else:
            whole()
        for life in (PLACE, f"{PLACE}{node.me}"):
            for voter in self.voters.values():
                frame = self.kit.frames.Obituary(node.name, life)
                self.after(random.uniform(0, 100), partial(self._inform, voter, frame))

    def _say_life(self, node: Node, name: str) -> None:
        if node.alive and node.name == name:
            self.step(node, partial(node.part.live, f"{PLACE}{node.me},{name}"))

    def _inform(self, voter: Node, frame: Any) -> None:
        """Bring a voter the word of a witness, which is no participant."""
        if voter.paused:
            voter.inbox.append(partial(self._inform, voter, frame))
        elif voter.alive:
            self.obituaries += 1
            self.step(voter, partial(voter.part.receive, 0, frame))

    def _bury(self, node: Node, random: Random) -> None:
        """Let voters hear of the end of a program, some of them late, or not, or twice.

        What it sent before may come after that.
        """
        frame = self.kit.frames.Obituary(node.name, f"{PLACE}{node.me},{node.name}")
        for voter in self.voters.values():
            for _ in range(random.choice((0, 1, 1, 1, 2))):
                late = random.choice((0.0, 1.0, 2 * LEASE)) * random.random()
                self.after(late, partial(self._inform, voter, frame))

    def own_lease(self, node: Node) -> float | None:
        """Return the lease of all for every third participant, and shorter ones for the others."""
        return (None, 0.8 * LEASE, 0.5 * LEASE)[node.me % 3] if self.mixed_leases else None

    def step(self, node: Node, handler: Callable[[Outbox[Any]], None]) -> Outbox[Any]:
        out: Outbox[Any] = Outbox(node.me, node.clock(self.now))
        out.incarnation, out.saved = node.incarnation, node.disk
        before = self.promises.owners(node)
        handler(out)
        self.promises.check_order(node, before)
        if out.to_save is not None:
            node.disk = out.to_save
        for to, frame in out.sends:
            self._transmit(node.me, to, frame)
        for name, after in out.timers:
            number = node.timers[name] = next(self.numbers)
            self.after(
                max(0.0, after or 0.0) / node.rate,
                partial(self._ring, node, name, number),
            )
        for event in out.events:
            self.hear(node, event)
        if node.me in self.participants:
            self.promises.check_exclusion(node)
        return out

    def _ring(self, node: Node, name: str, number: int) -> None:
        if not node.alive or node.timers.get(name) != number:
            return
        if node.paused:
            node.rings.append(partial(self._ring, node, name, number))
            return
        del node.timers[name]
        self.step(node, partial(node.part.ring, name))

    def crash(self, node: Node) -> None:
        for (me, lock), user in self.users.items():
            if (
                me == node.me
                and node.alive
                and user.phase == "inside"
                and self.is_valid(node, lock)
            ):
                self.promises.deaths[lock] = self.now, user.shared
        if self.witnesses is not None and node.alive and node.me in self.participants:
            self._bury(node, self.witnesses)
        node.alive = node.paused = False
        for (me, _), user in self.users.items():
            if me == node.me:
                user.phase, user.life = "idle", user.life + 1

    def restart(self, node: Node) -> None:
        if node.alive:
            return
        self.boot(node)
        for who in self.users:
            if who[0] == node.me:
                self.after(self.random.uniform(0, 2), partial(self._think, who))

    def pause(self, node: Node) -> None:
        node.paused = node.alive

    def resume(self, node: Node) -> None:
        """Read what has arrived, then let timers ring; sometimes the other way round."""
        if not node.paused:
            return
        node.paused = False
        arrived, rang = node.inbox, node.rings
        node.inbox, node.rings = [], []
        tardy = node.me in self.participants and self.random.random() < 0.3
        for action in (*rang, *arrived) if tardy else (*arrived, *rang):
            action()

    # Links

    def _transmit(self, sender: int, receiver: int, frame: Any) -> None:
        upward = sender in self.askers
        pair = (sender, receiver) if upward else (receiver, sender)
        link, direction = self.links[pair], 0 if upward else 1
        if not link.up:
            return
        time = self.now + self.random.uniform(0.5, 1.5) * self.delay
        link.last[direction] = time = max(time, link.last[direction])
        arrive = partial(self._arrive, pair, direction, link.epoch, frame)
        calm = self.now > FAULTS_END
        if calm or self.random.random() >= self.noise:
            self.at(time, arrive)
        if not calm and self.random.random() < self.noise:
            again = time + self.random.uniform(0, LEASE)
            self.at(again, arrive)

    def _arrive(self, pair: tuple[int, int], direction: int, epoch: int, frame: Any) -> None:
        link = self.links[pair]
        if link.epoch != epoch or not link.up:
            if not link.cut[direction] and self.random.random() < 0.2:  # read late
                self.after(
                    self.random.uniform(0, 15), partial(self.deliver, pair, direction, frame)
                )
            return
        if link.carries(direction):
            self.deliver(pair, direction, frame)

    def deliver(self, pair: tuple[int, int], direction: int, frame: Any) -> None:
        sender, receiver = pair if direction == 0 else pair[::-1]
        node = (self.voters if direction == 0 else self.askers)[receiver]
        if not node.alive:
            return
        if node.paused:
            node.inbox.append(partial(self.deliver, pair, direction, frame))
            return
        self.step(node, partial(node.part.receive, sender, frame))

    def sever(self, pair: tuple[int, int]) -> None:
        self.links[pair].up = False

    def reconnect(self, pair: tuple[int, int]) -> None:
        link = self.links[pair]
        asker, voter = self.askers[pair[0]], self.voters[pair[1]]
        if link.up or any(link.cut) or not (asker.alive and voter.alive):
            link.up = True
            return
        link.up = True
        link.epoch += 1
        link.last = [self.now, self.now]
        if not voter.paused:
            self.step(voter, partial(voter.part.connected, asker.name))
        if not asker.paused and asker.me in self.participants:
            self.step(asker, partial(asker.part.connected, pair[1]))

    # Users

    def _think(self, who: tuple[int, str]) -> None:
        user, node = self.users[who], self.participants[who[0]]
        if not node.alive or user.phase != "idle" or user.left <= 0:
            return
        if node.paused:
            node.rings.append(partial(self._think, who))
            return
        user.phase, user.life = "waiting", user.life + 1
        user.shared = self._draw_mode()
        life = user.life
        known = node.part.bids.get(who[1])
        was_kept = known is not None
        out = self.step(node, partial(node.part.acquire, who[1], shared=user.shared))
        if was_kept and user.phase == "inside":
            self.free += 1
            if out.sends and self.is_quiet_when_free(node):
                raise Breach("a free re-acquisition sent frames")
        self._plan_writer(who)
        if self.random.random() < 0.15:
            self.after(self.random.uniform(0, 20), partial(self._give_up, who, life))

    def is_quiet_when_free(self, node: Node) -> bool:
        """Return whether nothing else makes the node send."""
        return True

    def _give_up(self, who: tuple[int, str], life: int) -> None:
        user, node = self.users[who], self.participants[who[0]]
        if user.life != life or user.phase != "waiting" or not node.alive or node.paused:
            return
        user.phase, user.life = "idle", user.life + 1
        self.step(node, partial(node.part.withdraw, who[1]))
        self.after(self.random.uniform(0, 3), partial(self._think, who))

    def hear(self, node: Node, event: Any) -> None:
        who = node.me, event.lock
        user = self.users[who]
        if type(event).__name__ == "Lost":
            self.losses += 1
            if self.plan.profile == "calm":
                raise Breach(f"{who} lost its hold and nothing went wrong")
            self.plan_leave(who)
            return
        if type(event).__name__ == "Unwanted":
            return
        if user.phase != "waiting":
            raise Breach(f"{who} entered without asking")
        user.phase, user.token, user.life = "inside", event.token, user.life + 1
        self.entries += 1
        self.promises.check_token(node, user, event.lock)
        self.promises.check_delay(user, event.lock)
        hold = self.random.choice((0.0, 0.3, 2.0, 3 * LEASE * self.random.random()))
        life = user.life
        self.after(hold * self.random.random(), partial(self.promises.check_use, who, life))
        self.after(hold, partial(self._leave, who, life))
        self._plan_writer(who)

    def plan_leave(self, who: tuple[int, str]) -> None:
        """Let a user who has lost its hold stop, now or later; one who is just leaving has left."""
        life = self.users[who].life
        self.after(self.random.choice((0, 1, 30)), partial(self._leave, who, life))

    def is_overruled(self, node: Node) -> bool:
        """Return whether a participant counts by voters that were given up and still run."""
        return False

    def _plan_writer(self, who: tuple[int, str]) -> None:
        """Let another task of the process want the lock alone, behind one that shares; it may give up."""
        user = self.users[who]
        if not user.shared or user.left < 2 or self.writers.random() < 0.5:
            return
        comes = self.writers.choice((0.0, 0.3, 2.0))
        self.after(comes, partial(self._announce, who, user.life, 1))
        if self.writers.random() < 0.3:
            self.after(comes + 0.5, partial(self._announce, who, user.life, 0))

    def _announce(self, who: tuple[int, str], life: int, count: int) -> None:
        user, node = self.users[who], self.participants[who[0]]
        if user.life != life or user.phase == "idle" or not node.alive or node.paused:
            return
        if not node.part.is_shared(who[1]):
            raise Breach(f"{who} shares with votes that are for it alone")
        self.announced += count
        age = count * (node.part.sessions.clock + 1)
        self.step(node, partial(node.part.announce, who[1], age))

    def _leave(self, who: tuple[int, str], life: int) -> None:
        user, node = self.users[who], self.participants[who[0]]
        if user.life != life or user.phase != "inside" or not node.alive:
            return
        if node.paused:
            node.rings.append(partial(self._leave, who, life))
            return
        user.phase, user.life = "idle", user.life + 1
        user.left -= 1
        if self._let_writer_follow(who):
            return
        if self.passes_on and user.left and self._pass_on(who):
            return
        self.step(node, partial(node.part.release, who[1]))
        if any(user.left for (me, _), user in self.users.items() if me == who[0]):
            self.after(self.random.choice((0.0, 0.5, 3.0, 20.0)), partial(self._think, who))
        elif self.random.random() < 0.3:
            self.step(node, node.part.close)

    def _let_writer_follow(self, who: tuple[int, str]) -> bool:
        """Ask for the task that waits to be alone, in the place that it has at the voters."""
        user, node = self.users[who], self.participants[who[0]]
        bid = node.part.bids[who[1]]
        if not bid.writer:
            return False
        user.phase, user.shared = "waiting", False
        self.step(node, partial(node.part.reenter, who[1], age=bid.writer))
        return True

    def _pass_on(self, who: tuple[int, str]) -> bool:
        """Let another task of the same process follow, as far as the votes in hand allow."""
        user, node = self.users[who], self.participants[who[0]]
        shared = self._draw_mode()
        token = node.part.try_pass_on(who[1], node.clock(self.now), shared=shared)
        if not token:
            return False
        self.passed += 1
        user.phase, user.shared = "waiting", shared
        self.hear(node, Acquired(who[1], token))
        self.promises.check_exclusion(node)
        return True

    def _draw_mode(self) -> bool:
        return self.modes.random() < self.plan.sharing

    def is_valid(self, node: Node, lock: str) -> bool:
        return bool(node.part.valid(lock, node.clock(self.now)))
