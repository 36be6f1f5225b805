"""Going on without a quorum that was lost for good: the voters that are left get a new configuration.

No quorum decides it. If a voter that is given up still runs, programs that reach it may hold the same
locks until they hear of the new number. Tokens rise as long as no clock of a lost voter ran more than
a day ahead.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie import system
from coterie.algorithms.mutex.quorum.leased.frames import Condition, Query
from coterie.cluster.change import plan
from coterie.cluster.change.survey import FAULTS
from coterie.cluster.runtime import clock
from coterie.cluster.wire.trouble import explain
from coterie.cluster.wire.voter_frames import GetTokenBound, Impose, TokenBound
from coterie.errors import ChangeConflict, NotFormed, Unavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.cluster.change.survey import KnownConfiguration, VoterState

DAY_SECONDS = 86_400.0
LEAPS_MAX = 1 << 20  # so that a second operator who forces at the same time hardly draws the same


def check_force(standing: KnownConfiguration, kept: Sequence[str]) -> list[VoterState]:
    """Return the voters that are kept.

    Raises an error while another voter answers, or one of them does not, or if they are a quorum.
    """
    newest = standing.configuration
    if newest.number == 0:
        raise NotFormed(
            f"cluster {standing.membership.cluster!r} has no numbered configuration, so there is"
            " nothing to force: stop all nodes, change the file, and start them"
        )
    seats = {plan.member_named(newest, name).seat for name in kept}
    if not seats:
        raise UsageError("name the voters that are left: --keep a,b")
    dead = [voter for voter in standing.voters if voter.seat in seats and voter.trouble]
    if dead:
        reasons = "; ".join(f"{voter.name}: {voter.trouble}" for voter in dead)
        raise Unavailable(f"every voter that is kept has to answer: {reasons}")
    kept_disks = {member.identity for member in newest.members if member.seat in seats}
    _check_given_up([each for each in standing.voters if each.seat not in seats], kept_disks)
    # What they decide while the order is under way could have voters that the operator does not know, and
    # programs would hold locks by those. A quorum has no need of it: it can be without the others
    # by a change, or take the joint step back, and no hold is lost.
    if newest.deciders.contains_quorum(seats):
        others = ",".join(voter.name for voter in standing.voters if voter.seat not in seats)
        change = "abort" if newest.is_joint else f"remove {others}"
        raise UsageError(
            "the voters that are kept are a quorum, so there is nothing to force"
            + (f": coterie cluster {change}" if others else "")
        )
    return [voter for voter in standing.voters if voter.seat in seats]


def _check_given_up(voters: Sequence[VoterState], kept_disks: Collection[str]) -> None:
    """Raise `UsageError` while a node at the address of a voter that is given up may vote.

    A spare has given no vote to any program. A node with any other disk may vote by another configuration,
    and programs that reach it may hold the same locks: what is lost then is not a quorum but its address.
    """
    foreign = [each.name for each in voters if each.is_foreign]
    if foreign:
        belong, them = ("belongs", "its") if len(foreign) == 1 else ("belong", "their")
        raise UsageError(
            f"{', '.join(foreign)} {belong} to another installation of this cluster: look at {them}"
            " addresses and data directories first; nothing is forced while another cluster answers"
        )
    barred = [each.name for each in voters if each.is_barred]
    if barred:
        raise UsageError(
            f"the secret or the certificate at {', '.join(barred)} is another one than ours: programs that"
            " have that one may hold the same locks; nothing is forced while a node answers there"
        )
    stuck = [each.name for each in voters if each.is_stuck]
    if stuck:
        raise UsageError(
            f"a process listens at the address of {', '.join(stuck)} and does not answer: one that hangs may go on, and"
            " serve programs that hold locks; stop it for good first"
        )
    for voter in voters:
        other = voter.other
        if other and other.configuration is not None and other.identity not in kept_disks:
            raise UsageError(
                f"another node answers at the address of {voter.name}, and votes: {voter.trouble}; nothing is"
                " forced while it runs there"
            )
    alive = [
        each.name
        for each in voters
        if each.condition and (each.is_meant or each.condition.configuration is not None)
    ]
    if alive:
        answers, it = ("answers", "it") if len(alive) == 1 else ("answer", "them")
        raise UsageError(
            f"{', '.join(alive)} still {answers}: a voter that is given up must not run; keep {it},"
            f" or stop {it} for good"
        )


async def force(standing: KnownConfiguration, kept: Sequence[VoterState]) -> Configuration:
    """Make the voters that are kept go on by themselves; return what they go by.

    Raises `ChangeConflict` if one of them knows of a later configuration than was looked at.
    """
    bounds = [await _ask_bound(voter, standing) for voter in kept]
    tomorrow = clock.number() + clock.passed(DAY_SECONDS)
    names = [voter.name for voter in kept]
    leaps = system.random().randint(1, LEAPS_MAX)
    forced = plan.force(standing.configuration, names, max(*bounds, tomorrow), leaps)
    await asyncio.gather(*(_impose(voter, forced, standing) for voter in kept))
    return forced


async def _ask_bound(voter: VoterState, standing: KnownConfiguration) -> int:
    try:
        async with standing.consult(voter) as talk:
            answer = await talk.ask(GetTokenBound(), TokenBound)
    except FAULTS as error:
        raise Unavailable(f"{voter.name} answers no more: {explain(error)}") from None
    present = standing.configuration.number
    if talk.number > present:
        raise ChangeConflict(
            f"{voter.name} knows of configuration {talk.number}, and what was looked at is"
            f" {present}: look again with coterie cluster status"
        )
    return answer.bound


async def _impose(voter: VoterState, forced: Configuration, standing: KnownConfiguration) -> None:
    try:
        async with standing.command(voter) as talk:
            talk.send(Impose(forced))
            condition = await talk.ask(Query(), Condition)
    except FAULTS as error:
        raise Unavailable(
            f"{voter.name} may not have heard of configuration {forced.number}: {explain(error)};"
            " start it, and it learns of it from coterie cluster finish"
        ) from None
    theirs = condition.configuration
    if theirs is None or not theirs.is_same(forced):
        raise Unavailable(f"{voter.name} does not go by configuration {forced.number}")
