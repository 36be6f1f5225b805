"""Learning the configuration of a cluster from the nodes that answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

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


async def discover(
    addresses: Sequence[Address],
    cluster: str,
    security: Security,
    patience: float = OTHERS_SECONDS_MAX,
) -> Membership:
    """Learn the newest configuration that any of these nodes knows.

    The first answer is enough; the nodes that are being asked meanwhile get so many seconds for theirs,
    and more if the first was of a node that does not vote.
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
        async with asyncio.timeout(DISCOVERY_SECONDS_MAX):
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        reasons = "; ".join(troubles.get(each, f"no answer at {each}") for each in addresses)
        raise Unavailable(f"no node of the cluster can be reached: {reasons}") from None
    else:
        # A node that was removed while it was away has the configuration of that time, and may be
        # the first to answer. Besides, a node takes a caller that leaves in the middle of a
        # handshake for one with another secret.
        others = [task for address, task in zip(addresses, asking, strict=True) if address in asked]
        if not any(task.result()[1] for task in asking if task.done()):
            patience = max(patience, VOTERS_SECONDS_MAX)
        if others:
            await asyncio.wait(others, timeout=patience)
        found = [task.result()[0] for task in asking if task.done()]
        return max(found, key=lambda membership: membership.configuration.number)
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
) -> tuple[Membership, bool]:
    """Ask one node, again and again until it answers; tell also whether it votes, as far as it knows.

    No process tells a spare of changes.
    """
    while True:
        asked.add(address)
        try:
            async with consult(address, credentials, tls) as consultation:
                membership = await ask_membership(consultation)
                voters = [member.name for member in membership.members]
                return membership, consultation.node in voters
        except (OSError, *FAULTS) as error:
            troubles[address] = explain_at(address, error)
        finally:
            asked.discard(address)
        await asyncio.sleep(RETRY_SECONDS)
