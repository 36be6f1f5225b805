"""Mutual exclusion by a token that moves along a tree (Raymond, 1989).

The queue of a process is a set here: which of it comes next is left open. That the links form a
tree is not needed for exclusion. That every request reaches the token needs it, and is not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.lab.prove import Ordered, Page, each, some, when
from coterie.lab.prove.link import Link, Snapshot, once
from coterie.process import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.prove.plain import State
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("raymond", "for every N and every tree")


class Process(Ordered):
    """One that may want the token."""


holder = page.relation("holder", Process, Process)  # q is p's neighbour towards the token, or p
inside = page.relation("inside", Process)
asked = page.relation("asked", Process)  # that neighbour has a request of ours
queued = page.relation("queued", Process, Process)  # q, a neighbour or p itself, waits at p
token = page.relation("token", Process, Process)  # under way from p to q
request = page.relation("request", Process, Process)  # under way from p to q


def has(p: Process) -> Formula:
    return holder(p, p)


@page.start
def no_request_was_made(p: Process, q: Process) -> Formula:
    return ~inside(p) & ~asked(p) & ~queued(p, q) & ~token(p, q) & ~request(p, q)


@page.start
def one_token(p: Process, q: Process) -> Formula:
    return some(Process, has) & ((has(p) & has(q)) >> (p == q))


@page.start
def one_direction(p: Process, q: Process, r: Process) -> Formula:
    return (holder(p, q) & holder(p, r)) >> (q == r)


@page.action
def acquire(p: Process) -> None:
    when(~queued(p, p), ~inside(p))
    queued[p, p] = True


@page.action
def receive_request(p: Process, q: Process) -> None:
    when(request(p, q))
    request[p, q] = False
    queued[q, p] = True


@page.action
def enter(p: Process) -> None:
    when(has(p), ~inside(p), queued(p, p))
    queued[p, p] = False
    inside[p] = True


@page.action
def send_token(p: Process, q: Process) -> None:
    when(has(p), ~inside(p), queued(p, q), q != p)
    queued[p, q] = False
    holder[p, each] = lambda r: r == q
    token[p, q] = True


@page.action
def ask(p: Process, q: Process) -> None:
    """Ask once for all that wait here, also when the token has just left them behind."""
    when(~has(p), holder(p, q), ~asked(p), some(Process, lambda r: queued(p, r)))
    asked[p] = True
    request[p, q] = True


@page.action
def receive_token(p: Process, q: Process) -> None:
    when(token(p, q))
    token[p, q] = False
    holder[q, each] = lambda r: r == q
    asked[q] = False


@page.action
def release(p: Process) -> None:
    when(inside(p))
    inside[p] = False


@page.safety
def mutual_exclusion(p: Process, q: Process) -> Formula:
    return (inside(p) & inside(q)) >> (p == q)


@page.safety
def no_handler_raises(p: Process, q: Process) -> Formula:
    """A request comes from none that is queued; the token comes from where it was asked for."""
    return (request(p, q) >> ~queued(q, p)) & (token(p, q) >> (asked(q) & holder(q, p)))


@page.safety
def the_token_is_not_lost() -> Formula:
    return some(Process, lambda p: has(p) | some(Process, lambda q: token(p, q)))


@page.safety
def a_request_is_not_lost(p: Process, q: Process) -> Formula:
    """What a process has asked for is under way, or queued, or the token comes."""
    return (asked(p) & holder(p, q)) >> (request(p, q) | queued(q, p) | token(q, p))


@page.invariant
def inside_with_the_token(p: Process) -> Formula:
    return inside(p) >> has(p)


@page.invariant
def one_has_it(p: Process, q: Process) -> Formula:
    return (has(p) & has(q)) >> (p == q)


@page.invariant
def it_is_here_or_under_way(p: Process, q: Process, r: Process) -> Formula:
    return ~(has(p) & token(q, r))


@page.invariant
def it_is_under_way_to_one(p: Process, q: Process, r: Process, s: Process) -> Formula:
    return (token(p, q) & token(r, s)) >> ((p == r) & (q == s))


@page.invariant
def one_direction_each(p: Process, q: Process, r: Process) -> Formula:
    return (holder(p, q) & holder(p, r)) >> (q == r)


@page.invariant
def a_request_was_asked(p: Process, q: Process) -> Formula:
    """A neighbour that is queued, or whose request is under way, has asked this way."""
    asks = asked(p) & holder(p, q)
    return (request(p, q) >> (asks & (p != q))) & ((queued(q, p) & (p != q)) >> asks)


@page.invariant
def one_that_asked_lacks_it(p: Process) -> Formula:
    return asked(p) >> ~has(p)


@page.invariant
def the_token_comes_once(p: Process, q: Process) -> Formula:
    return token(p, q) >> (~request(q, p) & ~queued(p, q) & holder(p, q))


repeating = page.flaw("asks-twice")


@repeating.instead_of(ask)
def ask_again(p: Process, q: Process) -> None:
    when(~has(p), holder(p, q), some(Process, lambda r: queued(p, r)))
    asked[p] = True
    request[p, q] = True


def _state(now: Snapshot) -> State:
    processes = now.processes
    now.agree("inside", now.users(Phase.INSIDE), (p.me for p in processes if p.inside))
    now.agree("waiting", now.users(Phase.WAITING), (p.me for p in processes if p.me in p.queue))
    return {
        "holder": once((p.me, p.holder) for p in processes),
        "inside": once(p.me for p in processes if p.inside),
        "asked": once(p.me for p in processes if p.asked),
        "queued": once((p.me, peer) for p in processes for peer in p.queue),
        "token": once((sent.sender, sent.receiver) for sent in now.sent("Token")),
        "request": once((sent.sender, sent.receiver) for sent in now.sent("Request")),
    }


def _place(action: str, args: tuple[Any, ...], _: Sequence[Any]) -> int:
    return int(args[1] if action.startswith("receive") else args[0])


LINK = Link("raymond", _state, place=_place, longest=3)
