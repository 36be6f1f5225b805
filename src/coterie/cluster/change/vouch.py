"""The word of an operator that no program runs, which ends all abstention at once.

A lease that was mistyped as two weeks keeps nodes from voting for two weeks after a start, and nothing
else ends that: a program may hold a lock for so long. Where the operator knows that none does, the
voters may forget all leases. What a voter can see of programs contradicts a wrong word, and is asked
first at all voters; what it cannot see rests on the operator alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from coterie.cluster.change.survey import FAULTS
from coterie.cluster.wire.trouble import explain
from coterie.cluster.wire.voter_frames import (
    AbstentionEnded,
    EndAbstention,
    GetStatus,
    NodeStatus,
)
from coterie.errors import NoQuorum, Unavailable, UsageError
from coterie.locks.legible import legible

if TYPE_CHECKING:
    from coterie.cluster.change.survey import KnownConfiguration, VoterState


class Vouched(NamedTuple):
    """What has become of the word of an operator."""

    voting: list[str]  # the voters that took it
    troubles: dict[str, str]  # why others did not


async def check_vouch(standing: KnownConfiguration) -> list[VoterState]:
    """Return the voters to be told; raise `UsageError` if one of them sees a program that runs."""
    voters = [voter for voter in standing.voters if voter.seat in standing.up]
    if not voters:
        raise NoQuorum(f"no voter answers: {standing.missing}")
    found = await asyncio.gather(*(_programs(voter, standing) for voter in voters))
    running = sorted({legible(label) for labels in found for label in labels})
    if running:
        raise UsageError(
            f"programs are connected and may hold locks: {', '.join(running)}; end them first, then"
            " vouch that none runs"
        )
    return voters


async def _programs(voter: VoterState, standing: KnownConfiguration) -> list[str]:
    """Ask a voter which programs are connected to it."""
    try:
        async with standing.consult(voter) as talk:
            answer = await talk.ask(GetStatus(locks=False), NodeStatus)
    except FAULTS as error:
        raise Unavailable(f"{voter.name} answers no more: {explain(error)}") from None
    return [session.label for session in answer.figures.sessions if session.connected]


async def vouch(standing: KnownConfiguration, voters: list[VoterState]) -> Vouched:
    """Have these voters forget all leases, and vote; each looks once more for programs, and refuses."""
    voting: list[str] = []
    troubles: dict[str, str] = {}
    for voter in voters:
        try:
            async with standing.command(voter) as talk:
                answer = await talk.ask(EndAbstention(), AbstentionEnded)
        except FAULTS as error:
            troubles[voter.name] = explain(error)
            continue
        if answer.programs:
            labels = ", ".join(map(legible, answer.programs))
            troubles[voter.name] = f"programs are connected and may hold locks: {labels}"
        elif answer.trouble:
            troubles[voter.name] = legible(answer.trouble)
        else:
            voting.append(voter.name)
    if not voting:
        reasons = "; ".join(f"{name}: {why}" for name, why in troubles.items())
        raise Unavailable(f"no voter has ended its leases: {reasons}")
    return Vouched(voting, troubles)
