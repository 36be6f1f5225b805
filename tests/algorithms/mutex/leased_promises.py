"""What the leased lock promises, held against what happens in a hostile world."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.algorithms.mutex.leased_faults import Node
    from tests.algorithms.mutex.leased_world import User, World


class Breach(Exception):  # noqa: N818 - a finding, not an error
    """A promise that was broken."""


class Promises:
    """Watches one run; the first breach ends it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.last_token: dict[str, int] = {}  # of those who were alone
        self.last_of_all: dict[str, int] = {}
        self.tokens: dict[str, dict[int, bool]] = {}  # and whether those who used them shared
        # When a holder of the lock last died inside, and whether it shared the lock.
        self.deaths: dict[str, tuple[float, bool]] = {}
        self.rejected = 0  # by a resource
        self.together = 0  # times that two were seen to share a lock

    def owners(self, node: Node) -> dict[str, set[tuple[str, int]]]:
        """Return the requests that have the vote of a voter, by lock."""
        return {
            lock: {(owner.claim.participant, owner.claim.number) for owner in ballot.owners}
            for lock, ballot in (node.part.ballots.items() if node.me in self.world.voters else ())
        }

    def check_order(self, node: Node, before: dict[str, set[tuple[str, int]]]) -> None:
        """First come, first served: no vote is given past an older request that waits.

        And an owner is told of requests that wait; one that shares, also when none does any more. While
        a voter abstains that has owners, by a forced configuration, it gives nothing and tells nothing.
        """
        for lock, ballot in node.part.ballots.items() if node.me in self.world.voters else ():
            for owner in ballot.owners:
                claim = owner.claim
                new = (claim.participant, claim.number) not in before.get(lock, ())
                if new and any(other.order() < claim.order() for other in ballot.queue):
                    raise Breach(f"{claim.participant} gets {lock} past an older request")
                others = [other.claim for other in ballot.owners if other is not owner]
                writers = [other for other in others if other.writer]
                if new and any(other.writer_order() < claim.order() for other in writers):
                    raise Breach(f"{claim.participant} gets {lock} past an older task")
                if node.part.abstains():
                    continue
                is_wanted = bool(ballot.queue or writers)
                if is_wanted and not owner.told:
                    raise Breach(f"{claim.participant} is not told that others want {lock}")
                if claim.shared and owner.told and not is_wanted:
                    raise Breach(f"{claim.participant} is not told that no other wants {lock}")

    def check_use(self, who: tuple[int, str], life: int) -> None:
        """Use a resource that rejects overtaken tokens.

        A writer's has to be above all that were seen, a reader's above those of the writers: who
        reads at the same time may have any.
        """
        user, node = self.world.users[who], self.world.participants[who[0]]
        if user.life != life or not node.alive:
            return
        last = (self.last_token if user.shared else self.last_of_all).get(who[1], 0)
        if user.token >= last:
            return
        self.rejected += 1
        if self._is_in_force(node, who[1]) and not self.world.is_overruled(node):
            raise Breach(f"the resource rejects {user.token} of {who}, which is in force")

    def _is_in_force(self, node: Node, lock: str) -> bool:
        """Return whether a quorum of live voters has given this participant the token of its hold.

        A repair with proof says nothing: it rests on the participant's own clock.
        """
        bid = node.part.bids.get(lock)
        if bid is None:
            return False
        owned = []
        for voter in self.world.voters.values():
            ballot = voter.part.ballots.get(lock) if voter.alive else None
            tenure = ballot.owned_by(node.name, bid.number) if ballot else None
            if tenure and tenure.claim.hold < 2 and tenure.low <= bid.token <= tenure.high:
                owned.append(voter.me)
        return bool(node.part.quorums.contains_quorum(owned))

    def check_token(self, node: Node, user: User, lock: str) -> None:
        """P2: who is alone has a token of its own, above all before; who shares, above those alone."""
        token, used = user.token, self.tokens.setdefault(lock, {})
        if token in used and not (user.shared and used[token]):
            raise Breach(f"token {token} of {lock} was used twice")
        used[token] = user.shared
        highest = self.last_of_all.get(lock, 0)
        last = self.last_token.get(lock, 0) if user.shared else highest
        ordered = self.world.plan.profile != "wild" or self._is_in_force(node, lock)
        if ordered and token <= last and not self.world.is_overruled(node):
            raise Breach(f"token {token} of {lock} follows {last}")
        self.last_of_all[lock] = max(highest, token)
        if not user.shared:
            self.last_token[lock] = max(self.last_token.get(lock, 0), token)

    def check_delay(self, user: User, lock: str) -> None:
        """Let a dead holder's lock rest; those who shared it with the dead may be joined."""
        delay = self.world.plan.settings.lock_delay / (1 + self.world.plan.settings.rate_error)
        died, was_shared = self.deaths.get(lock, (-delay, False))
        if self.world.plan.profile == "wild" or (user.shared and was_shared):
            return
        if self.world.now < died + delay:
            raise Breach(f"{lock} was given away too soon after the death of its holder")

    def check_exclusion(self, node: Node) -> None:
        if self.world.plan.profile == "wild":
            return
        for (me, lock), user in self.world.users.items():
            if me == node.me and user.phase == "inside" and self.world.is_valid(node, lock):
                for other in self.world.participants.values():
                    if other is node or not other.alive or not self.world.is_valid(other, lock):
                        continue
                    if self.world.is_overruled(node) or self.world.is_overruled(other):
                        continue  # until it hears of the number that was forced (19.11)
                    if not (user.shared and self.world.users[other.me, lock].shared):
                        raise Breach(f"{me} and {other.me} both hold {lock}")
                    self.together += 1
