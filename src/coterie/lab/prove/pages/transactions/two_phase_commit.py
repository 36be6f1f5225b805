"""Two-phase commit with stable storage: all sites that decide, decide alike.

Presumed abort: the coordinator saves commits alone. A vote may come late, twice or never, and a
site or the coordinator may crash at any time; what is on a disk stays. The link has sites whose clients
write at all of them, by schemes that refuse in different ways; they crash at any moment and come back.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from coterie.lab.prove import Page, Thing, every, some, when
from coterie.lab.prove.link import Link, Snapshot, Trial
from coterie.lab.prove.worlds.restarting_site import RestartingSite
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
open_ = page.relation(
    "open", Transaction, Site
)  # it has carried out what it was asked, and may vote
voting = page.relation("voting", Transaction)  # the coordinator has asked for votes
# On the site's disk. The vote of the coordinator's own site leaves nowhere, and may be lost with it.
prepared = page.relation("prepared", Transaction, Site)
committed = page.relation("committed", Transaction, Site)
aborted = page.relation("aborted", Transaction, Site)
yes = page.relation("yes", Transaction, Site)  # a vote, under way or lost
heard = page.relation("heard", Transaction, Site)  # by the coordinator
decided = page.relation("decided", Transaction)  # to commit: on the coordinator's disk
dropped = page.relation("dropped", Transaction)  # the coordinator has none of it, and won't commit


@page.start
def no_vote_was_given(t: Transaction, s: Site) -> Formula:
    at_sites = open_(t, s) | prepared(t, s) | committed(t, s) | aborted(t, s)
    at_coordinator = voting(t) | heard(t, s) | decided(t) | dropped(t)
    return ~at_sites & ~at_coordinator & ~yes(t, s)


@page.action
def take_part(t: Transaction, s: Site) -> None:
    """By a request. One that comes after votes were asked for is of an earlier life of the site."""
    when(part(t, s), ~voting(t), ~prepared(t, s))
    open_[t, s] = True
    aborted[t, s] = False


@page.action
def ask_for_votes(t: Transaction) -> None:
    when(~dropped(t))
    voting[t] = True


@page.action
def vote_yes(t: Transaction, s: Site) -> None:
    when(open_(t, s), voting(t), ~prepared(t, s))
    open_[t, s] = False
    prepared[t, s] = True
    yes[t, s] = True


@page.action
def abort_alone(t: Transaction, s: Site) -> None:
    """A site that has not prepared may abort at any time."""
    when(part(t, s), ~prepared(t, s))
    open_[t, s] = False
    aborted[t, s] = True


@page.action
def forget(t: Transaction, s: Site) -> None:
    """A crash makes a site forget all that it has not promised, and that it has aborted it by itself."""
    when(~prepared(t, s))
    open_[t, s] = False
    aborted[t, s] = False


@page.action
def mean_another_life(t: Transaction, s: Site) -> None:
    """The coordinator hears from a life of the site that is over: what it has begun since won't vote."""
    when(~voting(t), ~prepared(t, s))
    open_[t, s] = False


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


def is_out(t: Transaction, u: Site) -> Formula:
    """It has not voted, and will not: what it knew of the transaction is gone."""
    return part(t, u) & voting(t) & ~open_(t, u) & ~prepared(t, u)


@page.action
def abort_by_word_of(t: Transaction, u: Site, s: Site) -> None:
    """A site in doubt relies on one that has ended the transaction before its vote."""
    when(prepared(t, s), is_out(t, u))
    aborted[t, s] = True


@page.safety
def atomicity(t: Transaction, s: Site, u: Site) -> Formula:
    return ~(committed(t, s) & aborted(t, u) & part(t, u))


@page.invariant
def decided_once(t: Transaction) -> Formula:
    return ~(decided(t) & dropped(t))


@page.invariant
def one_that_may_vote_has_neither_voted_nor_aborted(t: Transaction, s: Site) -> Formula:
    return open_(t, s) >> (~aborted(t, s) & ~prepared(t, s))


@page.invariant
def a_vote_binds(t: Transaction, s: Site) -> Formula:
    return (yes(t, s) | heard(t, s)) >> (prepared(t, s) & voting(t))


@page.invariant
def decided_by_all(t: Transaction, s: Site) -> Formula:
    return (decided(t) & part(t, s)) >> prepared(t, s)


@page.invariant
def committed_by_decision(t: Transaction, s: Site) -> Formula:
    return committed(t, s) >> decided(t)


@page.invariant
def a_prepared_site_aborts_by_decision(t: Transaction, s: Site) -> Formula:
    one_is_out = some(Site, lambda u: is_out(t, u))
    return (aborted(t, s) & prepared(t, s)) >> (dropped(t) | one_is_out)


unsaved = page.flaw("votes-before-it-saves")


@unsaved.instead_of(vote_yes)
def vote_yes_unsaved(t: Transaction, s: Site) -> None:
    when(open_(t, s), voting(t), ~prepared(t, s))
    yes[t, s] = True


