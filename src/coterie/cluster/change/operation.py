"""What an operator asks for: a goal made of what was found, refused where it could not come to its end.

`plan` says which goals there are, `newcomer` looks at nodes that are to vote; here both come together,
for the commands and for whatever else changes a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coterie.cluster.change import plan
from coterie.cluster.change.newcomer import check_moved, identify
from coterie.cluster.change.plan import ChangePlan, Newcomer, make_plan
from coterie.cluster.change.survey import check_protocol
from coterie.errors import NoQuorum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.algorithms.mutex.quorum.leased.changer import Goal
    from coterie.cluster.change.survey import KnownConfiguration


class DiskReplacement(NamedTuple):
    """Two changes that make a new disk the voter in the place of a lost one of the same name."""

    first: ChangePlan  # without the voter
    second: ChangePlan  # with it again, as far as no other change comes in between
    newcomer: Newcomer


async def goal_to_add(standing: KnownConfiguration, newcomers: Sequence[Newcomer]) -> Goal:
    """Return the goal with more voters, with the identities of their disks."""
    plan.add(standing.configuration, newcomers)  # refuses before any node is asked
    return plan.add(standing.configuration, [await identify(each, standing) for each in newcomers])


async def goal_to_replace(standing: KnownConfiguration, name: str, newcomer: Newcomer) -> Goal:
    """Return the goal with another node in the place of a voter."""
    plan.replace(standing.configuration, name, newcomer)  # as above
    return plan.replace(standing.configuration, name, await identify(newcomer, standing))


async def goal_to_set(standing: KnownConfiguration, values: Mapping[str, str]) -> Goal:
    """Return the goal with other settings, if all that is connected understands them.

    A voter that gets another address has to answer there already, with its disk, and to all voters.
    """
    wanted = plan.change_settings(standing.configuration, values)
    for name, address in plan.addresses_in(values).items():
        await check_moved(name, address, standing)
    if wanted.protocol != standing.configuration.protocol:
        check_protocol(standing, wanted.protocol)
    return wanted


async def replace_disk(
    standing: KnownConfiguration, name: str, address: str | None = None
) -> DiskReplacement:
    """Plan how a voter is removed and added again: two of one name cannot stand side by side."""
    check_quorum(standing)
    present = standing.configuration
    old = plan.member_named(present, name)
    votes = plan.votes_of(present, old.seat)
    first = plan.remove(present, [name])
    newcomer = await identify(Newcomer(name, address or old.address, votes=votes), standing)
    without = make_plan(present, first, standing.gone)
    between = plan.expected(present, first)
    second = make_plan(between, plan.add(between, [newcomer]), standing.gone)
    return DiskReplacement(without, second, newcomer)


def check_quorum(standing: KnownConfiguration, intended: ChangePlan | None = None) -> None:
    """Refuse where nothing can be decided; only what is begun may wait for voters that are down."""
    present = standing.configuration
    if present.number == 0 or present.deciders.contains_quorum(standing.up):
        return
    if standing.is_lost:
        raise NoQuorum(
            f"a quorum of the disks of cluster {standing.membership.cluster!r} is lost:"
            f" {standing.missing}; {standing.earlier}; if they are lost for good, go on with"
            f" {standing.force}"
        )
    ends_another = intended and (intended.goal.part is None or intended.goal.takes_back)
    if intended and intended.steps and ends_another:
        return
    how = f"start them, or if they are lost for good, go on with {standing.force}"
    if standing.misplaced:
        how = f"look at the addresses, data directories and secrets of {', '.join(standing.misplaced)}"
    raise NoQuorum(
        f"no quorum of the voters answers, so nothing can be decided: {standing.missing}; {how}"
    )


def check_end(standing: KnownConfiguration, intended: ChangePlan) -> None:
    """Refuse what would stop half-way, for lack of voters that are to be."""
    part = intended.goal.part
    if part is None or standing.configuration.number == 0 or intended.goal.takes_back:
        return
    there = [seat for seat in part.seats if seat not in standing.gone]
    if not part.quorums.contains_quorum(there):
        raise NoQuorum(
            "no quorum of the voters that are to be answers, so the change could not end:"
            f" {standing.missing}; start them, or choose others"
        )
