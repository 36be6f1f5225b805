"""Values of locks on a cluster: no holder begins with less than what was acknowledged before it.

A version has the token of the hold that wrote it. Tokens are in the order of votes at each voter (P2, the
page *leased-tokens*). Numbers in brackets are rules of the specification: a vote reports what is on disk
[R2], the newest report is the base of a hold [R4], and what is read is written again by the reader first
[R6]. One configuration; nothing is deleted, no disk is lost, and reads without the lock are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Ordered, Page, Thing, every, later, some, when

if TYPE_CHECKING:
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("values", "for any number of voters and holds, and every coterie")


class Voter(Thing):
    """One with a disk."""


class Quorum(Thing):
    """A set of voters."""


class Hold(Ordered):
    """In the order of tokens."""


class Version(Ordered):
    """In the order of tokens, and within a hold as they were written."""


member = page.relation("member", Voter, Quorum, fixed=True)
by = page.function("by", Version, to=Hold, fixed=True)  # whose token it has
none_yet = page.variable("none_yet", Hold, fixed=True)
nothing = page.variable("nothing", Version, fixed=True)

owner = page.function("owner", Voter, to=Hold)  # the latest that got the vote
stored = page.function("stored", Voter, to=Version)  # on disk
took = page.relation("took", Voter, Version)  # ever
voted = page.relation("voted", Voter, Hold)  # ever
told = page.function("told", Voter, Hold, to=Version)  # with that vote
entered = page.relation("entered", Hold)
votes = page.function("votes", Hold, to=Quorum)  # it entered with these
base = page.function("base", Hold, to=Version)  # the newest report
done = page.relation("done", Version)  # acknowledged to the program
written = page.function("written", Version, to=Quorum)  # then, by these


@page.axiom
def two_quorums_meet(k: Quorum, m: Quorum) -> Formula:
    return some(Voter, lambda v: member(v, k) & member(v, m))


@page.start
def nothing_was_written(v: Voter, x: Version, h: Hold) -> Formula:
    voters = (owner(v) == none_yet) & (stored(v) == nothing) & ~took(v, x) & ~voted(v, h)
    return voters & ~entered(h) & ~done(x) & (none_yet <= h)


@page.action
def give(v: Voter, h: Hold) -> None:
    """[R2] The tenure before is over, and its tokens are smaller."""
    when(owner(v) < h)
    owner[v] = h
    voted[v, h] = True
    told[v, h] = stored(v)


@page.action
def enter(h: Hold, k: Quorum, b: Version) -> None:
    """[R4] By the newest of the reports."""
    when(~entered(h), every(Voter, lambda v: member(v, k) >> (voted(v, h) & (told(v, h) <= b))))
    when(some(Voter, lambda v: member(v, k) & (told(v, h) == b)))
    entered[h] = True
    votes[h] = k
    base[h] = b


@page.action
def hear_another_report(h: Hold, v: Voter) -> None:
    when(entered(h), voted(v, h))
    base[h] = later(base(h), told(v, h))


@page.action
def write(v: Voter, x: Version) -> None:
    """[R1] From the owner of the vote alone, and above what is stored."""
    when(entered(by(x)), owner(v) == by(x), stored(v) < x)
    stored[v] = x
    took[v, x] = True


@page.action
def acknowledge(x: Version, k: Quorum) -> None:
    """[R5]."""
    when(every(Voter, lambda v: member(v, k) >> took(v, x)))
    done[x] = True
    written[x] = k


@page.safety
def no_later_holder_begins_below_what_was_acknowledged(x: Version, g: Hold) -> Formula:
    """What a reader has written again counts as well: a dead write below it is void."""
    return (done(x) & entered(g) & (by(x) < g)) >> (x <= base(g))


@page.invariant
def what_was_taken_is_stored(v: Voter, x: Version) -> Formula:
    return took(v, x) >> (x <= stored(v))


@page.invariant
def votes_and_writes_are_of_the_latest_or_before(v: Voter, x: Version, h: Hold) -> Formula:
    return (took(v, x) >> (by(x) <= owner(v))) & (voted(v, h) >> (h <= owner(v)))


@page.invariant
def a_vote_reports_all_that_was_taken_before(v: Voter, x: Version, h: Hold) -> Formula:
    return (voted(v, h) & took(v, x) & (by(x) < h)) >> (x <= told(v, h))


@page.invariant
def a_base_is_no_older_than_its_reports(h: Hold, v: Voter) -> Formula:
    reports = voted(v, h) & (told(v, h) <= base(h))
    return (entered(h) & member(v, votes(h))) >> reports


@page.invariant
def acknowledged_by_a_quorum(x: Version, v: Voter) -> Formula:
    return (done(x) & member(v, written(x))) >> took(v, x)


late = page.flaw("takes-writes-after-the-tenure")


@late.instead_of(write)
def write_by_any_holder(v: Voter, x: Version) -> None:
    when(entered(by(x)), stored(v) < x)
    stored[v] = x
    took[v, x] = True


careless = page.flaw("begins-with-any-report")


@careless.instead_of(enter)
def enter_by_any_report(h: Hold, k: Quorum, b: Version) -> None:
    when(~entered(h), every(Voter, lambda v: member(v, k) >> voted(v, h)))
    when(some(Voter, lambda v: member(v, k) & (told(v, h) == b)))
    entered[h] = True
    votes[h] = k
    base[h] = b


hasty = page.flaw("acknowledges-by-one-voter")


@hasty.instead_of(acknowledge)
def acknowledge_by_one(x: Version, k: Quorum) -> None:
    when(some(Voter, lambda v: member(v, k) & took(v, x)))
    done[x] = True
    written[x] = k
