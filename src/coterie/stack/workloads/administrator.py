"""An administrator: looks at a cluster, wants something else, and runs the change."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from coterie.cluster.admin.connection import ask_membership, consult
from coterie.cluster.change.host import Change
from coterie.cluster.membership import Address
from coterie.cluster.wire.handshake import Credentials
from coterie.errors import CoterieError
from coterie.mutex.quorum.leased.changer import Goal
from coterie.mutex.quorum.leased.configuration import Member, Part
from coterie.mutex.quorum.leased.frames import Condition, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from coterie.cluster.membership import Membership
    from coterie.cluster.wire.security import Security
    from coterie.mutex.quorum.leased.configuration import Configuration
    from coterie.mutex.quorum.leased.settings import Settings

VOTERS_MIN, VOTERS_MAX = 3, 5  # so that one disk may be lost
WEIGHTS = {4: "weighted:2,1,1,1", 5: "weighted:2,1,1,1,1"}  # a quorum is left without any voter
LEASE_SHARES = (0.6, 1.0, 1.5)


@dataclass
class Sight:
    """What an administrator has found out about a cluster."""

    membership: Membership | None = None  # the newest
    conditions: dict[str, Condition] = field(default_factory=dict)  # of all nodes that answer

    @property
    def present(self) -> Configuration | None:
        """The newest configuration, if it has a number."""
        return None if self.membership is None else self.membership.decided

    def learn(self, membership: Membership) -> None:
        """Take over what a node knows, if it is newer or has something noted."""
        newest = self.membership
        if newest is None or membership.configuration.number > newest.configuration.number:
            self.membership = membership
        elif membership.configuration.number == newest.configuration.number > 0:
            noted = newest.configuration.noted(membership.configuration)
            self.membership = newest.after(noted)

    def newcomers(self) -> list[str]:
        """List the nodes that can become voters, those first whose voter has lost its disk."""
        present = self.present
        if present is None:
            return []
        disks = {member.identity for member in present.members}
        free = [
            name
            for name, condition in self.conditions.items()
            if condition.identity not in disks
            and (condition.configuration is None or condition.configuration.is_same(present))
        ]
        voters = {member.name for member in present.members}
        return sorted(free, key=lambda name: name not in voters)


async def look(names: Sequence[str], port: int, cluster: str, security: Security) -> Sight:
    """Ask all nodes of these names where they stand."""
    sight = Sight()
    credentials = Credentials(cluster, "", security.secret_bytes())

    async def ask(name: str) -> None:
        async with consult(Address(name, port), credentials, None, name) as consultation:
            condition = await consultation.ask(Query(), Condition)
            membership = await ask_membership(consultation)
        sight.conditions[name] = condition
        sight.learn(membership)

    async def try_to_ask(name: str) -> None:
        with contextlib.suppress(OSError, CoterieError, msgspec.MsgspecError):  # it may be away
            await ask(name)

    await asyncio.gather(*map(try_to_ask, names))
    return sight


class Administrator:
    """Wants something by chance."""

    def __init__(self, random: Random, lease: float, port: int, seats: Callable[[], int]) -> None:
        """Prepare; `seats` gives a number that no voter has had, `lease` is what it varies."""
        self._random = random
        self._lease = lease
        self._port = port
        self._new_seat = seats

    def wish(self, sight: Sight) -> tuple[str, Goal] | None:
        """Choose what to do about a cluster, by name; None: nothing can be done now."""
        present = sight.present
        if present is None:
            return None
        if present.open or present.is_joint:
            if present.is_joint and self._random.random() < 0.4:
                return "abort", _abort(present)
            return "finish", Goal(present.number)
        return self._change(present, sight.newcomers())

    def _change(self, present: Configuration, newcomers: list[str]) -> tuple[str, Goal] | None:
        members, voters = list(present.members), {member.name for member in present.members}
        lost = [name for name in newcomers if name in voters]
        free = [name for name in newcomers if name not in voters]
        wishes = ["lease", "weights", "majority"]
        wishes += ["replace"] * 3 if free else []
        wishes += ["add"] * 2 if free and len(members) < VOTERS_MAX else []
        wishes += ["remove"] * 2 if len(members) > VOTERS_MIN else []
        wishes += ["replace all"] * 2 if len(free) >= VOTERS_MIN else []
        wish = self._random.choice(wishes)
        if lost and self._random.random() < 0.7:
            wish = "replace a lost disk"
            at = next(at for at, member in enumerate(members) if member.name == lost[0])
            members[at] = self._newcomer(lost[0])
        elif wish == "replace":
            members[self._random.randrange(len(members))] = self._newcomer(free[0])
        elif wish == "add":
            members.append(self._newcomer(free[0]))
        elif wish == "remove":
            del members[self._random.randrange(len(members))]
        elif wish == "replace all":
            members = [self._newcomer(name) for name in free[:VOTERS_MAX]]
        return wish, self._goal(present, members, wish)

    def _newcomer(self, name: str) -> Member:
        return Member(self._new_seat(), name, "", f"{name}:{self._port}")

    def _goal(self, present: Configuration, members: list[Member], wish: str) -> Goal:
        size, settings = len(members), present.settings
        coterie = "majority" if size != len(present.members) else settings.coterie
        if wish in ("weights", "majority"):
            coterie = WEIGHTS.get(size, "majority") if wish == "weights" else "majority"
        settings = msgspec.structs.replace(settings, voters=size, coterie=coterie)
        if wish == "lease":
            settings = _with_lease(settings, self._lease * self._random.choice(LEASE_SHARES))
        seats = tuple(member.seat for member in members)
        ordered = tuple(sorted(members, key=lambda member: member.seat))
        return Goal(present.number, Part(seats, settings), ordered, present.protocol)


def identified(goal: Goal, sight: Sight) -> Goal:
    """Fill in the identities of the disks of nodes that are to become voters."""
    members = tuple(
        member
        if member.identity
        else msgspec.structs.replace(member, identity=sight.conditions[member.name].identity)
        for member in goal.members
    )
    return msgspec.structs.replace(goal, members=members)


def change(
    sight: Sight, security: Security, goal: Goal, stepped: Callable[[Configuration], None]
) -> Change:
    """Return the change that brings a goal about."""
    assert sight.membership is not None, "an administrator that knows no cluster wishes nothing"
    return Change(sight.membership, security, goal, stepped)


def _abort(present: Configuration) -> Goal:
    part = present.rule.parts[0]
    members = tuple(member for member in present.members if member.seat in part.seats)
    return Goal(present.number, part, members, present.protocol, takes_back=True)


def _with_lease(settings: Settings, lease: float) -> Settings:
    return msgspec.structs.replace(
        settings, lease=lease, heartbeat=lease / 4, hedge=lease / 5, unwind=lease
    )
