"""Nodes that are to become voters: asked before the first step, from here and by every voter.

A voter with a wrong address, without a disk, or behind a firewall would be found out when it is
needed already. So it is looked at before: it answers under its name as a spare of this cluster, and
all present voters reach the very same one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.mutex.quorum.leased.configuration import FORCED_LEAP
from coterie.algorithms.mutex.quorum.leased.frames import Condition, NewConfiguration, Query
from coterie.cluster.change.plan import Newcomer, member_named
from coterie.cluster.change.survey import FAULTS
from coterie.cluster.wire.address import parse_address
from coterie.cluster.wire.query import ask_condition, consult, introduce
from coterie.cluster.wire.trouble import explain
from coterie.cluster.wire.voter_frames import Reach, Reached
from coterie.errors import ConfigError, Unavailable
from coterie.locks.legible import legible
from coterie.locks.names import check_plain_name

if TYPE_CHECKING:
    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.cluster.change.survey import KnownConfiguration, VoterState


async def identify(newcomer: Newcomer, standing: KnownConfiguration) -> Newcomer:
    """Return the newcomer with the identity of its disk; raise `Unavailable` or `ConfigError`."""
    name, address = check_plain_name(newcomer.name, of="node"), newcomer.address
    security = standing.security
    operator = security.operator_bytes()  # it has to take orders, too
    credentials = standing.membership.stranger(operator=operator)
    try:
        async with consult(
            parse_address(address), credentials, security.client_context(), name, role="operator"
        ) as talk:
            condition = await talk.ask(Query(), Condition)
            if _was_removed(condition, standing.configuration):
                # As each changer does with a voter that is behind (19.5): it adopts what a quorum has
                # decided since, gives no more votes by what it had, and has no seat until it gets one.
                talk.send(NewConfiguration(standing.configuration))
                condition = await talk.ask(Query(), Condition)
    except FAULTS as error:
        if await _takes_questions(newcomer, standing):
            raise ConfigError(
                f"{name} has no operator secret, or another one: start it with"
                " COTERIE_OPERATOR_SECRET_FILE"
            ) from None
        raise Unavailable(
            f"{name} does not answer at {address}: {explain(error)}; start it there with coterie"
            f" serve --node {name} --join {standing.membership.members[0].address} --data DIR"
        ) from None
    _check(newcomer, condition, standing)
    await _check_from_voters(newcomer, condition.identity, standing)
    return msgspec.structs.replace(newcomer, identity=condition.identity)


async def check_moved(name: str, address: str, standing: KnownConfiguration) -> None:
    """Raise an error unless a voter answers at another address than is on record, with its disk.

    An address of another node would do no harm to locks, as that is refused as a voter; but the voter
    would not be found any more by programs that have no other way to it.
    """
    member = member_named(standing.configuration, name)
    credentials = standing.membership.credentials(standing.security.secret_bytes())
    tls = standing.security.client_context()
    try:
        start, condition = await introduce(name, parse_address(address), credentials, tls)
    except FAULTS as error:
        raise Unavailable(
            f"{name} does not answer at {address}: {explain(error)}; start it there first, with its"
            " data directory"
        ) from None
    if condition.identity != member.identity:
        raise ConfigError(
            f"the node {name} at {address} has another data directory than the voter {name}: start it"
            f" with that one; if that is lost, coterie cluster replace {name} {name}={address}"
        )
    _refuse_copy(name, start, standing)
    await _check_from_voters(Newcomer(name, address), member.identity, standing)


def _refuse_copy(name: str, start: str, standing: KnownConfiguration) -> None:
    """Raise `ConfigError` if the voter answers elsewhere, too, and that is not the same start of it.

    Programs would go by the copy that is recorded, beside others that are connected to the original.
    """
    states = (state for state in standing.voters if state.name == name and state.is_meant)
    others = [state.place for state in states if state.start != start]
    if others:
        raise ConfigError(
            f"{name} runs at {others[0]} as well, and its data directory is the same or a copy: stop one of"
            " the two first, and empty its directory"
        )


async def _takes_questions(newcomer: Newcomer, standing: KnownConfiguration) -> bool:
    """Return whether a node that takes no orders answers nevertheless."""
    security = standing.security
    credentials = standing.membership.stranger(security.secret_bytes())
    address, tls = parse_address(newcomer.address), security.client_context()
    try:
        await ask_condition(newcomer.name, address, credentials, tls)
    except FAULTS:
        return False
    return True


def _was_removed(condition: Condition, present: Configuration) -> bool:
    """Return whether a node was a voter of this cluster, and not of a number that a force has given up.

    Nothing has closed that one, and programs may hold locks by it.
    """
    theirs = condition.configuration
    if theirs is None or theirs.number == 0 or theirs.is_foreign(present):
        return False
    return 0 < present.number - theirs.number < FORCED_LEAP // 2


def _check(newcomer: Newcomer, condition: Condition, standing: KnownConfiguration) -> None:
    name, present = newcomer.name, standing.configuration
    if not condition.identity:
        raise ConfigError(
            f"{name} has no data directory, and every voter needs one: start it with --data DIR"
        )
    if condition.protocol < present.protocol:
        raise ConfigError(
            f"{name} speaks protocol {condition.protocol} at most, and configuration"
            f" {present.number} asks for {present.protocol}: run a newer version of coterie there"
        )
    taken = next((m.name for m in present.members if m.identity == condition.identity), None)
    if taken is not None:
        raise ConfigError(f"{name} has the disk of the voter {taken}: each has one of its own")
    theirs = condition.configuration
    # A voter that was removed, and goes by the present configuration, is welcome.
    if theirs is not None and not theirs.is_same(present):
        raise ConfigError(
            f"{name} is no spare: it votes by configuration {theirs.number}, of another cluster or one"
            " that a force has given up; start it with --join and an empty data directory"
        )


async def _check_from_voters(
    newcomer: Newcomer, identity: str, standing: KnownConfiguration
) -> None:
    asking = [
        _reach(voter, newcomer, identity, standing)
        for voter in standing.voters
        if voter.seat in standing.up
    ]
    troubles = [trouble for trouble in await asyncio.gather(*asking) if trouble]
    if troubles:
        raise Unavailable(
            f"not every voter reaches {newcomer.name} at {newcomer.address}:"
            f" {'; '.join(troubles)}; look at the address, names and firewalls"
        )


async def _reach(
    voter: VoterState, newcomer: Newcomer, identity: str, standing: KnownConfiguration
) -> str:
    """Ask a voter to call the newcomer; return what speaks against it."""
    try:
        async with standing.command(voter) as talk:
            reached = await talk.ask(Reach(newcomer.name, newcomer.address), Reached)
    except FAULTS as error:
        return f"{voter.name} does not say: {explain(error)}"
    if reached.trouble:
        return f"{voter.name}: {legible(reached.trouble)}"
    return "" if reached.identity == identity else f"{voter.name} reaches another node there"
