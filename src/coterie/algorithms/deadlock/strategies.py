"""What to do about deadlocks among jobs that take locks: the three ways of the textbooks, and nothing.

The table says who holds and who wants which lock. A strategy decides on it by itself, without
messages. To *detect* is to look for a cycle of waits and to refuse its youngest member. To *avoid* is to
keep the table in a state from which all jobs can finish. To *prevent* is to let no cycle come about:
by one order in which all take their locks, or by letting wait only the older for the younger
(wait-die), or only the younger for the older (wound-wait; Rosenkrantz, Stearns and Lewis 1978).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coterie.algorithms.deadlock.avoidance import Account, safe_order
from coterie.algorithms.deadlock.condition import all_of
from coterie.algorithms.deadlock.victim import seniority
from coterie.algorithms.deadlock.wait_for import Graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import ProcessId

LockId: TypeAlias = int


class Contender(msgspec.Struct):
    """One attempt of a job, as the table knows it."""

    client: int
    attempt: int
    born: float  # when its job began
    claim: tuple[LockId, ...]
    holds: tuple[LockId, ...] = ()
    wants: LockId | None = None

    @property
    def age(self) -> tuple[float, ProcessId]:
        """Order jobs, the oldest first."""
        return self.born, self.client

    def take(self) -> None:
        """Hold what it wants."""
        assert self.wants is not None
        self.holds, self.wants = (*self.holds, self.wants), None


class Table(msgspec.Struct):
    """All attempts under way; those that wait stand in the order in which they began to."""

    contenders: list[Contender] = []

    def ask(
        self,
        client: ProcessId,
        attempt: int,
        lock: LockId,
        born: float,
        claim: tuple[LockId, ...],
    ) -> Contender:
        """Note that an attempt wants a lock; it is the last one to do so."""
        known = self.of(client)
        holds = () if known is None else known.holds
        self.forget(client)
        asker = Contender(client, attempt, born, claim, holds, lock)
        self.contenders.append(asker)
        return asker

    def of(self, client: ProcessId) -> Contender | None:
        """Return the attempt of a client."""
        return next((each for each in self.contenders if each.client == client), None)

    def forget(self, client: ProcessId) -> None:
        """Take an attempt out, with all that it holds."""
        self.contenders = [each for each in self.contenders if each.client != client]

    def holder(self, lock: LockId) -> Contender | None:
        """Return who holds a lock."""
        return next((each for each in self.contenders if lock in each.holds), None)

    def waiting(self) -> list[Contender]:
        """Return those that want a lock, in the order of their requests."""
        return [each for each in self.contenders if each.wants is not None]

    def victims_of_deadlocks(self) -> list[Contender]:
        """Return the youngest member of each cycle of waits."""
        waits = {}
        for each in self.waiting():
            assert each.wants is not None
            holder = self.holder(each.wants)
            if holder is not None:
                waits[each.client] = all_of(holder.client)
        return [
            max(
                (each for each in self.contenders if each.client in core),
                key=lambda each: seniority(0, each.born, each.client),
            )
            for core in Graph(waits).cores()
        ]

    def safe_with(self, asker: Contender) -> bool:
        """Whether all could still finish if this one got what it wants."""
        assert asker.wants is not None
        accounts = [
            Account(
                each.client,
                Counter((*each.holds, asker.wants) if each is asker else each.holds),
                Counter(each.claim),
            )
            for each in self.contenders
        ]
        claimed = {lock for each in self.contenders for lock in each.claim}
        held = {lock for account in accounts for lock in account.holds}
        return safe_order(Counter(claimed - held), accounts) is not None


class Strategy:
    """To do nothing, which is what the others change."""

    in_order = False  # whether jobs take their locks in one order

    def turn(self, asker: Contender) -> tuple[float, ...]:
        """Sort those that wait; by default in the order of their requests."""
        return ()

    def may_take(self, table: Table, asker: Contender) -> bool:
        """Whether a lock that is free may be given."""
        return True

    def victims(self, table: Table, asker: Contender) -> Sequence[Contender]:
        """Return who is refused when this one has to wait."""
        return ()


class Detect(Strategy):
    """Refuse the youngest of each cycle of waits."""

    def victims(self, table: Table, asker: Contender) -> Sequence[Contender]:
        """Look for cycles: one that is there now runs through this wait."""
        return table.victims_of_deadlocks()


class Avoid(Strategy):
    """Give only what leaves a state in which all can finish.

    A request that is held back is looked at again when an attempt ends. That is enough: locks that
    others are given meanwhile make no more states safe, and neither do claims of jobs that begin.
    """

    def may_take(self, table: Table, asker: Contender) -> bool:
        """Ask the banker."""
        return table.safe_with(asker)


class Order(Strategy):
    """Have all jobs take their locks in ascending order: the holder of the highest one never waits."""

    in_order = True


class WaitDie(Strategy):
    """Let an older job wait for a younger one, and refuse a younger one.

    A lock goes to the youngest that waits. Those that wait on are older than the new holder, too, so no wait
    ever changes into one that is not allowed.
    """

    def turn(self, asker: Contender) -> tuple[float, ...]:
        """Sort those that wait, the youngest first."""
        return (-asker.born, -asker.client)

    def victims(self, table: Table, asker: Contender) -> Sequence[Contender]:
        """Refuse the one that asks, if it is the younger one."""
        assert asker.wants is not None
        holder = table.holder(asker.wants)
        return [asker] if holder is not None and holder.age < asker.age else []


class WoundWait(Strategy):
    """Let a younger job wait for an older one, and take the lock from a younger one.

    A lock goes to the oldest that waits, so those that wait on are younger than the new holder.
    """

    def turn(self, asker: Contender) -> tuple[float, ...]:
        """Sort those that wait, the oldest first."""
        return asker.age

    def victims(self, table: Table, asker: Contender) -> Sequence[Contender]:
        """Refuse the one that holds, if it is the younger one."""
        assert asker.wants is not None
        holder = table.holder(asker.wants)
        return [holder] if holder is not None and asker.age < holder.age else []


STRATEGIES: dict[str, Strategy] = {
    "nothing": Strategy(),
    "detect": Detect(),
    "avoid": Avoid(),
    "order": Order(),
    "wait-die": WaitDie(),
    "wound-wait": WoundWait(),
}
