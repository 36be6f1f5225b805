"""A node whose data directory is empty asks the others which numbers may have been used.

Its disk may be a new one in the place of another that knew. Any token that was used with a vote of
this node was supported by a whole quorum, so it lies below the bound of some node that is asked here:
all others, or as many as it takes for no quorum to be without one of them. Where the file names no
other, nothing but the word of the operator ends the wait.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from coterie.cluster.admin.connection import ask_membership, consult
from coterie.cluster.runtime import clock
from coterie.cluster.voter.frames import GetTokenBound, TokenBound
from coterie.cluster.wire.connection import FAULTS
from coterie.errors import CoterieError, ProtocolError

if TYPE_CHECKING:
    from coterie.cluster.config import Config
    from coterie.cluster.membership import Member
    from coterie.cluster.voter.host import VoterHost

RETRY_SECONDS = 0.2
BOUND_LEAD_MAX = 1 << 52  # above the number of the time of day: 34 years of numbers
# What keeps a node from being asked; certificates that are just being renewed are among it.
TROUBLES = (OSError, CoterieError, *FAULTS)

logger = logging.getLogger("coterie.cluster")


async def recover(config: Config, voting: VoterHost) -> None:
    """Ask until enough others have answered; then the node may vote when its abstention is over."""
    membership = config.membership
    others = {
        voter: member
        for voter, member in enumerate(membership.members, 1)
        if member.name != voting.node
    }
    if not others:
        # It may have been one of several voters since, which the file does not name.
        logger.warning(
            "node %s has an empty data directory and abstains: no other node of its file can say"
            " what was there before; --new-cluster vouches that it was nothing",
            voting.node,
            extra={"event": "node-recovers"},
        )
        return
    missing = dict(others)
    asking = {
        asyncio.ensure_future(_learn(config, voting, member)): voter
        for voter, member in others.items()
    }
    try:
        while (
            missing
            and voting.recovers
            and membership.settings.quorums.contains_quorum(
                [membership.voter(voting.node), *missing]
            )
        ):
            voting.wait_for([member.name for member in missing.values()])
            logger.warning(
                "node %s has an empty data directory and abstains until it has heard from %s;"
                " --new-cluster vouches that there is nothing to hear",
                voting.node,
                ", ".join(voting.awaited),
                extra={"event": "node-recovers"},
            )
            done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                voter = asking.pop(task)
                task.result()  # one that has failed has heard nothing
                del missing[voter]
    finally:
        for task in asking:
            task.cancel()
    if voting.recovers:
        voting.end_recovery()


async def _learn(config: Config, voting: VoterHost, member: Member) -> None:
    membership, security = config.membership, config.security
    credentials = membership.credentials(security.secret_bytes())
    while True:
        try:
            async with consult(member.address, credentials, security.client_context()) as talk:
                answer = await talk.ask(GetTokenBound(), TokenBound)
                if talk.number > 0:
                    # Which disks vote is decided, and this empty one is none of them.
                    voting.learn((await ask_membership(talk)).configuration)
            if answer.node == member.name:
                voting.raise_floor(_believable(answer.bound))
                return
        except TROUBLES as error:
            logger.debug(
                "node %s cannot ask %s: %s",
                voting.node,
                member.name,
                error,
                extra={"event": "recovery-delayed"},
            )
        await asyncio.sleep(RETRY_SECONDS)


def _believable(bound: int) -> int:
    """Return a bound that a cluster can have come to; refuse one that would use up the numbers."""
    if bound > clock.number() + BOUND_LEAD_MAX:
        raise ProtocolError(f"its bound is {bound}, which no cluster reaches")
    return bound


async def catch_up(config: Config, voting: VoterHost) -> None:
    """Ask the voters once, at the start, whether there is a newer configuration.

    A node that was removed, or whose change was taken back, while it was away would hear of it from
    no program any more, and go on showing what is over.
    """
    membership, security = voting.membership, config.security
    credentials = membership.credentials(security.secret_bytes())
    for member in membership.members:
        if member.name == voting.node:
            continue
        try:
            async with consult(member.address, credentials, security.client_context()) as talk:
                if talk.number > voting.membership.configuration.number:
                    voting.learn((await ask_membership(talk)).configuration)
        except TROUBLES as error:
            logger.debug(
                "node %s cannot ask %s: %s",
                voting.node,
                member.name,
                error,
                extra={"event": "node-unasked"},
            )
