"""Forming: a cluster that was started from a file gets configuration 1, with the identities of its disks.

Until then the voters are those whom the file names, whatever disks they have, and no change is
possible. All nodes have to take part, so it happens when they have met for the first time. A cluster
whose disks were written by an earlier version waits for a command, as programs of that version cannot
follow.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.mutex.quorum.leased.changer import Goal
from coterie.algorithms.mutex.quorum.leased.configuration import Member
from coterie.cluster.change.host import Change
from coterie.cluster.wire.frames import PROTOCOL
from coterie.cluster.wire.query import ask_condition
from coterie.cluster.wire.trouble import explain
from coterie.errors import ChangeConflict, ConfigError, CoterieError, NotFormed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.algorithms.mutex.quorum.leased.frames import Condition
    from coterie.cluster.membership.config import Config
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.voter.host import VoterHost
    from coterie.cluster.wire.security import Security

FIRST_PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 10.0

logger = logging.getLogger("coterie.cluster")


async def form(config: Config, voting: VoterHost) -> None:
    """Try until the configuration has a number."""
    pause, said = FIRST_PAUSE_SECONDS, ""
    while voting.voter.number == 0:
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)
        try:
            goal = await forming_goal(config.membership, config.security, commanded=False)
            await Change(config.membership, config.security, goal).run()
        except ChangeConflict:
            return
        except ConfigError as error:
            if str(error) != said:
                said = str(error)
                logger.warning(
                    "the cluster cannot be formed: %(reason)s",
                    {"reason": error},
                    extra={"event": "cluster-cannot-form"},
                )
        except CoterieError as error:
            logger.debug(
                "the cluster is not formed yet: %(reason)s",
                {"reason": error},
                extra={"event": "cluster-not-formed"},
            )


async def forming_goal(
    membership: Membership, security: Security, *, commanded: bool = True
) -> Goal:
    """Ask all nodes for the identities of their disks; raises `NotFormed` if it cannot be now.

    It is `ConfigError` if a node has no disk, or a copy of another's, as it never can be then.
    There is no way back to an earlier version afterwards, so where one has run it happens only if it
    is `commanded`.
    """
    credentials, tls = membership.credentials(security.secret_bytes()), security.client_context()
    members: list[Member] = []
    conditions: list[Condition] = []
    for seat, member in enumerate(membership.members, 1):
        try:
            condition = await ask_condition(member.name, member.address, credentials, tls)
        except (OSError, CoterieError, msgspec.MsgspecError) as error:
            raise NotFormed(f"node {member.name!r} cannot be asked: {explain(error)}") from None
        if not condition.identity:
            raise ConfigError(
                f"node {member.name!r} has no data directory, and every voter needs one: start the"
                " node with --data DIR"
            )
        if condition.protocol < PROTOCOL:
            raise NotFormed(explain_protocol(member.name, condition, PROTOCOL))
        if condition.is_old and not commanded:
            raise NotFormed(f"node {member.name!r} has run an earlier version of coterie")
        twin = next((each.name for each in members if each.identity == condition.identity), None)
        if twin is not None:
            raise ConfigError(
                f"nodes {twin!r} and {member.name!r} have one data directory, or copies of one: start"
                f" {member.name!r} with an empty directory"
            )
        members.append(Member(seat, member.name, condition.identity, str(member.address)))
        conditions.append(condition)
    _refuse_earlier(members, conditions)
    part = membership.configuration.rule.parts[0]
    return Goal(0, part, tuple(members), PROTOCOL)


def _refuse_earlier(members: Sequence[Member], conditions: Sequence[Condition]) -> None:
    """Raise `ConfigError` if a node goes by a configuration that knows nothing of the disks of others.

    These may have lost theirs, so they may not form another cluster; or its own disk was forgotten when
    the cluster was set up again. Nothing but the operator can tell.
    """
    for member, condition in zip(members, conditions, strict=True):
        configuration = condition.configuration
        if configuration is None or configuration.number == 0:
            continue
        known = {each.identity for each in configuration.members}
        strangers = [each.name for each in members if each.identity not in known]
        if strangers:
            raise ConfigError(
                f"node {member.name!r} goes by configuration {configuration.number}, to which the data"
                f" directories of {', '.join(strangers)} do not belong: if this cluster is new,"
                f" {member.name} has one of an earlier installation: stop all nodes, move that directory"
                " away, and start them; if not, start the others with their own directories"
            )


def explain_protocol(node: str, condition: Condition, wanted: int) -> str:
    """Say which program keeps a node from a protocol that is wanted, or that it is the node itself."""
    at_most = f"speaks protocol {condition.protocol} at most, and protocol {wanted} is wanted"
    if not condition.slowest:
        return f"node {node!r} {at_most}: run a newer version of coterie there"
    return (
        f"program {condition.slowest!r} at node {node!r} {at_most}: end it, or start it with a newer"
        " version of coterie"
    )
