"""Ending the hold of a program that is alive and does not give its lock back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coterie.cluster.admin.connection import consult
from coterie.cluster.voter.frames import BreakHold, HoldBroken
from coterie.cluster.wire.handshake import Credentials
from coterie.cluster.wire.trouble import explain
from coterie.errors import CoterieError

if TYPE_CHECKING:
    from coterie.cluster.client.access import Visit
    from coterie.cluster.membership import Member


class NodeAnswer(msgspec.Struct, frozen=True):
    """What a node has done, or why it could not be asked."""

    node: str
    told: tuple[str, ...] = ()  # the programs that had its vote and were told to stop
    too_old: tuple[str, ...] = ()  # those that cannot be told
    trouble: str = ""


async def break_hold(visit: Visit, lock: str) -> list[NodeAnswer]:
    """Have all nodes tell the holders of a lock that their hold is over.

    A holder that is connected to one of them stops to count it, and gives all votes back at once. One
    that is cut off from all loses it when its lease runs out, as always.
    """
    membership = await visit.learn()
    operator = visit.security.operator_bytes()
    credentials = Credentials(membership.cluster, "", operator=operator)

    async def ask(member: Member) -> NodeAnswer:
        tls = visit.security.client_context()
        try:
            async with consult(
                member.address, credentials, tls, member.name, role="operator"
            ) as consultation:
                answer = await consultation.ask(BreakHold(lock), HoldBroken)
        except (OSError, CoterieError, msgspec.MsgspecError) as error:
            return NodeAnswer(member.name, trouble=explain(error))
        return NodeAnswer(member.name, answer.labels, answer.too_old)

    return list(await asyncio.gather(*map(ask, membership.members)))
