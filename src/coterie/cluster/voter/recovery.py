"""A node whose data directory is empty asks the others which numbers may have been used.

Its disk may be a new one in the place of another that knew. Any token that was used with a vote of
this node was supported by a whole quorum, so it lies below the bound of some node that is asked here:
all others, or as many as it takes for no quorum to be without one of them. Where the file names no
other, nothing but the word of the operator ends the wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from coterie.cluster.membership.discovery import KnownMembership, ask_membership, is_served
from coterie.cluster.membership.membership import check_bound
from coterie.cluster.voter.copies import check_record
from coterie.cluster.wire.connection import FAULTS
from coterie.cluster.wire.handshake import Credentials, OtherInstallationError
from coterie.cluster.wire.query import consult
from coterie.cluster.wire.voter_frames import Abstention, GetAbstention, GetTokenBound, TokenBound
from coterie.errors import ConfigError, CoterieError

if TYPE_CHECKING:
    from coterie.cluster.membership.config import Config
    from coterie.cluster.membership.membership import Member, Membership
    from coterie.cluster.voter.host import VoterHost
    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.query import Consultation
    from coterie.cluster.wire.security import Security

RETRY_SECONDS = 0.2
FIRST_PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 10.0
RIVALS_SECONDS = 10.0  # less than a node abstains after a start, with the default lease
# What keeps a node from being asked; certificates that are just being renewed are among it.
TROUBLES = (OSError, CoterieError, *FAULTS)

logger = logging.getLogger("coterie.cluster")


async def recover(config: Config, voting: VoterHost) -> None:
    """Ask until enough others have answered; then the node may vote when its abstention is over."""
    membership = config.membership
    asked = {
        voter: member
        for voter, member in enumerate(membership.members, 1)
        if member.name != voting.node
    }
    if not asked:
        # It may have been one of several voters since, which the file does not name.
        logger.warning(
            "node %(node)s has an empty data directory and abstains: no other node of its file can say"
            " what was there before; if none has ever run, --new-cluster vouches for that",
            {"node": voting.node},
            extra={"event": "node-recovers"},
        )
        return
    missing = dict(asked)
    asking = {
        asyncio.ensure_future(_learn(config, voting, member)): voter
        for voter, member in asked.items()
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
                "node %(node)s has an empty data directory and abstains until it has heard from %(awaited)s;"
                " if no node of this cluster has ever run, --new-cluster vouches for that",
                {"node": voting.node, "awaited": ", ".join(voting.awaited)},
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
                rest = await talk.ask(GetAbstention(), Abstention)
                if talk.number > 0:
                    # Which disks vote is decided, and this empty one is none of them.
                    # sometimes: an empty disk hears of a number that it has no part in
                    await _learn_from(talk, member.address, voting)
            if answer.node == member.name:
                check_bound(answer.bound)
                voting.raise_floor(answer.bound)
                voting.outlast(rest.seconds)
                return
        except TROUBLES as error:
            logger.debug(
                "node %(node)s cannot ask %(peer)s: %(reason)s",
                {"node": voting.node, "peer": member.name, "reason": error},
                extra={"event": "recovery-delayed"},
            )
        await asyncio.sleep(RETRY_SECONDS)


async def catch_up(config: Config, voting: VoterHost) -> None:
    """Ask the other voters for a newer configuration, until a quorum of our cluster has answered.

    A node that was removed, or whose change was taken back, while it was away would hear of it from
    no program any more, and go on showing what is over. Raises `ConfigError` if a quorum of another
    installation answers in place of ours.

    By number 0 it may have lost the disk that accepted number 1, and have heard from the others before
    they knew that this was decided: programs and changers call the disk that number 1 names, and no
    other, so none of them tells this node.
    What it learns makes no other disk a voter: number 1 is for those that it names alone (19.5).
    """
    pause = FIRST_PAUSE_SECONDS
    while voting.voter.number > 0:
        friends, strangers = await _ask_others(config, voting)
        _check_installation(voting, strangers)
        if voting.membership.has_quorum([voting.node, *friends]):
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)
    while voting.voter.number == 0:
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)
        await _ask_others(config, voting)


async def find_rivals(config: Config, voting: VoterHost, start: str) -> None:
    """Look again and again for another force than the one that this node goes by, and for a copy of its disk.

    No quorum has decided either force, so no program or changer may ever pass on the one to the other: this
    node asks where the voters are that were given up. It follows the higher number (19.11). Raises
    `ConfigError` if another node than this `start` has its disk, and is where its voter is on record.
    """
    while True:
        await check_record(config, voting, start)
        await asyncio.sleep(RIVALS_SECONDS)
        if voting.is_forced:
            await _ask_others(config, voting)


def _check_installation(voting: VoterHost, strangers: dict[str, KnownMembership]) -> None:
    """Raise `ConfigError` if our data directory is of another installation than the nodes around us.

    That is so if a quorum of theirs answers, with its own disks, and takes so many of our addresses that no
    quorum of ours can be left. Otherwise the strangers may be wrong, and not we.
    """
    membership = voting.membership
    names = [member.name for member in membership.members if member.name not in strangers]
    if is_served(list(strangers.values())) and not membership.has_quorum(names):
        raise ConfigError(
            f"node {voting.node!r} has the data directory of another installation of cluster"
            f" {membership.cluster!r} than {', '.join(strangers)}: start it with the data directory"
            " that it has in this one; if that is lost, move this one away, and coterie cluster"
            f" replace {voting.node} makes the node a voter again"
        )


async def _ask_others(
    config: Config, voting: VoterHost
) -> tuple[list[str], dict[str, KnownMembership]]:
    """Ask once; return the names of our nodes, and what those of another installation know."""
    friends: list[str] = []
    strangers: dict[str, KnownMembership] = {}
    membership, security = voting.membership, config.security
    credentials = membership.credentials(security.secret_bytes())
    tls = security.client_context()

    async def ask(address: Address) -> str | Exception:
        try:
            async with consult(address, credentials, tls) as talk:
                if talk.number > voting.membership.configuration.number:
                    # sometimes: a node that starts is behind the others
                    await _learn_from(talk, address, voting)
                return talk.node
        except TROUBLES as error:
            return error

    # At the same time: one that hangs, or an address that leads nowhere, keeps none of the others waiting.
    asked = list(others(config, voting))
    answers = await asyncio.gather(*(ask(address) for _, address in asked))
    for (name, address), answer in zip(asked, answers, strict=True):
        match answer:
            case str():
                friends.append(answer)
            case OtherInstallationError():
                logger.warning(
                    "node %(node)s does not follow %(peer)s: %(reason)s",
                    {"node": voting.node, "peer": name, "reason": answer},
                    extra={"event": "other-installation"},
                )
                with contextlib.suppress(*TROUBLES):
                    strangers[name] = await _ask_stranger(address, membership, security)
            case _:
                logger.debug(
                    "node %(node)s cannot ask %(peer)s: %(reason)s",
                    {"node": voting.node, "peer": name, "reason": answer},
                    extra={"event": "node-unasked"},
                )
    # A file may name another installation's nodes beside ours that answer where they are on record.
    return friends, {name: known for name, known in strangers.items() if name not in friends}


async def _learn_from(talk: Consultation, address: Address, voting: VoterHost) -> None:
    """Learn the configuration of another node; say which node it is, if our disk has no part in it."""
    configuration = (await ask_membership(talk)).configuration
    voter, disks = voting.voter, {each.identity for each in configuration.members}
    # A spare shows what it has heard: its own disk is as new as ours.
    if voter.number == 0 and voter.identity not in disks and talk.disk in disks:
        logger.warning(
            "node %(peer)s at %(address)s goes by configuration %(number)d, to which the data directory of node"
            " %(node)s does not belong: if this cluster is new, that of %(peer)s is of an earlier installation: stop all"
            " nodes, move it away, and start them",
            {
                "node": voting.node,
                "peer": talk.node,
                "address": address,
                "number": configuration.number,
            },
            extra={"event": "earlier-installation"},
        )
    voting.learn(configuration)


def others(config: Config, voting: VoterHost) -> list[tuple[str, Address]]:
    """List where the other voters are on record, and at which other addresses they may be.

    After all were renumbered nothing but the files knows where they are.
    """
    recorded = [(each.name, each.address) for each in voting.membership.members]
    written = [(each.name, each.address) for each in config.membership.members]
    contacts = [(str(address), address) for address in config.contacts]
    names: dict[Address, str] = {}
    for name, address in (*recorded, *written, *contacts):
        names.setdefault(address, name)
    return [(name, address) for address, name in names.items() if name != voting.node]


async def _ask_stranger(
    address: Address, membership: Membership, security: Security
) -> KnownMembership:
    unknown = Credentials(membership.cluster, "", security.secret_bytes())
    async with consult(address, unknown, security.client_context()) as talk:
        return KnownMembership(talk.node, talk.disk, await ask_membership(talk))