reborn = page.flaw("votes-in-another-life")


@reborn.instead_of(take_part)
def take_part_at_any_time(t: Transaction, s: Site) -> None:
    when(part(t, s), ~prepared(t, s))
    open_[t, s] = True
    aborted[t, s] = False


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
    courses = {name: course for site in sites for name, course in site.coordinator.courses.items()}
    ready = {(name, site.me) for site in sites for name in site.journal.ready}
    at_sites = _ended(now, ready)
    committed = at_sites["committed"]
    decisions = [each for site in sites for each in site.journal.decided.values()]
    # It lasts until all have committed: one that a crash can take away was told too early.
    decided = {(each.name,) for each in decisions}
    decided |= {
        (name,)
        for (name,) in now.past.get("decided", set())
        if all((name, site.me) in committed for site in sites)
    }
    # A decision names the sites that voted and have not confirmed it; its own site has by committing.
    heard = {(name, voter) for name, course in courses.items() for voter in course.voters}
    heard |= {(each.name, site) for each in decisions for site in each.sites}
    heard |= {each for each in committed if _is_own(*each)}
    asked = {each.message.name for kind in ("Ask", "Prepare") for each in now.sent(kind)}
    known = asked | {name for site in sites for name in site.resource.parts}
    known |= {name for table in at_sites.values() for name, _ in table}
    voting = {(name,) for name, course in courses.items() if course.state != "running"}
    return {
        **at_sites,
        "open": _may_vote(now, courses) - ready,
        "voting": voting | {(each.message.name,) for each in now.sent("Prepare")},
        "yes": ready,
        "heard": heard,
        "decided": decided,
        "dropped": {(name,) for name in known - courses.keys()} - decided,
    }


def _ended(now: Snapshot, ready: set[Any]) -> dict[str, set[Any]]:
    """Say what has become of transactions at the sites."""
    past = {name: now.past.get(name, set()) for name in ("prepared", "aborted", "committed")}
    # The journal of a site has the commits that others decided; its resource notes which transactions
    # ended there without a vote.
    committed = {(name, site.me) for site in now.processes for name in site.journal.outcomes}
    committed |= past["committed"]
    ended = {
        (name, site.me)
        for site in now.processes
        for name, has_aborted in site.resource.ended.items()
        if has_aborted
    }
    # What a vote has promised lasts until it is over: a site that forgets it in a crash is not prepared.
    aborted = ended | (past["aborted"] & past["prepared"])
    over = {each for each in past["prepared"] if each in committed | aborted or _is_own(*each)}
    return {"prepared": ready | over, "committed": committed, "aborted": aborted}


def _may_vote(now: Snapshot, courses: dict[str, Any]) -> set[Any]:
    """List the parts that were begun, and are of the life of their site that the coordinator means."""
    return {
        (name, site.me)
        for site in now.processes
        for name, part in site.resource.parts.items()
        if _is_meant(now, courses.get(name), name, site.me, part)
    }


def _is_meant(now: Snapshot, course: Any, name: str, site: int, part: Any) -> bool:
    """Return whether the part is of the life of its site that the coordinator means, if it still does."""
    if course is None:
        return (name, site) in now.past.get("open", set())
    visit = course.find(site)
    return visit is not None and part.is_meant(visit.life)


def _is_own(name: str, site: int) -> bool:
    return site == coordinator_of(name)


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> int:
    at_coordinator = action in AT_COORDINATOR
    return coordinator_of(args[0]) if at_coordinator else int(args[-1])


def _build(trial: Trial, variant: str) -> Sequence[Process[Any]]:
    """Make sites with one client each, which writes at all of them."""
    sites = range(1, trial.size + 1)
    keys = [
        next(f"k{n}" for n in count() if site_of(f"k{n}", trial.size) == site) for site in sites
    ]
    script = program(" ".join(f"w({key})" for key in keys))
    build, clients = scheme(variant).variant().build, [[[script]] for _ in sites]
    if not trial.restarts:
        return build_sites(build, clients, left=1, patience=None, tries=2)
    faults = {"crashes": trial.restarts, "losses": trial.restarts}
    return build_sites(build, clients, left=1, tries=2, kind=RestartingSite, **faults)


AT_COORDINATOR = ("ask_for_votes", "mean_another_life", "hear", "decide", "give_up")

LINK = Link(
    "two-phase-commit",
    _state,
    sorts=("Site",),
    fixed=lambda sites: {"part": lambda transaction, site: True},
    place=_place,
    lasting=("voting", "yes", "heard", "dropped"),
    longest=6,
    build=_build,
    variants=("two-phase-locking", "timestamp-ordering", "optimistic"),
    trials=(
        Trial(2, 1),
        Trial(3, 1, runs=5),
        Trial(2, 1, runs=10, restarts=1),
        Trial(3, 1, runs=10, restarts=1),
    ),
)
