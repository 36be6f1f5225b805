"""Mutual exclusion by votes of replicas that are given back where they do not suffice (2004).

A set of replicas suffices if it has so many votes, more than half of all: so two of them meet. A
replica may deny its vote at any time, and a client may give up at any time after all have answered: when
it does is for the code, and no wait is proved to end. No replica loses its memory here.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from coterie.lab.prove import Ordered, Page, Thing, each, every, none, some, when
from coterie.lab.prove.link import Link, Snapshot, Trial, once
from coterie.process import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.prove.terms import Formula

PAGE = page = Page("decentralized", "for every N and any number of votes that suffice")


class Client(Thing):
    """One that asks."""


class Replica(Thing):
    """One that has a vote."""


class Enough(Thing):
    """A set of replicas whose votes suffice."""


class Attempt(Ordered):
    """The number of a try, which all its messages carry."""


member = page.relation("member", Replica, Enough, fixed=True)

attempt = page.function("attempt", Client, to=Attempt)  # its latest
waiting = page.relation("waiting", Client)
inside = page.relation("inside", Client)
awaiting = page.relation("awaiting", Client, Replica)  # no answer to this try yet
votes = page.relation("votes", Client, Replica)  # it has
given = page.relation("given", Replica, Client, Attempt)  # the vote of the replica, for which try
ask = page.relation("ask", Client, Replica, Attempt)  # messages under way, from here on
vote = page.relation("vote", Replica, Client, Attempt)
denial = page.relation("denial", Replica, Client, Attempt)
returned = page.relation("returned", Client, Replica, Attempt)


@page.axiom
def two_sets_that_suffice_meet(k: Enough, m: Enough) -> Formula:
    return some(Replica, lambda r: member(r, k) & member(r, m))


@page.start
def nothing_was_asked(p: Client, r: Replica, a: Attempt) -> Formula:
    at_clients = waiting(p) | inside(p) | awaiting(p, r) | votes(p, r)
    under_way = ask(p, r, a) | vote(r, p, a) | denial(r, p, a) | returned(p, r, a)
    return ~at_clients & ~given(r, p, a) & ~under_way


@page.action
def acquire(p: Client, a: Attempt) -> None:
    when(~waiting(p), ~inside(p), attempt(p) < a)
    waiting[p] = True
    attempt[p] = a
    awaiting[p, each] = lambda r: True
    ask[p, each, a] = lambda r: True


@page.action
def give(r: Replica, p: Client, a: Attempt) -> None:
    when(ask(p, r, a), none(Client, Attempt, lambda q, b: given(r, q, b)))
    ask[p, r, a] = False
    given[r, p, a] = True
    vote[r, p, a] = True


@page.action
def deny(r: Replica, p: Client, a: Attempt) -> None:
    when(ask(p, r, a))
    ask[p, r, a] = False
    denial[r, p, a] = True


def is_awaited(p: Client, r: Replica, a: Attempt) -> Formula:
    return (a == attempt(p)) & awaiting(p, r)


@page.action
def receive_vote(p: Client, r: Replica, a: Attempt) -> None:
    """One that comes after its try goes back at once."""
    when(vote(r, p, a))
    vote[r, p, a] = False
    votes[p, r] = votes(p, r) | is_awaited(p, r, a)
    awaiting[p, r] = awaiting(p, r) & ~is_awaited(p, r, a)
    returned[p, r, a] = returned(p, r, a) | ~is_awaited(p, r, a)


@page.action
def receive_denial(p: Client, r: Replica, a: Attempt) -> None:
    when(denial(r, p, a))
    denial[r, p, a] = False
    awaiting[p, r] = awaiting(p, r) & ~is_awaited(p, r, a)


@page.action
def enter(p: Client, k: Enough) -> None:
    when(waiting(p), every(Replica, lambda r: member(r, k) >> votes(p, r)))
    waiting[p] = False
    inside[p] = True


def return_all(p: Client) -> None:
    returned[p, each, attempt(p)] = lambda r: returned(p, r, attempt(p)) | votes(p, r)
    votes[p, each] = lambda r: False
    awaiting[p, each] = lambda r: False


@page.action
def back_off(p: Client) -> None:
    when(waiting(p), none(Replica, lambda r: awaiting(p, r)))
    return_all(p)


@page.action
def ask_again(p: Client) -> None:
    when(waiting(p), none(Replica, lambda r: awaiting(p, r) | votes(p, r)))
    awaiting[p, each] = lambda r: True
    ask[p, each, attempt(p)] = lambda r: True


@page.action
def release(p: Client) -> None:
    when(inside(p))
    inside[p] = False
    return_all(p)


@page.action
def receive_return(r: Replica, p: Client, a: Attempt) -> None:
    when(returned(p, r, a))
    returned[p, r, a] = False
    given[r, p, a] = False


@page.safety
def mutual_exclusion(p: Client, q: Client) -> Formula:
    return (inside(p) & inside(q)) >> (p == q)


@page.safety
def no_handler_raises(p: Client, r: Replica, a: Attempt) -> Formula:
    """No vote comes twice for one try."""
    return vote(r, p, a) >> ~(votes(p, r) & (a == attempt(p)))


@page.invariant
def inside_with_votes_that_suffice(p: Client) -> Formula:
    suffice = some(Enough, lambda k: every(Replica, lambda r: member(r, k) >> votes(p, r)))
    return inside(p) >> (suffice & ~waiting(p))


@page.invariant
def votes_are_of_one_that_asks(p: Client, r: Replica) -> Formula:
    return (votes(p, r) | awaiting(p, r)) >> (waiting(p) | inside(p))


@page.invariant
def a_vote_is_with_one(r: Replica, p: Client, q: Client, a: Attempt, b: Attempt) -> Formula:
    return (given(r, p, a) & given(r, q, b)) >> ((p == q) & (a == b))


@page.invariant
def a_vote_that_is_had_was_given(p: Client, r: Replica) -> Formula:
    return votes(p, r) >> given(r, p, attempt(p))


@page.invariant
def a_vote_under_way_was_given(p: Client, r: Replica, a: Attempt) -> Formula:
    had = votes(p, r) & (a == attempt(p))
    return (vote(r, p, a) | returned(p, r, a)) >> (given(r, p, a) & ~had)


@page.invariant
def a_vote_goes_one_way(p: Client, r: Replica, a: Attempt) -> Formula:
    return ~(vote(r, p, a) & returned(p, r, a))


hasty = page.flaw("enters-with-any-votes")


@hasty.instead_of(enter)
def enter_with_any_votes(p: Client, k: Enough) -> None:
    when(waiting(p), some(Replica, lambda r: member(r, k) & votes(p, r)))
    waiting[p] = False
    inside[p] = True


greedy = page.flaw("keeps-votes-that-it-gives-back")


@greedy.instead_of(back_off)
def back_off_and_keep(p: Client) -> None:
    when(waiting(p), none(Replica, lambda r: awaiting(p, r)))
    returned[p, each, attempt(p)] = lambda r: returned(p, r, attempt(p)) | votes(p, r)


def _state(now: Snapshot) -> dict[str, Any]:
    processes = now.processes
    return {
        "attempt": {(p.me,): p.attempt for p in processes},
        "waiting": once(now.users(Phase.WAITING)),
        "inside": once(now.users(Phase.INSIDE)),
        "awaiting": once((p.me, replica) for p in processes for replica in p.awaiting),
        "votes": once((p.me, replica) for p in processes for replica in p.votes),
        "given": once((p.me, *p.given) for p in processes if p.given is not None),
        **{name: _sent(now, kind) for name, kind in KINDS.items()},
    }


KINDS = {"ask": "Ask", "vote": "Vote", "denial": "Deny", "returned": "Return"}


def _sent(now: Snapshot, kind: str) -> set[Any]:
    return once((sent.sender, sent.receiver, sent.message.attempt) for sent in now.sent(kind))


def _things(processes: Sequence[Any]) -> dict[str, Sequence[Any]]:
    first = processes[0]
    enough = [frozenset(chosen) for chosen in combinations(first.replicas, first.needed)]
    return {"Replica": first.replicas, "Enough": enough}


LINK = Link(
    "decentralized",
    _state,
    sorts=("Client",),
    things=_things,
    fixed=lambda processes: {"member": lambda replica, enough: replica in enough},
    longest=6,
    variants=("retry",),
    trials=(Trial(2, 2), Trial(3, 2, runs=5), Trial(5, 2, runs=2), Trial(7, 1, runs=1)),
)
