"""Mutual exclusion by a token that is sent straight to the next (Naimi and Trehel, 1987)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.lab.prove import Ordered, Page, none, some, when
from coterie.lab.prove.link import Link, Snapshot, once
from coterie.process import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("naimi-trehel")


class Process(Ordered):
    """One that may want the token."""


father = page.relation("father", Process, Process)  # q asked last, as far as p knows
successor = page.relation("successor", Process, Process)  # q gets the token from p
has = page.relation("has", Process)  # the token
token = page.relation("token", Process)  # under way to p
wants = page.relation("wants", Process)  # from acquire until release
request = page.relation("request", Process, Process)  # that of p, under way to q


def root(p: Process) -> Formula:
    return none(Process, lambda q: father(p, q))


def inside(p: Process) -> Formula:
    return wants(p) & has(p)


@page.start
def no_request_was_made(p: Process, q: Process) -> Formula:
    return ~wants(p) & ~token(p) & ~request(p, q) & ~successor(p, q)


@page.start
def the_root_has_the_token(p: Process, q: Process) -> Formula:
    return ((has(p) & has(q)) >> (p == q)) & (root(p) >> has(p))


@page.action
def acquire_with_token(p: Process) -> None:
    when(~wants(p), has(p))
    wants[p] = True


@page.action
def acquire(p: Process, q: Process) -> None:
    when(~wants(p), ~has(p), father(p, q))
    wants[p] = True
    request[p, q] = True
    father[p, q] = False


@page.action
def receive_request_and_forward(p: Process, q: Process, r: Process) -> None:
    """The request of p is at q, which sends it to its father r and takes p for its father."""
    when(request(p, q), father(q, r))
    request[p, q] = False
    request[p, r] = True
    father[q, r] = False
    father[q, p] = True


@page.action
def receive_request_and_wait(p: Process, q: Process) -> None:
    when(request(p, q), root(q), wants(q))
    request[p, q] = False
    successor[q, p] = True
    father[q, p] = True


@page.action
def receive_request_and_send(p: Process, q: Process) -> None:
    when(request(p, q), root(q), ~wants(q))
    request[p, q] = False
    has[q] = False
    token[p] = True
    father[q, p] = True


@page.action
def receive_token(p: Process) -> None:
    when(token(p))
    token[p] = False
    has[p] = True


@page.action
def release_and_send(p: Process, q: Process) -> None:
    when(inside(p), successor(p, q))
    wants[p] = False
    successor[p, q] = False
    has[p] = False
    token[q] = True


@page.action
def release_and_keep(p: Process) -> None:
    when(inside(p), none(Process, lambda q: successor(p, q)))
    wants[p] = False


@page.safety
def mutual_exclusion(p: Process, q: Process) -> Formula:
    return (inside(p) & inside(q)) >> (p == q)


@page.safety
def no_handler_raises(p: Process) -> Formula:
    """A process that sends the token on has it; the token comes to one that wants it and lacks it."""
    return ((root(p) & ~wants(p)) >> has(p)) & (token(p) >> (wants(p) & ~has(p)))


@page.safety
def a_request_is_not_lost(p: Process) -> Formula:
    known = some(Process, lambda q: request(p, q) | successor(q, p))
    return (wants(p) & ~has(p)) >> (token(p) | known)


@page.invariant
def one_has_it(p: Process, q: Process) -> Formula:
    return (has(p) & has(q)) >> (p == q)


@page.invariant
def it_is_under_way_to_one(p: Process, q: Process) -> Formula:
    return (token(p) & token(q)) >> (p == q)


@page.invariant
def it_is_here_or_under_way(p: Process, q: Process) -> Formula:
    return ~(has(p) & token(q))


@page.invariant
def one_successor(p: Process, q: Process, r: Process) -> Formula:
    return (successor(p, q) & successor(p, r)) >> (q == r)


@page.invariant
def a_successor_waits(p: Process, q: Process) -> Formula:
    return successor(p, q) >> (wants(p) & wants(q) & ~has(q) & ~token(q) & ~root(p))


@page.invariant
def a_request_has_one_place(p: Process, q: Process, r: Process) -> Formula:
    return (
        (request(p, q) >> (wants(p) & ~has(p) & ~token(p)))
        & ((request(p, q) & request(p, r)) >> (q == r))
        & ~(request(p, q) & successor(r, p))
        & ((successor(q, p) & successor(r, p)) >> (q == r))
    )


keeping = page.flaw("stays-root")


@keeping.instead_of(receive_request_and_wait)
def receive_request_and_stay_root(p: Process, q: Process) -> None:
    when(request(p, q), root(q), wants(q))
    request[p, q] = False
    successor[q, p] = True


def _state(now: Snapshot) -> State:
    processes = now.processes
    wanting = [process.me for process in processes if process.wants]
    having = [process.me for process in processes if process.token]
    now.agree("asking", now.users(Phase.WAITING, Phase.INSIDE), wanting)
    now.agree("inside", now.users(Phase.INSIDE), set(wanting) & set(having))
    return {
        "father": once((p.me, p.father) for p in processes if p.father is not None),
        "successor": once((p.me, p.next) for p in processes if p.next is not None),
        "has": once(having),
        "token": once(sent.receiver for sent in now.sent("Token")),
        "wants": once(wanting),
        "request": once((sent.message.origin, sent.receiver) for sent in now.sent("Request")),
    }


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> int:
    return int(args[1] if action.startswith("receive_request") else args[0])


LINK = Link("naimi-trehel", _state, place=_place)
