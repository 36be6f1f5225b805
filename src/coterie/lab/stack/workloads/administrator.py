"""An administrator: wants something by chance, and has it done as the commands do.

Looking at a cluster, making goals, refusing them and running the change are what `coterie cluster` calls;
only the choice is made here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from coterie.cluster.change import plan
from coterie.cluster.change.force import check_force, force
from coterie.cluster.change.host import Change
from coterie.cluster.change.newcomer import identify
from coterie.cluster.change.operation import (
    check_end,
    check_quorum,
    goal_to_add,
    goal_to_replace,
    goal_to_set,
    replace_disk,
)
from coterie.cluster.change.plan import Newcomer, failures_borne, make_plan
from coterie.cluster.change.survey import look, look_for_spares
from coterie.cluster.wire.frames import PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from coterie.algorithms.mutex.quorum.leased.changer import Goal
    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.cluster.change.survey import KnownConfiguration, SpareState
    from coterie.cluster.client.access import Visit

    MakeGoal: TypeAlias = Callable[[KnownConfiguration], Awaitable[Goal]]

VOTERS_MAX = 5
LEASE_SHARES = (0.6, 1.0, 1.5)


class Habits(NamedTuple):
    """What an administrator does and leaves alone."""

    voters_min: int = 3  # so that one disk may be lost
    lease_shares: tuple[float, ...] = LEASE_SHARES
    failures_borne_min: int = 1  # afterwards
    tries_strangers: bool = False  # adds nodes although status calls them unfit
    forces: bool = False  # when status says that a quorum of the disks is lost, and advises it
    only_forces: bool = False
    patience: float = 0.0  # seconds more for each change
    newest_protocol: bool = False  # goes over to it, sooner or later
    records_addresses: bool = False  # of voters that were renumbered, as status advises


class Wish(NamedTuple):
    """What is to be done about a cluster."""

    name: str
    goal: MakeGoal
    lost: str = ""  # the voter whose new disk is to vote: that takes two changes
    forces: bool = False


class Hearers(NamedTuple):
    """What hears of a change."""

    begins: Callable[[Goal], None]
    stepped: Callable[[Configuration], None]


class Administrator:
    """Wants something by chance."""

    def __init__(self, random: Random, lease: float, visit: Visit, habits: Habits) -> None:
        """Prepare; `lease` is what it varies."""
        self.habits = habits
        self._random = random
        self._lease = lease
        self._visit = visit

    async def look(self) -> KnownConfiguration:
        """Look at the cluster, as `coterie cluster status` does."""
        return await look(self._visit)

    async def wish(self, standing: KnownConfiguration) -> Wish | None:
        """Choose what to do about a cluster; None: nothing can be done now."""
        present = standing.configuration
        if present.number > 0 and standing.is_lost and self.habits.forces:
            return Wish("force", _finish, forces=True)
        if present.number == 0 or self.habits.only_forces:
            return None
        if present.is_joint:
            return Wish("abort", _abort) if self._random.random() < 0.4 else Wish("finish", _finish)
        if present.open and self._random.random() < 0.5:
            return Wish("finish", _finish)
        spares = await look_for_spares(self._visit, standing)
        return self._mend(standing) or self._choose(present, spares)

    def _mend(self, standing: KnownConfiguration) -> Wish | None:
        """Do what status advises about voters that are elsewhere, or have another disk."""
        moved = {f"address.{each.name}": each.found for each in standing.voters if each.found}
        if moved and self.habits.records_addresses:
            return Wish("addresses", _setting(moved))
        lost = [each.name for each in standing.voters if each.condition and not each.is_meant]
        if lost and self._random.random() < 0.7:
            return Wish("replace a lost disk", _finish, lost[0])
        return None

    def _choose(self, present: Configuration, spares: Sequence[SpareState]) -> Wish:
        names = [member.name for member in present.members]
        free = [
            Newcomer(spare.name, spare.address)
            for spare in spares
            if spare.name not in names and (spare.is_harmless or self.habits.tries_strangers)
        ]
        self._random.shuffle(free)
        wishes = ["lease", "weights", "majority"]
        wishes += ["replace"] * 3 if free else []
        wishes += ["add"] * 2 if free and len(names) < VOTERS_MAX else []
        wishes += ["remove"] * 2 if len(names) > self.habits.voters_min else []
        wishes += ["replace all"] * 2 if len(free) >= max(1, self.habits.voters_min) else []
        wishes += ["protocol"] if self.habits.newest_protocol else []
        wish, chosen = self._random.choice(wishes), self._random.choice(names)
        lease = self._lease * self._random.choice(self.habits.lease_shares)
        makers: dict[str, Callable[[], MakeGoal]] = {
            "lease": lambda: _setting({"lease": str(lease)}),
            "weights": lambda: _setting({f"votes.{chosen}": "2"}),
            "majority": lambda: _setting({"coterie": plan.MAJORITY}),
            "protocol": lambda: _setting({"protocol": str(PROTOCOL)}),
            "replace": lambda: functools.partial(_replace, chosen, free[0]),
            "add": lambda: functools.partial(_add, free[:1]),
            "remove": lambda: functools.partial(_remove, [chosen]),
            "replace all": lambda: functools.partial(_replace_all, free[:VOTERS_MAX]),
        }
        return Wish(wish, makers[wish]())

    async def carry_out(
        self, wish: Wish, standing: KnownConfiguration, hearers: Hearers
    ) -> Configuration | None:
        """Do what is wished, as the command does; None: the result would endure no lost disk."""
        if wish.forces:
            return await _force(standing)
        if wish.lost:
            return await self._replace_disk(wish.lost, standing, hearers)
        goal = await wish.goal(standing)
        if (
            goal.part is not None
            and failures_borne(goal.part.quorums) < self.habits.failures_borne_min
        ):
            return None
        intended = make_plan(standing.configuration, goal, standing.gone)
        check_quorum(standing, intended)
        check_end(standing, intended)
        return await _run(standing, goal, hearers)

    async def _replace_disk(
        self, name: str, standing: KnownConfiguration, hearers: Hearers
    ) -> Configuration | None:
        replacement = await replace_disk(standing, name)
        part = replacement.first.goal.part
        if part is None or failures_borne(part.quorums) < 0:
            return None
        check_end(standing, replacement.first)
        between = await _run(standing, replacement.first.goal, hearers)
        after = msgspec.structs.replace(standing, membership=standing.membership.after(between))
        return await _run(after, plan.add(between, [replacement.newcomer]), hearers)


async def _run(standing: KnownConfiguration, goal: Goal, hearers: Hearers) -> Configuration:
    hearers.begins(goal)
    return await Change(standing.membership, standing.security, goal, hearers.stepped).run()


async def _force(standing: KnownConfiguration) -> Configuration:
    """Do what status advises when a quorum of the disks is lost, which must not be wrong."""
    left = [voter.name for voter in standing.voters if voter.seat in standing.up]
    return await force(standing, check_force(standing, left))


# Goals, as the commands make them


async def _finish(standing: KnownConfiguration) -> Goal:
    return plan.finish(standing.configuration)


async def _abort(standing: KnownConfiguration) -> Goal:
    return plan.abort(standing.configuration)


def _setting(values: dict[str, str]) -> MakeGoal:
    async def goal(standing: KnownConfiguration) -> Goal:
        return await goal_to_set(standing, values)

    return goal


async def _add(newcomers: Sequence[Newcomer], standing: KnownConfiguration) -> Goal:
    return await goal_to_add(standing, newcomers)


async def _remove(names: Sequence[str], standing: KnownConfiguration) -> Goal:
    return plan.remove(standing.configuration, names)


async def _replace(name: str, newcomer: Newcomer, standing: KnownConfiguration) -> Goal:
    return await goal_to_replace(standing, name, newcomer)


async def _replace_all(newcomers: Sequence[Newcomer], standing: KnownConfiguration) -> Goal:
    """Put all voters in the place of others at once: no command does it, and the protocol allows it."""
    present = standing.configuration
    identified = [await identify(each, standing) for each in newcomers]
    more = plan.expected(present, plan.add(present, identified))
    goal = plan.remove(more, [member.name for member in present.members])
    return msgspec.structs.replace(goal, base=present.number)
