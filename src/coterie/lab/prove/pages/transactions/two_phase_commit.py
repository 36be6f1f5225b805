"""Two-phase commit with stable storage: all sites that decide, decide alike.

Presumed abort: the coordinator saves commits alone. A vote may come late, twice or never, and a
site or the coordinator may crash at any time; what is on a disk stays. The link has no crashes: sites
whose clients write at all of them, by schemes that refuse in different ways.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from coterie.lab.prove import Page, Thing, every, some, when
from coterie.lab.prove.link import Link, Snapshot, Trial
from coterie.lab.trials.sites import build_sites
from coterie.lab.trials.trial import program
from coterie.transactions.catalogue import scheme
from coterie.transactions.site.messages import coordinator_of
from coterie.transactions.site.placement import site_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula
    from coterie.process import Process

PAGE = page = Page("two-phase-commit", "for any number of sites and transactions")


class Site(Thing):
    """One that holds data."""


class Transaction(Thing):
    """One that changes data at several sites."""


part = page.relation("part", Transaction, Site, fixed=True)
prepared = page.relation("prepared", Transaction, Site)  # on the site's disk
committed = page.relation("committed", Transaction, Site)
aborted = page.relation("aborted", Transaction, Site)
yes = page.relation("yes", Transaction, Site)  # a vote, under way or lost
heard = page.relation("heard", Transaction, Site)  # by the coordinator
decided = page.relation("decided", Transaction)  # to commit: on the coordinator's disk
dropped = page.relation("dropped", Transaction)  # the coordinator has none of it, and won't commit


@page.start
def no_vote_was_given(t: Transaction, s: Site) -> Formula:
    at_sites = prepared(t, s) | committed(t, s) | aborted(t, s)
    at_coordinator = heard(t, s) | decided(t) | dropped(t)
    return ~at_sites & ~at_coordinator & ~yes(t, s)


@page.action
def vote_yes(t: Transaction, s: Site) -> None:
    when(part(t, s), ~aborted(t, s), ~prepared(t, s))
    prepared[t, s] = True
    yes[t, s] = True


@page.action
def abort_alone(t: Transaction, s: Site) -> None:
    """A site that has not prepared may abort at any time, by a crash for example."""
    when(part(t, s), ~prepared(t, s), ~committed(t, s))
    aborted[t, s] = True


@page.action
def hear(t: Transaction, s: Site) -> None:
    when(yes(t, s), ~dropped(t))
    heard[t, s] = True


@page.action
def decide(t: Transaction) -> None:
    when(~dropped(t), every(Site, lambda s: part(t, s) >> heard(t, s)))
    decided[t] = True


@page.action
def give_up(t: Transaction) -> None:
    """A timeout, or a crash before the decision: what is not on the disk is aborted."""
    when(~decided(t))
    dropped[t] = True


@page.action
def commit(t: Transaction, s: Site) -> None:
    when(decided(t), part(t, s))
    committed[t, s] = True


@page.action
def abort(t: Transaction, s: Site) -> None:
    when(prepared(t, s), ~committed(t, s), dropped(t))
    aborted[t, s] = True


@page.safety
def atomicity(t: Transaction, s: Site, u: Site) -> Formula:
    return ~(committed(t, s) & aborted(t, u) & part(t, u))


@page.invariant
def decided_once(t: Transaction) -> Formula:
    return ~(decided(t) & dropped(t))


@page.invariant
def a_vote_binds(t: Transaction, s: Site) -> Formula:
    return (yes(t, s) | heard(t, s)) >> prepared(t, s)


@page.invariant
def decided_by_all(t: Transaction, s: Site) -> Formula:
    return (decided(t) & part(t, s)) >> prepared(t, s)


@page.invariant
def committed_by_decision(t: Transaction, s: Site) -> Formula:
    return committed(t, s) >> decided(t)


@page.invariant
def a_prepared_site_aborts_by_decision(t: Transaction, s: Site) -> Formula:
    return (aborted(t, s) & prepared(t, s)) >> dropped(t)


unsaved = page.flaw("votes-before-it-saves")


@unsaved.instead_of(vote_yes)
def vote_yes_unsaved(t: Transaction, s: Site) -> None:
    when(part(t, s), ~aborted(t, s), ~prepared(t, s))
    yes[t, s] = True


hasty = page.flaw("decides-by-one-vote")


@hasty.instead_of(decide)
def decide_by_one_vote(t: Transaction) -> None:
    when(~dropped(t), some(Site, lambda s: heard(t, s)))
    decided[t] = True


impatient = page.flaw("aborts-on-a-timeout")


@impatient.instead_of(abort)
def abort_on_a_timeout(t: Transaction, s: Site) -> None:
    when(prepared(t, s), ~committed(t, s))
    aborted[t, s] = True


def _state(now: Snapshot) -> State:
    sites = now.processes
    prepared = {(name, site.me) for site in sites for name in site.journal.ready}
    courses = [
        (name, course) for site in sites for name, course in site.coordinator.courses.items()
    ]
    # A site keeps commits of others as outcomes; of transactions that ended without a vote it says so.
    committed = {(name, site.me) for site in sites for name in site.journal.outcomes}
    aborted = {
        (name, site.me)
        for site in sites
        for name, has_aborted in site.resource.ended.items()
        if has_aborted
    }
    decisions = [each for site in sites for each in site.journal.decided.values()]
    decided = {(each.name,) for each in decisions} | now.past.get("decided", set())
    # A decision names the sites that voted and have not confirmed it; its own site has by committing.
    heard = {(name, voter) for name, course in courses for voter in course.voters}
    heard |= {(each.name, site) for each in decisions for site in each.sites}
    heard |= {(name, site) for name, site in committed if site == coordinator_of(name)}
    known = {name for name, _ in prepared | committed | aborted}
    under_way = {name for name, _ in courses}
    return {
        "prepared": prepared,
        "committed": committed,
        "aborted": aborted,
        "yes": prepared,
        "heard": heard,
        "decided": decided,
        "dropped": {(name,) for name in known - under_way} - decided,
    }


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> int:
    at_coordinator = action in {"decide", "give_up", "hear"}
    return coordinator_of(args[0]) if at_coordinator else int(args[1])


def _build(size: int, variant: str) -> Sequence[Process[Any]]:
    """Make sites with one client each, which writes at all of them."""
    sites = range(1, size + 1)
    keys = [next(f"k{n}" for n in count() if site_of(f"k{n}", size) == site) for site in sites]
    script = program(" ".join(f"w({key})" for key in keys))
    build = scheme(variant).variant().build
    return build_sites(build, [[[script]] for _ in sites], left=1, patience=None, tries=2)


LINK = Link(
    "two-phase-commit",
    _state,
    sorts=("Site",),
    fixed=lambda sites: {"part": lambda transaction, site: True},
    place=_place,
    lasting=("prepared", "committed", "aborted", "yes", "heard", "decided", "dropped"),
    longest=6,
    build=_build,
    variants=("two-phase-locking", "timestamp-ordering", "optimistic"),
    trials=(Trial(2, 1), Trial(3, 1, runs=5)),
)
