"""The leased quorum lock while its voters are changed: exclusion over any number of changes.

Time enters as the lease lemma of `leased`: a vote that is counted is on record, or its voter
abstains. A configuration is a number with its quorums; two that are in use meet, or the lower one is
finished. That each number is decided once is shown by the page of Paxos, and taken for granted here.
Numbers in brackets are those of the rules of docs/protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Ordered, Page, Thing, each, every, none, some, when

if TYPE_CHECKING:
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("leased-change", "for any sequence of configurations")


class Participant(Thing):
    """One that wants the lock."""


class Voter(Thing):
    """One that gives its vote to one participant at a time."""


class Number(Ordered):
    """Of a configuration."""


class Quorum(Thing):
    """A set of voters, of one configuration."""


member = page.relation("member", Voter, Quorum, fixed=True)
of = page.function("of", Quorum, to=Number, fixed=True)

decided = page.relation("decided", Number)
finished = page.relation("finished", Number)  # voters in each of its quorums have reported so
own = page.function("own", Voter, to=Number)  # on its disk
closed = page.relation("closed", Voter, Number)  # it serves this one no more
reported = page.relation("reported", Voter, Number)
abstains = page.relation("abstains", Voter)
alive = page.relation("alive", Voter, Participant)  # the voter has a session
stated = page.function("stated", Voter, Participant, to=Number)  # the highest in that session
owner = page.relation("owner", Voter, Participant)
number = page.function("number", Participant, to=Number)  # by which it counts
counts = page.relation("counts", Participant, Voter)  # it has that vote, and its lease lasts


def meet(i: Number, j: Number) -> Formula:
    def met(k: Quorum, m: Quorum) -> Formula:
        return some(Voter, lambda v: member(v, k) & member(v, m))

    return every(Quorum, lambda k, m: ((of(k) == i) & (of(m) == j)) >> met(k, m))


def serves(v: Voter, i: Number) -> Formula:
    """[19.3] Its own number, and those below that it has not closed."""
    return (i <= own(v)) & ~closed(v, i)


def valid(p: Participant, k: Quorum) -> Formula:
    return (of(k) == number(p)) & every(Voter, lambda v: member(v, k) >> counts(p, v))


@page.axiom
def quorums_of_one_number_meet(k: Quorum, m: Quorum) -> Formula:
    return (of(k) == of(m)) >> some(Voter, lambda v: member(v, k) & member(v, m))


@page.start
def there_is_one_number(i: Number, j: Number) -> Formula:
    return ((decided(i) & decided(j)) >> (i == j)) & ~finished(i)


@page.start
def all_have_it_and_no_vote_was_given(v: Voter, p: Participant, i: Number) -> Formula:
    voters = decided(own(v)) & ~closed(v, i) & ~reported(v, i) & ~abstains(v)
    return voters & decided(number(p)) & ~alive(v, p) & ~owner(v, p) & ~counts(p, v)


@page.action
def decide(j: Number) -> None:
    """[19.8] The next one meets all that are not finished."""
    when(every(Number, lambda i: decided(i) >> (i < j)))
    when(every(Number, lambda i: decided(i) >> (finished(i) | meet(i, j))))
    decided[j] = True


@page.action
def adopt(v: Voter, j: Number) -> None:
    when(decided(j), own(v) < j)
    own[v] = j


@page.action
def close(v: Voter, i: Number) -> None:
    """[19.6] Serve this number, and all below it, no more."""
    when(i < own(v))
    closed[v, each] = lambda n: closed(v, n) | (n <= i)


@page.action
def report(v: Voter, i: Number) -> None:
    when(closed(v, i), ~abstains(v), none(Participant, lambda p: alive(v, p) & (stated(v, p) <= i)))
    reported[v, i] = True


@page.action
def finish(i: Number) -> None:
    when(
        every(
            Quorum, lambda k: (of(k) == i) >> some(Voter, lambda v: member(v, k) & reported(v, i))
        )
    )
    finished[i] = True


@page.action
def begin_session(v: Voter, p: Participant) -> None:
    when(~alive(v, p), serves(v, number(p)))
    alive[v, p] = True
    stated[v, p] = number(p)


@page.action
def handle_frame(v: Voter, p: Participant) -> None:
    """A frame states the number of its participant."""
    when(alive(v, p), serves(v, number(p)))
    stated[v, p] = number(p)


@page.action
def vote(v: Voter, p: Participant) -> None:
    when(
        alive(v, p), ~abstains(v), serves(v, stated(v, p)), none(Participant, lambda q: owner(v, q))
    )
    owner[v, p] = True
    counts[p, v] = True


@page.action
def move(p: Participant, j: Number) -> None:
    """[19.4] Up; its votes count by the new number from then on."""
    when(decided(j), number(p) < j)
    number[p] = j


@page.action
def lapse(p: Participant, v: Voter) -> None:
    """The lease is over, or the vote is given back."""
    when(counts(p, v))
    counts[p, v] = False


@page.action
def drop(v: Voter, p: Participant) -> None:
    """The session expires: by the lease lemma nothing in it is counted any more."""
    when(alive(v, p), ~counts(p, v))
    alive[v, p] = False
    owner[v, p] = False


@page.action
def crash(v: Voter) -> None:
    """It comes back without sessions, serves its own number only, and abstains [9, 19.2]."""
    alive[v, each] = lambda p: False
    owner[v, each] = lambda p: False
    abstains[v] = True
    closed[v, each] = lambda i: i < own(v)


@page.action
def end_abstention(v: Voter) -> None:
    """By the lease lemma."""
    when(abstains(v), none(Participant, lambda p: counts(p, v)))
    abstains[v] = False


@page.theorem
def mutual_exclusion(p: Participant, q: Participant, k: Quorum, m: Quorum) -> Formula:
    return (valid(p, k) & valid(q, m)) >> (p == q)


@page.invariant
def lease_lemma(p: Participant, v: Voter) -> Formula:
    return counts(p, v) >> ((alive(v, p) & owner(v, p)) | abstains(v))


@page.invariant
def one_is_counted(p: Participant, q: Participant, v: Voter) -> Formula:
    return (counts(p, v) & counts(q, v)) >> (p == q)


@page.invariant
def numbers_were_decided(v: Voter, p: Participant) -> Formula:
    return decided(own(v)) & decided(number(p)) & (alive(v, p) >> (stated(v, p) <= number(p)))


@page.invariant
def what_is_closed_stays_closed(v: Voter, i: Number, j: Number) -> Formula:
    below = (closed(v, i) & (j <= i)) >> closed(v, j)
    return below & (reported(v, i) >> closed(v, i)) & (closed(v, i) >> (i < own(v)))


@page.invariant
def what_is_reported_is_counted_no_more(v: Voter, p: Participant, i: Number) -> Formula:
    sessions = alive(v, p) >> (i < stated(v, p))
    return reported(v, i) >> (sessions & (counts(p, v) >> (i < number(p))))


@page.invariant
def finished_by_reports(i: Number, k: Quorum) -> Formula:
    reports = some(Voter, lambda v: member(v, k) & reported(v, i))
    return (finished(i) & (of(k) == i)) >> reports


@page.invariant
def numbers_in_use_meet(i: Number, j: Number) -> Formula:
    """[J4]."""
    return (decided(i) & decided(j) & (i < j)) >> (finished(i) | meet(i, j))


at_once = page.flaw("no-joint-step")


@at_once.instead_of(decide)
def decide_by_the_last_alone(j: Number) -> None:
    """The next one meets the one before it; others may still be in use."""

    def last(i: Number) -> Formula:
        return decided(i) & every(Number, lambda n: decided(n) >> (n <= i))

    when(every(Number, lambda i: decided(i) >> (i < j)))
    when(every(Number, lambda i: last(i) >> meet(i, j)))
    decided[j] = True


serving = page.flaw("reports-while-it-serves")


@serving.instead_of(report)
def report_what_is_served(v: Voter, i: Number) -> None:
    when(i < own(v), ~abstains(v), none(Participant, lambda p: alive(v, p) & (stated(v, p) <= i)))
    reported[v, i] = True


abstaining = page.flaw("reports-while-it-abstains")


@abstaining.instead_of(report)
def report_without_waiting(v: Voter, i: Number) -> None:
    when(closed(v, i), none(Participant, lambda p: alive(v, p) & (stated(v, p) <= i)))
    reported[v, i] = True
