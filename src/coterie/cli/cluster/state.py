"""`coterie cluster status`: the configuration, its voters, and what is under way."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from coterie.cli.cluster.change import visit_of
from coterie.cli.common.output import print_json, print_table, say
from coterie.cluster.change.formation import forming_goal
from coterie.cluster.change.plan import failures_borne, protocol_of, votes_of
from coterie.cluster.change.survey import (
    KnownConfiguration,
    SpareState,
    VoterState,
    look,
    look_for_spares,
    patience_of,
)
from coterie.cluster.wire.frames import PROTOCOL
from coterie.errors import CoterieError

SETTLED, UNSETTLED, NO_QUORUM = 0, 1, 69
ABSTAINS = "abstains"


class VoterRow(msgspec.Struct, frozen=True):
    """A voter, for people and programs."""

    name: str
    address: str
    seat: int
    votes: int
    identity: str
    state: str
    number: int | None  # of the configuration that it goes by; None: it is not known
    lagging: int  # programs that count by an earlier one
    protocol: int
    found: str = ""  # where its disk answers, if not at its address
    copy: str = ""  # where another node runs with a copy of its disk


class Settlement(msgspec.Struct, frozen=True):
    """A configuration, and what is under way."""

    cluster: str
    number: int
    state: str  # unformed, joint, closing or settled
    coterie: str
    policy: str
    lease: float
    protocol: int
    failures_borne: int  # beside those that do not vote; -1: no quorum votes
    open: tuple[int, ...]
    by: str
    voters: list[VoterRow]
    spares: list[SpareState]
    advice: str
    health: int

    @property
    def outlook(self) -> str:
        """How many voters may still fail, in words."""
        if self.failures_borne >= 0:
            more = self.failures_borne
            return f"{more} more failure{' is' if more == 1 else 's are'} borne"
        is_abstaining = any(row.state == ABSTAINS for row in self.voters)
        return "no quorum votes" if is_abstaining else "no quorum answers"


def show_state(url: str | None, output: str, timeout: float | None) -> int:
    """Print the configuration and its voters; return the exit status."""
    settlement = asyncio.run(_settlement(url, patience_of(timeout)))
    if output == "json":
        print_json(settlement)
        return settlement.health
    header = ["voter", "address", "votes", "state", "configuration", "lagging"]
    rows: list[list[Any]] = [
        [
            row.name,
            row.address,
            row.votes,
            _in_words(row),
            row.number if row.number is not None else "",
            row.lagging,
        ]
        for row in settlement.voters
    ]
    rows += [[spare.name, spare.address, "", spare.state, "", ""] for spare in settlement.spares]
    print_table(header, rows)
    click.echo(err=True)
    say(
        f"cluster {settlement.cluster}: configuration {settlement.number}, {settlement.state};"
        f" {settlement.coterie}, lease {settlement.lease:g} s, protocol {settlement.protocol};"
        f" {settlement.outlook}",
        err=True,
    )
    if settlement.advice:
        say(settlement.advice, err=True)
    return settlement.health


async def _settlement(url: str | None, patience: float | None) -> Settlement:
    visit = visit_of(url)
    standing = await look(visit, patience)
    present = standing.configuration
    spares = await look_for_spares(visit, standing, patience)
    silent = [seat for seat in present.seats if seat not in standing.voting]
    borne = min(failures_borne(part.quorums, silent) for part in present.rule.parts)
    state, advice = await _state(standing)
    harmful = [spare.name for spare in spares if not spare.is_harmless]
    if harmful and not advice:
        advice = f"stop {', '.join(harmful)}: programs that go by it may hold the same locks"
    moved = any(voter.found or voter.copy for voter in standing.voters)
    is_well = state == "settled" and not silent and not harmful and not moved
    health = SETTLED if is_well else UNSETTLED
    return Settlement(
        standing.membership.cluster,
        present.number,
        state,
        present.settings.coterie,
        present.settings.policy,
        present.settings.lease,
        protocol_of(present),
        borne,
        tuple(rule.number for rule in present.open),
        present.by,
        [_row(voter, standing) for voter in standing.voters],
        spares,
        advice,
        NO_QUORUM if borne < 0 else health,
    )


def _in_words(row: VoterRow) -> str:
    where = f", at {row.found}" if row.found else ""
    return f"{row.state}{where}" + (f", and a copy of it at {row.copy}" if row.copy else "")


def _row(voter: VoterState, standing: KnownConfiguration) -> VoterRow:
    condition, present = voter.condition, standing.configuration
    if condition is None:
        votes = votes_of(present, voter.seat)
        trouble = voter.trouble if voter.is_foreign else f"down: {voter.trouble}"
        return VoterRow(voter.name, voter.address, voter.seat, votes, "", trouble, None, 0, 0)
    state = ABSTAINS if condition.abstains else "votes"
    if not voter.is_meant:
        owner = standing.owner_of_disk(voter)
        state = (
            f"has the disk of voter {owner}" if owner else "spare: another disk than the voter's"
        )
    theirs = condition.configuration
    return VoterRow(
        voter.name,
        voter.address,
        voter.seat,
        votes_of(present, voter.seat),
        condition.identity,
        state,
        theirs.number if theirs is not None else None,
        condition.lagging,
        condition.protocol,
        voter.found,
        voter.copy,
    )


async def _state(standing: KnownConfiguration) -> tuple[str, str]:
    """Say what is under way, and what to do about it."""
    present = standing.configuration
    if present.number == 0:
        return "unformed", await _why_unformed(standing)
    if present.is_joint:
        by = f" by {present.by}" if present.by else ""
        return "joint", (
            f"a change was begun{by}: if it does not go on, coterie cluster finish ends it, and"
            " coterie cluster abort takes it back"
        )
    if present.open:
        return "closing", "a change was not brought to its end: coterie cluster finish"
    return "settled", _advice(standing)


def _advice(standing: KnownConfiguration) -> str:
    """Say what to do about voters that do not answer with their own disks."""
    swapped = [voter.name for voter in standing.voters if standing.owner_of_disk(voter)]
    if swapped:
        return f"start with their own data directories: {', '.join(swapped)}"
    copied = [voter for voter in standing.voters if voter.copy]
    if copied:
        where = ", ".join(f"{voter.name} at {voter.place} or at {voter.copy}" for voter in copied)
        return (
            f"two nodes run with one data directory, and programs of both may hold the same locks: stop {where},"
            " and empty its directory"
        )
    foreign = [voter.name for voter in standing.voters if voter.is_foreign]
    if foreign:
        # Without a quorum nothing says which of the two is meant.
        is_served = standing.configuration.quorums.contains_quorum(standing.up)
        whose = "their" if is_served else "all"
        return (
            f"another installation of cluster {standing.membership.cluster} answers at the addresses"
            f" of {', '.join(foreign)}: look at {whose} addresses and data directories"
        )
    others = [voter.name for voter in standing.voters if voter.condition and not voter.is_meant]
    if standing.is_lost:
        for_good = f"if they are lost for good: {standing.force}"
        return f"a quorum of the disks is lost; {standing.earlier}; {for_good}"
    if others:
        return f"after the loss of a disk: coterie cluster replace {others[0]}"
    moved = [f"address.{voter.name}={voter.found}" for voter in standing.voters if voter.found]
    return (
        f"if they were renumbered for good: coterie cluster set {' '.join(moved)}" if moved else ""
    )


async def _why_unformed(standing: KnownConfiguration) -> str:
    try:
        await forming_goal(standing.membership, standing.security)
    except CoterieError as error:
        return f"the voters cannot be changed yet: {error}"
    return (
        f"the voters cannot be changed yet; if this stays: coterie cluster set protocol={PROTOCOL}"
    )
