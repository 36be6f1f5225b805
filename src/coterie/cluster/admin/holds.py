"""Ending the hold of a program that is alive and does not give its lock back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coterie.cluster.admin.status import inspect_lock
from coterie.cluster.wire.handshake import OtherSecretError
from coterie.cluster.wire.query import consult
from coterie.cluster.wire.trouble import explain
from coterie.cluster.wire.voter_frames import BreakHold, HoldBroken
from coterie.errors import ConfigError, CoterieError, Unavailable, UsageError
from coterie.locks.breaker import EndedHolds, FoundHold

if TYPE_CHECKING:
    from coterie.cluster.client.access import Visit
    from coterie.process import ProcessId


class NodeAnswer(msgspec.Struct, frozen=True):
    """What a node has done, or why it could not be asked."""

    node: str
    told: tuple[str, ...] = ()  # the programs that had its vote and were told to stop
    too_old: tuple[str, ...] = ()  # those that cannot be told
    trouble: str = ""


async def find_hold(visit: Visit, lock: str) -> FoundHold:
    """Look which programs hold a lock; raises `UsageError` if the cluster has no leases."""
    membership = await visit.learn()
    if membership.algorithm is not None:
        raise UsageError(
            f"cluster {membership.cluster!r} runs {membership.algorithm.name}, whose holds cannot be"
            " ended from outside; end the program that holds the lock"
        )
    found, survey = await inspect_lock(visit, lock)
    troubles = {node.name: node.trouble for node in found.nodes if node.trouble}
    return FoundHold(found.locks[0], tuple(survey.suspects(lock)), troubles)


async def break_hold(visit: Visit, holding: FoundHold) -> list[NodeAnswer]:
    """Have all nodes tell the holders that were seen that their hold is over.

    A holder that is connected to one of them stops to count it, and gives all votes back at once. One
    that is cut off from all loses it when its lease runs out, as always. Raises `ConfigError` if no
    node takes the order, and one of them asks for another operator secret.
    """
    membership = await visit.learn()
    operator = visit.security.operator_bytes()
    credentials = membership.stranger(operator=operator)
    order = BreakHold(holding.state.name, holding.participants, holding.token)
    refusals: list[OtherSecretError] = []

    async def ask(voter: ProcessId) -> NodeAnswer:
        tls, member = visit.security.client_context(), membership.at(voter)
        address = visit.ways(membership, voter)[0]  # it was asked who holds the lock just now
        try:
            async with consult(address, credentials, tls, member.name, role="operator") as talk:
                answer = await talk.ask(order, HoldBroken)
        except (OSError, CoterieError, msgspec.MsgspecError) as error:
            if isinstance(error, OtherSecretError):
                refusals.append(error)
            return NodeAnswer(member.name, trouble=explain(error))
        return NodeAnswer(member.name, answer.labels, answer.too_old)

    answers = list(await asyncio.gather(*map(ask, membership.seats)))
    if refusals and all(answer.trouble for answer in answers):
        raise ConfigError(
            f"no node takes orders from here: {refusals[0]}, or operator-secret-file in coterie.toml"
        )
    return answers


class ClusterBreaker:
    """Ends holds on a cluster."""

    def __init__(self, visit: Visit) -> None:
        """Remember how to reach it."""
        self._visit = visit

    async def find(self, lock: str) -> FoundHold:
        """Ask the nodes and the programs that they name."""
        return await find_hold(self._visit, lock)

    async def end(self, found: FoundHold) -> EndedHolds:
        """Have all nodes tell the holders."""
        answers = await break_hold(self._visit, found)
        told = sorted({label for answer in answers for label in answer.told})
        too_old = sorted({label for answer in answers for label in answer.too_old})
        if too_old and not told:
            raise UsageError(
                f"{', '.join(too_old)} runs a version of coterie that cannot be told: end the program"
            )
        troubles = {answer.node: answer.trouble for answer in answers if answer.trouble}
        if len(troubles) == len(answers):
            said = "; ".join(f"{node}: {trouble}" for node, trouble in troubles.items())
            raise Unavailable(f"no node could be asked: {said}")
        return EndedHolds(tuple(told), troubles=troubles)
