"""What a voting node says of itself when it is asked."""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import TYPE_CHECKING

from coterie import system
from coterie.cluster.membership.abstention import ALONE, OF_ANOTHER, SPARE, STARTED
from coterie.cluster.wire.voter_frames import Abstention, DeathReport, Figures, SessionReport
from coterie.locks.deadlocks.reports import Wanted
from coterie.locks.leases.frames import LockReport

if TYPE_CHECKING:
    from coterie.algorithms.mutex.quorum.leased.ballot import Ballot
    from coterie.cluster.voter.host import VoterHost

LOCKS_MAX = 10_000  # that one report lists


def abstention(voting: VoterHost) -> Abstention:
    """Say for how long a node gives no votes, and why; for 0 seconds and no reason normally."""
    voter = voting.voter
    if owner := voting.disk_owner:
        return Abstention(math.inf, f"{OF_ANOTHER}{owner}: start it with its own")
    if not voting.votes:
        return Abstention(math.inf, SPARE)
    if not voter.abstains():
        return Abstention(0.0, "")
    if voting.recovers and len(voting.membership.members) == 1:
        return Abstention(math.inf, ALONE)
    if voting.recovers:
        awaited = ", ".join(voting.awaited) or "the others"
        reason = f"its data directory is empty, and it has to hear from {awaited} first"
        return Abstention(math.inf, reason)
    return Abstention(max(0.0, voter.abstains_until - system.now()), STARTED)


def report(voting: VoterHost, *, locks: bool) -> Figures:
    """Describe a node, with its locks if they are asked for."""
    voter, now = voting.voter, system.now()
    known = abstention(voting)
    ballots = list(voter.ballots.values())
    return Figures(
        version("coterie"),
        now - voting.started,
        known.seconds,
        len(voting.programs.sinks),
        _sessions(voting, now),
        sum(bool(ballot.owners) for ballot in ballots),
        sum(len(ballot.queue) for ballot in ballots),
        _locks(voting) if locks else (),
        known.reason,
        max(0, len(ballots) - LOCKS_MAX) if locks else 0,
        dict(voting.received + voting.programs.sent),
        _deaths(voting, now),
    )


def _deaths(voting: VoterHost, now: float) -> tuple[DeathReport, ...]:
    seen = () if voting.deaths is None else voting.deaths.seen
    return tuple(DeathReport(death.label, death.witness, now - death.time) for death in seen)


def _sessions(voting: VoterHost, now: float) -> tuple[SessionReport, ...]:
    return tuple(
        SessionReport(
            identity,
            voting.programs.labels.get(identity, "unknown"),
            link.peer in voting.programs.sinks,
            max(0.0, now - link.heard),
            len(link.locks),
        )
        for identity, link in sorted(voting.voter.sessions.items())
    )


def _locks(voting: VoterHost) -> tuple[LockReport, ...]:
    ballots = sorted(voting.voter.ballots.items())[:LOCKS_MAX]
    return tuple(describe(Wanted(lock), ballot) for lock, ballot in ballots)


def describe(wanted: Wanted, ballot: Ballot | None, waiters_max: int | None = None) -> LockReport:
    """Report which participants have the vote for a lock, and the first that wait for it."""
    if ballot is None:
        return LockReport(wanted, (), ())
    owners = tuple(tenure.claim.participant for tenure in ballot.owners)
    waiters = tuple(claim.participant for claim in ballot.queue[:waiters_max])
    return LockReport(wanted, owners, waiters)


def describe_obstacles(wanted: Wanted, ballot: Ballot | None) -> LockReport:
    """Report which participants block a request to share a lock, beside the requester itself.

    That is the one that has the vote alone, and the first older one that wants it alone, or of which a
    task does that waits behind those that share. Where the requester has the vote, it is the first
    that waits: later tasks do not join its hold.
    """
    if ballot is None:
        return LockReport(wanted, (), ())
    requester = wanted.requester.participant
    owners = [tenure.claim for tenure in ballot.owners]
    if not ballot.concerns(requester):
        return LockReport(wanted, tuple(c.participant for c in owners if not c.shared), ())
    own = next((claim for claim in ballot.queue if claim.participant == requester), None)
    claims = [*owners, *ballot.queue]
    alone = [c.order() for c in (ballot.queue if own is None else claims) if not c.shared]
    alone += [c.writer_order() for c in claims if c.writer and c.participant != requester]
    first = min((order for order in alone if own is None or order < own.order()), default=None)
    return LockReport(
        wanted,
        tuple(c.participant for c in owners if not c.shared or c.participant == requester),
        (*([first[-1]] if first else []), *([requester] if own else [])),
    )
