"""Learning the configuration of a cluster from the nodes that answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.algorithms.mutex.quorum.leased.configuration import FORCED_LEAP
from coterie.cluster.membership.membership import Membership, check_learnt
from coterie.cluster.wire.connection import FAULTS
from coterie.cluster.wire.frames import GetMembership, MembershipReply
from coterie.cluster.wire.handshake import Credentials
from coterie.cluster.wire.query import consult
from coterie.cluster.wire.trouble import explain_at
from coterie.errors import Unavailable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.query import Consultation
    from coterie.cluster.wire.security import Security

DISCOVERY_SECONDS_MAX = 5.0
RETRY_SECONDS = 0.1
OTHERS_SECONDS_MAX = 0.1  # for the nodes that are being asked when the first has answered
VOTERS_SECONDS_MAX = 1.0  # the same, if that does not vote and so may know an old configuration


async def ask_membership(consultation: Consultation) -> Membership:
    """Ask a node for the newest configuration that it knows."""
    answer = await consultation.ask(GetMembership(), MembershipReply)
    membership = msgspec.msgpack.decode(answer.shared, type=Membership)
    check_learnt(membership, consultation.configuration)
    return membership


class KnownMembership(NamedTuple):
    """What one node knows of its cluster."""

    node: str  # its name
    disk: str  # the identity of its disk
    membership: Membership
    address: Address | None = None  # where it was asked
    start: str = ""  # another word for each start of the node

    @property
    def is_voter(self) -> bool:
        """Whether a voter of the configuration has its name, as far as the node knows."""
        return any(member.name == self.node for member in self.membership.members)


def newest(
    answers: Sequence[KnownMembership], identity: str = "", *, firmly: bool = True
) -> Membership:
    """Return the newest configuration of those that nodes know; there is at least one answer.

    Numbers are compared within one installation. Where nodes of several answer, as after one was set up
    again and a disk of the first has come back, it is the one with this identity, or else the one of which
    a quorum of voters answers with their own disks, or else most of them. Who does not know that one
    `firmly` leaves it where a quorum of another one answers, and none of it.
    """
    groups = _by_installation(answers)
    if not groups:
        return _newest_of(answers)
    best = max(groups.values(), key=_standing)
    ours = groups.get(identity) if identity else None
    if ours and not firmly and _standing(best)[0] and not _standing(ours)[0]:
        ours = None
    return _newest_of(ours or best)


def rivals(answers: Sequence[KnownMembership], followed: Configuration) -> list[str]:
    """Say of each node that votes by what contradicts a configuration where it is, and by what.

    That is one of another installation, or one that a force has given up: nothing has closed that, and
    programs that reach the node may hold the same locks. Of two forces the higher number is followed.
    """
    found = []
    for answer in answers:
        theirs = answer.membership.configuration
        if answer.disk not in {member.identity for member in theirs.members}:
            continue  # it does not vote, and shows what it knows
        if followed.is_foreign(theirs):
            why = f"configuration {theirs.number} of another installation"
        elif followed.number - theirs.number >= FORCED_LEAP // 2:
            why = f"configuration {theirs.number}, which a force has given up"
        else:
            continue
        found.append(f"{answer.node} at {answer.address} votes by {why}")
    return found


def copies(answers: Sequence[KnownMembership]) -> list[str]:
    """Say of each disk with which two nodes run where they are: each of them gives the same votes.

    A node that is reached at two addresses is one start. Nodes without a disk show none.
    """
    first: dict[str, KnownMembership] = {}
    found = []
    for answer in answers:
        known = first.setdefault(answer.disk, answer)
        if answer.disk and known.start != answer.start:
            found.append(
                f"{known.node} at {known.address} and {answer.node} at {answer.address} run with copies of one"
                " data directory"
            )
    return found


def is_served(answers: Sequence[KnownMembership], identity: str | None = None) -> bool:
    """Return whether a quorum of one installation answers with its own disks: of this one, or of any."""
    groups = _by_installation(answers)
    asked = [group for name, group in groups.items() if identity is None or name == identity]
    return any(_standing(group)[0] for group in asked)


def _by_installation(answers: Sequence[KnownMembership]) -> dict[str, list[KnownMembership]]:
    """Group what nodes know, without files: any installation may have begun with those."""
    groups: dict[str, list[KnownMembership]] = {}
    for answer in answers:
        configuration = answer.membership.configuration
        if configuration.number > 0:
            groups.setdefault(configuration.cluster_identity, []).append(answer)
    return groups


def _standing(group: Sequence[KnownMembership]) -> tuple[bool, int, int]:
    """Return whether a quorum of an installation answers, how many voters do, and its number."""
    configuration = _newest_of(group).configuration
    disks = {answer.disk for answer in group}
    there = [member.seat for member in configuration.members if member.identity in disks]
    return configuration.quorums.contains_quorum(there), len(there), configuration.number


def _newest_of(answers: Sequence[KnownMembership]) -> Membership:
    return max((each.membership for each in answers), key=lambda it: it.configuration.number)


async def discover(
    addresses: Sequence[Address],
    cluster: str,
    security: Security,
    patience: float = OTHERS_SECONDS_MAX,
    identity: str = "",
) -> Membership:
    """Learn the newest configuration that any of these nodes knows, as `newest` chooses it."""
    return newest(await ask_around(addresses, cluster, security, patience), identity)


async def ask_around(
    addresses: Sequence[Address],
    cluster: str,
    security: Security,
    patience: float = OTHERS_SECONDS_MAX,
    limit: float = DISCOVERY_SECONDS_MAX,
) -> list[KnownMembership]:
    """Ask these nodes what they know; return at least one answer, or raise `Unavailable` after `limit` seconds.

    The first answer is enough. Nodes that are being asked at that moment have `patience` seconds more to
    answer, and longer if the first answer came from a node that does not vote: no process tells a spare of
    changes.
    """
    credentials = Credentials(cluster, "", security.secret_bytes())
    tls = security.client_context()
    troubles: dict[Address, str] = {}
    asked: set[Address] = set()  # nodes that are being asked just now
    asking = [
        asyncio.ensure_future(_learn(address, credentials, tls, troubles, asked))
        for address in addresses
    ]
    try:
        async with asyncio.timeout(limit):
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        reasons = "; ".join(troubles.get(each, f"no answer at {each}") for each in addresses)
        raise Unavailable(f"no node of the cluster can be reached: {reasons}") from None
    else:
        # A node that was removed while it was away has the configuration of that time, and may be
        # the first to answer. Besides, a node takes a caller that leaves in the middle of a
        # handshake for one with another secret.
        others = [task for address, task in zip(addresses, asking, strict=True) if address in asked]
        if not any(task.result().is_voter for task in asking if task.done()):
            patience = max(patience, VOTERS_SECONDS_MAX)
        if others:
            await asyncio.wait(others, timeout=min(patience, limit))
        return [task.result() for task in asking if task.done()]
    finally:
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)


async def _learn(
    address: Address,
    credentials: Credentials,
    tls: ssl.SSLContext | None,
    troubles: dict[Address, str],
    asked: set[Address],
) -> KnownMembership:
    """Ask one node, again and again until it answers."""
    while True:
        asked.add(address)
        try:
            async with consult(address, credentials, tls) as consultation:
                membership = await ask_membership(consultation)
                return KnownMembership(
                    consultation.node, consultation.disk, membership, address, consultation.start
                )
        except (OSError, *FAULTS) as error:
            troubles[address] = explain_at(address, error)
        finally:
            asked.discard(address)
        await asyncio.sleep(RETRY_SECONDS)
